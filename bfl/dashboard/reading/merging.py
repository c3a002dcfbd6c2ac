"""A round as two sources tell it: the metrics of who ran it, and its block."""

from collections.abc import Mapping
from dataclasses import replace

from bfl.dashboard.facts import OffenceFact, RoundFact


class RoundMerger:
    """Puts them together; what has not changed stays the same object, so that changes are found by identity."""

    def __init__(self, shows_chain_alone: bool) -> None:
        """Whether rounds are shown that the chain alone knows of: of a network yes, of a run they come in a moment."""
        self._shows_chain_alone = shows_chain_alone
        self._known: dict[int, tuple[RoundFact, RoundFact, RoundFact]] = {}

    def merged(self, metrics: Mapping[int, RoundFact], chain: Mapping[int, RoundFact]) -> tuple[RoundFact, ...]:
        """Rounds 1, 2, ... up to the first that nobody knows."""
        found: list[RoundFact] = []
        while (fact := self._round(len(found) + 1, metrics, chain)) is not None:
            found.append(fact)
        return tuple(found)

    def _round(self, round_: int, metrics: Mapping[int, RoundFact], chain: Mapping[int, RoundFact]) -> RoundFact | None:
        measured, sealed = metrics.get(round_), chain.get(round_)
        if measured is None:
            return sealed if self._shows_chain_alone else None
        if sealed is None:
            return measured
        known = self._known.get(round_)
        if known is None or known[0] is not measured or known[1] is not sealed:
            known = self._known[round_] = (measured, sealed, _together(measured, sealed))
        return known[2]


def _together(measured: RoundFact, sealed: RoundFact) -> RoundFact:
    through = {each.id: each.excluded_through for each in sealed.offences}
    return replace(
        measured,
        assignment=sealed.assignment if measured.assignment is None else measured.assignment,
        offences=tuple(_with_exclusion(each, through.get(each.id)) for each in measured.offences),
        latency=measured.latency or sealed.latency,
        aside=measured.aside or sealed.aside,
    )


def _with_exclusion(offence: OffenceFact, through: int | None) -> OffenceFact:
    return offence if through is None else replace(offence, excluded_through=through)
