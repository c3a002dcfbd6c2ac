"""Whose turn it is to lead, as the registry counts it (P12)."""

import itertools
from collections.abc import Callable

import pytest
from eth_account.signers.local import LocalAccount

from chain.client.keys import address_of
from chain.errors import (
    LeaderError,
    NotRegistryCallError,
)
from chain.protocol.contract import Call
from tests.chain.network import NEVER
from tests.chain.protocol.registry_bench import NOBODY, STRANGER, Bare, Bench, reverts


@pytest.mark.parametrize("attempt", [1, 2, 3, 4, 5, 2**32 - 1])
def test_an_attempt_is_led_by_the_next_in_the_ranking_and_by_nobody_else(bench: Bench, attempt: int) -> None:
    ranking = sorted(bench.network.servers, key=bench.rank)
    leader = ranking[attempt % 3]
    for other in ranking:
        if other != ranking[0]:
            with reverts("not the leader of this attempt"):
                bench.plan(other)
    bench.clock.pass_s(10**6)  # time alone never starts an attempt
    with reverts("not the leader of this attempt"):
        bench.plan(ranking[1])
    bench.begin_attempt(attempt)
    assert [bench.node.ask("is_lawful", address_of(each)) for each in ranking] == [each == leader for each in ranking]
    posts: list[Callable[[LocalAccount], list[Call]]] = [bench.plan, bench.close, bench.model]
    for post in posts:
        for other in ranking:
            if other != leader:
                with reverts("not the leader of this attempt"):
                    post(other)
        (event,) = post(leader)
        assert (event["leader"], event["attempt"]) == (address_of(leader), attempt)
    for other in ranking:
        if other != leader:
            with pytest.raises(LeaderError):
                bench.node.propose(address_of(other))
    bench.end_round(leader=leader)
    assert bench.node.head.coinbase == address_of(leader)
    assert bench.attempt == 0, "the next round begins with its first attempt"


def test_the_leader_itself_is_never_too_late(bench: Bench) -> None:
    bench.clock.pass_s(10**6)
    bench.plan(bench.leader)
    assert bench.node.ask("is_lawful", address_of(bench.leader))


def test_who_is_no_server_never_leads(bench: Bench) -> None:
    for who in (address_of(bench.network.devices[0]), address_of(STRANGER), NOBODY):
        assert bench.node.ask("rank", who) == NEVER
        assert not bench.node.ask("is_lawful", who)


def test_the_home_of_the_device_that_sealed_leads_next(bench: Bench) -> None:
    for device in (bench.network.devices[1], bench.network.devices[2], bench.network.devices[3]):
        bench.end_round(winner=device)
        home = bench.network.homes[address_of(device)]
        assert address_of(bench.leader) == home
        assert bench.node.ask("winner_home") == home


def test_nobody_leads_more_rounds_in_a_row_than_the_term_cap(bench: Bench) -> None:
    leaders = []
    for _ in range(12):
        leaders.append(address_of(bench.leader))
        bench.attend()
        bench.end_round(winner=bench.network.devices[0])
    reigns = [(leader, len(list(rounds))) for leader, rounds in itertools.groupby(leaders)]
    home = address_of(bench.network.servers[0])
    assert max(terms for _, terms in reigns) == 3
    assert [terms for leader, terms in reigns if leader == home][:2] == [3, 3]
    assert {terms for leader, terms in reigns if leader != home} == {1}


def test_a_spent_leader_is_the_last_successor(bench: Bench) -> None:
    server = bench.network.servers[0]
    while bench.node.ask("reign_terms") < 3 or bench.node.ask("reign_leader") != address_of(server):
        bench.attend()
        bench.end_round(winner=bench.network.devices[0])
    assert bench.rank(server) == 2
    bench.begin_attempt(2)
    bench.end_round(winner=bench.network.devices[0], leader=server)
    assert bench.rank(server) == 2  # four in a row, because nobody else came


def test_credit_counts_the_rounds_a_device_has_sealed(bench: Bench) -> None:
    one, two, three, _ = bench.network.devices
    for winner in (one, two, one, one):
        bench.end_round(winner=winner)
    assert [bench.node.ask("credit", address_of(device)) for device in (one, two, three)] == [3, 1, 0]
    assert all(bench.node.ask("credit", address_of(server)) == 0 for server in bench.network.servers)


def test_only_the_chain_begins_a_block(bench: Bench) -> None:
    said = (address_of(bench.network.devices[0]), address_of(bench.leader), bytes(32))
    with pytest.raises(NotRegistryCallError):
        bench.post(bench.leader, "begin_block", *said)
    bare = Bare()
    for sender in (*bare.servers, *bare.devices, STRANGER):
        with reverts("only the chain itself begins a block"):
            bare.send(sender, "begin_block", *said)
    with reverts("only the chain itself begins a block"):
        bare.registry.send(bare.registry.founder, "begin_block", *said)


def test_a_winner_that_is_no_device_earns_nothing() -> None:
    bare = Bare()
    for winner in (address_of(bare.servers[0]), address_of(STRANGER), NOBODY):
        bare.registry.begin(winner, NOBODY, bytes(32))
        assert bare.registry.ask("credit", winner) == 0
        assert bare.registry.ask("winner_home") == NOBODY
