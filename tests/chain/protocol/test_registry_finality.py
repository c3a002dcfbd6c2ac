"""Endorsements make the parent block final (P17)."""

from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak

from chain.client.keys import address_of
from chain.protocol.contract import Call
from tests.chain.protocol.registry_bench import Bench, bench_of, reverts


def endorse(bench: Bench, server: LocalAccount) -> list[Call]:
    return bench.post(server, "endorse", bench.round, bench.node.head.hash)


def test_a_strict_majority_of_endorsements_makes_the_parent_final() -> None:
    bench = bench_of(4)
    bench.end_round()
    parent = bench.node.head
    for server in bench.network.servers[:2]:
        (event,) = endorse(bench, server)
        said = {"round": 2, "server": address_of(server), "digest": parent.hash}
        assert (event.name, event.arguments) == ("Endorsed", said)
    assert bench.node.ask("final_block") == 0
    endorse(bench, bench.network.servers[2])
    assert bench.node.ask("final_block") == parent.block_number == 2
    endorse(bench, bench.network.servers[3])
    assert bench.node.ask("final_block") == 2


def test_an_endorsement_is_of_the_parent_and_given_once(bench: Bench) -> None:
    bench.end_round()
    one, two, three = bench.network.servers
    for wrong in (bytes(32), bench.node.head.parent_hash, keccak(b"fork")):
        with reverts("not the parent block"):
            bench.post(one, "endorse", 2, wrong)
    endorse(bench, one)
    with reverts("already posted"):
        endorse(bench, one)
    assert bench.node.ask("final_block") == 0
    bench.end_round()
    endorse(bench, two)  # one each of two blocks
    assert bench.node.ask("final_block") == 0
    endorse(bench, three)
    assert bench.node.ask("final_block") == 3


def test_an_endorsement_goes_with_its_server() -> None:
    bench = bench_of(7)
    liar, *honest = bench.network.servers
    for server in (liar, *honest[:2]):
        endorse(bench, server)
    bench.exclude(liar, by=[*honest[:2], *honest[4:]])
    endorse(bench, honest[2])  # four of six with the excluded one, three without
    assert bench.node.ask("final_block") == 0
    endorse(bench, honest[3])
    assert bench.node.ask("final_block") == 1
