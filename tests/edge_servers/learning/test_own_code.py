"""What own filters and schemes may return, and what is said where they return something else."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from clients.errors import ParameterError
from clients.plugins import OFF_CHAIN, offer
from edge_servers.errors import ReplayError
from edge_servers.learning.filtered import FEWEST, Filtered
from edge_servers.learning.filters import make_filter
from edge_servers.learning.gradients import Gradient
from edge_servers.learning.schemes import ClosedRound, scheme_of
from edge_servers.parameters import RoundParams
from tests.edge_servers.addresses import address

Rule = Callable[[Any], Any]


def gradient(n: int, *values: float) -> Gradient:
    return Gradient(address(n), f"device {n}", 0, 100 + n, 1, "model", "plan", np.array(values, np.float32))


CLOSED = [gradient(n, n, -n) for n in range(4)]


def filtered(rule: Rule, closed: list[Gradient] = CLOSED) -> Filtered:
    return make_filter(offer("filter", rule))(closed)


def test_a_filter_may_return_what_it_keeps() -> None:
    result = filtered(lambda closed: [each for each in closed if each.values[0] < 2])
    assert [each.node for each in result.kept] == ["device 0", "device 1"]
    assert list(result.removed) == [address(2), address(3)]
    assert all(kept is given for kept, given in zip(result.kept, CLOSED, strict=False))


def test_a_filter_may_change_values_and_say_why_somebody_is_out() -> None:
    def halved(closed: tuple[Gradient, ...]) -> Filtered:
        first, *others = closed
        return Filtered(tuple(replace(each, values=each.values / 2) for each in others), {first.sender: "the first"})

    result = filtered(halved)
    assert [each.values.tolist() for each in result.kept] == [[0.5, -0.5], [1, -1], [1.5, -1.5]]
    assert (dict(result.removed), result.touched) == ({address(0): "the first"}, 3)


def test_a_filter_changes_values_alone() -> None:
    """Weights and names are not its to change."""
    result = filtered(lambda closed: [replace(each, samples=9**9, node="device 9", server=7) for each in closed])
    assert [(each.samples, each.node, each.server) for each in result.kept] == [
        (100 + n, f"device {n}", 0) for n in range(4)
    ]


def test_a_filter_sees_the_list_in_one_order_whatever_order_it_came_in() -> None:
    seen: list[list[str]] = []

    def looks(closed: tuple[Gradient, ...]) -> tuple[Gradient, ...]:
        seen.append([each.node for each in closed])
        return closed

    forwards, backwards = filtered(looks), filtered(looks, CLOSED[::-1])
    assert seen[0] == seen[1]
    assert [each.node for each in backwards.kept] == [each.node for each in forwards.kept][::-1]


def test_a_filter_is_not_asked_about_fewer_than_three() -> None:
    assert len(filtered(lambda closed: [], CLOSED[: FEWEST - 1]).kept) == FEWEST - 1


def test_one_stage_of_several_may_be_own() -> None:
    name = offer("filter", lambda closed: closed[1:])
    both = make_filter(f"{name}+median")
    assert both.reason == "filtered"
    result = both(CLOSED)
    assert [each.values.tolist() for each in result.kept] == [[2, -2]] * 3
    assert list(result.removed) == [address(0)]


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (lambda closed: None, "found NoneType, expected a Filtered, or the gradients that it keeps"),
        (lambda closed: [1, 2], "found list, expected a Filtered"),
        (lambda closed: np.zeros(4), "found ndarray, expected a Filtered"),
        (lambda closed: [*closed, closed[0]], "found 5 gradients kept and 0 removed, expected each of the 4 senders"),
        (lambda closed: Filtered(closed[:2]), "found 2 gradients kept and 0 removed"),
        (lambda closed: Filtered(closed, {1: "one too many"}), "found 4 gradients kept and 1 removed"),  # type: ignore[dict-item]
        (lambda closed: [replace(closed[0], sender=address(9)), *closed[1:]], "found 4 gradients kept and 1 removed"),
        (
            lambda closed: [replace(each, values=each.values[:1]) for each in closed],
            r"found values of shape \(1,\) for device 0, expected \(2,\) finite numbers",
        ),
        (lambda closed: [replace(each, values=each.values * np.nan) for each in closed], "expected .* finite numbers"),
    ],
)  # fmt: skip
def test_what_a_filter_may_not_return(rule: Rule, told: str) -> None:
    with pytest.raises(ParameterError, match=told):
        filtered(rule)


def closed_round() -> ClosedRound:
    weights = [each.weight for each in CLOSED]
    return ClosedRound(0, 3, np.ones(2, np.float32), weights, np.zeros(2, np.int32), 0.1)


def test_a_scheme_is_a_function_of_a_closed_round() -> None:
    scheme = scheme_of(offer("scheme", lambda round_: round_.model * 2))
    assert (scheme.gossips, scheme.one_model) == (True, True)
    assert scheme.model_after(closed_round()).tolist() == [2, 2]
    assert scheme.model_after(closed_round()).dtype == np.float32
    assert scheme.model_after(replace(closed_round(), closed=())).tolist() == [1, 1]


def test_a_scheme_may_do_without_gossip_and_without_a_chain() -> None:
    def alone(round_: ClosedRound) -> Any:
        return round_.model

    alone.gossips = False  # type: ignore[attr-defined]
    name = offer("scheme", alone)
    assert not scheme_of(name).gossips
    assert RoundParams(scheme="a:b").is_on_chain
    assert not RoundParams(scheme=f"{OFF_CHAIN}a:b").is_on_chain
    assert not scheme_of(OFF_CHAIN + name).gossips


@pytest.mark.parametrize("wrong", [None, np.ones(3), np.array([1, np.inf]), "model"])
def test_what_a_scheme_may_not_return(wrong: object) -> None:
    with pytest.raises(ReplayError, match=r"^scheme .*: found .*, expected \(2,\) finite numbers$"):
        scheme_of(offer("scheme", lambda _: wrong)).model_after(closed_round())
