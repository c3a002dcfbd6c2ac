"""What the endorsements and passes of a round allow (D3.2): cases worked by hand. All that can happen: the model."""

import pytest

from chain.protocol.attempts import RoundVotes
from chain.protocol.endorsements import Endorsement
from chain.protocol.passes import Named, Pass
from tests.chain.protocol.attempt_model import Block, Message, block, endorsement, server, to_pass, votes_of

X, Y, Z = block(0, "A"), block(0, "B"), block(0, "C")
"""Three nonces of attempt 0; X has the smallest hash"""


def named(who: int, given: Block, attempt: int = 0, to: int = 1) -> list[Message]:
    """A server that endorsed and then passed."""
    return [endorsement(who, attempt, given), to_pass(who, to, (attempt, given))]


def test_attempts_are_led_in_turn_by_those_who_may_lead() -> None:
    everybody = [server(i) for i in range(3)]
    votes = RoundVotes(everybody, [server(2), server(0)], lambda _: None)
    assert [votes.leader(a) for a in range(4)] == [server(2), server(0), server(2), server(0)]
    assert votes.quorum == 2  # of all three, though one of them may not lead


def test_attempt_0_needs_nothing_and_any_other_a_quorum_of_passes() -> None:
    assert votes_of(3, []).may_plan(0)
    assert not votes_of(3, []).is_certified(1)
    assert not votes_of(3, [to_pass(0, 1)]).is_certified(1)
    assert votes_of(3, [to_pass(0, 1), to_pass(2, 1)]).may_plan(1)
    assert not votes_of(3, [to_pass(0, 1), to_pass(2, 2)]).is_certified(1)


def test_one_server_that_passes_twice_is_counted_once() -> None:
    assert not votes_of(3, [to_pass(0, 1), to_pass(0, 1, time_ms=5)]).may_plan(1)


def test_passes_and_endorsements_of_strangers_count_for_nothing() -> None:
    strangers: list[Message] = [to_pass(7, 1), to_pass(8, 1), endorsement(7, 0, X)]
    votes = votes_of(3, [X, *strangers, to_pass(0, 1)])
    assert not votes.is_certified(1)
    assert votes.named_by(server(7), 1) is None


def test_asking_about_an_attempt_does_not_begin_it() -> None:
    votes = votes_of(3, [to_pass(1, 2)])
    assert not votes.is_certified(5)
    assert votes.start_ms(4) == 0
    assert votes.attempts() == [2]


def test_a_named_block_is_adopted_and_nothing_is_planned_beside_it() -> None:
    votes = votes_of(3, [X, *named(0, X), to_pass(1, 1)])
    assert votes.adoptable(1) == [X.block_hash]
    assert not votes.may_plan(1)
    assert votes.is_certified(1)


def test_with_all_passes_here_the_leader_may_choose_between_two_certificates() -> None:
    votes = votes_of(3, [X, *named(0, X), to_pass(1, 1), to_pass(2, 1)])
    assert votes.may_plan(1)
    assert votes.adoptable(1) == [X.block_hash]


@pytest.mark.parametrize(
    "missing", [X, endorsement(0, 0, X), endorsement(1, 0, X)], ids=["block", "leader's word", "own word"]
)
def test_a_pass_does_not_count_unless_it_is_shown_that_its_block_was_endorsed(missing: Message) -> None:
    held = [X, endorsement(0, 0, X), *named(1, X), to_pass(2, 1)]
    assert votes_of(3, held).is_certified(1)
    assert not votes_of(3, [each for each in held if each != missing]).is_certified(1)


def test_the_block_of_the_highest_attempt_is_adopted() -> None:
    built = block(1)
    begun: list[Message] = [to_pass(1, 1), to_pass(2, 1), built]
    votes = votes_of(3, [X, *begun, *named(0, X, to=2), *named(1, built, 1, to=2)])
    assert votes.adoptable(2) == [built.block_hash]


def test_what_may_be_adopted_comes_in_the_order_of_attempts() -> None:
    built = block(1)
    begun: list[Message] = [to_pass(1, 1), to_pass(2, 1), built]
    votes = votes_of(3, [X, *begun, *named(0, X, to=2), *named(1, built, 1, to=2), to_pass(2, 2)])
    assert votes.adoptable(2) == [built.block_hash, X.block_hash]  # with 2 and 1, or with 2 and 0


def test_a_block_that_was_adopted_before_is_shown_by_the_certificate_of_that_attempt() -> None:
    begun: list[Message] = [*named(0, X), to_pass(2, 1)]
    adopted: list[Message] = [endorsement(1, 1, X), to_pass(1, 2, (1, X)), to_pass(2, 2)]
    assert votes_of(3, [X, *begun, *adopted]).adoptable(2) == [X.block_hash]
    assert votes_of(3, [X, *adopted]).adoptable(2) == []
    assert not votes_of(3, [X, *adopted]).is_certified(2)


def test_a_leader_alone_cannot_make_a_chain_of_adoptions() -> None:
    chain: list[Message] = [endorsement(0, 3 * k, X) for k in range(1000)]
    chain += [to_pass(0, 3 * k, (3 * k - 3, X)) for k in range(1, 1000)]
    assert not votes_of(3, [X, *chain]).is_certified(2997)  # nor make the rules recurse a thousand times


def test_two_blocks_of_one_attempt_and_its_leaders_pass_does_not_count() -> None:
    liar: list[Message] = [X, Y, endorsement(0, 0, Y), *named(0, X)]
    assert votes_of(3, [*liar, *named(1, Y)]).adoptable(1) == []
    assert votes_of(3, [*liar, *named(1, Y), *named(2, Y)]).adoptable(1) == [Y.block_hash]


def test_of_two_blocks_the_one_named_most_often_is_adopted() -> None:
    liar: list[Message] = [X, Y, endorsement(0, 0, X), endorsement(0, 0, Y)]
    assert votes_of(5, [*liar, *named(1, X), *named(2, Y), *named(3, Y)]).adoptable(1) == [Y.block_hash]


@pytest.mark.parametrize("others", [[], [to_pass(3, 1)]], ids=["three blocks", "two and nothing"])
def test_on_a_tie_the_smaller_hash_is_adopted(others: list[Message]) -> None:
    liar: list[Message] = [X, Y, Z, *(endorsement(0, 0, each) for each in (X, Y, Z))]
    third = others or named(3, Z)
    assert votes_of(5, [*liar, *named(1, Y), *named(2, X), *third]).adoptable(1) == [X.block_hash]


def test_others_endorse_only_what_the_leader_chose_and_a_certificate_allows() -> None:
    assert votes_of(3, [X, Y]).choices(0) == []
    assert votes_of(3, [X, Y, endorsement(0, 0, Y), endorsement(1, 0, X)]).choices(0) == [Y.block_hash]
    assert votes_of(3, [X, endorsement(1, 1, X)]).choices(1) == []
    assert votes_of(3, [X, endorsement(1, 1, X), *named(0, X), to_pass(2, 1)]).choices(1) == [X.block_hash]


def test_a_block_is_not_endorsed_before_the_attempt_it_was_built_in() -> None:
    built = block(1)
    assert not votes_of(3, [built]).allows(0, built.block_hash)
    assert votes_of(3, [built]).allows(1, built.block_hash)
    assert not votes_of(3, []).allows(1, built.block_hash)


def test_a_pass_names_the_highest_endorsement_below_it() -> None:
    votes = votes_of(3, [endorsement(1, 0, X), endorsement(1, 1, Y), endorsement(2, 2, Z)])
    assert votes.named_by(server(1), 1) == Named(0, X.block_hash)
    assert votes.named_by(server(1), 3) == Named(1, Y.block_hash)
    assert votes.named_by(server(2), 2) is None


def test_an_attempt_starts_with_the_latest_time_of_its_earliest_certificate() -> None:
    passes = [to_pass(0, 1, time_ms=900), to_pass(1, 1, time_ms=100), to_pass(2, 1, time_ms=300)]
    assert votes_of(3, passes).start_ms(1) == 300
    assert votes_of(3, [*passes, to_pass(2, 1, time_ms=200)]).start_ms(1) == 200
    assert votes_of(3, passes[:1]).start_ms(1) == 900  # no certificate yet
    assert votes_of(3, []).start_ms(1) == 0


def test_the_models_statements_are_those_of_the_program() -> None:
    signed: list[Endorsement | Pass] = [endorsement(1, 2, X), to_pass(2, 3, (1, Y))]
    assert [each.signer for each in signed] == [server(1), server(2)]
    assert signed[0] != endorsement(0, 2, X)
