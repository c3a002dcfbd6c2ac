"""`endorse` carries servers' signatures under a sealed block (Q1): recovered here, by ascending address."""

from dataclasses import replace

from eth_hash.auto import keccak

from chain.client.keys import address_of
from chain.protocol.endorsements import Domain, endorse, posted_call
from tests.chain.endorsing import endorse_call, signed
from tests.chain.network import CHAIN_ID, START, genesis
from tests.chain.protocol.registry_bench import STRANGER, Bench, bench_of, reverts


def test_signatures_under_a_block_are_told_by_signer(bench: Bench) -> None:
    bench.end_round()
    parent, servers = bench.node.head, bench.network.servers
    events = bench.post(servers[0], "endorse", *endorse_call(servers, 1, parent.hash))
    told = [{"round": 1, "server": who, "digest": parent.hash} for who in sorted(map(address_of, servers))]
    assert [(event.name, event.arguments) for event in events] == [("Endorsed", said) for said in told]


def test_anybody_who_is_registered_carries_them_a_device_and_an_excluded_server_too() -> None:
    bench = bench_of(4)
    liar, *honest = bench.network.servers
    bench.exclude(liar, by=honest)
    bench.end_round()
    parent = bench.node.head
    for sender in (bench.network.devices[0], liar):
        assert len(bench.post(sender, "endorse", *endorse_call([liar, *honest], 1, parent.hash))) == 4


def test_any_of_the_last_blocks_may_be_endorsed_and_no_other(bench: Bench) -> None:
    servers = bench.network.servers
    for _ in range(3):
        bench.end_round()
    hashes = [bench.node.header(number).hash for number in range(1, 5)]  # type: ignore[union-attr]
    senders = iter(bench.network.devices)
    for round_ in (1, 2, 3):
        bench.post(next(senders), "endorse", *endorse_call(servers, round_, hashes[round_]))
    wrong = {
        (0, hashes[0]): "wrong round",
        (4, hashes[3]): "wrong round",
        (2**64, hashes[3]): "wrong round",
        (3, hashes[2]): "not a block of this chain",
        (3, bytes(32)): "not a block of this chain",
        (2, keccak(b"fork")): "not a block of this chain",
    }
    for (round_, block_hash), reason in wrong.items():
        with reverts(reason):
            bench.post(servers[0], "endorse", *endorse_call(servers[:1], round_, block_hash))


def test_a_signature_counts_for_one_block_round_attempt_time_chain_and_registry(bench: Bench) -> None:
    bench.end_round()
    parent, (one, *_) = bench.node.head, bench.network.servers
    domain = Domain.of(genesis())
    right = endorse(one, domain, 1, 0, parent.hash, 1000 * START)
    others = [
        replace(right, signature=endorse(one, domain, 2, 0, parent.hash, 1000 * START).signature),
        replace(right, signature=endorse(one, domain, 1, 0, keccak(b"fork"), 1000 * START).signature),
        replace(right, time_ms=right.time_ms + 1),
        replace(right, signature=endorse(one, Domain(CHAIN_ID + 1, domain.registry), 1, 0, parent.hash, 0).signature),
        replace(right, signature=endorse(STRANGER, domain, 1, 0, parent.hash, 1000 * START).signature),
    ]
    for each in others:
        with reverts("signed by no edge server"):
            bench.post(one, "endorse", *posted_call([each]))
    for device in bench.network.devices[:1]:
        with reverts("signed by no edge server"):
            bench.post(one, "endorse", *endorse_call([device], 1, parent.hash))
    with reverts("signed by no edge server"):
        bench.post(one, "endorse", 1, 1, *posted_call([right])[2:])
    bench.post(one, "endorse", *posted_call([right]))


def test_signers_ascend_so_that_nobody_counts_twice(bench: Bench) -> None:
    bench.end_round()
    parent, servers = bench.node.head, sorted(bench.network.servers, key=address_of)
    first, second = signed(servers[:2], 1, parent.hash)
    for pair in ((first, first), (second, first)):
        said = (1, 0, parent.hash, [each.time_ms for each in pair], b"".join(each.signature for each in pair))
        with reverts("signers must ascend"):
            bench.post(servers[0], "endorse", *said)
    with reverts("one signature per time"):
        bench.post(servers[0], "endorse", 1, 0, parent.hash, [0, 0], first.signature)
    with reverts("no signatures"):
        bench.post(servers[0], "endorse", 1, 0, parent.hash, [], b"")
    bench.post(servers[0], "endorse", *posted_call([first, second]))
    with reverts("already posted"):
        bench.post(servers[0], "endorse", *posted_call([first]))


def test_an_adopted_block_carries_endorsements_of_a_later_attempt_and_those_of_two_are_not_mixed(bench: Bench) -> None:
    bench.end_round()
    parent, (one, two, three) = bench.node.head, bench.network.servers
    early, late = signed([one], 1, parent.hash), signed([two, three], 1, parent.hash, attempt=4)
    with reverts("signed by no edge server"):
        bench.post(one, "endorse", 1, 4, *posted_call([*early, *late])[2:])
    assert len(bench.post(one, "endorse", *posted_call(late))) == 2
