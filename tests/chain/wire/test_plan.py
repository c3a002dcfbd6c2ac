"""Plans as they are posted: what is written is read back, and what is no plan is refused."""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chain.errors import CodecError
from chain.wire.documents import canonical_json
from chain.wire.plan import Plan, read_plan

PLAN = Plan(
    round=3, state_digest="ab" * 32, assignment=(-1, 2), samples=(40, 7), iterations=(3, 3), server_iterations=(3,),
    phi=5, deadline_s=30.0, divergence=0.125, policy_digest="fixed", power_w=(0.5, 1.0), bandwidth_hz=(2e7, 0.0),
    cpu_hz=(1e9, 2e9), hash_rate=(0.25, 0.75), latency_s={"T": 3.5, "n_off": 1},
    reputation=((1, 0, 0, 2, 0),),
)  # fmt: skip


def nested(depth: int) -> list[Any]:
    """A list in a list in a list."""
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


def changed(**changes: Any) -> bytes:
    """The plan's payload with other fields, in canonical form."""
    return canonical_json({**asdict(PLAN), **changes})


def test_a_plan_is_read_back_as_it_was_posted() -> None:
    found = read_plan(PLAN.payload)
    assert found == PLAN
    assert (found.payload, found.digest) == (PLAN.payload, PLAN.digest)


numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(
    assignment=st.lists(st.integers(-1, 5), max_size=4).map(tuple),
    divergence=numbers,
    hash_rate=st.lists(numbers, max_size=4).map(tuple),
    latency_s=st.dictionaries(st.text(max_size=5), numbers, max_size=4),
)
@settings(max_examples=60, deadline=None)
def test_any_plan_has_one_form(**changes: Any) -> None:
    plan = Plan(**{**asdict(PLAN), **changes})
    assert read_plan(plan.payload).payload == plan.payload


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"round": "3"}, "found round = '3', expected int"),
        ({"round": 3.0}, "found round = 3.0, expected int"),
        ({"phi": True}, "found phi = True, expected int"),
        ({"deadline_s": "30"}, "found deadline_s = '30', expected float"),
        ({"deadline_s": False}, "found deadline_s = False, expected float"),
        ({"divergence": None}, "found divergence = None, expected float"),
        ({"state_digest": 7}, "found state_digest = 7, expected str"),
        ({"assignment": 0}, r"found assignment = 0, expected tuple\[int"),
        ({"assignment": [0.5]}, r"found assignment = \[0.5\], expected tuple\[int"),
        ({"samples": [[40]]}, "found samples"),
        ({"samples": [2**63]}, "found samples"),
        ({"samples": nested(300)}, "found no JSON: Invalid JSON: recursion limit exceeded"),
        ({"latency_s": {"T": nested(300)}}, "found no JSON: Invalid JSON: recursion limit exceeded"),
        ({"round": 10**400}, "found round = 1000000000"),
        ({"divergence": 10**400}, "found divergence = 1000000000"),
        ({"power_w": [10**400]}, r"found power_w = \[1000000000"),
        ({"latency_s": {"T": -(10**400)}}, "found latency_s"),
        ({"samples": {"0": 40}}, "found samples"),
        ({"power_w": ["1"]}, r"expected tuple\[float"),
        ({"latency_s": [3.5]}, "found latency_s"),
        ({"latency_s": {"T": "3.5"}}, "found latency_s"),
        ({"reputation": [[1, "0"]]}, r"found reputation = \[\[1, '0'\]\], expected tuple"),
        ({"extra": 1}, "found a plan with other fields than round, state_digest"),
    ],
)
def test_a_field_of_another_kind_is_refused_with_what_was_found(change: dict[str, Any], message: str) -> None:
    with pytest.raises(CodecError, match=message):
        read_plan(changed(**change))


def test_a_long_field_is_not_quoted_in_full() -> None:
    with pytest.raises(CodecError) as refused:
        read_plan(changed(round="x" * 10_000))
    assert len(str(refused.value)) < 200


def test_a_plan_that_holds_nothing_against_anybody_has_no_word_for_it() -> None:
    plan = replace(PLAN, reputation=())
    assert b"reputation" not in plan.payload
    assert read_plan(plan.payload) == plan
    with pytest.raises(CodecError, match="other fields"):  # or one plan would have two digests
        read_plan(changed(reputation=[]))


def test_a_plan_without_one_of_its_fields_is_refused() -> None:
    for name in asdict(PLAN).keys() - {"reputation"}:
        payload = canonical_json({key: value for key, value in asdict(PLAN).items() if key != name})
        with pytest.raises(CodecError, match="other fields"):
            read_plan(payload)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("field", ['"divergence":0.125', '"hash_rate":[0.25', '"T":3.5'])
def test_numbers_that_are_none_are_refused(field: str, number: str) -> None:
    head, _, _ = field.rpartition("[") if "[" in field else field.rpartition(":")
    spoiled = PLAN.payload.decode().replace(field, field[: len(head) + 1] + number)
    assert number in spoiled
    with pytest.raises(CodecError):
        read_plan(spoiled.encode())


@pytest.mark.parametrize(
    "payload",
    [
        json.dumps(asdict(PLAN), sort_keys=True).encode(),  # with spaces
        json.dumps(asdict(PLAN), separators=(",", ":")).encode(),  # in another order
        PLAN.payload + b"\n",
        PLAN.payload.replace(b'"phi":5', b'"phi":5,"phi":5'),
        PLAN.payload.replace(b"0.125", b"1.25e-1"),
        PLAN.payload[:-1],
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b"1" * 5_000,
    ],
)
def test_what_is_not_canonical_json_is_refused(payload: bytes) -> None:
    with pytest.raises(CodecError, match="the plan: "):
        read_plan(payload)


@pytest.mark.parametrize("payload", [b"[]", b"3", b"null", b'"plan"', b"{}"])
def test_canonical_json_that_is_no_plan_is_refused(payload: bytes) -> None:
    with pytest.raises(CodecError, match="other fields"):
        read_plan(payload)
