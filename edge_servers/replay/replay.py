"""Eqs. 8-12 from the ledger (P13): what every server must have computed, by whoever wants to know.

A round follows from the model before it, its plan, its gradients and its closed list. Pure functions: edge servers
call them while the round runs, nodes before they take a block, auditors years later; all get the same bits (P8-P10).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from chain.protocol.posts import Post
from chain.protocol.slots import Slot
from chain.wire.address import Address
from chain.wire.codec import PayloadKind, encode_floats, encode_iterate
from chain.wire.sidecar import payload_digest
from clients.vectors import Vector
from edge_servers.errors import ReplayError
from edge_servers.founding.parameters import FoundingParameters
from edge_servers.learning.aggregation import (
    FixedPoint,
    divergence,
    partial_aggregate,
    to_fixed_point,
    total_samples,
)
from edge_servers.learning.filters import make_filters
from edge_servers.learning.gradients import Gradient, Weight
from edge_servers.learning.reputation import (
    JudgedRound,
    Reputation,
    after,
    reputation_in,
    reputation_terms,
)
from edge_servers.learning.schemes import ClosedRound, scheme_of
from edge_servers.learning.verdicts import Bench, judged_before
from edge_servers.replay.admitted import available_gradients
from edge_servers.replay.closing import ClosedGradients, closed_gradients
from edge_servers.replay.iterates import Iterates
from edge_servers.replay.offences import Offence, absent_iterate, omitted_gradients, wrong_iterate
from edge_servers.replay.plan_check import check_follows, check_phi, check_plan
from edge_servers.replay.record import GradientReader, RoundRecord


@dataclass(frozen=True)
class AggregatedRound(ClosedGradients):
    """A closed list with what the servers make of it."""

    iterates: Iterates
    """Eqs. 8 and 9, for all servers."""


def closed_round(record: RoundRecord, reader: GradientReader) -> "AggregatedRound":
    """What the posts of a round make count, and the iterates that follow; worked out once per reader.

    `ReplayError` for a closed list that no honest leader posts, `OverflowRefusedError` for sums beyond P8's range.
    """
    key = record.closing
    if key not in reader.rounds:
        closed = closed_gradients(record, reader.founding, available_gradients(record, reader))
        iterates = Iterates(replayed_aggregates(closed.counted, reader.founding), record.plan.phi, reader.founding)
        reader.make_room()
        reader.rounds[key] = AggregatedRound(closed.counted, closed.omitted, closed.touched, closed.filtered, iterates)
    found: AggregatedRound = reader.rounds[key]
    return found


def judged_round(record: RoundRecord, reader: GradientReader, model: Vector) -> AggregatedRound:
    """`closed_round`, its verdicts checked too."""
    closed = closed_round(record, reader)
    check_verdicts(record, model, reader)
    return closed


def check_verdicts(record: RoundRecord, model: Vector, reader: GradientReader) -> None:
    """Raise `ReplayError` where a closed list's verdicts are not those of the root set, beyond what machines differ by.

    Without a root set at hand they are believed: a majority of the servers has endorsed them.
    """
    founding, key = reader.founding, (record.closing, model.tobytes())
    if reader.jury is None or key == reader.judged or not make_filters(founding.settings.rounds.filter).verdicts:
        return
    bench = Bench(reader.jury, model, record.round, founding.settings.training.learning_rate)
    judge = judged_before(record.closed_list.refused, bench)
    closed_gradients(record, founding, available_gradients(record, reader), judge)
    reader.judged = key


def replayed_aggregates(counted: Sequence[Gradient], founding: FoundingParameters) -> list[FixedPoint]:
    """Eq. 8 for all servers: x_m(0)."""
    total, size = total_samples(gradient.weight for gradient in counted), sum(founding.sizes)
    return [
        to_fixed_point(partial_aggregate([g for g in counted if g.server == m], total, size), f"server {m}")
        for m in range(len(founding.network.servers))
    ]


def replayed_model(
    counted: Sequence[Weight], x: FixedPoint, leader: int, model: Vector, founding: FoundingParameters
) -> Vector:
    """Eqs. 10-12: the model that a leader must publish."""
    eta, servers = founding.settings.training.learning_rate, len(founding.network.servers)
    scheme = scheme_of(founding.settings.rounds.scheme)
    return scheme.model_after(ClosedRound(leader, servers, model, counted, x, eta))


def iterate_payload(x: FixedPoint, founding: FoundingParameters) -> bytes:
    """An iterate as it is posted."""
    return encode_iterate(x, founding.sizes)


def model_payload(model: Vector, founding: FoundingParameters) -> bytes:
    """A model as it is posted."""
    return encode_floats(model, founding.sizes, "fp32", PayloadKind.MODEL)


def iterate_offence(
    posted: Post | None, expected: bytes, server: Address, step: int, founding: FoundingParameters
) -> Offence | None:
    """Whether a server's iterate is wrong or missing, by its digest (B3); None if it is right."""
    if posted is None:
        return absent_iterate(server, step, expected, founding.network)
    return None if posted.digest == expected else wrong_iterate(posted, step, expected, founding.network)


def close_offence(record: RoundRecord, omitted: Sequence[Gradient], founding: FoundingParameters) -> Offence | None:
    """Whether the leader left out gradients that were there (P4)."""
    post = record.only(Slot.CLOSE)
    return omitted_gradients(post, omitted, founding.network) if omitted and post is not None else None


@dataclass(frozen=True)
class Before:
    """What a round starts from."""

    model: Vector
    divergence: float | None = None
    """Of the round before; None where nobody can say."""
    excluded: tuple[Address, ...] = ()
    """Servers that may not post (P14)."""
    reputation: Reputation | None = None
    """What is held against devices; None where nobody can say, and the plan is believed."""


@dataclass(frozen=True)
class Replayed:
    """A whole round, derived again."""

    counted: tuple[Gradient, ...]
    iterates: Iterates
    model: Vector
    offences: tuple[Offence, ...]
    refused: tuple[tuple[str, str], ...]
    """(who, reason) as the leader closed the list."""
    touched: int
    filtered: tuple[int, ...]
    """Devices whose gradients count as taken out by a filter (R1)."""
    reputation: Reputation
    """What is held against devices after the round."""


@dataclass(frozen=True)
class Consequences:
    """What the next round needs of one, beside its model."""

    divergence: float
    reputation: Reputation


def consequences(record: RoundRecord, reader: GradientReader) -> Consequences:
    """What follows for the next round from the closed list and the plan alone.

    No consensus step is computed: the plan of a block that is only believed may ask for any number of them.
    """
    founding = reader.founding
    closed = closed_gradients(record, founding, available_gradients(record, reader))
    first = replayed_aggregates(closed.counted, founding)
    return Consequences(divergence(first), reputation_after(record, closed.filtered, founding))


def reputation_after(record: RoundRecord, filtered: tuple[int, ...], founding: FoundingParameters) -> Reputation:
    """What is held against devices after a round, by its plan and by who closed its list (R3-R7)."""
    post, terms = record.only(Slot.CLOSE), reputation_terms(founding.settings.rounds)
    if post is None:
        raise ReplayError(f"round {record.round} is not closed")
    judged = JudgedRound(record.round, founding.network.server_index(Address(post.sender)), filtered)
    return after(reputation_in(record.plan, terms), judged, terms, len(founding.network.devices))


def replay_round(record: RoundRecord, before: Before, reader: GradientReader) -> Replayed:
    """A sealed round from what was before it; `EdgeError` where its plan may not be or its posts make another model.

    Nobody misses the iterates of excluded servers. A plan is checked before it is followed: a block may come from
    anybody.
    """
    founding, model = reader.founding, before.model
    check_plan(record.plan, founding, record.round, map(founding.network.server_index, before.excluded))
    check_phi(record.plan, founding)
    check_follows(record.plan, before.divergence, before.reputation)
    closed = judged_round(record, reader, model)
    offences = _iterate_offences(record, closed.iterates, before, founding)
    if closed.omitted:
        offences.insert(0, close_offence(record, closed.omitted, founding))
    published = record.only(Slot.MODEL)
    if published is None:
        raise ReplayError(f"round {record.round} was sealed without a model")
    leader = founding.network.server_index(published.sender)
    derived = replayed_model(closed.weights, closed.iterates.last[leader], leader, model, founding)
    _check_published(published, derived, record.round, founding)
    found = tuple(offence for offence in offences if offence is not None)
    return Replayed(
        closed.counted, closed.iterates, derived, found, record.closed_list.refused, closed.touched,
        closed.filtered, reputation_after(record, closed.filtered, founding),
    )  # fmt: skip


def _iterate_offences(
    record: RoundRecord, iterates: Iterates, before: Before, founding: FoundingParameters
) -> list[Offence | None]:
    found = []
    for step in range(len(iterates)):
        for m, server in enumerate(founding.network.servers):
            posted = record.iterate(server, step)
            if posted is not None or server not in before.excluded:
                found.append(iterate_offence(posted, iterates.digest(step, m), server, step, founding))
    return found


def _check_published(published: Post, derived: Vector, round_: int, founding: FoundingParameters) -> None:
    expected = payload_digest(model_payload(derived, founding))
    if published.digest != expected:
        raise ReplayError(
            f"round {round_}: the model of {founding.network.name(published.sender)} has digest "
            f"0x{published.digest.hex()}, its own gradients and closed list give 0x{expected.hex()}"
        )
