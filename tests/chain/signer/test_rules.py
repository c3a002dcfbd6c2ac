"""What a key never signs, case by case."""

import re

import pytest

from chain.errors import SigningRefusedError
from chain.signer.rules import check_new, check_place, highest_endorsement
from chain.signer.statements import Endorsed, Signed, Statement
from tests.chain.signer.scene import block, endorsement, post, to_pass


def said(*statements: Statement) -> list[Signed]:
    return [Signed(each.attempt, each.slot, each.said, b"raw") for each in statements]


ALLOWED = [
    (post(5), 5, []),
    (post(6), 5, []),
    (post(5, 0, "plan"), 5, [post(5, 1, "plan")]),
    (endorsement(5, 1, "Y"), 5, [endorsement(5, 0, "X")]),
    (endorsement(5, 0, "Y"), 5, [endorsement(5, 1, "X")]),
    (endorsement(5, 2), 5, [to_pass(5, 2)]),
    (endorsement(5, 3), 5, [to_pass(5, 2)]),
    (post(5, 2), 5, [to_pass(5, 2)]),
    (to_pass(5, 1), 5, [post(5, 0), post(5, 3)]),
    (to_pass(5, 3), 5, [to_pass(5, 1)]),
    (to_pass(5, 1, (0, "X")), 5, [endorsement(5, 0, "X")]),
    (to_pass(5, 4, (2, "Y")), 5, [endorsement(5, 2, "Y"), endorsement(5, 0, "X"), to_pass(5, 2)]),
]
REFUSED = [
    (post(4), 5, [], "has come to round 5, and signs for no lower one"),
    (endorsement(4), 5, [], "has come to round 5"),
    (to_pass(4, 1), 5, [], "has come to round 5"),
    (endorsement(5, 1), 5, [to_pass(5, 2)], "has passed to attempt 2, and signs for no lower one"),
    (post(5, 0), 5, [to_pass(5, 1)], "has passed to attempt 1, and signs for no lower one"),
    (to_pass(5, 1), 5, [to_pass(5, 3)], "has passed to attempt 3"),
    (to_pass(5, 0), 5, [], "expected an attempt above 0; passes rise, and nobody passes to 0"),
    (to_pass(5, 2, (2, "X")), 5, [endorsement(5, 2)], "has endorsed in attempt 2, so it passes above it"),
    (to_pass(5, 1, (2, "X")), 5, [endorsement(5, 2)], "has endorsed in attempt 2"),
    (to_pass(5, 1), 5, [endorsement(5, 0)], f"naming no block, expected block {block('X').hex():.12} of attempt 0"),
    (to_pass(5, 1, (0, "X")), 5, [], "of attempt 0, expected no block"),
    (to_pass(5, 3, (0, "X")), 5, [endorsement(5, 0), endorsement(5, 1, "Y")], "of attempt 0, expected block"),
    (to_pass(5, 1, (0, "Y")), 5, [endorsement(5, 0, "X")], "of attempt 0, expected block"),
]


@pytest.mark.parametrize(("asked", "lowest", "before"), ALLOWED)
def test_what_contradicts_nothing_is_signed(asked: Statement, lowest: int, before: list[Statement]) -> None:
    check_new(asked, lowest, said(*before))


@pytest.mark.parametrize(("asked", "lowest", "before", "reason"), REFUSED)
def test_what_could_make_two_final_blocks_is_refused(
    asked: Statement, lowest: int, before: list[Statement], reason: str
) -> None:
    with pytest.raises(SigningRefusedError, match=re.escape(reason)):
        check_new(asked, lowest, said(*before))


def test_a_slot_has_one_statement() -> None:
    stored = said(post(5, says="this"))[0]
    check_place(post(5, says="this"), stored)
    with pytest.raises(SigningRefusedError, match=r"plan of round 5, attempt 0: found .* but this key has said"):
        check_place(post(5, says="that"), stored)


def test_the_highest_endorsement_is_the_one_of_the_highest_attempt() -> None:
    assert highest_endorsement(said(post(5), to_pass(5, 4))) is None
    found = highest_endorsement(said(endorsement(5, 2, "Y"), endorsement(5, 10, "Z"), endorsement(5, 0, "X")))
    assert found == Endorsed(10, block("Z"))
