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
from tests.chain.network import (
    START,
)
from tests.chain.protocol.registry_bench import NEVER, NOBODY, STRANGER, Bare, Bench, reverts


@pytest.mark.parametrize("rank", [1, 2])
def test_a_successor_waits_for_its_turn(bench: Bench, rank: int) -> None:
    successor = bench.network.leader(bench.node, rank)
    posts: list[Callable[[LocalAccount], list[Call]]] = [bench.plan, bench.close, bench.model]
    turn_s = rank * bench.network.terms.turn_s
    with reverts("a successor before its turn"):
        bench.plan(successor)
    bench.clock.pass_s(turn_s - 1)
    with reverts("a successor before its turn"):
        bench.plan(successor)
    assert not bench.node.ask("is_lawful", address_of(successor), START + turn_s - 1)
    with pytest.raises(LeaderError):
        bench.node.propose(address_of(successor))
    bench.clock.pass_s(1)
    for post in posts:
        (event,) = post(successor)
        assert (event["leader"], event["rank"]) == (address_of(successor), rank)
    bench.end_round(leader=successor)
    assert bench.node.head.coinbase == address_of(successor)


def test_the_leader_itself_is_never_too_late(bench: Bench) -> None:
    bench.clock.pass_s(10**6)
    bench.plan(bench.leader)
    assert bench.node.ask("is_lawful", address_of(bench.leader), 0)


def test_whoever_comes_first_posts_and_the_other_is_refused(bench: Bench) -> None:
    leader, successor = bench.leader, bench.network.leader(bench.node, 1)
    bench.clock.pass_s(60)
    bench.plan(successor)
    with reverts("this round is planned"):
        bench.plan(leader)
    bench.close(leader)
    with reverts("this round is closed"):
        bench.close(successor)


def test_turns_count_from_the_parent_block(bench: Bench) -> None:
    bench.clock.pass_s(1000)
    bench.end_round()
    assert bench.node.ask("parent_time") == bench.node.head.timestamp == START + 1000
    successor = bench.network.leader(bench.node, 1)
    bench.clock.pass_s(59)
    with reverts("a successor before its turn"):
        bench.plan(successor)
    bench.clock.pass_s(1)
    bench.plan(successor)


def test_who_is_no_server_never_leads(bench: Bench) -> None:
    for who in (address_of(bench.network.devices[0]), address_of(STRANGER), NOBODY):
        assert bench.node.ask("rank", who) == NEVER
        assert not bench.node.ask("is_lawful", who, 2**255)


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
        bench.end_round(winner=bench.network.devices[0])
    reigns = [(leader, len(list(rounds))) for leader, rounds in itertools.groupby(leaders)]
    home = address_of(bench.network.servers[0])
    assert max(terms for _, terms in reigns) == 3
    assert [terms for leader, terms in reigns if leader == home][:2] == [3, 3]
    assert {terms for leader, terms in reigns if leader != home} == {1}


def test_a_spent_leader_is_the_last_successor(bench: Bench) -> None:
    server = bench.network.servers[0]
    while bench.node.ask("reign_terms") < 3 or bench.node.ask("reign_leader") != address_of(server):
        bench.end_round(winner=bench.network.devices[0])
    assert bench.rank(server) == 2
    bench.clock.pass_s(120)
    bench.end_round(winner=bench.network.devices[0], leader=server)
    assert bench.rank(server) == 2  # four in a row, because nobody else came


def test_credit_counts_the_rounds_a_device_has_sealed(bench: Bench) -> None:
    one, two, three, _ = bench.network.devices
    for winner in (one, two, one, one):
        bench.end_round(winner=winner)
    assert [bench.node.ask("credit", address_of(device)) for device in (one, two, three)] == [3, 1, 0]
    assert all(bench.node.ask("credit", address_of(server)) == 0 for server in bench.network.servers)


def test_only_the_chain_begins_a_block(bench: Bench) -> None:
    said = (address_of(bench.network.devices[0]), address_of(bench.leader), bytes(32), START)
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
        bare.registry.begin(winner, NOBODY, bytes(32), START)
        assert bare.registry.ask("credit", winner) == 0
        assert bare.registry.ask("winner_home") == NOBODY
