"""A round as the ledger has it: its posts, read into what they say. From a running round or from a sealed block."""

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from eth_hash.auto import keccak

from chain.client.posts import Flag
from chain.errors import CodecError
from chain.protocol.contract import Call, decode_call
from chain.protocol.passes import contradiction
from chain.protocol.posts import PayloadSource, Post, SignedCall
from chain.protocol.slots import Slot, iterate_slot
from chain.wire.address import Address
from chain.wire.blocks import Block
from chain.wire.codec import PayloadKind, decode_floats, view_floats
from chain.wire.documents import ClosedList, Roll
from chain.wire.plan import NO_PLAN, Plan, read_plan
from clients.vectors import Vector
from edge_servers.errors import FederationError, GradientRefusedError, PlanError, ReplayError
from edge_servers.founding.code import check_code
from edge_servers.founding.parameters import FoundingParameters
from edge_servers.learning.bounds import check_gradient
from edge_servers.learning.gradients import Gradient
from edge_servers.learning.verdicts import Jury

UNAVAILABLE = "unavailable"
"""The reason of a leader that does not hold a gradient's payload: it needs no proof (B4)"""
SET_ASIDE = "set-aside"
"""The reason of a gradient whose device takes no part in the round"""


@dataclass(frozen=True)
class RoundRecord:
    """The posts of one round by slot and sender; whatever the registry accepted, also what nobody can read."""

    round: int
    posts: dict[int, dict[Address, Post]] = field(default_factory=dict)
    flags: tuple[Flag, ...] = ()

    @classmethod
    def of(cls, round_: int, posts: Iterable[Post], flags: Iterable[Flag] = ()) -> "RoundRecord":
        """From the posts in any order."""
        by_slot: dict[int, dict[Address, Post]] = {}
        for post in sorted(posts, key=lambda post: post.sender):
            by_slot.setdefault(post.slot, {})[Address(post.sender)] = post
        return cls(round_, by_slot, tuple(flags))

    @classmethod
    def of_block(cls, round_: int, posts: Iterable[tuple[SignedCall, int]], source: PayloadSource) -> "RoundRecord":
        """From a block's transactions with their receipts' statuses; what was reverted says nothing."""
        by_slot: dict[int, dict[Address, Post]] = {}
        flags: list[Flag] = []
        for signed, status in posts:
            if status != 1 or signed.call is None:
                continue
            post, sender = signed.post, Address(signed.sender)
            if post is not None:
                by_slot.setdefault(post.slot, {})[sender] = post.beside(source)
            elif signed.call.name.startswith("flag"):
                flags.append(_flag(signed.call, sender, round_))
        return cls(round_, by_slot, tuple(flags))

    def only(self, slot: int) -> Post | None:
        """The one post of a slot that a leader fills."""
        return next(iter(self.posts.get(slot, {}).values()), None)

    @cached_property
    def plan(self) -> Plan:
        """The round's plan; `PlanError` where there is none that can be read."""
        payload = self._leaders_payload(Slot.PLAN)
        if payload is None:
            raise PlanError(f"round {self.round} has no plan")
        try:
            return read_plan(payload)
        except CodecError as error:
            raise PlanError(str(error)) from error

    @cached_property
    def closed_list(self) -> ClosedList:
        """The leader's closed list; `CodecError` where there is none that can be read."""
        payload = self._leaders_payload(Slot.CLOSE)
        if payload is None:
            raise CodecError(f"round {self.round} is not closed")
        closed = ClosedList.decode(payload)
        if closed.round != self.round:
            raise CodecError(f"found the closed list of round {closed.round}, expected {self.round}")
        return closed

    def _leaders_payload(self, slot: Slot) -> bytes | None:
        post = self.only(slot)
        return None if post is None else post.payload

    def iterate(self, server: Address, step: int) -> Post | None:
        """What a server posted as its iterate of a step."""
        return self.posts.get(iterate_slot(step), {}).get(server)

    @property
    def closing(self) -> tuple[object, ...]:
        """Names what a closed round follows from: its plan, its closed list and its gradients.

        A hash has one content, which is known only where its payload is.
        """
        rolls = self.posts.get(Slot.ROLL, {}).values()
        posts = [self.only(Slot.PLAN), self.only(Slot.CLOSE), *rolls, *self.gradient_posts().values()]
        return tuple(None if post is None else (post.transaction_hash, post.is_here) for post in posts)

    def has_rolls(self) -> bool:
        """Whether all rolls that the closed list cites are here; one that nobody can read cites none."""
        here = {post.transaction_hash for post in self.posts.get(Slot.ROLL, {}).values() if post.is_here}
        try:
            return here.issuperset(self.closed_list.rolls)
        except CodecError:
            return True

    def rolled(self, cited: Collection[bytes]) -> set[bytes]:
        """The gradients in the rolls that a close cites; `CodecError` for a citation that is none of this round's."""
        rolls = {post.transaction_hash: post for post in self.posts.get(Slot.ROLL, {}).values()}
        found: set[bytes] = set()
        for each in cited:
            payload = rolls[each].payload if each in rolls else None
            if payload is None:
                raise ReplayError(f"round {self.round}: the closed list cites a roll 0x{each.hex()} that is not here")
            with suppress(CodecError):  # one that says nothing binds nobody
                found.update(Roll.decode(payload).held)
        return found

    def gradient_posts(self) -> dict[Address, Post]:
        """All gradients that were posted, by sender."""
        return self.posts.get(Slot.GRADIENT, {})


def _flag(call: Call, server: Address, round_: int) -> Flag:
    offender = Address(str(call["offender"]))
    if call.name == "flag_equivocation":
        first, second = bytes(keccak(call["first"])), bytes(keccak(call["second"]))
        return Flag(round_, offender, server, Slot.EQUIVOCATION, first, second)
    if call.name == "flag_signatures":
        first, second = (bytes(keccak(call[name])) for name in ("first", "second"))
        return Flag(round_, offender, server, contradiction(call), first, second)
    sent, expected = bytes(call["transaction_hash"]), bytes(call["expected"])
    return Flag(round_, offender, server, int(call["slot"]), sent, expected)


class GradientReader:
    """Reads the gradients of a round's posts. Each is decoded and held against its bounds once (P6), when it is first
    read: a transaction's hash has one content, and a plan says what it may weigh.
    """

    _KEPT = 2

    def __init__(self, founding: FoundingParameters, jury: Jury | None = None) -> None:
        check_code(founding.settings, founding.code)
        self.founding, self.jury = founding, jury
        """The root set, where it is at hand: without it verdicts are believed."""
        self.rounds: dict[tuple[object, ...], Any] = {}
        """What was worked out of closed rounds, by `RoundRecord.closing`."""
        self.judged: tuple[object, ...] = ()
        """The closed round whose verdicts were checked last, with its model."""
        self._plan = NO_PLAN
        self._known: dict[bytes, Gradient | GradientRefusedError] = {}

    def make_room(self) -> None:
        """Forget the oldest of what was worked out of closed rounds."""
        while len(self.rounds) >= self._KEPT:
            del self.rounds[next(iter(self.rounds))]

    def read(self, post: Post, plan: Plan) -> Gradient:
        """A posted gradient; `GradientRefusedError` with the reason it cannot count.

        Unavailable is what is not here yet: it may come, and is not remembered.
        """
        if plan != self._plan:
            self._plan, self._known = plan, {}
        key = post.transaction_hash
        if key not in self._known:
            payload = post.payload
            if payload is None:
                raise GradientRefusedError(UNAVAILABLE, "its payload is not here")
            try:
                self._known[key] = read_gradient(post, payload, plan, self.founding)
            except GradientRefusedError as error:
                self._known[key] = error
        found = self._known[key]
        if isinstance(found, GradientRefusedError):
            raise found
        return found


def read_gradient(post: Post, payload: bytes, plan: Plan, founding: FoundingParameters) -> Gradient:
    """A posted gradient, checked as P6 says; `GradientRefusedError` with the reason it cannot count."""
    sender = Address(post.sender)
    name, server, samples, iterations = _weight(sender, plan, founding)
    if not samples and sender not in founding.network.servers:
        raise GradientRefusedError(SET_ASIDE, f"found a gradient of {name}, expected none: it is set aside (R5)")
    call = post.arguments
    found = int(call["samples"]), int(call["iterations"])
    is_server = sender in founding.network.servers
    if found != (samples, iterations) and not (is_server and _is_part(found, samples, iterations)):
        raise GradientRefusedError(
            "wrong-weight",
            f"found {found[0]} samples and {found[1]} iterations, expected {samples} and {iterations}",
        )
    try:
        values = view_floats(payload, founding.sizes)
    except CodecError as error:
        raise GradientRefusedError("malformed", str(error)) from error
    gradient = Gradient(
        sender, name, server, *found, bytes(call["base_model"]).hex(), bytes(call["plan_digest"]).hex(), values,
        transaction_hash=post.transaction_hash,
    )  # fmt: skip
    check_gradient(gradient, sum(founding.sizes), founding.settings.rounds, values.dtype)
    return gradient


def _is_part(found: tuple[int, int], samples: int, iterations: int) -> bool:
    """A server's data are those of its offloaders that came: at most what the plan gives it."""
    return 0 < found[0] <= samples and found[1] == iterations


def _weight(sender: Address, plan: Plan, founding: FoundingParameters) -> tuple[str, int, int, int]:
    """Name, cluster, D_y and e_y of a training node by the plan."""
    network = founding.network
    if sender in network.servers:
        m = network.server_index(sender)
        samples = sum(d for d, target in zip(plan.samples, plan.assignment, strict=True) if target == m)
        return f"server {m}", m, samples, plan.server_iterations[m]
    device = network.find_device(sender)
    if device is None:
        raise GradientRefusedError("malformed", f"{sender} is no participant of the founding")
    n = device.index
    return f"device {n}", device.home, plan.samples[n], plan.iterations[n]


def model_of(payload: bytes, founding: FoundingParameters) -> Vector:
    """The model in a post; `CodecError` if it is none of this network."""
    return decode_floats(payload, founding.sizes, PayloadKind.MODEL).astype(np.float32)


def is_gibberish(post: Post, founding: FoundingParameters) -> bool:
    """Whether a leader's plan, closed list or model is here and says nothing, whatever else may still come."""
    readers: dict[int, Callable[[bytes], object]] = {
        Slot.PLAN: read_plan,
        Slot.CLOSE: ClosedList.decode,
        Slot.MODEL: partial(model_of, founding=founding),
    }
    payload = post.payload
    try:
        return payload is not None and readers[post.slot](payload) is None
    except CodecError:
        return True


def founding_call(block: Block) -> Call:
    """The call that founded the network."""
    for transaction, receipt in zip(block.transactions, block.receipts, strict=True):
        if transaction.to and receipt.status == 1:
            call = decode_call(transaction.data)
            if call.name == "found":
                return call
    raise FederationError("the founding block does not found a network")


def parameters_in(block: Block, source: PayloadSource) -> bytes:
    """The founding parameters."""
    found = source.payload(bytes(founding_call(block)["parameters"]))
    if found is None:
        raise FederationError("the founding parameters are not here")
    return found


def model_digest_in(block: Block) -> bytes:
    """Digest of the model that a block publishes; the founding block publishes model 0."""
    for transaction, receipt in zip(block.transactions, block.receipts, strict=True):
        if receipt.status == 1 and transaction.to:
            call = decode_call(transaction.data)
            if call.name in ("model", "found"):
                return bytes(call["digest"] if call.name == "model" else call["model"])
    raise ReplayError(f"block {block.header.block_number} publishes no model")


def model_in(block: Block, founding: FoundingParameters, source: PayloadSource) -> Vector:
    """The model that a block publishes."""
    payload = source.payload(model_digest_in(block))
    if payload is None:
        raise ReplayError(f"the model of block {block.header.block_number} is not here")
    return model_of(payload, founding)
