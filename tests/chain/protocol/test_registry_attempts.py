"""Attempts at a round, as the registry begins them (D3.1, D3.2): a certificate of passes, and who leads then."""

from dataclasses import replace

import pytest
from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak

from chain.client.keys import address_of
from chain.protocol.endorsements import Domain
from chain.protocol.passes import Named, Pass, begun_call, sign_pass
from chain.wire.sidecar import payload_digest
from tests.chain.endorsing import BARE
from tests.chain.network import CHAIN_ID, SIZES, START, TERMS, account, named
from tests.chain.protocol.registry_bench import STRANGER, Bare, Bench, bench_of, reverts

BLOCK = keccak(b"a block")


@pytest.fixture
def bare() -> Bare:
    return Bare()


def test_a_certificate_begins_an_attempt_in_which_everything_is_posted_anew(bench: Bench) -> None:
    leader = bench.network.leader(bench.node, 1)
    bench.plan()
    bench.gradient(bench.network.devices[0])
    (begun,) = bench.begin_attempt()
    assert (begun.name, begun.arguments) == (
        "AttemptBegun",
        {"round": 1, "leader": address_of(leader), "attempt": 1},
    )
    assert (bench.round, bench.attempt) == (1, 1)
    with reverts("gradient for another plan"):
        bench.gradient(bench.network.devices[0])
    bench.plan(leader, b"another plan")
    for event in (*bench.gradient(bench.network.devices[0]), *bench.roll(leader), *bench.close(leader)):
        assert event["attempt"] == 1
    with reverts("no such attempt"):
        bench.post(leader, "model", 1, 0, bench.node.ask("close_digest"), BLOCK, SIZES.model)


@pytest.mark.parametrize(("servers", "quorum"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_certificate_is_of_a_strict_majority_of_all_servers(servers: int, quorum: int) -> None:
    bench = bench_of(servers)
    everybody = bench.network.servers
    with reverts("no majority passed" if quorum > 1 else "no signatures"):
        bench.node.submit(_certificate(bench, everybody[: quorum - 1]))
    bench.begin_attempt(servers=everybody[-quorum:])
    assert bench.attempt == 1


def _certificate(bench: Bench, servers: list[LocalAccount]) -> bytes:
    sender = bench.network.leader(bench.node, 1)
    passes = bench.network.passes(bench.node, 1, servers)
    said = begun_call(passes) if passes else (1, 1, [], b"")
    return bench.network.signed(bench.node, sender, "begin_attempt", *said)


def test_excluded_servers_count_among_all_and_may_pass() -> None:
    bench = bench_of(4)
    liar, *honest = bench.network.servers
    bench.exclude(liar, by=honest)
    bench.end_round()
    assert bench.is_excluded(liar)
    with reverts("no majority passed"):
        bench.begin_attempt(servers=honest[:2])
    bench.begin_attempt(servers=[liar, *honest[:2]])


def test_a_joined_server_counts_among_all_at_once() -> None:
    bench = bench_of(3)
    for server in bench.network.servers[:2]:
        bench.vote(server, STRANGER, STRANGER)
    bench.end_round()
    with reverts("no majority passed"):
        bench.begin_attempt(servers=bench.network.servers[:2])
    bench.network.servers.append(STRANGER)
    bench.begin_attempt(servers=bench.network.servers[1:])


def test_only_the_leader_of_an_attempt_begins_it(bare: Bare) -> None:
    ranking = bare.ranking()
    for attempt in (1, 2, 3, 4):
        for other in (*(each for each in ranking if each != ranking[attempt % 3]), bare.devices[0], STRANGER):
            is_server = other in ranking
            reason = "not registered" if other == STRANGER else "not an edge server"
            with reverts("not the leader of this attempt" if is_server else reason):
                bare.begin_attempt(other, attempt)
        bare.begin_attempt(ranking[attempt % 3], attempt)
        assert bare.registry.ask("attempt") == attempt


def test_the_attempt_must_rise_and_has_32_bits(bare: Bare) -> None:
    ranking = bare.ranking()
    for attempt in (0, 2**32, 2**64, 2**256 - 1):
        with reverts("not a later attempt"):
            bare.send(ranking[0], "begin_attempt", 1, attempt, [], b"")
    bare.begin_attempt(ranking[5 % 3], 5)
    for attempt in (5, 4, 1, 0):
        with reverts("not a later attempt"):
            bare.send(ranking[attempt % 3], "begin_attempt", 1, attempt, *begun_call(bare.passes(attempt or 1))[2:])
    bare.begin_attempt(ranking[(2**32 - 1) % 3], 2**32 - 1)


@pytest.mark.parametrize("wrong", [0, 1, 3, 2**128 + 2])
def test_a_certificate_is_of_the_round_that_runs(bare: Bare, wrong: int) -> None:
    bare.next_round()
    ranking = bare.ranking()
    passes = [sign_pass(each, BARE, wrong, 1, None, 0) for each in bare.servers]
    with reverts("wrong round"):
        bare.send(ranking[1], "begin_attempt", *begun_call(passes))
    with reverts("signed by no edge server"):  # passes of one round are no passes of another
        bare.send(ranking[1], "begin_attempt", 2, *begun_call(passes)[1:])
    bare.begin_attempt(ranking[1])


def test_a_block_has_the_posts_of_one_attempt(bare: Bare) -> None:
    ranking = bare.ranking()
    bare.send(ranking[0], "plan", 1, 0, *named(b"plan"))
    with reverts("a block has the posts of one attempt"):
        bare.begin_attempt(ranking[1])


def test_where_rounds_are_sealed_by_calls_an_attempt_follows_on_a_plan() -> None:
    bare = Bare(replace(TERMS, contract_seal=True))
    ranking = bare.ranking()
    bare.send(ranking[0], "plan", 1, 0, *named(b"plan"))
    bare.begin_attempt(ranking[1])
    with reverts("this round is not planned"):
        bare.send(ranking[1], "close", 1, 1, *2 * [payload_digest(b"plan")], 4)
    bare.send(ranking[1], "plan", 1, 1, *named(b"another"))


def test_passes_that_name_a_block_begin_nothing(bare: Bare) -> None:
    ranking = bare.ranking()
    naming = bare.passes(named_=Named(0, BLOCK))
    with reverts("signed by no edge server"):
        bare.send(ranking[1], "begin_attempt", *begun_call(naming))
    with reverts("signed by no edge server"):
        bare.send(ranking[1], "begin_attempt", *begun_call([naming[0], *bare.passes(servers=bare.servers[1:])]))
    assert bare.registry.ask("attempt") == 0


def test_signers_ascend_so_that_nobody_passes_twice(bare: Bare) -> None:
    leader, (first, second, third) = bare.ranking()[1], sorted(bare.passes(), key=lambda each: each.signer)
    for passes in ((first, first), (second, first), (first, third, second)):
        with reverts("signers must ascend"):
            bare.send(leader, "begin_attempt", *_as_given(passes))
    again = sign_pass(next(s for s in bare.servers if address_of(s) == first.signer), BARE, 1, 1, None, 7)
    with reverts("signers must ascend"):
        bare.send(leader, "begin_attempt", *_as_given((first, again)))
    with reverts("one signature per time"):
        bare.send(leader, "begin_attempt", 1, 1, [0, 0], first.signature)
    with reverts("no signatures"):
        bare.send(leader, "begin_attempt", 1, 1, [], b"")
    bare.send(leader, "begin_attempt", *_as_given((first, second)))


def _as_given(passes: tuple[Pass, ...]) -> tuple[object, ...]:
    return 1, 1, [each.time_ms for each in passes], b"".join(each.signature for each in passes)


def test_a_pass_counts_for_one_round_attempt_time_chain_and_registry_and_of_a_server(bare: Bare) -> None:
    leader, good = bare.ranking()[1], bare.passes(servers=bare.servers[1:])
    one = bare.servers[0]
    wrong = [
        sign_pass(one, BARE, 2, 1, None, 0),
        sign_pass(one, BARE, 1, 2, None, 0),
        replace(sign_pass(one, BARE, 1, 1, None, 0), time_ms=1),
        sign_pass(one, Domain(CHAIN_ID + 1, BARE.registry), 1, 1, None, 0),
        sign_pass(bare.devices[0], BARE, 1, 1, None, 0),
        sign_pass(STRANGER, BARE, 1, 1, None, 0),
    ]
    for each in wrong:
        said = replace(each, round=1, attempt=1, domain=BARE)
        with reverts("signed by no edge server"):
            bare.send(leader, "begin_attempt", *begun_call([said, *good]))
    bare.send(leader, "begin_attempt", *begun_call([sign_pass(one, BARE, 1, 1, None, 1000 * START + 5), *good]))


def test_the_ranking_is_as_long_as_there_are_servers_that_may_lead() -> None:
    """An excluded server leads no attempt: the one behind it does, and after the last comes the first again."""
    bench = bench_of(4)
    liar, *honest = bench.network.servers
    bench.exclude(liar, by=honest)
    bench.end_round()
    ranking = sorted(honest, key=bench.rank)
    for attempt in (3, 4, 5):
        bench.begin_attempt(attempt, leader=ranking[attempt % 3])
    assert bench.attempt == 5


def test_where_nobody_may_lead_nobody_does() -> None:
    bench = bench_of(1)
    assert bench.node.ask("is_lawful", address_of(account("server 0")))
    assert not bench.node.ask("is_lawful", address_of(account("server 1")))


# --- the roll (D3.6)


def test_every_server_posts_one_roll_for_the_plan_before_the_close(bench: Bench) -> None:
    one, two, _ = bench.network.servers
    with reverts("a roll for another plan"):
        bench.roll(one)
    bench.plan()
    bench.roll(one)
    with reverts("already posted"):
        bench.roll(one, b"another")
    with reverts("not an edge server"):
        bench.roll(bench.network.devices[0])
    with reverts("a roll for another plan"):
        bench.post(two, "roll", 1, 0, BLOCK, *named(b"roll"))
    bench.close()
    with reverts("this round is closed"):
        bench.roll(two)
