"""What a closed list makes count (P7, P13): the filters run again over it, and what its leader left out."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from chain.errors import CodecError
from chain.wire.address import Address
from chain.wire.documents import ClosedList
from edge_servers.errors import ReplayError
from edge_servers.founding.parameters import FoundingParameters
from edge_servers.learning.filters import make_filters
from edge_servers.learning.gradients import Gradient, Weight
from edge_servers.learning.reputation import filtered_senders
from edge_servers.learning.verdicts import Judge, judged_before
from edge_servers.replay.admitted import Admitted, counted_twice
from edge_servers.replay.record import RoundRecord


@dataclass(frozen=True)
class ClosedGradients:
    """A closed list, checked."""

    counted: tuple[Gradient, ...]
    """What eqs. 8 and 11 are computed from, after the filters that change values."""
    omitted: tuple[Gradient, ...]
    """Good ones that the leader left out without a word: evidence against it (P4)."""
    touched: int
    """How many of them a filter changed."""
    filtered: tuple[int, ...]
    """Devices whose gradients count as taken out by a filter (R1)."""

    @property
    def weights(self) -> list[Weight]:
        """All that eqs. 2 and 11 need of them."""
        return [gradient.weight for gradient in self.counted]


def closed_gradients(
    record: RoundRecord, founding: FoundingParameters, admitted: Admitted, judge: Judge | None = None
) -> ClosedGradients:
    """What the closed list makes count; `ReplayError` for one that no honest leader posts. `judge`: who looks at its
    verdicts, else they are believed.
    """
    try:
        closed = record.closed_list
    except CodecError as error:
        raise ReplayError(f"round {record.round}: {error}") from error
    listed = {**admitted.good, **admitted.twice}
    accepted = _accepted(closed, listed, record.round)
    filters = make_filters(founding.settings.rounds.filter)
    taken_out = _named(closed, listed, filters.reasons)
    judged = [g for g in taken_out if _is_refused(closed, g, filters.verdicts)]
    if 2 * len(judged) >= max(1, len(admitted.good)):
        raise ReplayError(
            f"round {record.round}: the leader's verdict takes out {len(judged)} of {len(admitted.good)} gradients, "
            "expected less than half of them"
        )
    input_ = sorted([*accepted, *taken_out], key=lambda gradient: gradient.sender)
    if counted_twice({gradient.sender: gradient for gradient in input_}, record.plan, founding):
        raise ReplayError(
            f"round {record.round}: the closed list counts data of a device and at the server that has them"
        )
    result = filters(input_, judge or judged_before(closed.refused))
    found = {(gradient.node, result.reasons.get(gradient.sender)) for gradient in input_} - {
        (gradient.node, None) for gradient in input_
    }
    named = {(who, why) for who, why in closed.refused if who in {gradient.node for gradient in taken_out}}
    if found != named:
        raise ReplayError(
            f"round {record.round}: the filters take out {len(found)} gradients of the closed list, "
            f"the leader named {len(named)}, or others"
        )
    explained = {gradient.sender for gradient in input_}
    rolled = record.rolled(closed.rolls)  # what is in none of them came late, and is nobody's fault (D3.6)
    omitted = tuple(g for g in admitted.good.values() if g.sender not in explained and g.transaction_hash in rolled)
    filtered = filtered_senders(input_, result.removed, sum(record.plan.samples))
    return ClosedGradients(result.kept, omitted, result.touched, founding.network.device_numbers(filtered))


def _accepted(closed: ClosedList, listed: Mapping[Address, Gradient], round_: int) -> list[Gradient]:
    """The gradients that the closed list accepts: ones that may count, in ascending order of address."""
    by_hash = {gradient.transaction_hash: gradient for gradient in listed.values()}
    unknown = [accepted for accepted in closed.accepted if accepted not in by_hash]
    if unknown:
        raise ReplayError(
            f"round {round_}: the closed list accepts 0x{unknown[0].hex()}, which is no gradient that may count"
        )
    accepted = [by_hash[each] for each in closed.accepted]
    if [g.sender for g in accepted] != sorted(g.sender for g in accepted):
        raise ReplayError(f"round {round_}: the closed list is not in ascending order of address")
    return accepted


def _named(closed: ClosedList, listed: Mapping[Address, Gradient], reasons: Collection[str]) -> list[Gradient]:
    """The gradients that the closed list refuses for one of these reasons."""
    who = {node for node, reason in closed.refused if reason in reasons}
    hashes = set(closed.accepted)
    return [g for g in listed.values() if g.node in who and g.transaction_hash not in hashes]


def _is_refused(closed: ClosedList, gradient: Gradient, reasons: Sequence[str]) -> bool:
    return any(who == gradient.node and why in reasons for who, why in closed.refused)
