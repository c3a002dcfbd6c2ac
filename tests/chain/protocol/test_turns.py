"""Whose turn it is, three times over: from headers, in the contract, and in the edge servers."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import pytest
from eth_hash.auto import keccak
from hypothesis import given, settings
from hypothesis import strategies as st

from chain.client.keys import address_of
from chain.protocol.passes import begun_call, sign_pass
from chain.protocol.ranking import ranked_servers
from chain.protocol.slots import Slot
from chain.protocol.turns import Attendance, Membership, ranking_after, spent_leader
from chain.wire.address import Address
from chain.wire.headers import Header
from chain.wire.sidecar import payload_digest
from edge_servers.founding.standing import Tenure
from edge_servers.ledger.ranking import ranked_leaders
from tests.chain.endorsing import BARE
from tests.chain.network import TERMS, BareRegistry, Network, account, addresses, founded_node, genesis, seal

A, B, C, D = (bytes([i]) * 20 for i in (0xA, 0xB, 0xC, 0xD))
DEVICE, OTHER_DEVICE, STRANGER, NOBODY = b"\x01" * 20, b"\x02" * 20, b"\x03" * 20, bytes(20)
HASH = keccak(b"parent")
NEVER = 2**256 - 1
SIGNERS = [account(f"server {i}") for i in range(4)]


def by_hash(servers: Sequence[bytes], parent_hash: bytes = HASH) -> list[bytes]:
    return sorted(servers, key=lambda server: hashlib.sha256(parent_hash + server).hexdigest())


def headers(*blocks: tuple[bytes, bytes], founder: bytes = A) -> list[Header]:
    """Genesis, the founding block, and a block for each (leader, winner)."""
    chain = [genesis().header]
    for coinbase, winner in ((founder, b""), *blocks):
        parent = chain[-1]
        number = parent.block_number + 1
        chain.append(
            replace(parent, parent_hash=parent.hash, coinbase=Address(coinbase), extra_data=winner, block_number=number)
        )
    return chain


def membership(homes: dict[bytes, bytes] | None = None, term_cap: int = 3) -> Membership:
    return Membership(homes or {A: A, B: B, C: C, DEVICE: A, OTHER_DEVICE: B}, term_cap)


# --- by hand


def test_servers_are_those_at_home_with_themselves() -> None:
    members = membership({C: C, DEVICE: C, A: A})
    assert members.servers == (A, C)
    assert [members.is_device(who) for who in (A, C, DEVICE, STRANGER)] == [False, False, True, False]


def test_without_a_winner_the_hash_decides() -> None:
    assert ranked_servers([A, B, C], None, HASH, None) == by_hash([A, B, C])
    assert ranked_servers([C, B, A], None, HASH, None) == by_hash([A, B, C])
    orders = {tuple(ranked_servers([A, B, C], None, bytes([i]) * 32, None)) for i in range(40)}
    assert len(orders) == 6


@pytest.mark.parametrize("first", [A, B, C])
def test_the_winners_home_comes_first_and_the_others_by_hash(first: bytes) -> None:
    others = [server for server in by_hash([A, B, C]) if server != first]
    assert ranked_servers([A, B, C], first, HASH, None) == [first, *others]


@pytest.mark.parametrize("spent", [A, B, C])
def test_a_spent_leader_comes_last_even_if_its_device_won(spent: bytes) -> None:
    others = [server for server in by_hash([A, B, C]) if server != spent]
    assert ranked_servers([A, B, C], spent, HASH, spent) == [*others, spent]
    assert ranked_servers([A, B, C], None, HASH, spent) == [*others, spent]


def test_who_is_not_among_the_servers_is_not_ranked() -> None:
    assert ranked_servers([A, B], C, HASH, D) == by_hash([A, B])
    assert ranked_servers([A], A, HASH, A) == [A]
    assert ranked_servers([], A, HASH, A) == []


def test_a_leader_is_spent_after_as_many_rounds_in_a_row_as_the_cap() -> None:
    assert spent_leader(headers(), 1) is None
    assert spent_leader(headers((A, DEVICE)), 1) == A
    assert spent_leader(headers((A, DEVICE), (A, DEVICE)), 3) is None
    assert spent_leader(headers((A, DEVICE), (A, DEVICE), (A, DEVICE)), 3) == A
    assert spent_leader(headers((B, DEVICE), (A, DEVICE), (A, DEVICE)), 3) is None
    assert spent_leader(headers((A, DEVICE), (A, DEVICE), (A, DEVICE), (B, DEVICE)), 3) is None
    assert spent_leader(headers(*[(A, DEVICE)] * 5), 3) == A


def test_founding_a_network_is_no_term() -> None:
    """The founder may be a server as well."""
    assert spent_leader(headers((A, DEVICE), (A, DEVICE), founder=A), 3) is None
    registry = BareRegistry(TERMS)
    registry.found({A: A, B: B})
    registry.begin(NOBODY, A, HASH)
    assert (registry.ask("reign_leader"), registry.ask("reign_terms")) == (NOBODY, 0)


def test_headers_before_the_term_cap_do_not_matter() -> None:
    chain = headers((B, DEVICE), (C, DEVICE), (A, DEVICE), (A, DEVICE), (A, OTHER_DEVICE))
    members = membership()
    assert ranking_after(chain, members) == ranking_after(chain[-3:], members) == [B, C, A]


def test_only_servers_that_are_not_excluded_have_a_rank() -> None:
    chain, members = headers((B, DEVICE)), membership()
    assert ranking_after(chain, members) == [A, *by_hash([B, C], chain[-1].hash)]
    assert ranking_after(chain, members, {A}) == by_hash([B, C], chain[-1].hash)
    assert ranking_after(chain, members, {A, B}) == [C]
    assert ranking_after(chain, members, {A, B, C}) == []


def test_dormant_servers_come_last_even_behind_a_spent_leader_and_as_the_winners_home() -> None:
    assert ranked_servers([A, B, C], A, HASH, None, {A}) == [*by_hash([B, C]), A]
    assert ranked_servers([A, B, C], None, HASH, B, {A}) == [C, B, A]
    assert ranked_servers([A, B, C], C, HASH, None, {A, B}) == [C, *by_hash([A, B])]
    assert ranked_servers([A, B, C], A, HASH, B, {A, B, C}) == by_hash([A, B, C]), "all alike: nobody is behind"
    assert ranking_after(headers((B, DEVICE)), membership(), (), {A}) == ranked_servers(
        [A, B, C], A, headers((B, DEVICE))[-1].hash, None, {A}
    )


def test_who_posts_nothing_in_five_blocks_of_two_leaders_is_dormant_until_it_posts() -> None:
    attendance = Attendance()
    for round_, leader in enumerate([A, A, A, A, B], start=1):
        assert attendance.dormant([A, B, C], round_) == []
        attendance.follow(round_, leader, {leader})
    assert attendance.dormant([A, B, C], 6) == [C]
    attendance.follow(6, A, {A, C})
    assert attendance.dormant([A, B, C], 7) == []


def test_one_leader_alone_puts_nobody_to_sleep() -> None:
    """It may be the one that leaves others' posts out."""
    attendance = Attendance()
    for round_ in range(1, 20):
        attendance.follow(round_, A, {A})
    assert attendance.dormant([A, B, C], 20) == []
    attendance.follow(20, B, {B})
    assert attendance.dormant([A, B, C], 21) == [C]


def sleep_through(attendance: Attendance, round_: int) -> int:
    """C posts nothing until it is dormant; returns the round that begins then."""
    while C not in attendance.dormant([A, B, C], round_):
        leader = (A, B)[round_ % 2]
        attendance.follow(round_, leader, {leader})
        round_ += 1
    return round_


def test_each_relapse_doubles_the_rounds_in_which_it_must_post_up_to_64() -> None:
    attendance, round_, owed = Attendance(), 1, []
    for _ in range(8):
        round_ = first = sleep_through(attendance, round_)
        while attendance.dormant([A, B, C], round_) == [C]:
            attendance.follow(round_, (A, B)[round_ % 2], {A, B, C})
            round_ += 1
        owed.append(round_ - first)
    assert owed == [1, 2, 4, 8, 16, 32, 64, 64]


def test_missed_rounds_neither_count_nor_cost_what_was_posted() -> None:
    attendance = Attendance()
    round_ = sleep_through(attendance, 1)
    attendance.follow(round_, A, {A, C})
    round_ = sleep_through(attendance, round_ + 1)
    for is_there in (True, *[False] * 9, True):
        assert attendance.dormant([A, B, C], round_) == [C], "two rounds are owed, and no more for being away"
        leader = (A, B)[round_ % 2]
        attendance.follow(round_, leader, {A, B, C} if is_there else {A, B})
        round_ += 1
    assert attendance.dormant([A, B, C], round_) == []


@pytest.mark.parametrize("winner", [STRANGER, C, b""])
def test_a_winner_that_is_no_device_makes_nobody_first(winner: bytes) -> None:
    chain = headers((B, winner))
    assert ranking_after(chain, membership()) == by_hash([A, B, C], chain[-1].hash)


# --- against the contract and the edge servers


# None of the devices below, which are one byte twenty times.
SERVERS = st.binary(min_size=20, max_size=20).filter(lambda address: len(set(address)) > 1)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.data(), st.integers(1, 6), st.integers(1, 4), st.booleans())
def test_headers_contract_and_edge_servers_rank_alike(
    data: st.DataObject, count: int, term_cap: int, some_are_excluded: bool
) -> None:
    servers = data.draw(st.lists(SERVERS, min_size=count, max_size=count, unique=True))
    homes = {server: server for server in servers} | {bytes([i]) * 20: servers[i % count] for i in range(250, 254)}
    members = membership(homes, term_cap)
    registry = BareRegistry(replace(TERMS, term_cap=term_cap, exclusion_rounds=100))
    registry.found(homes)
    # Few leaders and devices: reigns must come to an end, and winners must be at home with the leader.
    leaders = st.sampled_from(servers[:2])
    winners = st.sampled_from([*homes, STRANGER])
    blocks = data.draw(st.lists(st.tuples(leaders, winners), min_size=1, max_size=9))
    tenure, attendance, present = Tenure(), Attendance(), set[bytes]()
    for length in range(len(blocks) + 1):
        chain = headers(*blocks[:length], founder=servers[0])
        parent = chain[-1]
        registry.number = parent.block_number + 1
        registry.begin(parent.winner or NOBODY, parent.coinbase, parent.hash)
        if length:
            tenure = tenure.after(Address(parent.coinbase))
            attendance.follow(length, parent.coinbase, present)
        excluded = {server for server in servers if registry.ask("is_excluded", server)}
        dormant = attendance.dormant(servers, length + 1)
        assert [server for server in servers if registry.ask("is_dormant", server)] == dormant
        ranking = ranking_after(chain, members, excluded, dormant)
        check_ranks(registry, servers, ranking)
        if not excluded and not dormant:
            winner = parent.winner
            home = Address(homes[winner]) if winner and members.is_device(winner) else None
            assert ranked_leaders(list(map(Address, servers)), home, parent.hash, tenure, term_cap) == ranking
        present = post_some(registry, data.draw(st.lists(st.sampled_from(servers), unique=True)), ranking)
        if some_are_excluded and length == len(blocks) - 1:
            flag_all(registry, servers, servers[data.draw(st.integers(0, count - 1))])
        check_ranks(registry, servers, ranking)  # neither posts nor flags change it within a round


# How many rounds a server is silent, and in how many it posts then: what makes it relapse.
SPELLS = st.lists(st.tuples(st.integers(0, 8), st.integers(1, 5)), min_size=1, max_size=6)


def attending(spells: Sequence[tuple[int, int]], rounds: int) -> list[bool]:
    """In which rounds a server posts; these spells over and over."""
    once = [is_there for silent, steady in spells for is_there in (*[False] * silent, *[True] * steady)]
    return [once[round_ % len(once)] for round_ in range(rounds)]


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(st.data(), st.integers(12, 45))
def test_attendance_and_contract_agree_who_sleeps_over_relapses(data: st.DataObject, rounds: int) -> None:
    servers = addresses(SIGNERS[:3])
    homes = {server: server for server in servers} | {bytes([i]) * 20: servers[i % 3] for i in range(250, 253)}
    there = {server: attending(data.draw(SPELLS), rounds) for server in servers}
    devices = st.sampled_from([who for who, home in homes.items() if who != home])
    blocks = data.draw(st.lists(st.tuples(st.sampled_from(servers), devices), min_size=rounds, max_size=rounds))
    chain, members = headers(*blocks, founder=servers[0]), membership(homes)
    registry, attendance = BareRegistry(TERMS), Attendance()
    registry.found(homes)
    for round_ in range(1, rounds + 1):
        parent = chain[round_]
        registry.number = parent.block_number + 1
        registry.begin(parent.winner or NOBODY, parent.coinbase, parent.hash)
        dormant = attendance.dormant(servers, round_)
        assert [server for server in servers if registry.ask("is_dormant", server)] == dormant
        ranking = ranking_after(chain[: round_ + 1], members, (), dormant)
        assert registry.ask("rank", ranking[0]) == 0
        present = post_some(registry, [server for server in servers if there[server][round_ - 1]], ranking)
        check_ranks(registry, servers, ranking)
        attendance.follow(round_, chain[round_ + 1].coinbase, present)


def check_ranks(registry: BareRegistry, servers: Sequence[bytes], ranking: Sequence[bytes]) -> None:
    """The contract has this ranking."""
    expected = {server: ranking.index(server) if server in ranking else NEVER for server in servers}
    assert {server: registry.ask("rank", server) for server in servers} == expected


def post_some(registry: BareRegistry, servers: Sequence[bytes], ranking: Sequence[bytes]) -> set[bytes]:
    """The leader plans, and these servers post a roll, as far as they may; returns who posted."""
    round_, digest = registry.number - 1, payload_digest(b"x")
    if not ranking:
        return set()
    registry.send(ranking[0], "plan", round_, 0, digest, 1)
    present = [server for server in servers if not registry.ask("is_excluded", server)]
    for server in present:
        registry.send(server, "roll", round_, 0, digest, digest, 1)
    return {ranking[0], *present}


def flag_all(registry: BareRegistry, servers: Sequence[bytes], offender: bytes) -> None:
    """Have the others flag one, as far as they get."""
    for server in servers:
        if server != offender and not registry.ask("is_excluded", offender):
            registry.send(server, "flag", registry.number - 1, offender, Slot.ITERATE, HASH, bytes(32))


@pytest.mark.parametrize("rank", range(4))
def test_lawful_by_the_contract_is_the_attempt_modulo_the_ranking(rank: int) -> None:
    registry = BareRegistry(TERMS)
    homes = {server: server for server in addresses(SIGNERS)}
    registry.found(homes)
    (*_, parent) = chain = headers()
    registry.begin(NOBODY, NOBODY, parent.hash)
    ranking = ranking_after(chain, membership(homes))
    passing = sorted(SIGNERS, key=address_of)
    for attempt in (rank, rank + 4, rank + 4 * 10**6):
        if attempt:
            passes = [sign_pass(each, BARE, 1, attempt, None, 0) for each in passing]
            registry.send(ranking[rank], "begin_attempt", *begun_call(passes))
        assert [registry.ask("is_lawful", each) for each in ranking] == [place == rank for place in range(4)]


def test_a_node_s_chain_gives_the_ranks_its_registry_gives() -> None:
    network, attendance = Network(servers=SIGNERS), Attendance()
    node = founded_node(network)
    winners = [network.devices[i] for i in (0, 0, 0, 0, 1, 3, 3, 0, 1)]
    for round_, winner in enumerate(winners, start=1):
        chain = [header for number in range(round_ + 1) if (header := node.header(number)) is not None]
        dormant = attendance.dormant(addresses(network.servers), round_)
        ranking = ranking_after(chain, network.membership, (), dormant)
        assert [node.ask("rank", server) for server in ranking] == [0, 1, 2, 3]
        if round_ == 6:
            network.begin_attempt(node)
        leader = network.leader(node)
        network.post_plan(node, leader)
        attendance.follow(round_, address_of(leader), [address_of(leader)])
        node.propose(address_of(leader))
        seal(node, address_of(winner))
