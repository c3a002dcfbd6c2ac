"""docs/deploy.md walked as a new user would: three edge PCs and four devices that join with tokens.

    flock /tmp/LOCK python -m benchmarks.guide [--rounds 5] [--write docs/walk.md]

Needs root: each machine is a network namespace with a disk of its own, and has a person with a password of its own.
Nothing goes from one folder to another but what the guide says: tokens, NAME.request, NAME.grant. Prints every command
with what the terminal showed, shortened, and its seconds.
"""

import argparse
import re
import signal
import sys
import time
from pathlib import Path

from benchmarks.typed import Desk, Session, carry, open_desks, write_block

EDGES = ("edge-a", "edge-b", "edge-c")
DEVICES = {"pi-1": "edge-a", "pi-2": "edge-b", "pi-3": "edge-c", "pi-4": "edge-a"}
COMMAND = "python -m benchmarks.guide"
_HASHES_PER_S = 2000
_DISK_MB = 1500
_START_S, _ROUND_S = 240.0, 90.0


class Walk:
    """What was typed, step by step."""

    def __init__(self, desks: dict[str, Desk]) -> None:
        self.desks, self.parts, self._began = desks, list[str](), time.monotonic()
        self.is_well = True

    @property
    def operator(self) -> Desk:
        """Who runs the network."""
        return self.desks["operator"]

    def step(self, title: str) -> None:
        """A heading, with the minutes until then."""
        self.parts.append(f"## {title}\n\n{self.minutes:.1f} minutes after the beginning.")
        print(f"-- {title} ({self.minutes:.1f} min)", file=sys.stderr, flush=True)

    @property
    def minutes(self) -> float:
        """Since the beginning."""
        return (time.monotonic() - self._began) / 60

    def say(self, text: str) -> None:
        """A sentence between commands."""
        self.parts.append(text)

    def show(self, *sessions: Session, lines: int = 14) -> None:
        """What the terminals show."""
        self.parts += [each.shown(lines) for each in sessions]

    def run(self, desk: Desk, line: str, lines: int = 14, expected: int = 0) -> Session:
        """Type a command and show it; one that ends otherwise than a new user hopes spoils the walk."""
        session = desk.run(line)
        self.show(session, lines=lines)
        if session.code != expected:
            self.is_well = False
            print(f"{desk.name}$ {line}: exit code {session.code}\n{session.text}", file=sys.stderr, flush=True)
        return session


def description(desks: dict[str, Desk]) -> str:
    """The operator's `network.toml`."""
    lines = ['name = "greenhouse"', "[settings]", 'dataset = "synthetic"', "[chain]"]
    lines += [f"difficulty = {len(DEVICES) * _HASHES_PER_S * 2}", "block-s = 2"]
    for edge in EDGES:
        lines += ["[[edges]]", f'name = "{edge}"', f'address = "{desks[edge].address}"']
    for device, home in DEVICES.items():
        lines += ["[[devices]]", f'name = "{device}"', f'home = "{home}"', f"hashes-per-s = {_HASHES_PER_S}"]
    return "\n".join(lines) + "\n"


def describe(walk: Walk) -> dict[str, str]:
    """Step 1; the tokens by the names of the machines."""
    walk.step("1. The operator describes the network")
    text = description(walk.desks)
    (walk.operator.folder / "network.toml").write_text(text, encoding="utf-8")
    walk.say("`network.toml`:\n\n" + "\n".join(f"    {line}" for line in text.splitlines()))
    told = walk.run(walk.operator, "bfl network init network.toml --tokens", lines=40)
    return dict(re.findall(r"^([a-z0-9-]+)\n.* (bfl1\.\S+)", told.text, re.MULTILINE))


def join(walk: Walk, tokens: dict[str, str]) -> None:
    """Step 2."""
    walk.step("2. Each machine joins")
    for number, (name, token) in enumerate(tokens.items()):
        desk = walk.desks[name]
        never = " --offload never" if name == "pi-2" else ""
        joined = desk.run(f"bfl network join {token}{never}")
        if number in (0, len(EDGES), len(EDGES) + 1):
            walk.show(joined)
        carry(desk.folder / f"{name}.request", walk.operator.folder)
    walk.say("The others the same. Their seven `NAME.request` go to the operator.")


def found(walk: Walk) -> None:
    """Step 3."""
    walk.step("3. The operator admits them and founds the network")
    walk.run(walk.operator, "bfl network admit *.request")
    walk.run(walk.operator, "bfl network found")
    walk.say("Each `NAME.grant` goes to its machine, into the folder of its kit.")
    for name in (*EDGES, *DEVICES):
        carry(walk.operator.folder / "office" / "grants" / f"{name}.grant", walk.desks[name].folder / name)


def start(walk: Walk, rounds: int) -> dict[str, Session]:
    """Step 4; what runs, by machine."""
    walk.step("4. Each machine starts")
    for name in (EDGES[0], "pi-1"):
        walk.run(walk.desks[name], f"bfl doctor --device {name}", lines=30)
    running = {name: walk.desks[name].begin(f"bfl network edge {name}") for name in EDGES}
    running |= {name: walk.desks[name].begin(f"bfl network device {name}") for name in DEVICES}
    first = running[EDGES[0]]
    for number in range(1, rounds + 1):
        if not first.wait_for(f"round {number}: ", _START_S if number == 1 else _ROUND_S):
            walk.is_well = False
            print(f"round {number} was not told in time\n{first.text}", file=sys.stderr)
            break
        if number == 1:
            walk.say(f"Round 1 is sealed {walk.minutes:.1f} minutes after the beginning, {rounds} rounds after:")
    walk.parts[-1] = f"{walk.parts[-1].removesuffix(':')} {walk.minutes:.1f} minutes."
    for name in (EDGES[0], "pi-1"):
        walk.show(running[name], lines=24)
    return running


def look(walk: Walk) -> None:
    """Step 5."""
    walk.step("5. How it is")
    for name in (EDGES[0], "pi-1"):
        walk.run(walk.desks[name], f"bfl network status {name}", lines=20)
    walk.run(walk.desks["pi-2"], "bfl network logs pi-2 --lines 6")
    walk.run(walk.desks[EDGES[1]], "bfl network logs edge-b --part edge-server --lines 4")


def stop(walk: Walk, running: dict[str, Session]) -> None:
    """Step 6."""
    walk.step("6. The end of the day")
    for name in (*DEVICES, *EDGES):
        line = walk.desks[name].run(f"bfl network stop {name}")
        if name in (EDGES[0], "pi-1"):
            walk.show(line)
    ended = [f"{name}: {session.code}" for name, session in running.items() if session.wait(60).code]
    if ended:
        walk.is_well = False
        walk.say(f"Ended otherwise than by 0: {', '.join(ended)}")
    walk.run(walk.desks[EDGES[2]], "bfl audit check edge-c/chain.db", lines=30)


def walked(rounds: int) -> tuple[str, bool]:
    """The page, and whether everything went as a new user hopes."""
    with open_desks(["operator", *EDGES, *DEVICES], _DISK_MB) as desks:
        walk = Walk(desks)
        tokens = describe(walk)
        join(walk, tokens)
        found(walk)
        running = start(walk, rounds)
        look(walk)
        stop(walk, running)
        walk.say(f"{walk.minutes:.1f} minutes in all, typing and carrying files left out.")
        return "\n\n".join(walk.parts), walk.is_well


def main() -> None:
    """Walk it, and print the page or write it into one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", type=Path, help="the page that has its output")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what it started ends with it
    text, is_well = walked(options.rounds)
    if options.write is None:
        print(text)
    else:
        write_block(options.write, COMMAND, text)
    sys.exit(0 if is_well else 1)


if __name__ == "__main__":
    main()
