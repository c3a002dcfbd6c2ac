"""A whole chain, derived again from its blocks alone (P2, P13): every model from the one before it.

What a chain is without learning (seals, signatures, roles, turns) is checked by `chain.audit.inspection`, which hands
over block after block, read once. Nothing that servers say of each other is believed where it can be computed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from chain.audit.found import Inspection
from chain.audit.inspection import InspectedBlock
from chain.errors import ChainError, CodecError, LedgerError
from chain.protocol.contract import TERMS_BYTES, deployment
from chain.protocol.genesis import Genesis
from chain.protocol.posts import SignedCall
from chain.protocol.slots import Slot
from chain.protocol.turns import FOUNDING_BLOCK
from chain.wire.address import Address
from chain.wire.blocks import Block
from chain.wire.documents import read_canonical_json
from chain.wire.headers import Header
from clients.vectors import Vector
from edge_servers.errors import CodeNotAllowedError, EdgeError, FederationError, ForeignCodeError
from edge_servers.founding.parameters import FoundingParameters, read_founding_parameters, registry_terms
from edge_servers.learning.aggregation import divergence
from edge_servers.learning.graph import consensus_weight, make_graph
from edge_servers.learning.reputation import Reputation
from edge_servers.learning.verdicts import Jury
from edge_servers.replay.plan_check import check_plan
from edge_servers.replay.record import (
    GradientReader,
    RoundRecord,
    founding_call,
    model_digest_in,
    model_in,
    model_of,
    parameters_in,
)
from edge_servers.replay.replay import Before, Replayed, consequences, replay_round


class AuditError(EdgeError):
    """A chain that does not follow from itself; says where first."""


class PrunedModelError(AuditError):
    """A round that nobody here can derive: the model before it is gone. That says nothing against the chain."""


@dataclass(frozen=True, eq=False)
class DerivedRound:
    """A round whose model follows from its own posts and the model before it."""

    header: Header
    posts: Sequence[SignedCall]
    record: RoundRecord
    replayed: Replayed
    """With the offences: iterates that are wrong or missing, gradients left out of the closed list."""
    founding: FoundingParameters
    genesis: Genesis
    virtual: tuple[Address, ...]
    """Servers that were excluded before the round: everybody computes their iterates (P14)."""
    excluded: Mapping[Address, int]
    """Whom the flags of this round exclude, with the last round of that."""
    attempt: int = 0
    """In which its block was built (D3.1)."""
    passed_over: tuple[Address, ...] = ()
    """Who led the attempts before that one."""

    @property
    def round(self) -> int:
        """Its number."""
        return self.record.round

    def who_posted(self, slot: int) -> str:
        """Name of the server that filled a leader's slot."""
        post = self.record.only(slot)
        return "nobody" if post is None else self.founding.network.name(post.sender)

    @property
    def sealed_by(self) -> str:
        """Name of the device that mined the block."""
        return self.founding.network.name(self.header.winner or b"")


Judges = Callable[[FoundingParameters], Jury | None]


def believing(founding: FoundingParameters) -> Jury | None:  # noqa: ARG001
    """Nobody judges again: verdicts by a root set are taken as a majority of the servers has endorsed them (P7)."""
    return None


class Auditor:
    """Derives a chain again, block after block, from blocks that were inspected."""

    def __init__(self, genesis: Genesis, judges: Judges = believing) -> None:
        """`judges`: who draws the root set of a founding again, to judge by it."""
        self._genesis, self._judges = genesis, judges
        self._divergence: float | None = 0.0
        self._reputation: Reputation | None = Reputation()
        self._excluded: dict[bytes, int] = {}
        self._reader: GradientReader | None = None
        self.obstacle = "the chain is not founded"
        """Why models cannot be derived again: the founding parameters are not ours, or name code of others."""
        self._not_allowed: CodeNotAllowedError | None = None
        self.model: Vector | None = None
        """Of the last block."""

    @property
    def founding(self) -> FoundingParameters | None:
        """What was fixed at founding, once that block is read; None for a network that is not ours."""
        return None if self._reader is None else self._reader.founding

    @property
    def refusal(self) -> EdgeError:
        """Why no model is derived again, as an error: what nobody has allowed says nothing against the chain."""
        return self._not_allowed or AuditError(self.obstacle)

    def derived(self, blocks: Iterable[InspectedBlock]) -> Iterator[DerivedRound]:
        """Every round whose model follows from its own posts; `AuditError` at the first that does not."""
        for block in blocks:
            round_ = self.take(block)
            if round_ is not None:
                yield round_

    def take(self, inspected: InspectedBlock) -> DerivedRound | None:
        """The round of the next block; None for genesis, founding, and rounds that were pruned or are not ours."""
        derived, place = None, f"block {inspected.number}"
        try:
            if inspected.number == FOUNDING_BLOCK:
                self._read_founding(inspected)
            elif inspected.is_pruned and self._reader is not None:
                self._pass_over(inspected, self._reader.founding)
            elif inspected.number > FOUNDING_BLOCK and self._reader is not None:
                coinbase = inspected.block.header.coinbase
                place += f", built by {self._reader.founding.network.name(coinbase)}"
                derived = self._derive(inspected, self._reader)
        except (LedgerError, ForeignCodeError):
            raise  # who does not answer, and code that is not here, say nothing about the chain
        except (EdgeError, ChainError) as error:
            kind = PrunedModelError if isinstance(error, PrunedModelError) else AuditError
            raise kind(f"{place}: {error}") from error
        self._excluded = dict(inspected.found.excluded_through)
        return derived

    def stand_on(self, inspected: InspectedBlock) -> None:
        """Go on after a round whose model is taken as it is sealed: the model before it is not at hand."""
        if self._reader is None:
            raise self.refusal
        founding, record = self._reader.founding, _record(inspected)
        try:
            check_plan(record.plan, founding, record.round)
            _check_leader(record, founding)
            left = consequences(record, self._reader)
            self._divergence, self._reputation = left.divergence, left.reputation
            self.model = model_in(inspected.block, founding, inspected.source)
        except (LedgerError, ForeignCodeError):
            raise
        except (EdgeError, ChainError) as error:
            raise AuditError(f"block {inspected.number}: {error}") from error
        self._excluded = dict(inspected.found.excluded_through)

    def _pass_over(self, inspected: InspectedBlock, founding: FoundingParameters) -> None:
        """A round whose payloads are not here: nothing can be derived, its model is believed if it is here (B6)."""
        payload = inspected.source.payload(model_digest_in(inspected.block))
        self.model = None if payload is None else model_of(payload, founding)
        self._divergence = self._reputation = None

    # --- founding

    def _read_founding(self, inspected: InspectedBlock) -> None:
        if inspected.is_pruned:
            self.obstacle = "the founding parameters or model 0 are not here"
            return
        block, posts = inspected.block, inspected.calls
        parameters = parameters_in(block, inspected.source)
        try:
            founding = read_founding_parameters(parameters)
        except FederationError as error:
            if _claims_to_be_ours(parameters):
                raise
            self.obstacle = f"the founding parameters name no such network ({error.__cause__})"
            return
        _check_members(founding, inspected.found)
        _check_terms(founding, next(post.transaction.data for post in posts if post.call is None))
        _check_sizes(founding, block)
        _check_graph(founding)
        _check_beginning(founding, block)
        try:
            self._reader, self.obstacle = GradientReader(founding, self._judges(founding)), ""
        except CodeNotAllowedError as error:
            self.obstacle, self._not_allowed = str(error), error
            return
        self.model = model_in(block, founding, inspected.source)

    # --- rounds

    def _derive(self, inspected: InspectedBlock, reader: GradientReader) -> DerivedRound:
        record, founding, through = _record(inspected), reader.founding, inspected.found.excluded_through
        virtual = tuple(s for s in founding.network.servers if self._excluded.get(s, 0) >= record.round)
        _check_leader(record, founding)
        if self.model is None:
            raise PrunedModelError("the model before it was pruned: `bfl chain fetch` brings it back")
        before = Before(self.model, self._divergence, virtual, self._reputation)
        replayed = replay_round(record, before, reader)
        self.model, self._divergence = replayed.model, divergence(replayed.iterates.first)
        self._reputation = replayed.reputation
        news = {Address(who): k for who, k in through.items() if self._excluded.get(who) != k}
        header, posts = inspected.block.header, inspected.calls
        return DerivedRound(
            header, posts, record, replayed, founding, self._genesis, virtual, news,
            inspected.attempt, inspected.passed_over,
        )  # fmt: skip


def _record(inspected: InspectedBlock) -> RoundRecord:
    statuses = (receipt.status for receipt in inspected.block.receipts)
    executed = zip(inspected.calls, statuses, strict=True)
    return RoundRecord.of_block(inspected.number - FOUNDING_BLOCK, executed, inspected.source)


def _check_leader(record: RoundRecord, founding: FoundingParameters) -> None:
    """Servers that join later by votes are none of the graph: a round that one of them leads cannot be derived."""
    post = record.only(Slot.MODEL)
    if post is not None and post.sender not in founding.network.servers:
        raise AuditError(
            f"round {record.round}: the model is published by {Address(post.sender)}, expected one of "
            f"the {len(founding.network.servers)} servers of the founding parameters"
        )


def _claims_to_be_ours(parameters: bytes) -> bool:
    """Whether founding parameters speak of a network of ours; if those are impossible, the chain does not fit."""
    try:
        content = read_canonical_json(parameters)
    except CodecError:
        return False
    return isinstance(content, dict) and content.keys() >= {"settings", "servers", "devices"}


def _check_members(founding: FoundingParameters, found: Inspection) -> None:
    """The founding parameters must speak of those whom the registry knows."""
    network = founding.network
    expected: dict[Address, Address] = {server: server for server in network.servers}
    expected |= {device.address: network.servers[device.home] for device in network.devices}
    registered = {Address(who): Address(home) for who, home in found.members.items()}
    for who in sorted(expected.keys() | registered.keys()):
        if expected.get(who) != registered.get(who):
            raise AuditError(
                f"participant {who}: found home {registered.get(who)} in the registry, "
                f"expected {expected.get(who)} by the founding parameters"
            )


def _check_terms(founding: FoundingParameters, creation: bytes) -> None:
    """The registry must be deployed with the terms that the founding parameters name."""
    terms = registry_terms(founding.settings.rounds)
    found, expected = creation[-TERMS_BYTES:], deployment(terms)[-TERMS_BYTES:]
    if found != expected:
        raise AuditError(f"found a registry with terms 0x{found.hex()}, expected 0x{expected.hex()}: {terms}")


def _check_sizes(founding: FoundingParameters, block: Block) -> None:
    """The registry must take payloads of the sizes that the parameters give (B2)."""
    found, expected = tuple(founding_call(block)["sizes"]), tuple(founding.payload_sizes)
    if found != expected:
        raise AuditError(f"found payloads of {found} bytes in the registry, expected {expected} by the parameters")


def _check_beginning(founding: FoundingParameters, block: Block) -> None:
    """Who says where model 0 came from must have taken that model."""
    found = model_digest_in(block)
    if founding.origin is not None and found != founding.origin.model_digest:
        raise AuditError(
            f"found model 0 with digest 0x{found.hex()}, expected 0x{founding.origin.model_digest.hex()}: "
            f"{founding.origin}"
        )


def _check_graph(founding: FoundingParameters) -> None:
    """Graph and consensus weight follow from the settings (L9)."""
    network, rounds = founding.network, founding.settings.rounds
    graph = make_graph(rounds.graph, rounds.edges)
    weight = consensus_weight(graph, rounds.weights)
    if network.graph != graph or abs(network.weight - weight) > 1:  # eigenvalues may differ in the last bit elsewhere
        raise AuditError(
            f"found edges {sorted(network.graph.edges)} with weight {network.weight}, "
            f"expected {sorted(graph.edges)} with {weight} by the settings"
        )
