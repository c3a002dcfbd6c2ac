"""Rounds in every order of events: how many states were seen, and what was wrong in them (D3.2, Q1).

    python -m benchmarks.attempts [--seconds 600] [--walks 2000]

The model is that of the tests (tests/chain/protocol/attempt_model.py): the program's own rules, statements without real
signatures. A *search* sees every state; where the time runs out it says so, and has seen the shortest ways. A *walk* is
a round with messages that arrive one by one, late or never, and servers that crash; a state of it is a step.

- final, two: states (search) or ends of walks with a final block, and with two of them, where the liar is convicted.
- ends: states from which it was asked whether the round ends, for every quorum of honest servers (search) or for those
  that are up (walk).
- wrong: two final blocks and nobody convicted, an honest server convicted, or a round that does not end.

Ends with the faults that are seeded in the rules, each of which has to be found.
"""

import argparse
import random
import time
from collections.abc import Callable

from tests.chain.protocol.attempt_faults import STUCK, UNSAFE
from tests.chain.protocol.attempt_model import Model, Rules
from tests.chain.protocol.attempt_search import Found, search, walks

SEARCHES: tuple[tuple[int, int, int | None, bool], ...] = (
    # servers, attempts, liar, whether a liar that stands convicted is left there
    *((3, 2, liar, True) for liar in (None, 0, 1, 2)),
    *((3, 3, liar, True) for liar in (None, 0, 1, 2)),
    *((4, 2, liar, True) for liar in (None, 0, 1, 3)),
    *((5, 2, liar, True) for liar in (None, 0, 1, 4)),
    *((servers, 1, 0, False) for servers in (3, 4, 5)),
    *((3, 2, liar, False) for liar in (0, 1, 2)),
    (4, 3, None, True),
    (3, 4, None, True),
)
LIVE_EVERY = 25
STEPS = 250


def main() -> None:
    """Searches, walks, faults."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0, help="of each search, at most")
    parser.add_argument("--walks", type=int, default=2000, help="for each number of servers")
    asked = parser.parse_args()
    print("| servers | attempts | liar | how | states | final | two | ends | wrong | s |\n" + "|---" * 10 + "|")
    for servers, attempts, liar, leaves in SEARCHES:
        how = "search" if leaves else "search, convicted too"
        _row(servers, attempts, str(liar), how, _searched(Model(servers, attempts, liar), leaves, asked.seconds))
    for servers in (3, 4, 5):
        _row(servers, 4, "any", f"{asked.walks} walks", _walked(servers, asked.walks))
    print("\n| fault | found after | what |\n|---|---|---|")
    for name, (attempts, liar, rules) in UNSAFE.items():
        found = search(Model(3, attempts, liar, rules))
        print(f"| {name} | {found.states} states | {found.violation or 'NOT FOUND'} |", flush=True)
    for name, rules in STUCK.items():
        found = _stuck(name, rules)
        print(f"| {name} | {found.states} states | {found.violation or 'NOT FOUND'} |", flush=True)


def _row(servers: int, attempts: int, liar: str, how: str, asked: Callable[[], Found]) -> None:
    started = time.monotonic()
    found = asked()
    took_s = time.monotonic() - started
    states = f"{found.states}" if found.is_complete or "walks" in how else f"{found.states} (not all)"
    cells = (servers, attempts, liar, how, states, found.with_final, found.with_two, found.ends_asked)
    print(f"| {' | '.join(map(str, cells))} | {found.violation or 0} | {took_s:.0f} |", flush=True)
    if found.violation:
        print(found.trace, flush=True)


def _searched(model: Model, leaves_convicted: bool, seconds: float) -> Callable[[], Found]:
    end = time.monotonic() + seconds
    return lambda: search(
        model, live_every=LIVE_EVERY, leaves_convicted=leaves_convicted, goes_on=lambda: time.monotonic() < end
    )


def _walked(servers: int, number: int) -> Callable[[], Found]:
    def a_model(rng: random.Random) -> Model:
        return Model(servers, 4, rng.choice([None, *range(servers)]))

    return lambda: walks(a_model, range(number), STEPS)


def _stuck(name: str, rules: Rules) -> Found:
    if "neither" in name:  # takes four servers, and a leader that convicts itself
        return search(Model(4, 1, 0, rules), live_every=1, leaves_convicted=False)
    return walks(lambda rng: Model(3, 3, rng.choice([None, 0, 1, 2]), rules), range(1000), steps=120)


if __name__ == "__main__":
    main()
