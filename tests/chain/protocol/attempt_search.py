"""All that can happen in a round, as far as it is small: breadth first over the sets of signatures that can exist.
What is larger is walked through at random.

Who has received what is left out: the rules are monotone (`test_attempt_model.py` shows it), and nobody has to act, so
whatever a server may sign with a part of the messages, it may sign with all of them. For the same reason every block
that may be sealed is there at once. A crash is then nothing but a server that does not act. A liar endorses before it
names: a pass whose signer has not endorsed what it names counts for nothing, and what convicts knows no order.
"""

import random
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

from chain.protocol.endorsements import quorum
from chain.protocol.passes import Pass
from tests.chain.protocol.attempt_model import NONCES, Block, Message, Model, block
from tests.chain.protocol.attempt_world import World, ends, walk


@dataclass
class Found:
    """What a search or many walks have seen."""

    states: int = 0
    ends_asked: int = 0
    with_final: int = 0
    """States or walks with a final block"""
    with_two: int = 0
    """Those with two final blocks; somebody stands convicted there"""
    violation: str = ""
    trace: str = ""
    is_complete: bool = False
    seen: Collection[int] = ()
    """Of a search: the sets of signatures"""

    def count(self, finals: int) -> None:
        """One more state or walk with so many final blocks."""
        self.with_final += finals > 0
        self.with_two += finals > 1


def search(
    model: Model,
    most_states: int = 10**9,
    live_every: int = 0,
    leaves_convicted: bool = True,
    goes_on: Callable[[], bool] = lambda: True,
) -> Found:
    """Stops at the first violation, so that its trace is a shortest one.

    `live_every`: of how many states one is asked whether the round still ends, for each quorum of honest servers.
    `leaves_convicted`: a liar convicts itself never; once it has, two final blocks are no violation any more.
    """
    last, level = {0: 0}, [0]
    found = Found(seen=last.keys())
    while level:
        following: list[int] = []
        for state in level:
            known = state | _sealed(model, state)
            found.states += 1
            found.violation = model.violation(known)
            found.count(len(model.finals(known)))
            if not found.violation and live_every and found.states % live_every == 0:
                found.violation = _stuck(model, known)
                found.ends_asked += 1
            if found.violation:
                found.trace = model.told(_way_to(state, last))
                return found
            if found.states >= most_states or not goes_on():
                return found
            for bit in _next(model, known, leaves_convicted):
                if (after := state | bit) not in last:
                    last[after] = bit
                    following.append(after)
        level = following
    found.is_complete = True
    return found


def _sealed(model: Model, state: int) -> int:
    blocks = 0
    for attempt in range(model.attempts):
        blocks |= model.sealable(attempt, state | blocks)
    return blocks


def _next(model: Model, known: int, leaves_convicted: bool) -> Iterator[int]:
    """What somebody may sign next; of two blocks that nobody has signed yet, the first stands for both."""
    used = {_spoken_of(each) for each in model.held(known) if not isinstance(each, Block)}
    unused = {
        block(attempt, NONCES[1]).block_hash
        for attempt in range(model.attempts)
        if not used & {block(attempt, each).block_hash for each in NONCES}
    }
    for who in model.honest:
        yield from (bit for bit in model.moves(who, known) if _spoken_of(model.message(bit)) not in unused)
    for bit in model.lies(known):
        is_left = leaves_convicted and model.accuses(bit, known)
        if not is_left and _spoken_of(model.message(bit)) not in unused and model.is_endorsed(bit, known):
            yield bit


def _spoken_of(message: Message) -> bytes | None:
    if isinstance(message, Pass):
        return message.named and message.named.block_hash
    return message.block_hash


def _way_to(state: int, last: dict[int, int]) -> list[int]:
    way: list[int] = []
    while state:
        way.append(last[state])
        state ^= way[-1]
    return way[::-1]


def _stuck(model: Model, known: int) -> str:
    for up in combinations(model.honest, quorum(model.servers)):
        world = World(model, known, [known] * model.servers, set(up))
        if not ends(world):
            return f"the round does not end with {up} up, who know everything"
    return ""


def walks(model: Callable[[random.Random], Model], seeds: Iterable[int], steps: int) -> Found:
    """Walks through rounds with messages that arrive one by one or never; stops at the first violation."""
    found = Found()
    for seed in seeds:
        rng = random.Random(seed)
        world = World.begin(model(rng))
        taken, found.violation = walk(world, rng, rng.randrange(steps // 4, steps))
        found.states, found.ends_asked = found.states + taken, found.ends_asked + 1
        found.count(len(world.model.finals(world.exists)))
        if found.violation:
            found.trace = f"seed {seed}\n{world.model.told([world.exists])}"
            break
    return found
