"""The filters of a run, by their text (P7): stages that run once over the whole closed list, from left to right.

Most are deterministic, and recomputed bit for bit by any auditor (`rules.py`); three judge by the root set, and are
their author's signed word, which everybody who has the root set checks (`verdicts.py`).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from chain.wire.address import Address
from clients.errors import ParameterError
from clients.parameters import did_you_mean
from clients.plugins import is_named
from edge_servers.learning import rules
from edge_servers.learning.filtered import FEWEST, Filter, Filtered, NamedFilter
from edge_servers.learning.gradients import Close, Gradient, Refusal
from edge_servers.learning.own_filter import own_filter
from edge_servers.learning.verdicts import LIMITS, Judge, Verdict, judged_before

Stage = Filter | Verdict


@dataclass(frozen=True)
class Filters:
    """All stages of a run."""

    stages: tuple[Stage, ...]

    @property
    def verdicts(self) -> list[str]:
        """Reason codes of those that judge by the root set."""
        return [stage.reason for stage in self.stages if isinstance(stage, Verdict)]

    @property
    def reasons(self) -> frozenset[str]:
        """Reason codes of whoever is taken out."""
        return frozenset(stage.reason for stage in self.stages) - {""}

    def __call__(self, closed: Sequence[Gradient], judge: Judge) -> Filtered:
        """One stage after the other, each over what the one before kept; verdicts take out less than half in all."""
        if len(closed) < FEWEST:
            return Filtered(tuple(closed))
        kept, removed, reasons = tuple(closed), dict[Address, str](), dict[Address, str]()
        most = (len(closed) - 1) // 2
        for stage in self.stages:
            if isinstance(stage, Verdict):
                out = dict(judge(stage, kept, most)) if len(kept) >= FEWEST else {}
                kept, most = tuple(g for g in kept if g.sender not in out), most - len(out)
            else:
                result = stage(kept)
                kept, out = result.kept, dict(result.removed)
            removed |= out
            reasons |= dict.fromkeys(out, stage.reason)
        return Filtered(kept, removed, _touched(closed, kept), reasons)


def _touched(before: Sequence[Gradient], after: Sequence[Gradient]) -> int:
    originals = {gradient.sender: gradient for gradient in before}
    return sum(originals[gradient.sender] is not gradient for gradient in after)


def make_filters(text: str) -> Filters:
    """The filters of a text such as `none`, `norm-clip:3`, `nnm+krum`, or `direction+norm-clip:1+loss`."""
    made = Filters(tuple(_make_stage(part, text) for part in text.split("+")))
    if len(set(made.verdicts)) != len(made.verdicts):
        raise ParameterError(f'filter: found "{text}", expected {" and ".join(sorted(set(made.verdicts)))} once')
    return made


def make_filter(text: str) -> Filter:
    """One filter of those that anybody can recompute."""
    made = make_filters(text)
    if made.verdicts:
        raise ParameterError(f'filter: found "{text}", expected filters that judge nothing')
    if len(made.stages) == 1 and not isinstance(made.stages[0], Verdict):
        return made.stages[0]
    return NamedFilter(text, max(stage.reason for stage in made.stages), lambda closed: made(closed, judged_before(())))


def _make_stage(part: str, text: str) -> Stage:
    name, colon, option = part.partition(":")
    if name not in (*_PLAIN, *_WITH_NUMBER, *LIMITS) and is_named("filter", part):
        return own_filter(part)
    if name in _PLAIN:
        if colon:
            raise ParameterError(f'filter: found "{text}", expected {name} without a number')
        return NamedFilter(part, "", _PLAIN[name])
    if name in LIMITS:
        return _make_verdict(part, text)
    if name not in _WITH_NUMBER:
        known = [*_PLAIN, *_WITH_NUMBER, *LIMITS]
        expected = f"{', '.join(known)}, your own as module:function, or some joined by +{did_you_mean(name, known)}"
        raise ParameterError(f'filter: found "{text}", expected {expected}')
    make = _WITH_NUMBER[name]
    return NamedFilter(part, "krum" if name == "krum" else "", make(option, text) if colon else make(None, text))


def _make_verdict(part: str, text: str) -> Verdict:
    name, colon, option = part.partition(":")
    limit = _number(option) if colon else LIMITS[name]
    if not 0 <= limit < 1:
        raise ParameterError(f'filter: found "{text}", expected {name}:LIMIT with 0 <= limit < 1')
    return Verdict(part, name, limit)


def _make_norm_clip(option: str | None, text: str) -> Callable[[Sequence[Gradient]], Filtered]:
    factor = rules.NORM_FACTOR if option is None else _number(option)
    if not 1 <= factor < math.inf:
        raise ParameterError(f'filter: found "{text}", expected norm-clip:FACTOR with a finite factor of at least 1')
    return partial(rules.norm_clip, factor=factor)


def _make_centred_clip(option: str | None, text: str) -> Callable[[Sequence[Gradient]], Filtered]:
    factor = rules.CLIP_FACTOR if option is None else _number(option)
    if not 0 < factor < math.inf:
        raise ParameterError(f'filter: found "{text}", expected centred-clip:FACTOR with a finite factor above 0')
    return partial(rules.centred_clip, factor=factor)


def _make_trimmed_mean(option: str | None, text: str) -> Callable[[Sequence[Gradient]], Filtered]:
    share = rules.TRIMMED_SHARE if option is None else _number(option)
    if not 0 < share < 0.5:
        raise ParameterError(f'filter: found "{text}", expected trimmed-mean:SHARE with 0 < share < 0.5')
    return partial(rules.trimmed_mean, share=share)


def _with_outliers(
    rule: Callable[[Sequence[Gradient], int | None], Filtered], name: str, option: str | None, text: str
) -> Callable[[Sequence[Gradient]], Filtered]:
    if option is not None and (not option.isdecimal() or int(option) < 1):
        raise ParameterError(f'filter: found "{text}", expected {name}:F with F gradients to take for lies, at least 1')
    return lambda closed: rule(closed, None if option is None else int(option))


def _number(option: str) -> float:
    """The number, or NaN, which is inside no range."""
    try:
        return float(option)
    except ValueError:
        return math.nan


_PLAIN = {"none": rules.no_filter, "median": rules.coordinate_median}
_WITH_NUMBER: Mapping[str, Callable[[str | None, str], Callable[[Sequence[Gradient]], Filtered]]] = {
    "norm-clip": _make_norm_clip,
    "krum": partial(_with_outliers, rules.krum, "krum"),
    "trimmed-mean": _make_trimmed_mean,
    "nnm": partial(_with_outliers, rules.nearest_neighbour_mixing, "nnm"),
    "centred-clip": _make_centred_clip,
}


def close_list(good: Mapping[Address, Gradient], refused: Iterable[Refusal], filters: Filters, judge: Judge) -> Close:
    """The list of an honest leader: the good gradients but those that the filters take out; everyone else by name."""
    result = filters(list(good.values()), judge)
    removed = [Refusal(good[sender].node, result.reasons[sender], detail) for sender, detail in result.removed.items()]
    out = {refusal.node for refusal in removed}
    accepted = tuple(sender for sender in sorted(good) if good[sender].node not in out)
    named = {refusal.node: refusal for refusal in [*refused, *removed]}  # what the filters say stands
    return Close(accepted, tuple(named[node] for node in sorted(named)))
