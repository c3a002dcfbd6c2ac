"""Who joins a network that runs: by votes of its servers (P2)."""

import hashlib
import itertools

import pytest
from eth_account.signers.local import LocalAccount

from chain.client.keys import address_of
from chain.errors import (
    UnregisteredSenderError,
)
from tests.chain.network import (
    NEVER,
    account,
)
from tests.chain.protocol.registry_bench import NOBODY, STRANGER, A, Bench, C, bench_of, reverts


def test_a_strict_majority_of_servers_adds_a_device(bench: Bench) -> None:
    one, two, _ = bench.network.servers
    assert [event.name for event in bench.vote(one, STRANGER, two)] == ["Voted"]
    assert not bench.node.ask("is_device", address_of(STRANGER))
    voted, registered = bench.vote(two, STRANGER, two)
    fields = {"participant": address_of(STRANGER), "home": address_of(two)}
    assert voted.arguments == {**fields, "server": address_of(two)}
    assert (registered.name, registered.arguments) == ("Registered", fields)
    assert bench.node.ask("is_device", address_of(STRANGER))


def test_half_of_the_servers_is_no_majority() -> None:
    bench = bench_of(4)
    for server in bench.network.servers[:2]:
        bench.vote(server, STRANGER, bench.network.servers[0])
    assert bench.node.ask("home", address_of(STRANGER)) == NOBODY
    bench.vote(bench.network.servers[2], STRANGER, bench.network.servers[0])
    assert bench.node.ask("home", address_of(STRANGER)) == address_of(bench.network.servers[0])


def test_voting_twice_counts_once_and_votes_for_two_homes_do_not_add_up(bench: Bench) -> None:
    one, two, three = bench.network.servers
    bench.vote(one, STRANGER, one)
    bench.vote(one, STRANGER, one)
    bench.vote(two, STRANGER, two)
    bench.vote(three, STRANGER, STRANGER)
    assert bench.node.ask("home", address_of(STRANGER)) == NOBODY


def test_votes_are_for_servers_and_about_strangers(bench: Bench) -> None:
    one, two, _ = bench.network.servers
    device = bench.network.devices[0]
    with reverts("not an edge server"):
        bench.vote(device, STRANGER, one)
    with reverts("already registered"):
        bench.vote(one, device, two)
    with reverts("already registered"):
        bench.vote(one, device, device)
    with pytest.raises(UnregisteredSenderError):
        bench.vote(STRANGER, STRANGER, STRANGER)


@pytest.mark.parametrize(
    ("participant", "home", "reason"),
    [(C, A, "the home is no edge server"), (C, NOBODY, "the home is no edge server"), (NOBODY, NOBODY, "no address")],
)
def test_a_majority_cannot_register_nonsense(bench: Bench, participant: bytes, home: bytes, reason: str) -> None:
    one, two, _ = bench.network.servers
    bench.post(one, "vote", participant, home)
    with reverts(reason):
        bench.post(two, "vote", participant, home)


def test_votes_count_among_the_servers_that_are_not_excluded() -> None:
    bench = bench_of(5)
    one, two, three, four, five = bench.network.servers
    bench.vote(five, STRANGER, one)
    bench.vote(one, STRANGER, one)
    bench.exclude(five)
    bench.end_round()  # who has flagged votes in the next round: posts follow the phases
    assert bench.vote(two, STRANGER, one)[-1].name == "Voted"  # two of four, the excluded one's no longer counts
    with reverts("excluded"):
        bench.vote(five, STRANGER, one)
    assert bench.vote(three, STRANGER, one)[-1].name == "Registered"
    assert not bench.is_excluded(four)


def test_a_device_that_joins_may_post_at_once(bench: Bench) -> None:
    one, two, _ = bench.network.servers
    for server in (one, two):
        bench.vote(server, STRANGER, two)
    bench.plan()
    assert bench.gradient(STRANGER)[0].name == "GradientPosted"


def test_a_server_that_joins_takes_part_from_the_next_round(bench: Bench) -> None:
    """Otherwise one who chooses its address well would take the turn of a leader that has planned already."""
    leader, parent_hash = bench.leader, bench.node.head.hash
    assert bench.node.ask("winner_home") == NOBODY
    bench.plan(leader)

    def place(server: LocalAccount) -> bytes:
        return hashlib.sha256(parent_hash + address_of(server)).digest()

    candidates = (account(f"usurper {i}") for i in itertools.count())
    usurper = next(each for each in candidates if place(each) < place(leader))
    for server in bench.network.servers[:2]:
        bench.vote(server, usurper, usurper)
    assert address_of(usurper) in bench.node.ask("server_list")
    assert (bench.rank(leader), bench.rank(usurper)) == (0, NEVER)
    with reverts("excluded"):
        bench.close(usurper)
    bench.close(leader)
    bench.end_round(leader=leader)
    ranks = sorted(bench.rank(server) for server in [*bench.network.servers, usurper])
    assert ranks == [0, 1, 2, 3]
