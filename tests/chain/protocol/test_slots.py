"""Slots by number and by name, for every number that a flag may carry."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chain.protocol.slots import MAX_STEP, Slot, iterate_slot, kind_of, slot_of_kind, step_of

KINDS = {
    "plan": 0,
    "gradient": 1,
    "close": 2,
    "model": 3,
    "endorse": 4,
    "roll": 5,
    "broken_pass": 2**256 - 4,
    "double_pass": 2**256 - 3,
    "double_endorsement": 2**256 - 2,
    "equivocation": 2**256 - 1,
}


@pytest.mark.parametrize(("kind", "number"), KINDS.items())
def test_a_kind_has_one_number_and_a_number_one_kind(kind: str, number: int) -> None:
    assert (kind_of(number), slot_of_kind(kind), step_of(number)) == (kind, number, None)


@given(st.integers(0, MAX_STEP))
def test_every_step_of_the_gossip_has_a_slot_of_its_own(step: int) -> None:
    slot = iterate_slot(step)
    assert (slot, slot_of_kind("iterate", step)) == (16 + step, slot)
    assert (kind_of(slot), step_of(slot)) == ("iterate", step)


@given(st.integers(0, 2**256 - 1))
def test_what_the_registry_has_no_post_for_is_unknown_and_no_step(number: int) -> None:
    known = number in tuple(Slot) or 16 <= number <= 16 + MAX_STEP
    assert (kind_of(number) == "unknown") is not known
    assert (step_of(number) is None) is not (16 <= number <= 16 + MAX_STEP)


@pytest.mark.parametrize("number", [6, 15, 17 + MAX_STEP, 2**64, 2**256 - 5])
def test_numbers_beside_the_known_ones_are_unknown(number: int) -> None:
    assert (kind_of(number), step_of(number)) == ("unknown", None)
