"""Faults that strike the leader, at a moment of the round that is chosen: what its node shows tells which it is."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from benchmarks.faults.arena import EDGE_PARTS, MOST_S, Arena, Strike, Struck, StuckError
from benchmarks.faults.records import DeadLeader
from chain.wire.blocks import decode_block, encode_block
from chain.wire.headers import Header
from chain.wire.seal import find_nonce
from edge_servers.founding.schedule import Schedule
from tests.lan.network import LanNetwork
from tests.lan.watching import AWAY, PHASES, Sight

KILLED_IN = ("plan", "train", "close", "gossip", "verify", "model", "seal")
_NOTICED_AT = {"train": "close", "gossip": "model", "verify": "model"}
"""What the others miss next of a leader that is dead in these phases; in others the phase's own post"""
_SHARES = {"plan": (0.0, 0.0), "close": (0.0, 0.0), "verify": (0.0, 0.3), "model": (0.4, 0.8)}
"""Which part of a phase is struck in, of the time that it takes in a calm round; the model is made where nothing can be
seen, in the second half of what looks like verifying"""
_ANY_PART = (0.0, 0.7)
_TRIES = 64


@dataclass(frozen=True)
class _Caught:
    """The leader of a round in the phase in which it is to be struck."""

    sight: Sight
    began: float
    """Of the round, by this process's clock."""


def _next_round(arena: Arena) -> tuple[Sight, float]:
    found = arena.watch.wait_for_new_round(arena.some_edge(), MOST_S)
    if found is None:
        raise StuckError("no round begins")
    return found


def _catch(arena: Arena, phase: str) -> _Caught | None:
    """Wait for the next round, and in it for a phase; None if the round went by without its being seen."""
    begun, began = _next_round(arena)
    shown = "verify" if phase == "model" else phase
    reached = PHASES.index(shown)

    def look() -> Sight | None:
        sight = arena.watch.sight(begun.leader)
        is_later = sight.round > begun.round or sight.attempt > begun.attempt
        return sight if is_later or PHASES.index(sight.phase) >= reached else None

    sight = begun if shown == "plan" else arena.watch.wait(look, MOST_S)
    if sight is None:
        raise StuckError(f"round {begun.round} does not come to {shown}")
    if sight.round > begun.round or sight.leader != begun.leader or sight.phase != shown:
        return None
    low, high = _SHARES.get(phase, _ANY_PART)
    time.sleep(arena.rng.uniform(low, high) * arena.phase_s[shown])
    return _Caught(sight, began)


# --- a dead leader


def dead_in(phase: str) -> Strike:
    """The leader's machine is killed in a phase, and is back when the others have sealed a block without it."""

    def strike(arena: Arena) -> Struck:
        caught = _catch(arena, phase)
        if caught is None:
            return Struck(missed=f"{phase} was over before it was seen")
        leader, round_ = caught.sight.leader, caught.sight.round
        processes, others = arena.parts(leader, *EDGE_PARTS), arena.others(leader)
        killed = time.monotonic()
        arena.kill(processes)
        try:
            found = arena.watch.wait(lambda: arena.watch.sight(others[0]), MOST_S)
            arena.wait_for_round(round_, others[:1])
        finally:
            final = time.monotonic()
            for process in processes:
                process.restart()
        if found is None or (found.round, found.phase) != (round_, caught.sight.phase):
            return Struck(missed=f"it died in {'the next round' if found is None else found.phase}, not in {phase}")
        return Struck(leader=_cost(arena, phase, killed - caught.began, final - killed))

    return strike


def _cost(arena: Arena, phase: str, into_s: float, took_s: float) -> DeadLeader:
    rounds = arena.net.settings.rounds
    deadline = _NOTICED_AT.get(phase, phase)
    deadline_s = getattr(Schedule(0.0, rounds, rounds.first_phi), deadline)
    return DeadLeader(phase, deadline, deadline_s, round(into_s, 2), round(took_s - arena.calm_s, 2))


# --- a slow one


def slow_leader(arena: Arena) -> Struck:
    """The leader hangs when its block is due and goes on once the others have passed on: its server alone (the block is
    there, its signature is late) or its whole machine (the block itself is late).
    """
    caught = _catch(arena, "seal")
    if caught is None:
        return Struck(missed="the block was there before it was seen")
    leader, round_ = caught.sight.leader, caught.sight.round
    parts = arena.rng.choice((("edge-server",), EDGE_PARTS))
    processes, other = arena.parts(leader, *parts), arena.others(leader)[0]
    for process in processes:
        process.stop()

    def passed() -> bool | None:
        if arena.net.final(other) > round_:
            return False
        return arena.watch.attempt(other, round_) > caught.sight.attempt or None

    has_passed = arena.watch.wait(passed, MOST_S)
    for process in processes:
        process.go_on()
    note = {"stopped": list(parts)}
    return Struck(note=note, missed="" if has_passed else "the block was signed before the leader hung")


# --- the home of the winner


def dead_home(arena: Arena) -> Struck:
    """The machine whose device has just sealed a block, and which therefore leads the next round, is killed; it is back
    when the others have sealed that round.
    """
    begun, _ = _next_round(arena)
    sealed = arena.watch.wait(lambda: _sealed_after(arena.net, begun), MOST_S)
    if sealed is None:
        raise StuckError(f"nobody seals round {begun.round}")
    devices = {arena.net.addresses[name]: name for name in arena.net.device_names}
    home = arena.net.home_of(devices[str(sealed["winner"])])
    processes, others = arena.parts(home, *EDGE_PARTS), arena.others(home)
    arena.kill(processes)
    try:
        arena.wait_for_round(begun.round + 1, others)
    finally:
        for process in processes:
            process.restart()
    return Struck(note={"led the round": home == begun.leader, "was final": sealed["final"]})


def _sealed_after(net: LanNetwork, begun: Sight) -> dict[str, object] | None:
    summary = net.ask(begun.leader, "bfl_getBlockSummary", "latest")
    return summary if int(summary["number"], 16) > begun.round else None


# --- two blocks


def two_blocks(arena: Arena) -> Struck:
    """Two devices seal one candidate at the same time: the leader's node gets one block, the others another that they
    prefer, because its hash is smaller. The leader signs one of them.
    """
    caught = _catch(arena, "verify")
    if caught is None:
        return Struck(missed="the block was there before it was seen")
    net, leader, number = arena.net, caught.sight.leader, caught.sight.round + 1
    first, second = arena.rng.sample(net.device_names, 2)
    works = arena.watch.wait(lambda: [_work(net, leader, device) for device in (first, second)], arena.calm_s + 30)
    if works is None or works[1].block_number != number:
        return Struck(missed="the candidate was sealed before it was seen")
    _submit(net, leader, first, works[0])
    raw = arena.watch.wait(lambda: net.ask(leader, "bfl_getRawBlock", hex(number)), MOST_S)
    if raw is None:
        raise StuckError(f"{leader} seals no block {number}")
    one, transactions = decode_block(bytes.fromhex(raw[2:]))
    other = _smaller(works[1], one.hash)
    if other is None or one.transaction_root != other.transaction_root:
        return Struck(missed="the second nonce is of another candidate")
    rival = "0x" + encode_block(other, transactions).hex()
    with ThreadPoolExecutor() as threads:
        answers = list(threads.map(lambda edge: _import(net, edge, rival), [*arena.others(leader), leader]))
    taken = sum(not answer for answer in answers)
    note = {"taken by": taken, "refused": [answer for answer in answers if answer]}
    return Struck(note=note, missed="" if taken else "nobody took the second block")


def _work(net: LanNetwork, edge: str, device: str) -> Header:
    return Header.from_bytes(bytes.fromhex(net.ask(edge, "bfl_getWork", net.addresses[device])[2:]))


def _submit(net: LanNetwork, edge: str, device: str, work: Header) -> None:
    """Hand in a nonce; a miner of the network may have been faster, and its block does as well."""
    nonce = find_nonce(work.mining_hash, work.difficulty) or b""
    try:
        net.ask(
            edge, "bfl_submitWork", *("0x" + each.hex() for each in (work.mining_hash, nonce)), net.addresses[device]
        )
    except AWAY as refused:
        print(f"    {refused}", flush=True)


def _smaller(work: Header, than: bytes) -> Header | None:
    """This work sealed, with a smaller hash than another block's."""
    start = 0
    for _ in range(_TRIES):
        nonce = find_nonce(work.mining_hash, work.difficulty, start)
        if nonce is None:
            return None
        if (sealed := work.with_nonce(nonce)).hash < than:
            return sealed
        start = int.from_bytes(nonce, "big") + 1
    return None


def _import(net: LanNetwork, edge: str, raw: str) -> str:
    """Bring a node a block; why it refuses, or nothing."""
    try:
        net.ask(edge, "bfl_importBlock", raw)
    except AWAY as refused:
        return str(refused)
    return ""


ROWS: dict[str, Strike] = {
    **{f"kill the leader in {phase}": dead_in(phase) for phase in KILLED_IN},
    "a slow leader, its block after the pass": slow_leader,
    "the winner's home dead after the block": dead_home,
    "two blocks for one round": two_blocks,
}
BY_PHASE = [f"kill the leader in {phase}" for phase in KILLED_IN]
