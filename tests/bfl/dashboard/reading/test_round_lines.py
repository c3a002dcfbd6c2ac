"""Lines of metrics that anybody may have written: what has the right form is taken, the rest is left out."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfl.dashboard.facts import ITSELF, RoundFact
from bfl.dashboard.reading.round_lines import MOST_DEVICES, read_round
from tests.bfl.dashboard.made import HOSTILE, lied, line


def read(content: Any, round_: int = 3, **more: Any) -> RoundFact | None:
    return read_round(json.dumps(content).encode() + b"\n", round_, **more)


def taken(content: Any, **more: Any) -> RoundFact:
    found = read(content, **more)
    assert found is not None
    return found


def test_a_line_is_a_round_with_the_terms_by_our_names() -> None:
    fact = taken(line(3))
    assert (fact.round, fact.leader, fact.winner, fact.training_nodes, fact.samples) == (3, 1, 3, 4, 400)
    assert fact.latency["paper"] == {"learn": 1.0, "consensus": 0.25, "mine": 2.0, "T": 3.25, "T_wall": 1.5}
    assert fact.seconds == {"plan": 0.1, "train": 0.5, "seal": 0.2}
    assert fact.measured == {}
    assert fact.block == "0x" + f"{3:064x}"
    assert fact.assignment is not None
    assert fact.assignment.dtype == np.int16
    assert fact.assignment.tolist() == [-1, 0, 1, -1]


def test_what_a_network_measured_is_told_by_the_same_terms() -> None:
    seconds = {"plan": 1.0, "train": 2.0, "close": 0.5, "gossip": 0.25, "verify": 0.25, "model": 1.0, "seal": 3.0}
    fact = taken(line(3, seconds=seconds | {"evaluate": 9.0}), is_real=True)
    assert fact.measured == {"learn": 3.5, "consensus": 0.5, "mine": 4.0, "T": 8.0, "T_wall": 8.0}


def test_a_line_tells_whom_the_filter_took_out_and_who_was_set_aside() -> None:
    aside = [{"device": 2, "times": 1, "first": 3, "through": 12}, {"device": "2", "through": 9}, 7, {"device": 3}]
    fact = taken({**line(3), "filtered": [1, -4, "2", None], "set-aside": aside})
    assert (fact.filtered, fact.aside) == ((1,), ((2, 12),))
    assert (taken(line(3)).filtered, taken(line(3)).aside) == ((), ())


def test_an_older_line_has_no_assignment() -> None:
    content = line(3)
    del content["assignment"]
    assert taken(content).assignment is None


def test_offences_have_ids_for_links_and_end_with_their_exclusion() -> None:
    fact = taken(line(3, offences=[lied(step=3), lied(step=3), lied(0, None)], excluded=[1]), exclusion_rounds=10)
    assert [(each.id, each.excluded_through) for each in fact.offences] == [
        ("3-server-1-3", 13), ("3-server-1-3-2", 13), ("3-server-0-iterate", None),
    ]  # fmt: skip


def test_hostile_texts_are_cut_and_printable() -> None:
    fact = taken(line(3, offences=[lied(detail=HOSTILE * 100)], refused=[{"node": HOSTILE, "reason": 5}], absent=[{}]))
    told = [fact.offences[0].detail, fact.refused[0].name]
    assert all(each.isprintable() and len(each) <= 300 for each in told)
    assert fact.refused[0].reason == ""
    assert fact.absent == ("",)


@pytest.mark.parametrize(
    "value",
    [[0, 1, 2**20, -1], [0, -2], ["0"], [True, 0], [0] * (MOST_DEVICES + 1), {}, []],
    ids=lambda each: str(each)[:20],
)
def test_an_assignment_of_another_form_is_none(value: Any) -> None:
    assert taken(line(3) | {"assignment": value}).assignment is None


def test_numbers_that_are_none_are_left_out() -> None:
    strange = {
        "accuracy": "0.5",
        "loss": True,
        "leader": 2.5,
        "winner": -3,
        "samples": 10**30,
        "seconds": {"plan": "x"},
    }
    fact = taken(line(3) | strange)
    assert (fact.accuracy, fact.loss, fact.leader, fact.winner, fact.samples) == (None, None, ITSELF, None, 0)
    assert fact.seconds == {}


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"3", b'{"round": 4}', b'{"round": true}', b"\xff", b"[" * 100_000])
def test_what_is_no_line_of_this_round_is_none(raw: bytes) -> None:
    assert read_round(raw, 3) is None


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner)
                    | st.dictionaries(st.text(), inner), max_leaves=10)  # fmt: skip


@given(st.sampled_from(sorted(line(3))), JSON)
def test_no_value_of_any_field_raises(name: str, value: Any) -> None:
    found = read(line(3) | {name: value})
    assert found is None or found.round == 3
