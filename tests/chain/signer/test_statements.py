"""What a statement is: its place, and what is said there."""

import hashlib

import pytest

from chain.errors import SigningRefusedError
from chain.signer.statements import Endorsed, Statement, is_slot
from tests.chain.signer.scene import CHAIN, block, endorsement, post, to_pass


@pytest.mark.parametrize(
    "slot", ["plan", "gradient", "roll", "close", "model", "iterate:0", "iterate:7", "iterate:100", "endorse", "pass"]
)
def test_a_key_says_one_thing_in_these(slot: str) -> None:
    assert is_slot(slot)


@pytest.mark.parametrize(
    "slot", ["", "flag", "vote", "Plan", "iterate", "iterate:", "iterate:-1", "iterate:01", "iterate:101", "iterate:1 "]
)
def test_other_names_are_no_slots(slot: str) -> None:
    assert not is_slot(slot)
    with pytest.raises(
        SigningRefusedError, match=r"found the slot .* expected plan, .* flags and votes are not limited"
    ):
        post(1, slot=slot)


@pytest.mark.parametrize(("round_", "attempt"), [(-1, 0), (0, -1), (2**63, 0), (0, 2**63)])
def test_rounds_and_attempts_are_numbers_that_a_database_holds(round_: int, attempt: int) -> None:
    with pytest.raises(SigningRefusedError, match=f"found round {round_} and attempt {attempt}"):
        post(round_, attempt)


def test_what_a_post_says_is_its_call() -> None:
    assert post(3, says="a").said == hashlib.sha256(b"a").digest()
    assert post(3, says="a") == post(3, says="a")
    assert post(3, says="a").said != post(3, says="b").said


def test_what_an_endorsement_says_is_its_block() -> None:
    assert endorsement(3, 1, "X").said == block("X")
    with pytest.raises(SigningRefusedError, match="found a digest of 31 bytes, expected 32"):
        Statement.endorsement(CHAIN, 1, 0, b"x" * 31)


def test_what_a_pass_says_is_what_it_names() -> None:
    named = [None, (0, "X"), (1, "X"), (0, "Y")]
    assert len({to_pass(3, 2, each).said for each in named}) == len(named)
    assert to_pass(3, 2, (0, "X")).said == to_pass(3, 2, (0, "X")).said


def test_a_pass_cannot_name_one_thing_and_say_another() -> None:
    with pytest.raises(SigningRefusedError, match="make it by to_pass"):
        Statement(CHAIN, 1, 1, "pass", block("X"))
    with pytest.raises(SigningRefusedError, match="only a pass names one"):
        Statement(CHAIN, 1, 1, "endorse", block("X"), Endorsed(0, block("X")))
