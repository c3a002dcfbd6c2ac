"""What a device may still answer, hand over and sign: one thing per attempt of a round, the same at each (Q5)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.errors import OrderError
from clients.remembered import AnsweredAttempt, Remembered, SignedAttempt

FRESH = Remembered("11" * 32, "0x" + "22" * 20, "11" * 32)
A, B, C, WORK, OTHER = "aa" * 32, "bb" * 32, "cc" * 32, "dd" * 32, "ee" * 32


# --- answers ----------------------------------------------------------------------------------------------------------


def test_an_order_is_answered_so_often_and_no_more() -> None:
    known = FRESH
    for count in (1, 2, 3):
        known = known.answering(4, 1, A, WORK, 3)
        assert (known.answered_round, known.answered) == (4, (AnsweredAttempt(1, A, count),))
    with pytest.raises(OrderError, match="has answered it 3 times, at most 3 are allowed"):
        known.answering(4, 1, A, WORK, 3)


def test_another_order_of_the_same_attempt_is_refused() -> None:
    with pytest.raises(OrderError, match="has answered another order of round 4, attempt 1 already"):
        FRESH.answering(4, 1, A, WORK, 3).answering(4, 1, B, WORK, 3)


def test_a_round_has_so_many_attempts_and_no_more() -> None:
    known = FRESH
    for attempt, order in enumerate((A, B, C)):
        known = known.answering(4, 2 * attempt, order, WORK, 3)
    assert known.answered == (AnsweredAttempt(0, A, 1), AnsweredAttempt(2, B, 1), AnsweredAttempt(4, C, 1))
    with pytest.raises(OrderError, match="has answered 3 attempts of round 4, at most 3 are allowed"):
        known.answering(4, 5, OTHER, WORK, 3)
    assert known.answering(4, 2, B, WORK, 3).answered[1] == AnsweredAttempt(2, B, 2)


def test_no_setting_makes_a_memory_without_end() -> None:
    known = FRESH
    for attempt in range(16):
        known = known.answering(4, attempt, A, WORK, 1_000).signing(4, attempt, A)
    with pytest.raises(OrderError, match="has answered 16 attempts"):
        known.answering(4, 16, A, WORK, 1_000)
    with pytest.raises(OrderError, match="has signed for 16 attempts of round 4, no more"):
        known.signing(4, 16, A)


def test_attempts_rise_and_an_earlier_one_is_answered_to_its_own_order_alone() -> None:
    known = FRESH.answering(4, 1, A, WORK, 3).answering(4, 3, B, WORK, 3)
    for attempt in (0, 2):
        with pytest.raises(OrderError, match=f"found attempt {attempt}, this device has answered attempt 3 of round 4"):
            known.answering(4, attempt, A, WORK, 3)
    assert known.answering(4, 1, A, WORK, 3).answered == (AnsweredAttempt(1, A, 2), AnsweredAttempt(3, B, 1))
    with pytest.raises(OrderError, match="another order of round 4, attempt 1 already"):
        known.answering(4, 1, B, WORK, 3)


def test_every_attempt_of_a_round_asks_for_the_same_work() -> None:
    known = FRESH.answering(4, 0, A, WORK, 3)
    for attempt, order in ((0, A), (1, B)):
        with pytest.raises(OrderError, match="asks for other work than this device has been told to do in round 4"):
            known.answering(4, attempt, order, OTHER, 3)
    assert known.answering(5, 0, B, OTHER, 3).work == OTHER


def test_the_next_round_is_new_and_an_earlier_one_is_over() -> None:
    known = FRESH.answering(4, 7, A, WORK, 1).answering(5, 0, B, OTHER, 1)
    assert (known.answered_round, known.answered) == (5, (AnsweredAttempt(0, B, 1),))
    with pytest.raises(OrderError, match="found round 4, this device has answered in round 5"):
        known.answering(4, 7, A, WORK, 1)


asks = st.tuples(st.integers(1, 3), st.integers(0, 5), st.sampled_from([A, B]))


@given(st.lists(asks, max_size=40))
def test_whatever_is_asked_an_attempt_has_one_order_and_a_round_three_attempts(
    asked: list[tuple[int, int, str]],
) -> None:
    known, answered = FRESH, []
    for round_, attempt, order in asked:
        try:
            known = known.answering(round_, attempt, order, WORK, 3)
        except OrderError:
            continue
        answered.append((round_, attempt, order))
    assert len({each[:2] for each in answered}) == len(set(answered))
    for round_ in (1, 2, 3):
        attempts = [each[1] for each in dict.fromkeys(answered) if each[0] == round_]
        assert attempts == sorted(attempts)
        assert len(attempts) <= 3
    assert all(answered.count(each) <= 3 for each in answered)


# --- signatures -------------------------------------------------------------------------------------------------------


def test_an_attempt_has_one_signature() -> None:
    known = FRESH.signing(4, 1, A)
    assert known.signing(4, 1, A) == known
    assert known.signing(4, 2, B).signed == (SignedAttempt(1, A), SignedAttempt(2, B))
    assert known.signing(5, 1, B).signed == (SignedAttempt(1, B),)
    with pytest.raises(OrderError, match="has signed another gradient for round 4, attempt 1 already"):
        known.signing(4, 1, B)
    with pytest.raises(OrderError, match="found round 3, this device has signed for round 4"):
        known.signing(3, 1, A)


# --- data -------------------------------------------------------------------------------------------------------------


def test_the_data_of_a_round_go_to_the_first_server_that_asks() -> None:
    known = FRESH.answering(4, 0, A, WORK, 3).giving(4, 2)
    assert (known.has_given(4, 2), known.has_given(4, 1), known.has_given(3, 2)) == (True, False, False)
    later = known.answering(4, 1, B, WORK, 3)
    assert later.giving(4, 1) == later == later.giving(4, 2)
    assert later.signing(4, 1, A).giving(4, 2).has_given(4, 2)
    assert later.answering(5, 0, A, WORK, 3).giving(5, 1).has_given(5, 1)


def test_the_data_of_a_round_go_to_nobody_once_a_gradient_is_signed() -> None:
    known = FRESH.answering(4, 0, A, WORK, 3).signing(4, 0, A)
    assert known.giving(4, 0) == known
    assert known.answering(5, 0, A, WORK, 3).giving(5, 0).has_given(5, 0)


def test_data_of_a_round_that_was_not_answered_go_nowhere() -> None:
    known = FRESH.answering(4, 0, A, WORK, 3)
    assert known.giving(3, 0) == known == known.giving(5, 0)


# --- blocks -----------------------------------------------------------------------------------------------------------


def test_proven_blocks_go_forward_only() -> None:
    known = FRESH.knowing(3, A)
    assert (known.proven_round, known.proven_hash) == (3, A)
    assert known.knowing(2, B) == known
    assert known.knowing(4, B).proven_hash == B
