"""Servers that endorse and pass by the rules of D3.2, and one that lies: what may happen next, and what never may.

The rules are those of the program: `RoundVotes` says what may be endorsed, `chain.signer.rules` what one key may sign,
`contradicts` and `hides` what convicts. Only the signatures are not real: every statement carries its signer's address
in place of one, so that millions of states are cheap. A set of statements is a number, one bit for each.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from chain.errors import SigningRefusedError
from chain.protocol.attempts import RoundVotes
from chain.protocol.endorsements import Domain, Endorsement, quorum
from chain.protocol.passes import Named, Pass
from chain.signer.rules import check_new
from chain.signer.statements import Endorsed, Signed, Statement
from chain.wire.address import Address

ROUND, CHAIN = 1, 77
DOMAIN = Domain(CHAIN, Address(bytes(20)))
NONCES = "AB"
_MOST_REMEMBERED = 200_000


class Block(NamedTuple):
    """A sealed block and the attempt whose posts it has."""

    attempt: int
    block_hash: bytes


Message = Block | Endorsement | Pass


@cache
def server(index: int) -> Address:
    """The server that leads attempt `index` of few."""
    return Address(bytes([index + 1]) * 20)


@cache
def block(attempt: int, nonce: str = "A") -> Block:
    """A block of an attempt; two devices may find different nonces."""
    return Block(attempt, f"block {nonce} of attempt {attempt}".encode().ljust(32))


@cache
def endorsement(who: int, attempt: int, given: Block, time_ms: int = 0) -> Endorsement:
    """A server's endorsement, with its address for a signature."""
    signed = Endorsement(ROUND, attempt, given.block_hash, time_ms, DOMAIN, server(who))
    signed.__dict__["signer"] = server(who)  # where `cached_property` looks first
    return signed


@cache
def to_pass(who: int, attempt: int, named: tuple[int, Block] | Named | None = None, time_ms: int = 0) -> Pass:
    """A server's pass, with its address for a signature."""
    name = named if named is None or isinstance(named, Named) else Named(named[0], named[1].block_hash)
    signed = Pass(ROUND, attempt, name, time_ms, DOMAIN, server(who))
    signed.__dict__["signer"] = server(who)
    return signed


def votes_of(servers: int, messages: Iterable[Message], votes: type[RoundVotes] = RoundVotes) -> RoundVotes:
    """What is allowed by the rules, for somebody who holds these blocks and signatures."""
    held, everybody = list(messages), [server(i) for i in range(servers)]
    built = {each.block_hash: each.attempt for each in held if isinstance(each, Block)}
    endorsements = [each for each in held if isinstance(each, Endorsement)]
    return votes(everybody, everybody, built.get, endorsements, [each for each in held if isinstance(each, Pass)])


def may_sign(signed: Sequence[Signed], asked: Statement) -> bool:
    """Whether a key with this memory signs; the same statement again is no news."""
    if any((each.attempt, each.slot) == (asked.attempt, asked.slot) for each in signed):
        return False
    try:
        check_new(asked, ROUND, signed)
    except SigningRefusedError:
        return False
    return True


def statement(message: Endorsement | Pass) -> Statement:
    """What the signer's memory is asked for."""
    if isinstance(message, Endorsement):
        return Statement.endorsement(CHAIN, ROUND, message.attempt, message.block_hash)
    return Statement.to_pass(CHAIN, ROUND, message.attempt, message.named and Endorsed(*message.named))


@dataclass(frozen=True)
class Rules:
    """What the servers go by; a seeded fault replaces one of them."""

    votes: type[RoundVotes] = RoundVotes
    may_sign: Callable[[Sequence[Signed], Statement], bool] = may_sign
    adds_attempts: bool = False
    """Fault: endorsements of different attempts make a block final together"""
    most_kept: int | None = None
    """Fault: how many statements of one server for one attempt a node keeps"""
    forgets: bool = False
    """Fault: a restarted server knows only what it has signed itself"""


@dataclass
class Model:
    """The statements of a round, by number, and what the rules say about a set of them."""

    servers: int
    attempts: int
    liar: int | None = None
    rules: Rules = field(default_factory=Rules)

    def __post_init__(self) -> None:
        self.messages: list[Message] = []
        self._number: dict[Message, int] = {}
        self._of: list[int] = [0] * self.servers  # what a server may have signed
        self._convicting: list[int] = []  # with which other statements a statement convicts its signer
        self._for: dict[tuple[int, bytes], int] = {}  # endorsements of a block in an attempt
        self._votes: dict[int, RoundVotes] = {}
        self._signable: dict[tuple[int, int], bool] = {}
        self._lies: dict[int, list[int]] = {}  # by the blocks that exist
        self._blocks = 0
        self._who = {server(i): i for i in range(self.servers)}

    @property
    def honest(self) -> list[int]:
        """Those who keep to the rules."""
        return [who for who in range(self.servers) if who != self.liar]

    # --- statements as bits

    def bit(self, message: Message) -> int:
        """The bit of a message."""
        if message not in self._number:
            self._number[message] = len(self.messages)
            self.messages.append(message)
            self._convicting.append(0)
            if isinstance(message, Block):
                self._blocks |= 1 << self._number[message]
            else:
                self._enter(message, 1 << self._number[message])
        return 1 << self._number[message]

    def _enter(self, message: Endorsement | Pass, bit: int) -> None:
        who = self._who[message.signer]
        for other in self.held(self._of[who]):
            if not isinstance(other, Block) and convicts(message, other):
                self._convicting[self._number[message]] |= self.bit(other)
                self._convicting[self._number[other]] |= bit
        self._of[who] |= bit
        if isinstance(message, Endorsement):
            place = (-1 if self.rules.adds_attempts else message.attempt, message.block_hash)
            self._for[place] = self._for.get(place, 0) | bit

    def held(self, known: int) -> Iterator[Message]:
        """The messages of a set."""
        while known:
            last = known & -known
            yield self.messages[last.bit_length() - 1]
            known ^= last

    def own(self, who: int, known: int) -> int:
        """What a server has signed, of a set."""
        return known & self._of[who]

    def message(self, bit: int) -> Message:
        """The message of a bit."""
        return self.messages[bit.bit_length() - 1]

    def signer(self, bit: int) -> int:
        """Whose a statement is."""
        return next(who for who, bits in enumerate(self._of) if bit & bits)

    def votes(self, known: int) -> RoundVotes:
        """The rules' view of a set."""
        if known not in self._votes:
            if len(self._votes) > _MOST_REMEMBERED:
                self._votes.clear()
            self._votes[known] = votes_of(self.servers, self.held(known), self.rules.votes)
        return self._votes[known]

    # --- what may happen next

    def moves(self, who: int, known: int, attempts: Iterable[int] | None = None) -> list[int]:
        """What an honest server that knows this may sign next, as bits: for these attempts, or all of the model's."""
        votes = self.votes(known)
        found: list[Message] = []
        for attempt in range(self.attempts) if attempts is None else attempts:
            if attempt > 0 and votes.is_certified(attempt - 1):
                found.append(to_pass(who, attempt, votes.named_by(server(who), attempt)))
            if votes.is_certified(attempt):
                found += [endorsement(who, attempt, each) for each in self._choices(who, attempt, known)]
        return [bit for each in found if self._may_sign(who, bit := self.bit(each), known)]

    def _choices(self, who: int, attempt: int, known: int) -> list[Block]:
        votes = self.votes(known)
        hashes = votes.choices(attempt)
        if votes.leader(attempt) == server(who):
            blocks = [each for each in self.held(known & self._blocks) if isinstance(each, Block)]
            built = sorted(each.block_hash for each in blocks if each.attempt == attempt)
            hashes = [*votes.adoptable(attempt), *built]
        return [Block(attempt, each) for each in hashes if votes.allows(attempt, each)]

    def _may_sign(self, who: int, bit: int, known: int) -> bool:
        key = (self.own(who, known), bit)
        if key not in self._signable:
            message = self.message(bit)
            asked = [statement(each) for each in self.held(key[0]) if not isinstance(each, Block)]
            memory = [Signed(each.attempt, each.slot, each.said, b"") for each in asked]
            self._signable[key] = not isinstance(message, Block) and self.rules.may_sign(memory, statement(message))
        return self._signable[key]

    def sealable(self, attempt: int, known: int) -> int:
        """The blocks that devices may seal for a leader that knows this."""
        if not self.votes(known).may_plan(attempt):
            return 0
        return sum(self.bit(block(attempt, nonce)) for nonce in NONCES) & ~known

    def lies(self, known: int) -> list[int]:
        """All that a liar may sign where these blocks exist: what the encoding has a form for."""
        exist = known & self._blocks
        if exist not in self._lies:
            self._lies[exist] = [] if self.liar is None else list(self._lies_about(self.liar, exist))
        return [bit for bit in self._lies[exist] if bit & ~known]

    def _lies_about(self, liar: int, exist: int) -> Iterator[int]:
        blocks = [each for each in self.held(exist) if isinstance(each, Block)]
        for attempt in range(self.attempts):
            yield from (self.bit(endorsement(liar, attempt, each)) for each in blocks)
            for named in range(attempt):
                yield from (self.bit(to_pass(liar, attempt, (named, each))) for each in blocks)
        yield from (self.bit(to_pass(liar, attempt)) for attempt in range(1, self.attempts))

    # --- what has happened

    def finals(self, known: int) -> set[bytes]:
        """The blocks that a quorum signed in one attempt."""
        needed = quorum(self.servers)
        return {place[1] for place, bits in self._for.items() if (known & bits).bit_count() >= needed}

    def convicted(self, known: int) -> set[int]:
        """The servers whose own signatures accuse them."""
        return {
            self._who[each.signer]
            for each in self.held(known)
            if not isinstance(each, Block) and self._convicting[self._number[each]] & known
        }

    def accuses(self, bit: int, known: int) -> bool:
        """Whether a statement convicts its signer, with what is known."""
        return bool(self._convicting[bit.bit_length() - 1] & known)

    def is_endorsed(self, bit: int, known: int) -> bool:
        """Whether the signer of a pass has endorsed what it names; an endorsement names nothing."""
        message = self.message(bit)
        if not isinstance(message, Pass) or message.named is None:
            return True
        named = endorsement(self.signer(bit), message.named.attempt, Block(*message.named))
        return bool(self.bit(named) & known)

    def is_shown(self, bit: int, known: int, votes: RoundVotes) -> bool:
        """Whether somebody who knows this may go by a statement: it speaks of a block that is allowed there."""
        message = self.message(bit)
        if isinstance(message, Endorsement):
            return votes.allows(message.attempt, message.block_hash)
        return self.is_endorsed(bit, known)

    def violation(self, known: int) -> str:
        """What must never be, of the statements that exist; empty where all is well."""
        convicted, finals = self.convicted(known), self.finals(known)
        if convicted - {self.liar}:
            return f"an honest server is convicted: {sorted(convicted - {self.liar})}"
        if len(finals) > 1 and not convicted:
            return f"{len(finals)} final blocks, and nobody is convicted"
        return ""

    def told(self, bits: Iterable[int]) -> str:
        """A trace for people."""
        return "\n".join(tell(message, self._who) for bit in bits for message in self.held(bit))


def convicts(one: Endorsement | Pass, other: Endorsement | Pass) -> bool:
    """Whether two statements of one server convict it (Q1)."""
    if isinstance(one, Endorsement):
        return one.contradicts(other) if isinstance(other, Endorsement) else other.hides(one)
    return one.hides(other) if isinstance(other, Endorsement) else one.contradicts(other)


def tell(message: Message, who: dict[Address, int]) -> str:
    """A message in words."""
    if isinstance(message, Block):
        return f"{message.block_hash.decode().strip()} is sealed"
    if isinstance(message, Endorsement):
        return f"{who[message.signer]} endorses {message.block_hash.decode().strip()} at attempt {message.attempt}"
    name = message.named and f"{message.named.block_hash.decode().strip()} at {message.named.attempt}"
    return f"{who[message.signer]} passes to attempt {message.attempt}, naming {name or 'nothing'}"
