"""Flags and exclusion: what a majority may do, and a minority may not (P14, P15)."""

from collections.abc import Callable
from typing import Any

import pytest
from eth_hash.auto import keccak

from chain.client.keys import address_of
from chain.errors import (
    LeaderError,
)
from chain.protocol import contract
from chain.protocol.slots import Slot
from chain.wire.sidecar import payload_digest
from tests.chain.network import NEVER, SIZES, sized
from tests.chain.protocol.registry_bench import SENT, STRANGER, Bench, bench_of, iterate_saying, prove, reverts


def test_a_strict_majority_of_flags_excludes() -> None:
    bench = bench_of(5, exclusion_rounds=4)
    *honest, liar = bench.network.servers
    for server in honest[:2]:
        assert [event.name for event in bench.flag(server, liar)] == ["Flagged"]
    assert not bench.is_excluded(liar)
    flagged, excluded = bench.flag(honest[2], liar, sent=b"hash")
    assert flagged.arguments == {
        "round": 1,
        "offender": address_of(liar),
        "server": address_of(honest[2]),
        "slot": Slot.ITERATE,
        "transaction_hash": b"hash".rjust(32, b"\0"),
        "expected": keccak(b"expected"),
    }
    said = {"round": 1, "participant": address_of(liar), "last_round": 5}
    assert (excluded.name, excluded.arguments) == ("Excluded", said)
    assert bench.is_excluded(liar)


def test_half_of_the_servers_excludes_nobody() -> None:
    bench = bench_of(4)
    liar, *honest = bench.network.servers
    for server in honest[:2]:
        bench.flag(server, liar)
    assert not bench.is_excluded(liar)
    bench.flag(honest[2], liar)
    assert bench.is_excluded(liar)


def test_of_two_servers_neither_can_be_excluded() -> None:
    bench = bench_of(2)
    one, two = bench.network.servers
    for _ in range(3):
        bench.flag(one, two)
        bench.flag(two, one)
        bench.end_round()
    assert not bench.is_excluded(one)
    assert not bench.is_excluded(two)


def test_a_minority_never_excludes_however_often_it_flags() -> None:
    bench = bench_of(5, flag_window=100)
    *honest, liar, other_liar = bench.network.servers
    for _ in range(4):
        for server in honest:
            bench.flag(liar, server)
            bench.flag(other_liar, server)
        bench.end_round()
    assert not any(bench.is_excluded(server) for server in honest)


@pytest.mark.parametrize(("window", "rounds"), [(0, 0), (0, 1), (2, 2), (2, 3)])
def test_a_flag_counts_in_its_round_and_the_window_after_it(window: int, rounds: int) -> None:
    bench = bench_of(3, flag_window=window)
    liar, one, two = bench.network.servers
    bench.flag(one, liar)
    bench.end_rounds(rounds)
    bench.flag(two, liar)
    assert bench.is_excluded(liar) == (rounds <= window)


def test_a_flag_raised_again_counts_anew() -> None:
    bench = bench_of(3, flag_window=1)
    liar, one, two = bench.network.servers
    bench.flag(one, liar)
    with reverts("already flagged"):
        bench.flag(one, liar, slot=Slot.PLAN)
    bench.end_rounds(2)
    bench.flag(one, liar)
    bench.end_round()
    bench.flag(two, liar)
    assert bench.is_excluded(liar)


def test_an_excluded_server_may_do_nothing_until_it_comes_back() -> None:
    bench = bench_of(3, exclusion_rounds=2)
    liar, one, two = bench.network.servers
    bench.plan()
    bench.exclude(liar)
    first, second = (iterate_saying(bench, one, payload) for payload in (b"one", b"two"))
    for round_ in (1, 2, 3):
        assert (bench.round, bench.is_excluded(liar)) == (round_, True)
        assert (bench.rank(liar) == NEVER) == (round_ > 1), "a ranking does not change within a round"
        acts: list[Callable[[], Any]] = [
            lambda: bench.plan(liar),
            lambda: bench.gradient(liar),
            lambda: bench.roll(liar),
            lambda: bench.close(liar),
            lambda: bench.iterate(liar),
            lambda: bench.model(liar),
            lambda: bench.flag(liar, one),
            lambda: prove(bench, liar, one, first, second),
            lambda: bench.vote(liar, STRANGER, one),
        ]
        if round_ > 1:  # in the round of the flags a certificate stands before them in the block
            acts.append(lambda: bench.begin_attempt(leader=liar))
        for act in acts:
            with reverts("excluded"):
                act()
        if bench.leader != liar:
            with pytest.raises(LeaderError):
                bench.node.propose(address_of(liar))
        bench.end_round()
    assert (bench.round, bench.is_excluded(liar)) == (4, False)
    assert sorted(map(bench.rank, (liar, one, two))) == [0, 1, 2]
    bench.plan()
    bench.gradient(liar)
    bench.close()
    bench.iterate(liar)
    bench.flag(liar, one)


def test_the_devices_of_an_excluded_server_go_on() -> None:
    bench = bench_of(3)
    liar, one, two = bench.network.servers
    device = next(d for d in bench.network.devices if bench.network.homes[address_of(d)] == address_of(liar))
    bench.plan()
    bench.exclude(liar)
    assert bench.gradient(device)[0].name == "GradientPosted"
    leader = bench.leader
    bench.end_round(winner=device, leader=leader)
    assert bench.node.ask("credit", address_of(device)) == 1
    assert sorted(map(bench.rank, (one, two))) == [0, 1]
    assert bench.rank(liar) == NEVER


def test_flags_count_among_the_servers_that_are_not_excluded() -> None:
    bench = bench_of(5)
    first, second, *honest = bench.network.servers
    bench.flag(first, honest[0])
    bench.flag(second, honest[0])
    bench.exclude(first)
    bench.flag(honest[1], honest[0])  # two of four: the flag of the excluded one no longer counts
    assert not bench.is_excluded(honest[0])
    bench.flag(honest[2], honest[0])
    assert bench.is_excluded(honest[0])
    with reverts("already excluded"):
        bench.flag(honest[2], first)


def test_two_that_are_left_cannot_exclude_each_other() -> None:
    bench = bench_of(3)
    liar, one, two = bench.network.servers
    bench.exclude(liar)
    bench.flag(one, two)
    bench.flag(two, one)
    assert not bench.is_excluded(one)
    assert not bench.is_excluded(two)


def test_flags_that_have_excluded_once_are_spent() -> None:
    bench = bench_of(3, exclusion_rounds=1, flag_window=50)
    liar, one, two = bench.network.servers
    bench.exclude(liar)
    bench.end_rounds(2)
    assert not bench.is_excluded(liar)
    bench.flag(one, liar)
    assert not bench.is_excluded(liar)
    bench.flag(two, liar)
    assert bench.is_excluded(liar)


def test_an_exclusion_of_no_rounds_lasts_to_the_end_of_the_round() -> None:
    bench = bench_of(3, exclusion_rounds=0)
    liar = bench.network.servers[0]
    bench.exclude(liar)
    bench.end_round()
    assert not bench.is_excluded(liar)


def test_a_leader_that_is_excluded_is_followed_in_the_next_attempt_and_no_rank_changes_within_the_round() -> None:
    bench = bench_of(5)
    leader, successor = bench.leader, bench.network.leader(bench.node, 1)
    others = [server for server in bench.network.servers if server not in (leader, successor)]
    ranks = list(map(bench.rank, bench.network.servers))
    bench.plan(leader)
    bench.exclude(leader, by=others)
    with reverts("excluded"):
        bench.close(leader)
    with reverts("not the leader of this attempt"):
        bench.close(successor)
    assert list(map(bench.rank, bench.network.servers)) == ranks
    bench.begin_attempt(1, leader=successor)
    assert not bench.is_excluded(leader), "flags are posted again"
    bench.exclude(leader, by=others)
    bench.plan(successor)
    (closed,) = bench.close(successor)
    assert closed["attempt"] == 1
    assert list(map(bench.rank, bench.network.servers)) == ranks
    bench.end_round(leader=successor)
    assert bench.rank(leader) == NEVER
    assert sorted(bench.rank(each) for each in bench.network.servers if each != leader) == [0, 1, 2, 3]


def test_nobody_is_accused_of_being_absent(bench: Bench) -> None:
    """A crash is no lie (D3.6): a flag names the transaction that it is about."""
    one, two, _ = bench.network.servers
    with reverts("a flag needs the post it is about"):
        bench.flag(one, two, sent=bytes(32))


def test_nobody_flags_itself_a_stranger_or_one_who_is_out(bench: Bench) -> None:
    one, two, three = bench.network.servers
    with reverts("nobody flags itself"):
        bench.flag(one, one)
    with reverts("the offender is not registered"):
        bench.flag(one, STRANGER)
    bench.exclude(three)
    with reverts("already excluded"):
        bench.flag(one, three)
    assert not bench.is_excluded(two)


def test_a_device_can_be_flagged_and_excluded_too(bench: Bench) -> None:
    device = bench.network.devices[0]
    bench.plan()
    bench.exclude(device)
    with reverts("excluded"):
        bench.gradient(device)


def test_a_flag_says_what_it_says_whether_the_post_is_there_or_not(bench: Bench) -> None:
    """Whoever replays the round knows whether it is right; the registry keeps no digests to compare."""
    one, two, _ = bench.network.servers
    bench.plan()
    bench.close()
    bench.iterate(two)
    expected = payload_digest(sized(b"iterate", SIZES.iterate))
    (flagged,) = bench.post(one, "flag", 1, address_of(two), Slot.ITERATE, b"transaction".rjust(32), expected)
    assert (flagged["transaction_hash"], flagged["expected"]) == (b"transaction".rjust(32), expected)
    assert not bench.is_excluded(two)


def test_a_late_post_does_not_undo_a_flag_nor_what_its_server_posted_behind(bench: Bench) -> None:
    """A block is ordered by phase: the late iterate comes before the flag. Had it made the flag fail, the leader's
    model, one nonce later, would have fallen out of the block."""
    leader, late = bench.leader, bench.others[0]
    bench.plan()
    bench.close()
    bench.post(leader, "flag", 1, address_of(late), Slot.ITERATE, SENT, keccak(b"iterate"))
    bench.model()
    bench.iterate(late)
    bench.end_round(leader=leader)
    block = bench.node.block(2)
    assert block is not None
    names = [contract.decode_call(transaction.data).name for transaction in block.transactions]
    assert names == ["plan", "close", "iterate", "flag", "model"]
    assert [receipt.status for receipt in block.receipts] == [1] * 5
