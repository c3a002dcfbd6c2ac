"""eth_getLogs: what is found by address, topics and blocks, and that no filter costs more than it should."""

from dataclasses import replace
from typing import Any

import pytest
from eth_bloom import bloom as bloom_module
from hypothesis import given, settings
from hypothesis import strategies as st
from web3 import Web3

from chain.client.keys import address_of
from chain.protocol.contract import events
from chain.rpc import logs as log_search
from chain.rpc.arguments import ArgumentError
from chain.rpc.in_process import InProcessProvider
from chain.rpc.logs import Pattern, find_logs, read_pattern
from chain.wire.receipts import Log, Receipt
from tests.chain.headers_made import PLAIN
from tests.chain.scene import Scene, hexed, registry_of

GRADIENT = hexed(events()["GradientPosted"].topic)
ALL = {"fromBlock": "earliest", "toBlock": "pending"}


def word(number: int) -> str:
    return hexed(number.to_bytes(32, "big"))


def padded(address: bytes) -> str:
    return hexed(address.rjust(32, b"\0"))


def places(logs: list[Any]) -> list[tuple[Any, str]]:
    return [(log["blockNumber"], log["transactionHash"]) for log in logs]


# --- blocks


@pytest.mark.parametrize(
    ("first", "last", "blocks"),
    [
        (None, None, {2}),
        ("latest", "latest", {2}),
        ("earliest", "latest", {1, 2}),
        ("0x0", "0x1", {1}),
        (1, 1, {1}),
        ("0x2", "0x1", set()),
        ("0x3", "latest", set()),
        ("safe", "finalized", {2}),
        ("earliest", "pending", {1, 2, 3}),
        ("pending", "pending", {3}),
        ("pending", None, {3}),
        ("pending", "latest", set()),
        ("latest", "pending", {2, 3}),
        ("0x3", "pending", {3}),
        ("0x4", "pending", set()),
    ],
)
def test_a_range_finds_its_blocks_and_no_other(shared: Scene, first: Any, last: Any, blocks: set[int]) -> None:
    found = find_logs(shared.node, {"fromBlock": first, "toBlock": last})
    assert {int(log["blockNumber"], 16) for log in found} == blocks


@pytest.mark.parametrize(("first", "last"), [(0, 2**63), ("earliest", hex(2**256 - 1)), (2**63, 2**64), (2**255, 0)])
def test_an_endless_range_ends_at_the_head(
    shared: Scene, monkeypatch: pytest.MonkeyPatch, first: Any, last: Any
) -> None:
    asked: list[Any] = []
    header = shared.node.header

    def noted(which: Any) -> Any:
        asked.append(which)
        return header(which)

    monkeypatch.setattr(shared.node, "header", noted)
    found = find_logs(shared.node, {"fromBlock": first, "toBlock": last})
    expected = [0, 1, 2] if first in (0, "earliest") else []
    assert asked == expected
    assert bool(found) == bool(expected)


def test_one_block_is_found_by_its_hash(shared: Scene) -> None:
    for number in (1, 2):
        header = shared.node.header(number)
        assert header is not None
        by_hash = find_logs(shared.node, {"blockHash": hexed(header.hash)})
        assert by_hash == find_logs(shared.node, {"fromBlock": number, "toBlock": number})


def test_an_unknown_hash_is_an_error_and_not_no_logs(shared: Scene) -> None:
    with pytest.raises(ArgumentError, match="was not found"):
        find_logs(shared.node, {"blockHash": word(5)})
    with pytest.raises(ArgumentError, match="expected one or the other"):
        find_logs(shared.node, {"blockHash": hexed(shared.node.head.hash), "toBlock": "latest"})


@pytest.mark.parametrize("criteria", [5, None, [], {"fromBlock": "soon"}, {"toBlock": -1}, {"blockHash": "0x1"}])
def test_what_is_no_range_is_refused(shared: Scene, criteria: Any) -> None:
    with pytest.raises(ArgumentError, match=r"found .* expected"):
        find_logs(shared.node, criteria)


# --- addresses and topics


def test_logs_are_found_by_topics_at_their_position(shared: Scene) -> None:
    device = address_of(shared.network.devices[0])
    for topics, count in (
        ([GRADIENT], 6),
        ([GRADIENT, word(1)], 4),
        ([GRADIENT, word(2)], 2),
        ([GRADIENT, None, padded(device)], 2),
        ([GRADIENT, [word(1), word(2)], [padded(device), word(0)]], 2),
        ([None, word(2), padded(device)], 1),
        ([[], word(2)], 3),
        ([word(1)], 0),
        ([GRADIENT, None, None, None], 0),
    ):
        assert len(find_logs(shared.node, ALL | {"topics": topics})) == count, topics


def test_logs_are_found_by_any_of_several_addresses(shared: Scene) -> None:
    registry, nobody = hexed(shared.node.genesis.registry), hexed(bytes(20))
    everything = find_logs(shared.node, ALL)
    for address in (registry, [registry], [nobody, registry], [], None):
        assert find_logs(shared.node, ALL | {"address": address}) == everything
    assert find_logs(shared.node, ALL | {"address": nobody}) == []


def test_pending_logs_have_the_number_of_the_block_to_come_and_no_hash(shared: Scene) -> None:
    logs = find_logs(shared.node, ALL | {"topics": [GRADIENT]})
    assert [log["blockNumber"] for log in logs] == ["0x2"] * 4 + ["0x3"] * 2
    assert [log["transactionHash"] for log in logs[4:]] == [hexed(each) for each in shared.pending[1:]]
    assert [log["blockHash"] for log in logs[4:]] == [None, None]
    assert [(log["transactionIndex"], log["logIndex"]) for log in logs[4:]] == [("0x1", "0x1"), ("0x2", "0x2")]
    for log in logs[:4]:
        receipt = shared.ask("eth_getTransactionReceipt", log["transactionHash"])
        assert log in receipt["logs"]


def test_web3_reads_them_as_events(shared: Scene) -> None:
    registry = registry_of(Web3(InProcessProvider(shared.node)), shared.node)
    sender = Web3.to_checksum_address(address_of(shared.network.devices[1]))
    found = registry.events.GradientPosted().get_logs(
        from_block="earliest", to_block="pending", argument_filters={"sender": sender}
    )
    assert [event["args"]["round"] for event in found] == [1, 2]
    assert len(registry.events.GradientPosted().get_logs(from_block="pending", to_block="pending")) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"topics": [None] * 5}, "topics: found a list of 5, expected at most 4"),
        ({"topics": GRADIENT}, "topics: found '0x.*expected a list"),
        ({"topics": ["0x00"]}, "topic: found 1 bytes, expected 32"),
        ({"topics": [[word(0)] * 1001]}, "topics: found a list of 1001, expected at most 1000"),
        ({"address": "0x00"}, "address: found 1 bytes, expected 20"),
        ({"address": [hexed(bytes(20))] * 1001}, "address: found a list of 1001, expected at most 1000"),
        ({"address": {}}, "address: found an object"),
    ],
)
def test_what_is_no_filter_is_refused(shared: Scene, change: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        find_logs(shared.node, ALL | change)


WORDS = st.sampled_from([bytes([i]) * 32 for i in range(3)])
ADDRESSES = st.sampled_from([bytes([i]) * 20 for i in range(3)])


@settings(deadline=None)
@given(
    st.builds(Log, ADDRESSES, st.lists(WORDS, max_size=4).map(tuple), st.just(b"")),
    st.frozensets(ADDRESSES, max_size=2),
    st.lists(st.frozensets(WORDS, max_size=2), max_size=4),
)
def test_the_bloom_filter_never_hides_what_matches(
    log: Log, addresses: frozenset[bytes], topics: list[frozenset[bytes]]
) -> None:
    pattern = Pattern(addresses, tuple(topics))
    by_hand = (not addresses or log.address in addresses) and all(
        i < len(log.topics) and (not wanted or log.topics[i] in wanted) for i, wanted in enumerate(topics)
    )
    assert pattern.matches(log) == by_hand
    assert pattern.may_be_in(replace(PLAIN, bloom=Receipt(1, 0, (log,)).bloom)) or not by_hand


def test_blocks_that_cannot_match_are_not_even_read(shared: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared.node, "block", lambda which: pytest.fail("read"))
    assert find_logs(shared.node, ALL | {"topics": [word(12345)]}) == []
    assert read_pattern({}) == Pattern(frozenset(), ())


# --- bounds, and blocks sealed meanwhile


@pytest.mark.parametrize("criteria", [{"toBlock": "pending", "fromBlock": "pending"}, {}])
def test_more_logs_than_the_bound_are_refused(
    shared: Scene, monkeypatch: pytest.MonkeyPatch, criteria: dict[str, Any]
) -> None:
    count = len(find_logs(shared.node, criteria))
    monkeypatch.setattr(log_search, "MAX_LOGS", count)
    assert len(find_logs(shared.node, criteria)) == count
    monkeypatch.setattr(log_search, "MAX_LOGS", count - 1)
    with pytest.raises(ArgumentError, match=f"found more than {count - 1} logs.*ask for fewer blocks"):
        find_logs(shared.node, criteria)


@pytest.mark.parametrize("reading", ["pending", "block", "header"])
def test_a_block_sealed_meanwhile_hides_no_log_and_doubles_none(
    own: Scene, monkeypatch: pytest.MonkeyPatch, reading: str
) -> None:
    before = [log["transactionHash"] for log in find_logs(own.node, ALL | {"topics": [GRADIENT]})]
    own.seal_once_after(monkeypatch, reading)
    found = [log["transactionHash"] for log in find_logs(own.node, ALL | {"topics": [GRADIENT]})]
    assert own.node.head.block_number == 3
    assert sorted(found) == sorted(before)
    assert len(set(places(find_logs(own.node, ALL | {"topics": [GRADIENT]})))) == len(before)


def test_a_filter_is_hashed_once_however_many_blocks_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 5000 alternatives it was 30 ms for every block of the chain, in one request."""
    hashed = [0]
    hash_of = bloom_module.get_chunks_for_bloom

    def counted(value_hash: bytes) -> Any:
        hashed[0] += 1
        return hash_of(value_hash)

    monkeypatch.setattr(bloom_module, "get_chunks_for_bloom", counted)
    topics = frozenset(number.to_bytes(32, "big") for number in range(100))
    pattern = Pattern(frozenset(), (topics,))
    assert not any(pattern.may_be_in(PLAIN) for _ in range(10))
    assert hashed[0] <= 100
