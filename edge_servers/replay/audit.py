"""A whole chain, derived again from its blocks alone (P2, P13): every model from the one before it.

What a chain is without learning (seals, signatures, roles, turns) is checked by `chain.audit.inspection`, which hands
over block after block, read once. Nothing that servers say of each other is believed where it can be computed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chain.audit.archive import Archive
from chain.audit.inspection import Inspection, inspected
from chain.errors import ChainError, CodecError
from chain.protocol.consensus import SignedCall
from chain.protocol.contract import TERMS_BYTES, RegistryTerms, deployment
from chain.protocol.genesis import Genesis
from chain.protocol.slots import Slot
from chain.wire.blocks import Block
from chain.wire.documents import read_canonical_json
from chain.wire.headers import Header
from clients.models import Vector
from edge_servers.errors import EdgeError, FederationError
from edge_servers.founding.parameters import FoundingParameters, read_founding_parameters
from edge_servers.learning.aggregation import divergence
from edge_servers.learning.graph import consensus_weight, make_graph
from edge_servers.replay.block_record import FOUNDING_BLOCK, model_in, record_of
from edge_servers.replay.record import RoundRecord, check_plan, text
from edge_servers.replay.replay import Before, Replayed, aggregates, replay_round


class AuditError(EdgeError):
    """A chain that does not follow from itself; says where first."""


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
    virtual: tuple[str, ...]
    """Servers that were excluded before the round: everybody computes their iterates (P14)."""
    excluded: Mapping[str, int]
    """Whom the flags of this round exclude, with the last round of that."""

    @property
    def round(self) -> int:
        """Its number."""
        return self.record.round

    def who_posted(self, slot: int) -> str:
        """Name of the server that filled a leader's slot."""
        post = self.record.only(slot)
        return "nobody" if post is None else self.founding.network.name(text(post.sender))

    @property
    def sealed_by(self) -> str:
        """Name of the device that mined the block."""
        return self.founding.network.name(text(self.header.winner or b""))


OnRound = Callable[[DerivedRound], Any]


def audit_chain(
    archive: Archive, on_round: OnRound, progress: Callable[[int, int], Any] | None = None
) -> tuple[Inspection, "Auditor"]:
    """Inspect a chain and derive it again; `InspectionError` or `AuditError` names the first place that does not fit.

    `on_round` gets every round as it is derived; `progress` hears how many blocks of all are done.
    """
    auditor = Auditor(archive.genesis, on_round)
    found, total = Inspection(), 0
    for checked in inspected(archive):
        auditor.take(checked.block, checked.calls, checked.found)
        found = checked.found
        if progress is not None:
            total = total or archive.head().block_number + 1
            progress(found.blocks, total)
    return found, auditor


class Auditor:
    """Follows a chain that is inspected at the same time: `take` is called with every block that fits."""

    def __init__(self, genesis: Genesis, on_round: OnRound) -> None:
        self._genesis, self._on_round = genesis, on_round
        self._divergence = 0.0
        self._excluded: dict[bytes, int] = {}
        self.founding: FoundingParameters | None = None
        self.obstacle = "the chain is not founded"
        """Why models cannot be derived again, where the founding parameters are not ours."""
        self.model: Vector | None = None
        """Of the last block."""

    def take(self, block: Block, posts: Sequence[SignedCall], found: Inspection) -> None:
        """The next block; `AuditError` if its model does not follow from it and the model before."""
        number = block.header.block_number
        with_place = f"block {number}"
        try:
            if number == FOUNDING_BLOCK:
                self._read_founding(block, posts, found)
            elif number > FOUNDING_BLOCK and self.founding is not None:
                with_place += f", built by {self.founding.network.name(text(block.header.coinbase))}"
                self._on_round(self._derived(block, posts, found, self.founding))
        except (EdgeError, ChainError) as error:
            raise AuditError(f"{with_place}: {error}") from error
        self._excluded = dict(found.excluded_through)

    def stand_on(self, block: Block, posts: Sequence[SignedCall], found: Inspection) -> None:
        """Go on after a round whose model is taken as it is sealed: the model before it is not at hand."""
        if self.founding is None:
            raise AuditError(self.obstacle)
        founding, record = self.founding, _record(block, posts)
        try:
            check_plan(record.plan, founding, record.round)
            _check_leader(record, founding)
            self._divergence, self.model = divergence(aggregates(record, founding)), model_in(block, founding)
        except (EdgeError, ChainError) as error:
            raise AuditError(f"block {block.header.block_number}: {error}") from error
        self._excluded = dict(found.excluded_through)

    # --- founding

    def _read_founding(self, block: Block, posts: Sequence[SignedCall], found: Inspection) -> None:
        accepted = [post.call for post, receipt in zip(posts, block.receipts, strict=True) if receipt.status == 1]
        parameters = next(bytes(call["parameters"]) for call in accepted if call is not None and call.name == "found")
        try:
            founding = read_founding_parameters(parameters)
        except FederationError as error:
            if _claims_to_be_ours(parameters):
                raise
            self.obstacle = f"the founding parameters name no such network ({error.__cause__})"
            return
        _check_members(founding, found)
        _check_terms(founding, next(post.transaction.data for post in posts if post.call is None))
        _check_graph(founding)
        self.model, self.founding, self.obstacle = model_in(block, founding), founding, ""

    # --- rounds

    def _derived(
        self, block: Block, posts: Sequence[SignedCall], found: Inspection, founding: FoundingParameters
    ) -> DerivedRound:
        record, network = _record(block, posts), founding.network
        virtual = tuple(s for s in network.servers if self._excluded.get(bytes.fromhex(s[2:]), 0) >= record.round)
        _check_leader(record, founding)
        if self.model is None:
            raise AuditError("found no model before it")
        replayed = replay_round(record, Before(self.model, self._divergence, virtual), founding)
        self.model, self._divergence = replayed.model, divergence(replayed.iterates[0])
        news = {text(who): k for who, k in found.excluded_through.items() if self._excluded.get(who) != k}
        return DerivedRound(block.header, posts, record, replayed, founding, self._genesis, virtual, news)


def _record(block: Block, posts: Sequence[SignedCall]) -> RoundRecord:
    statuses = (receipt.status for receipt in block.receipts)
    return record_of(block.header.block_number - FOUNDING_BLOCK, zip(posts, statuses, strict=True))


def _check_leader(record: RoundRecord, founding: FoundingParameters) -> None:
    """Servers that join later by votes are none of the graph: a round that one of them leads cannot be derived."""
    post = record.only(Slot.MODEL)
    if post is not None and text(post.sender) not in founding.network.servers:
        raise AuditError(
            f"round {record.round}: the model is published by {text(post.sender)}, expected one of "
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
    expected = {server: server for server in network.servers}
    expected |= {device.address: network.servers[device.home] for device in network.devices}
    registered = {text(who): text(home) for who, home in found.members.items()}
    for who in sorted(expected.keys() | registered.keys()):
        if expected.get(who) != registered.get(who):
            raise AuditError(
                f"participant {who}: found home {registered.get(who)} in the registry, "
                f"expected {expected.get(who)} by the founding parameters"
            )


def _check_terms(founding: FoundingParameters, creation: bytes) -> None:
    """The registry must be deployed with the terms that the founding parameters name."""
    rounds = founding.settings.rounds
    terms = RegistryTerms(
        term_cap=rounds.term_cap,
        turn_s=rounds.turn_s,
        flag_window=rounds.flag_window,
        exclusion_rounds=rounds.exclusion_rounds,
    )
    found, expected = creation[-TERMS_BYTES:], deployment(0, terms)[-TERMS_BYTES:]
    if found != expected:
        raise AuditError(f"found a registry with terms 0x{found.hex()}, expected 0x{expected.hex()}: {terms}")


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
