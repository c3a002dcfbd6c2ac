"""What a round did, for metrics and people; filled in one place, from a round that ran or from its block."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from chain.wire.address import Address
from chain.wire.plan import Plan
from clients.evaluation import Scores
from edge_servers.founding.network import Network
from edge_servers.learning.aggregation import FixedPoint, consensus_error, divergence, total_samples
from edge_servers.learning.gradients import Refusal, Weight
from edge_servers.learning.reputation import Absence, absences_in, reputation_terms
from edge_servers.ledger.sealing import Seal
from edge_servers.parameters import Settings
from edge_servers.planning.latency import CODEC_BYTES, real_terms
from edge_servers.planning.proposal import Draft
from edge_servers.planning.state import LOCAL
from edge_servers.replay.offences import Offence

_MODELS_OF_A_BLOCK = 20
"""What a block would hold where there is none, in models"""


@dataclass(frozen=True)
class DeviceStanding:
    """What a round says of devices' reputation: no offence, whoever is in it."""

    filtered: tuple[int, ...]
    """Whose gradients count as taken out by a filter (R1)."""
    aside: tuple[Absence, ...]
    """Who took no part (R5)."""


@dataclass(frozen=True)
class RoundReport:
    """What a round did."""

    round: int
    leader: int
    phi: int
    training_nodes: int
    samples: int
    divergence: float
    consensus_error: float
    winner: int | None
    refused: tuple[Refusal, ...]
    scores: Scores | None
    seconds: Mapping[str, float]
    offloaded: int = 0
    """Devices that handed their data to a server."""
    assignment: tuple[int, ...] = ()
    """To which server, by device; -1 trains itself."""
    latency: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Simulated seconds by term: `paper` and `real` (P24)."""
    offences: tuple[Offence, ...] = ()
    excluded: tuple[int, ...] = ()
    """Servers that may not post in the next round."""
    failed_leaders: tuple[int, ...] = ()
    standing: DeviceStanding | None = None
    """Whom the filters took out and who is set aside; None in a network that keeps no reputation."""
    block: str = ""
    """Hash of the round's block; empty without a chain."""
    block_bytes: int = 0

    @property
    def absent(self) -> list[str]:
        """Names of servers whose iterates the others had to compute: no offence (D3.6).

        Leaders that let their time pass are `failed_leaders`.
        """
        away = (offence.name for offence in self.offences if offence.is_absence and offence.step is not None)
        return list(dict.fromkeys(away))


@dataclass(frozen=True)
class RoundFacts:
    """What a report is made from: known to a server that ran the round, and to whoever derives it again."""

    plan: Plan
    seal: Seal
    counted: Sequence[Weight]
    """What the closed list made count."""
    refused: tuple[Refusal, ...]
    first: Sequence[FixedPoint]
    """x_m(0) of all servers."""
    last: Sequence[FixedPoint]
    """x_m(phi) of all servers."""
    offences: Sequence[Offence]
    failed: Sequence[Address]
    """Leaders that failed, in their order."""
    filtered: tuple[int, ...]
    """Devices whose gradients count as taken out by a filter (R1)."""
    draft: Draft | None
    """What the leader planned with, where it is known."""
    model_size: int
    sample_bytes: int


def make_report(
    facts: RoundFacts, network: Network, settings: Settings, scores: Scores | None, seconds: Mapping[str, float]
) -> RoundReport:
    """The report of a finished round."""
    plan, seal, index = facts.plan, facts.seal, network.server_index
    terms = reputation_terms(settings.rounds)
    return RoundReport(
        round=plan.round,
        leader=index(seal.leader),
        phi=plan.phi,
        training_nodes=len(facts.counted),
        samples=total_samples(facts.counted),
        divergence=divergence(facts.first),
        consensus_error=consensus_error(facts.first, facts.last),
        winner=seal.winner,
        refused=facts.refused,
        scores=scores,
        seconds=seconds,
        offloaded=sum(target != LOCAL for target in plan.assignment),
        assignment=tuple(plan.assignment),
        latency={} if facts.draft is None else simulated_latency(facts.draft, facts, network, settings),
        offences=tuple(facts.offences),
        excluded=tuple(map(index, seal.excluded_next)),
        failed_leaders=tuple(map(index, facts.failed)),
        standing=DeviceStanding(facts.filtered, absences_in(plan, terms)) if terms.filtered else None,
        block=seal.block_hash.hex() if seal.block_bytes else "",
        block_bytes=seal.block_bytes,
    )


def simulated_latency(
    draft: Draft, facts: RoundFacts, network: Network, settings: Settings
) -> dict[str, Mapping[str, float]]:
    """The plan's simulated latency, with the paper's constants and with what the round really moved (P24)."""
    size, training, missed = facts.model_size, settings.training, None
    if settings.times_devices:
        missed = facts.plan.deadline_s, settings.devices.there(facts.plan.round, len(network.devices))
    real = real_terms(
        draft.proposal, draft.state, size * CODEC_BYTES[settings.rounds.codec],
        facts.seal.block_bytes or _MODELS_OF_A_BLOCK * 4 * size,
        training.batch, training.iterations, network.graph, facts.plan.phi, facts.sample_bytes, missed,
    )  # fmt: skip
    return {"paper": facts.plan.latency_s, "real": real}
