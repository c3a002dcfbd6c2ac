"""Faults that strike anybody, at random moments: processes, machines, cables, clocks, disks, memories."""

import shutil
import time
from pathlib import Path

from benchmarks.faults.arena import EDGE_PARTS, MOST_S, Arena, Strike, Struck

_HOUR_S = 3600.0
_STOPPED_S = 30.0
_AWAY_S = 4.0
"""A killed process stays away for a random time below this"""


def at_random(strike: Strike) -> Strike:
    """The same, at a random moment of a round."""

    def later(arena: Arena) -> Struck | None:
        arena.moment()
        return strike(arena)

    return later


def killed(*parts: str, on_device: bool = False) -> Strike:
    """Parts of a machine are killed with -9, and started again after a while."""

    def strike(arena: Arena) -> None:
        machine = arena.some_device() if on_device else arena.some_edge()
        arena.hit(arena.parts(machine, *parts), arena.rng.uniform(0, _AWAY_S))

    return at_random(strike)


def kill_another(arena: Arena) -> None:
    """The machine of an edge that does not lead."""
    edge = arena.rng.choice(arena.others(arena.leader()))
    arena.hit(arena.parts(edge, *EDGE_PARTS), arena.rng.uniform(0, _AWAY_S))


def kill_two(arena: Arena) -> None:
    """A majority is away: the network pauses until one of them is back."""
    first, second = arena.rng.sample(arena.net.edge_names, 2)
    processes = [*arena.parts(first, *EDGE_PARTS), *arena.parts(second, *EDGE_PARTS)]
    arena.hit(processes, arena.rng.uniform(0, _AWAY_S))


def stopped(part: str) -> Strike:
    """A process that hangs for 30 s and goes on: slow, not dead; its late words must harm nobody."""

    def strike(arena: Arena) -> None:
        (process,) = arena.parts(arena.some_edge(), part)
        process.stop()
        time.sleep(_STOPPED_S)
        process.go_on()

    return at_random(strike)


# --- cables


def partition_one(arena: Arena) -> None:
    """One edge away from the others, which go on, for about three rounds; devices reach everybody."""
    edge = arena.some_edge()
    arena.net.lan.partition({edge}, set(arena.others(edge)))
    others = arena.others(edge)
    arena.wait_for_round(max(map(arena.net.safe_final, others)) + 2, others)
    arena.net.lan.heal()


def _apart(arena: Arena, minority: str) -> None:
    """An edge with its devices away from the others with theirs, until those have sealed another round."""
    majority = arena.others(minority)
    arena.net.lan.partition(arena.with_devices([minority]), arena.with_devices(majority))
    try:
        arena.wait_for_round(max(map(arena.net.safe_final, majority)), majority)
    finally:
        arena.net.lan.heal()


def partition_leader(arena: Arena) -> None:
    """The leader alone on its side: the others pass on."""
    _apart(arena, arena.leader())


def partition_majority(arena: Arena) -> None:
    """The leader and another on one side, the third alone: they go on without it."""
    _apart(arena, arena.rng.choice(arena.others(arena.leader())))


def partition_all(arena: Arena) -> None:
    """No majority anywhere: the network pauses."""
    arena.net.lan.partition(*({name} for name in arena.net.edge_names))
    time.sleep(10)
    arena.net.lan.heal()


def lose_packets(arena: Arena) -> None:
    """Each edge loses 2 % of its packets, in each direction, for two rounds."""
    machines = [arena.net.lan[name] for name in arena.net.edge_names]
    for machine in machines:
        machine.lose(2)
    time.sleep(2 * arena.calm_s)
    for machine in machines:
        machine.lose(0)


def slow_device(arena: Arena) -> None:
    """A device with 2 Mbit/s, for two rounds."""
    machine = arena.net.lan[arena.some_device()]
    machine.limit("2mbit")
    time.sleep(2 * arena.calm_s)
    machine.limit(None)


# --- clocks


def skewed_clock(arena: Arena) -> None:
    """An edge whose clock is 2 s off, for two rounds."""
    edge, seconds = arena.some_edge(), arena.rng.choice((-2.0, 2.0))
    arena.skew(edge, seconds)
    arena.hit(arena.parts(edge, *EDGE_PARTS), away_s=0)
    time.sleep(2 * arena.calm_s)
    arena.skew(edge, -seconds)
    arena.hit(arena.parts(edge, *EDGE_PARTS), away_s=0)


def back_after_an_hour(arena: Arena) -> None:
    """All edges are off for an hour; two of them come back and go on, then the third."""
    edges = arena.net.edge_names
    arena.kill([process for edge in edges for process in arena.parts(edge, *EDGE_PARTS)])
    for edge in edges:
        arena.skew(edge, _HOUR_S)
    last = arena.some_edge()
    first = arena.others(last)
    for edge in first:
        for process in arena.parts(edge, *EDGE_PARTS):
            process.restart()
    try:
        known = arena.watch.wait(lambda: arena.net.final(first[0]), MOST_S) or 0
        arena.wait_for_round(known, first)
    finally:
        for process in arena.parts(last, *EDGE_PARTS):
            process.restart()


# --- disks and memories


def full_disk(arena: Arena) -> None:
    """No room on an edge's disk, for two rounds; what ended by it is started again."""
    edge = arena.some_edge()
    arena.net.lan[edge].fill_disk()
    time.sleep(2 * arena.calm_s)
    arena.net.lan[edge].empty_disk()
    arena.hit(arena.parts(edge, *EDGE_PARTS), away_s=0)


def lose_signed(arena: Arena) -> None:
    """`signed.db` is gone: the key signs nothing until a round that began after this start."""
    edge = arena.some_edge()
    (server,) = arena.parts(edge, "edge-server")
    server.kill()
    for path in arena.net.lan[edge].folder.glob("signed.db*"):
        path.unlink()
    server.restart()


def restore_signed(arena: Arena) -> Struck:
    """`signed.db` is put back from a copy that has forgotten at least a round: with its mark, or without."""
    edge, with_mark = arena.some_edge(), arena.rng.choice((True, False))
    (server,) = arena.parts(edge, "edge-server")
    names = ["signed.db", *(["signed.db.id"] if with_mark else [])]
    folder = arena.net.lan[edge].folder
    server.kill()
    _copy(names, folder, folder / "older")
    server.restart()
    arena.wait_for_round(max(map(arena.net.safe_final, arena.net.edge_names)) + 1)
    arena.moment()
    server.kill()
    _copy(names, folder / "older", folder)
    server.restart()
    return Struck(note={"with its mark": with_mark})


def _copy(names: list[str], source: Path, target: Path) -> None:
    """As a backup does: other files of the same content and mode."""
    target.mkdir(exist_ok=True)
    for name in names:
        (target / name).unlink(missing_ok=True)
        shutil.copy2(source / name, target / name)


ROWS: dict[str, Strike] = {
    "kill an edge server": killed("edge-server"),
    "kill a node": killed("node"),
    "kill a machine (node and server)": killed(*EDGE_PARTS),
    "kill a machine that does not lead": at_random(kill_another),
    "kill two machines at once": at_random(kill_two),
    "kill a device": killed("device-stub", on_device=True),
    "kill a miner": killed("miner", on_device=True),
    "stop a server for 30 s": stopped("edge-server"),
    "stop a node for 30 s": stopped("node"),
    "one edge partitioned for 3 rounds": at_random(partition_one),
    "the leader partitioned from the others": at_random(partition_leader),
    "one that does not lead partitioned from the others": at_random(partition_majority),
    "everybody partitioned for 10 s": at_random(partition_all),
    "2 % of packets lost": at_random(lose_packets),
    "a device with 2 Mbit/s": at_random(slow_device),
    "a clock 2 s off": at_random(skewed_clock),
    "a majority back after an hour": at_random(back_after_an_hour),
    "a full disk on one edge": at_random(full_disk),
    "signed.db lost": at_random(lose_signed),
    "signed.db restored from an older copy": at_random(restore_signed),
}
