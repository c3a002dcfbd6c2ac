"""Who is dormant, as the registry has it (D3.7): last in rank, in every majority, and longer after each relapse."""

import pytest
from eth_account.signers.local import LocalAccount

from chain.client.keys import address_of
from chain.wire.sidecar import payload_digest
from tests.chain.endorsing import BARE, endorse_call
from tests.chain.protocol.registry_bench import Bare, reverts


@pytest.fixture
def bare() -> Bare:
    return Bare()


def posting(bare: Bare, *senders: LocalAccount, leader: LocalAccount | None = None) -> None:
    """The leader plans, and these servers post a roll."""
    round_, digest = bare.registry.ask("round"), payload_digest(b"x")
    bare.send(leader or bare.ranking()[0], "plan", round_, 0, digest, 1)
    for each in senders:
        bare.send(each, "roll", round_, 0, digest, digest, 1)


def asleep(bare: Bare) -> list[LocalAccount]:
    return [each for each in bare.servers if bare.registry.ask("is_dormant", address_of(each))]


def test_a_server_without_a_post_in_five_blocks_of_two_leaders_is_dormant_and_ranks_last(bare: Bare) -> None:
    one, two, three = bare.servers
    for round_ in range(1, 6):
        assert asleep(bare) == []
        posting(bare, one, two)
        bare.next_round(leader=one if round_ < 5 else two, winner=bare.devices[0 if round_ < 5 else 2])
    assert asleep(bare) == [three]
    assert bare.registry.ask("winner_home") == address_of(three), "even as the winner's home"
    assert bare.ranking()[-1] == three
    assert len(bare.ranking()) == 3, "it stays in every denominator, and leads the last attempt"
    bare.begin_attempt(three, 2, [three, one])


def test_four_blocks_or_one_leader_are_not_enough(bare: Bare) -> None:
    one, two, three = bare.servers
    for _ in range(9):
        posting(bare, one, two)
        bare.next_round(leader=one)
        assert asleep(bare) == []
    posting(bare, one, two, three)
    bare.next_round(leader=one)
    for _ in range(4):
        posting(bare, one, two)
        bare.next_round(leader=two)
    assert asleep(bare) == [], "four blocks"
    posting(bare, one, two)
    bare.next_round(leader=two)
    assert asleep(bare) == [], "five blocks of one leader"
    posting(bare, one, two)
    bare.next_round(leader=one)
    assert asleep(bare) == [three]


def test_a_dormant_server_is_back_in_the_round_after_any_post_and_not_before(bare: Bare) -> None:
    one, two, three = bare.servers
    for round_ in range(1, 6):
        posting(bare, one, two)
        bare.next_round(leader=one if round_ < 5 else two, winner=bare.devices[0 if round_ < 5 else 2])
    ranking = bare.ranking()
    posting(bare, one, two, three)
    assert asleep(bare) == [three], "a ranking does not change within a round"
    assert bare.ranking() == ranking
    bare.next_round(leader=two, winner=bare.devices[2])
    assert asleep(bare) == []
    assert bare.ranking()[0] == three


def test_a_dormant_server_that_leads_the_last_attempt_leads_it_to_the_end(bare: Bare) -> None:
    one, two, three = bare.servers
    for round_ in range(1, 6):
        posting(bare, one, two)
        bare.next_round(leader=one if round_ < 5 else two)
    ranking = bare.ranking()
    assert ranking[2] == three
    bare.begin_attempt(three, 2)
    digest = payload_digest(b"x")
    bare.send(three, "plan", 6, 2, digest, 1)
    bare.send(three, "roll", 6, 2, digest, digest, 1)
    assert asleep(bare) == [three]
    assert bare.ranking() == ranking
    assert bare.registry.ask("is_lawful", address_of(three))


# --- who sleeps again and again (D3.7)


def is_asleep(bare: Bare, server: LocalAccount) -> bool:
    return bool(bare.registry.ask("is_dormant", address_of(server)))


def wakes_after(bare: Bare, sleeper: LocalAccount) -> int:
    """A dormant server posts in every round until it is awake; returns in how many it had to."""
    one, two, _ = bare.servers
    rounds = 0
    while is_asleep(bare, sleeper):
        posting(bare, two, sleeper, leader=one)
        bare.next_round(leader=(one, two)[bare.registry.number % 2], winner=bare.devices[0])
        rounds += 1
    return rounds


def falls_asleep(bare: Bare, sleeper: LocalAccount) -> int:
    """A server posts nothing until it is dormant; returns in how many rounds the others waited for it."""
    one, two, _ = bare.servers
    rounds = 0
    while not is_asleep(bare, sleeper):
        posting(bare, two, leader=one)
        bare.next_round(leader=(one, two)[bare.registry.number % 2], winner=bare.devices[0])
        rounds += 1
    return rounds


@pytest.mark.slow
def test_each_relapse_doubles_the_rounds_before_it_is_waited_for_up_to_64(bare: Bare) -> None:
    three = bare.servers[2]
    sleeps = [(falls_asleep(bare, three), wakes_after(bare, three)) for _ in range(8)]
    assert sleeps == [(5, owed) for owed in (1, 2, 4, 8, 16, 32, 64, 64)]


def test_rounds_that_a_sleeper_misses_do_not_count_and_cost_it_none_of_the_others(bare: Bare) -> None:
    one, two, three = bare.servers
    for cost in (1, 2):
        falls_asleep(bare, three)
        assert wakes_after(bare, three) == cost
    falls_asleep(bare, three)
    for round_, is_there in enumerate([True, *[False] * 6, True, True, *[False] * 6, True]):
        assert asleep(bare) == [three], round_
        ranking = bare.ranking()
        posting(bare, two, *[three] * is_there, leader=one)
        assert bare.ranking() == ranking == [one, two, three]
        bare.next_round(leader=(one, two)[bare.registry.number % 2], winner=bare.devices[0])
    assert asleep(bare) == [], "four rounds, however far apart"
    assert falls_asleep(bare, three) == 5, "and it is waited for as ever"


def test_posts_of_two_attempts_at_a_round_are_one_round(bare: Bare) -> None:
    one, two, three = bare.servers
    falls_asleep(bare, three)
    assert wakes_after(bare, three) == 1
    falls_asleep(bare, three)
    round_, digest = bare.registry.ask("round"), payload_digest(b"x")
    bare.begin_attempt(three, 2)
    bare.send(three, "plan", round_, 2, digest, 1)
    bare.send(three, "roll", round_, 2, digest, digest, 1)
    bare.next_round(leader=three, winner=bare.devices[2])
    assert asleep(bare) == [three], "one of two"
    posting(bare, one, two, three)
    bare.next_round(leader=one, winner=bare.devices[2])
    assert asleep(bare) == []


def flapping_round(bare: Bare, flapper: LocalAccount, round_: int) -> bool:
    """It posts only while nobody waits for it, and its device always wins; whether it cost the others an attempt."""
    number, digest = bare.registry.ask("round"), payload_digest(b"x")
    is_asleep, ranking = flapper in asleep(bare), bare.ranking()
    assert (ranking[0] == flapper) is not is_asleep
    attempt = 0 if is_asleep else 1
    if attempt:
        bare.begin_attempt(ranking[1], 1, [each for each in bare.servers if each != flapper])
    bare.send(ranking[attempt], "plan", number, attempt, digest, 1)
    if is_asleep:
        bare.send(flapper, "roll", number, 0, digest, digest, 1)
    others = [each for each in bare.servers if each != flapper]
    bare.next_round(leader=others[round_ % 2], winner=bare.devices[2])
    return not is_asleep


def test_a_flapping_server_costs_five_deadlines_a_relapse_and_relapses_ever_more_seldom(bare: Bare) -> None:
    three = bare.servers[2]
    bare.next_round(winner=bare.devices[2])
    posting(bare, three)
    bare.next_round(winner=bare.devices[2])
    cost = [flapping_round(bare, three, round_) for round_ in range(60)]
    expected = [is_awake for sleep in (1, 2, 4, 8, 16) for is_awake in (*[True] * 5, *[False] * sleep)]
    assert cost == [*expected, *[True] * 4]
    assert sum(cost) == 29, "50 without the rule"


def test_a_relapsed_server_that_is_steady_is_back_for_good(bare: Bare) -> None:
    one, two, three = bare.servers
    for cost in (1, 2, 4):
        falls_asleep(bare, three)
        assert wakes_after(bare, three) == cost
    for _ in range(12):
        posting(bare, one, two, three)
        bare.next_round(leader=(one, two)[bare.registry.number % 2], winner=bare.devices[2])
        assert asleep(bare) == []
        assert bare.ranking()[0] == three


def test_a_relapsed_server_passes_and_endorses_all_the_time(bare: Bare) -> None:
    one, _, three = bare.servers
    for cost in (1, 2):
        falls_asleep(bare, three)
        assert wakes_after(bare, three) == cost
    falls_asleep(bare, three)
    for owed in (4, 3, 2, 1):
        assert asleep(bare) == [three], owed
        number, ranking = bare.registry.ask("round"), bare.ranking()
        parent = bare.registry.block_hash(number)
        events = bare.send(one, "endorse", *endorse_call([one, three], number - 1, parent, BARE))
        assert {event["server"] for event in events} == {address_of(one), address_of(three)}
        with reverts("no majority passed"):
            bare.begin_attempt(ranking[1], 1, [one])
        bare.begin_attempt(ranking[1], 1, [one, three])
        digest = payload_digest(b"x")
        bare.send(ranking[1], "plan", number, 1, digest, 1)
        bare.send(three, "roll", number, 1, digest, digest, 1)
        bare.next_round(leader=ranking[1], winner=bare.devices[2])
    assert asleep(bare) == []
