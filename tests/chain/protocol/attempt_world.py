"""A round with messages that arrive one by one, late or never, and servers that crash and come back (D3.2)."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from chain.protocol.endorsements import Endorsement, quorum
from chain.protocol.passes import Pass
from tests.chain.protocol.attempt_model import Block, Model

T = TypeVar("T")


@dataclass
class World:
    """Who has signed, received and crashed."""

    model: Model
    exists: int
    """Everything that was signed or sealed so far"""
    known: list[int]
    """Of each server: what it has received, with what it has signed"""
    up: set[int]

    @classmethod
    def begin(cls, model: Model) -> "World":
        """Before anybody has done anything."""
        return cls(model, 0, [0] * model.servers, set(range(model.servers)))

    def copy(self) -> "World":
        """Another that goes its own way."""
        return World(self.model, self.exists, list(self.known), set(self.up))

    # --- what may happen

    def sealable(self) -> list[int]:
        """Blocks that devices may seal for their leaders; a liar knows everything."""
        found = []
        for attempt in range(self.model.attempts):
            leader = attempt % self.model.servers
            if leader in self.up:
                bits = self.model.sealable(attempt, self.exists if leader == self.model.liar else self.known[leader])
                found += [bit for bit in _bits(bits) if not bit & self.exists]
        return found

    def signable(self) -> list[int]:
        """What honest servers may sign, each with what it knows."""
        return [bit for who in self.up - {self.model.liar} for bit in self.model.moves(who, self.known[who])]

    def lies(self) -> list[int]:
        """What the liar may sign."""
        return self.model.lies(self.exists)

    def useful_lies(self) -> list[int]:
        """Those that somebody may be taken in by."""
        votes = self.model.votes(self.exists)
        return [bit for bit in self.lies() if self.model.is_shown(bit, self.exists, votes)]

    def deliverable(self) -> list[tuple[int, int]]:
        """Messages (server, bit) that have not arrived."""
        return [(who, bit) for who in self.up - {self.model.liar} for bit in _bits(self.exists & ~self.known[who])]

    # --- what happens

    def say(self, bit: int) -> None:
        """Something is signed or sealed; its signer, or the leader it was sealed for, knows it."""
        self.exists |= bit
        message = self.model.message(bit)
        if isinstance(message, Block):
            self.deliver(message.attempt % self.model.servers, bit)
        else:
            self.known[self.model.signer(bit)] |= bit

    def deliver(self, who: int, bit: int) -> None:
        """A message arrives."""
        message, most = self.model.message(bit), self.model.rules.most_kept
        if most is not None and not isinstance(message, Block):
            signed = self.model.own(self.model.signer(bit), self.known[who])
            places = [(type(each), each.attempt) for each in self.model.held(signed)]
            if places.count((type(message), message.attempt)) >= most:
                return
        self.known[who] |= bit

    def crash(self, who: int) -> None:
        """A server goes down; what it knew is on its disk."""
        self.up.discard(who)
        if self.model.rules.forgets:
            self.known[who] = self.model.own(who, self.known[who])

    def restart(self, who: int) -> None:
        """It comes back."""
        self.up.add(who)


def _bits(known: int) -> Iterable[int]:
    while known:
        yield known & -known
        known &= known - 1


# --- does the round end


def ends(world: World) -> bool:
    """Whether the honest servers that are up, at least a quorum, make a block final once they hear each other: in the
    first new attempt with one of them as leader.
    """
    model, world = world.model, world.copy()
    world.up.discard(model.liar if model.liar is not None else -1)
    _share(world)
    heard = world.known[min(world.up)]
    begun = [attempt for attempt in range(model.attempts) if model.votes(heard).is_certified(attempt)]
    for attempt in range(begun[-1] + 1, begun[-1] + 1 + model.servers):
        if any(model.finals(world.known[who]) for who in world.up):
            return True
        _sign(world, world.up, attempt, Pass)
        leader = attempt % model.servers
        if leader in world.up:
            for bit in list(_bits(model.sealable(attempt, world.known[leader])))[:1]:
                world.say(bit)
            _sign(world, [leader], attempt, Endorsement)
            _sign(world, world.up, attempt, Endorsement)
            return all(model.finals(world.known[who]) for who in world.up)
    return False


def _share(world: World) -> None:
    heard = 0
    for who in world.up:
        heard |= world.known[who]
    for who in world.up:
        for bit in _bits(heard & ~world.known[who]):
            world.deliver(who, bit)


def _sign(world: World, signers: Iterable[int], attempt: int, kind: type[Endorsement] | type[Pass]) -> None:
    """Each signs the first thing of this kind that it may, and all hear of it."""
    model = world.model
    for who in sorted(signers):
        bits = model.moves(who, world.known[who], [attempt])
        for bit in [each for each in bits if isinstance(model.message(each), kind)][:1]:
            world.say(bit)
    _share(world)


# --- walks


def walk(world: World, rng: random.Random, steps: int) -> tuple[int, str]:
    """Random steps until something is violated; how many, and what. Then no more come back than the round needs."""
    for step in range(steps):
        one_step(world, rng)
        if violation := world.model.violation(world.exists):
            return step + 1, violation
    for who in rng.sample(world.model.honest, len(world.model.honest)):
        if len(world.up - {world.model.liar}) < quorum(world.model.servers):
            world.restart(who)
    return steps, "" if ends(world) else f"the round does not end with {sorted(world.up)} up"


def one_step(world: World, rng: random.Random) -> None:
    """One thing happens: mostly that a message arrives, as there are many of them."""
    kinds: list[Callable[[], None]] = [
        lambda: _one(world.lies() if rng.random() < 0.1 else world.useful_lies(), world.say, rng),
        lambda: _one(world.signable(), world.say, rng),
        lambda: _one(world.sealable(), world.say, rng),
        *[lambda: _one(world.deliverable(), lambda each: world.deliver(*each), rng)] * 3,
        lambda: _one([who for who in world.up if rng.random() < 0.1], world.crash, rng),
        lambda: _one(sorted(set(range(world.model.servers)) - world.up), world.restart, rng),
    ]
    rng.choice(kinds)()


def _one(options: list[T], happens: Callable[[T], None], rng: random.Random) -> None:
    if options:
        happens(rng.choice(options))
