"""`python -m tests.chain.signer.kills N FOLDER`: kill -9 a busy signer N times, and compare what it emitted and kept.

One process imports everything once; each busy signer is a fork of it.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from chain.errors import SigningRefusedError
from chain.signer.statements import Statement
from tests.chain.signer.scene import endorsement, founded, opened, post

Place = tuple[int, int, str]
Said = tuple[str, bytes]
"""Digest of what is said, and the bytes"""


def _any_statement(rng: random.Random, round_: int) -> Statement:
    attempt, says = rng.randrange(3), rng.choice("ABC")
    slot = rng.choice(["plan", "close", "iterate:1", "iterate:2", "endorse"])
    return endorsement(round_, attempt, says) if slot == "endorse" else post(round_, attempt, slot, says)


def sign_until_killed(path: Path, first_round: int, emit: int) -> None:
    """Ask for this and that in a few rounds, over restarts; every answer leaves through the pipe."""
    rng = random.Random()
    for round_ in range(first_round, first_round + 1_000_000):
        with opened(path) as memory:
            for _ in range(12):
                asked = _any_statement(rng, round_)
                raw = rng.randbytes(rng.choice([8, 3000])).hex().encode()
                ask = memory.resign if asked.slot == "plan" and rng.random() < 0.3 else memory.sign
                try:
                    raw = ask(asked, lambda made=raw: made)  # type: ignore[misc]
                except SigningRefusedError:
                    continue
                said = f"{asked.round} {asked.attempt} {asked.slot} {asked.said.hex()} "
                os.write(emit, said.encode() + raw + b"\n")


def killed(path: Path, first_round: int, seconds: float, is_busy: bool) -> list[tuple[Place, Said]]:
    """Fork a signer, kill it `seconds` after it began (busy: after its first signature); return what it had emitted."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            sign_until_killed(path, first_round, writing)
        finally:
            os._exit(1)
    os.close(writing)
    found = b""
    os.set_blocking(reading, False)
    until, patience = time.monotonic() + seconds, time.monotonic() + 10.0
    while time.monotonic() < until:
        found += _available(reading)
        if is_busy and not found and time.monotonic() < patience:
            until = time.monotonic() + seconds
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.set_blocking(reading, True)
    with os.fdopen(reading, "rb") as pipe:
        found += pipe.read()
    if not os.WIFSIGNALED(status):
        raise RuntimeError("the signer ended by itself")
    return [_parsed(line) for line in found.splitlines(keepends=True) if line.endswith(b"\n")]


def _available(pipe: int) -> bytes:
    try:
        return os.read(pipe, 1 << 16)
    except BlockingIOError:
        return b""


def _parsed(line: bytes) -> tuple[Place, Said]:
    round_, attempt, slot, said, raw = line.split()
    return (int(round_), int(attempt), slot.decode()), (said.decode(), raw)


def kept(path: Path, rounds: set[int]) -> dict[Place, Said]:
    """Reopen: what the memory holds of these rounds. A kill is no restore, so it need not wait."""
    with opened(path) as memory:
        if memory.fresh_because:
            raise RuntimeError(f"found a memory that {memory.fresh_because}")
        return {
            (round_, attempt, each.slot): (each.said.hex(), each.raw)
            for round_ in rounds
            for attempt in range(3)
            for each in memory.pending(round_, attempt)
        }


class Witness:
    """Everything that ever left the machine."""

    def __init__(self) -> None:
        self.heard: dict[Place, Said] = {}

    def hear(self, emitted: list[tuple[Place, Said]]) -> None:
        """No slot ever says two things."""
        for place, said in emitted:
            if self.heard.setdefault(place, said)[0] != said[0]:
                raise RuntimeError(f"found two statements in {place}")
            self.heard[place] = said

    def compare(self, found: dict[Place, Said]) -> None:
        """All of it is kept; one post may have been signed with another nonce and killed before it left."""
        if any(place not in found or found[place][0] != said for place, (said, _) in self.heard.items()):
            raise RuntimeError("found something emitted that is not kept")
        changed = [place for place, said in self.heard.items() if found[place] != said]
        if len(changed) > 1 or any(slot != "plan" for _, _, slot in changed):
            raise RuntimeError(f"found other bytes than were emitted in {changed}")
        self.heard.update((place, found[place]) for place in changed)

    @property
    def round(self) -> int:
        """The last that was heard of."""
        return max((round_ for round_, _, _ in self.heard), default=1)


def main() -> None:
    """Kill, compare, and begin again in the round that was cut."""
    kills, path = int(sys.argv[1]), Path(sys.argv[2]) / "signed.db"
    founded(path).close()
    rng, witness, busy = random.Random(5), Witness(), 0
    for number in range(kills):
        emitted = killed(path, witness.round, rng.uniform(0.0, 0.15), is_busy=number % 2 == 0)
        busy += bool(emitted)
        witness.hear(emitted)
        witness.compare(kept(path, {round_ for round_, _, _ in witness.heard}))
    print(json.dumps({"kills": kills, "busy": busy, "emitted": len(witness.heard), "round": witness.round}))


if __name__ == "__main__":
    main()
