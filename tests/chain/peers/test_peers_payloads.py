"""Payloads between nodes (B4): fetched in ranges, gone on with where another peer broke off, refused where they are not
what was named.
"""

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from web3 import Web3

from chain.client import payloads as client
from chain.client.asking import web3_over_http
from chain.client.keys import address_of
from chain.errors import ChainError, StoreError, WaitingBlockError
from chain.node.node import Node
from chain.peers import claims as claims_module
from chain.peers import outbox
from chain.peers.peers import Peers
from chain.protocol.posts import Commitment
from chain.rpc.in_process import web3_in_process
from chain.rpc.server import RpcServer, ServerParams
from chain.wire.sidecar import Sidecar, payload_digest
from tests.chain.network import SIZES, Clock, Network, genesis, seal
from tests.chain.rpc.served import served_node, wait_until

NETWORK = Network()
GRADIENT = bytes(range(SIZES.gradient))
DIGEST = payload_digest(GRADIENT)
WANTED = [Commitment(DIGEST, SIZES.gradient)]
RANGE = 10
Answer = Callable[[bytes, int, int], tuple[int, bytes] | None]


@pytest.fixture
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "RANGE_BYTES", RANGE)


class Peer:
    """A node with the gradient, asked directly; it answers as it is told to."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.node = founded()
        NETWORK.post_plan(self.node)
        arguments = NETWORK.gradient(self.node, GRADIENT)
        self.raw = NETWORK.signed(self.node, NETWORK.devices[0], "gradient", *arguments)
        self.node.submit(self.raw, [Sidecar(GRADIENT)])
        self.asked: list[tuple[int, int]] = []
        honest = self.node.payload_range

        def noted(digest: bytes, start: int, length: int) -> tuple[int, bytes] | None:
            self.asked.append((start, length))
            return (answer or honest)(digest, start, length)

        self.node.payload_range = noted  # type: ignore[method-assign]

    @property
    def web3(self) -> Web3:
        return web3_in_process(self.node)


def founded() -> Node:
    node = Node.in_memory(genesis(), now=Clock())
    NETWORK.found(node)
    return node


def waiting_node(peer: Peer) -> Node:
    """A node that has the post and not its payload."""
    node = founded()
    NETWORK.post_plan(node)
    node.submit(peer.raw)
    assert node.wanted() == WANTED
    return node


def broken_off(at: int) -> Answer:
    """Has the payload up to an offset."""

    def answer(_: bytes, start: int, length: int) -> tuple[int, bytes] | None:
        return None if start >= at else (len(GRADIENT), GRADIENT[start : start + length])

    return answer


# --- ranges


@pytest.mark.usefixtures("small_ranges")
def test_a_missing_payload_is_fetched_in_ranges() -> None:
    peer = Peer()
    node = waiting_node(peer)
    peers = Peers(node, [])
    assert peers.fetch_payloads(peer.web3) == 1
    assert peer.asked == [(start, RANGE) for start in (0, 10, 20, 30)]
    assert (node.payload(DIGEST), node.wanted()) == (GRADIENT, [])
    assert peers.fetch_payloads(peer.web3) == 0
    assert len(peer.asked) == 4


@pytest.mark.usefixtures("small_ranges")
def test_what_one_peer_begins_another_goes_on_with() -> None:
    first, second = Peer(broken_off(at=20)), Peer()
    node = waiting_node(first)
    peers = Peers(node, [])
    assert peers.fetch_payloads(first.web3) == 0
    assert node.wanted() == WANTED
    assert peers.fetch_payloads(second.web3) == 1
    assert [start for start, _ in first.asked] == [0, 10, 20]
    assert [start for start, _ in second.asked] == [20, 30]
    assert node.payload(DIGEST) == GRADIENT


@pytest.mark.usefixtures("small_ranges")
def test_a_peer_that_fails_midway_is_gone_on_after() -> None:
    def failing(_: bytes, start: int, length: int) -> tuple[int, bytes] | None:
        if start:
            raise StoreError("the disk is gone")
        return len(GRADIENT), GRADIENT[:length]

    first, second = Peer(failing), Peer()
    node = waiting_node(first)
    peers = Peers(node, [])
    with pytest.raises(StoreError, match="the disk is gone"):
        peers.fetch_payloads(first.web3)
    assert peers.fetch_payloads(second.web3) == 1
    assert [start for start, _ in second.asked] == [10, 20, 30]


def test_a_peer_that_does_not_have_it_is_no_trouble() -> None:
    peer = Peer(lambda _digest, _start, _length: None)
    node = waiting_node(peer)
    assert Peers(node, []).fetch_payloads(peer.web3) == 0
    assert node.wanted() == WANTED


# --- liars


LIARS: dict[str, tuple[Answer, str]] = {
    "garbage of the right size": (
        lambda _digest, start, length: (32, bytes(32)[start : start + length]), "found another payload than the one",
    ),
    "a payload of another size": (
        lambda _digest, _start, _length: (10**12, bytes(10)), "of 1000000000000 bytes, its post names 32",
    ),
    "endless empty ranges": (lambda _digest, _start, _length: (32, b""), "found 0 bytes from 0 on of a payload of 32"),
    "a byte at a time": (
        lambda _digest, start, _length: (32, GRADIENT[start : start + 1]), "found 1 bytes from 0 on of a payload of 32",
    ),
    "more than was asked for": (
        lambda _digest, _start, _length: (32, GRADIENT), "found 32 bytes from 0 on of a payload of 32",
    ),
    "more than there is": (
        lambda _digest, start, _length: (32, bytes(10)), "found 10 bytes from 30 on of a payload of 32",
    ),
}  # fmt: skip


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("name", LIARS)
def test_a_peer_that_sends_something_else_is_refused_and_has_begun_nothing(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer, message = LIARS[name]
    liar, honest = Peer(answer), Peer()
    node = waiting_node(liar)
    peers = Peers(node, [])
    with caplog.at_level(logging.WARNING, "chain.peers.peers"):
        assert peers.fetch_payloads(liar.web3) == 0
    (told,) = caplog.messages
    assert told.startswith(f"a peer sends another payload than 0x{DIGEST.hex()}")
    assert message in told
    assert len(liar.asked) <= 4
    assert (node.wanted(), node.has_payload(DIGEST)) == (WANTED, False)
    assert peers.fetch_payloads(honest.web3) == 1
    assert [start for start, _ in honest.asked] == [0, 10, 20, 30]
    assert node.payload(DIGEST) == GRADIENT


@pytest.mark.usefixtures("small_ranges")
def test_a_liar_that_breaks_off_spoils_nothing() -> None:
    def half_a_lie(_: bytes, start: int, length: int) -> tuple[int, bytes] | None:
        return (32, bytes(length)) if start < 20 else None

    liar, honest = Peer(half_a_lie), Peer()
    node = waiting_node(liar)
    peers = Peers(node, [])
    assert peers.fetch_payloads(liar.web3) == 0
    assert peers.fetch_payloads(honest.web3) == 1
    assert node.payload(DIGEST) == GRADIENT


@pytest.mark.parametrize("answer", [{}, [], "0x", 7, {"size": "many", "data": "0x"}, {"size": 32, "data": 7}])
def test_an_answer_that_is_none_is_an_error_of_ours(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer()
    node, web3 = waiting_node(peer), peer.web3
    monkeypatch.setattr(web3.provider, "make_request", lambda *_: {"jsonrpc": "2.0", "id": 1, "result": answer})
    with pytest.raises(ChainError, match="where the node should answer with"):
        Peers(node, []).fetch_payloads(web3)
    assert node.wanted() == WANTED


# --- one peer at a time


def test_a_payload_is_asked_of_one_peer_at_a_time() -> None:
    """While the first one answers, the second is asked for nothing; afterwards it is there already."""
    second = Peer()
    found: list[int] = []

    def answer(_: bytes, start: int, length: int) -> tuple[int, bytes] | None:
        found.append(peers.fetch_payloads(second.web3))
        return len(GRADIENT), GRADIENT[start : start + length]

    first = Peer(answer)
    peers = Peers(waiting_node(first), [])
    assert peers.fetch_payloads(first.web3) == 1
    assert (found, second.asked) == ([0], [])


def test_a_peer_that_keeps_silent_loses_its_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("chain.peers.claims.time.monotonic", lambda: now)
    claims = claims_module.Claims()
    assert claims.take(DIGEST)
    now += claims_module._ALIVE_S - 1
    assert not claims.take(DIGEST)
    claims.renew(DIGEST)
    now += claims_module._ALIVE_S - 1
    assert not claims.take(DIGEST)
    now += 1
    assert claims.take(DIGEST)
    claims.give_back(DIGEST)
    assert claims.take(DIGEST)


def test_a_peer_that_has_it_not_gives_its_claim_back() -> None:
    first, second = Peer(lambda _digest, _start, _length: None), Peer()
    peers = Peers(waiting_node(first), [])
    assert peers.fetch_payloads(first.web3) == 0
    assert peers.fetch_payloads(second.web3) == 1


# --- over HTTP


def test_payloads_travel_with_posts_and_blocks_find_them_there(stack: ExitStack) -> None:
    first, first_url = served_node(stack)
    second, second_url = served_node(stack)
    stack.enter_context(Peers(first, [second_url], pull_s=60))
    stack.enter_context(Peers(second, [first_url], pull_s=60))
    NETWORK.found(first)
    wait_until(lambda: second.head.hash == first.head.hash)
    NETWORK.post_plan(first)
    NETWORK.post_gradient(first, NETWORK.devices[0], GRADIENT)
    wait_until(lambda: second.payload(DIGEST) == GRADIENT)
    assert second.wanted() == []


def test_large_payloads_do_not_travel_with_their_posts_and_are_fetched(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "_PUSHED_BYTES", SIZES.gradient - 1)
    monkeypatch.setattr(client, "RANGE_BYTES", RANGE)
    first, first_url = served_node(stack)
    second, second_url = served_node(stack)
    NETWORK.found(first)
    Peers(second, []).fetch_from(web3_over_http(first_url))
    stack.enter_context(Peers(first, [second_url], pull_s=60))
    NETWORK.post_plan(first)
    NETWORK.post_gradient(first, NETWORK.devices[0], GRADIENT)
    wait_until(lambda: len(second.pending()) == 2)
    assert second.wanted() == WANTED
    stack.enter_context(Peers(second, [first_url], pull_s=0.05))
    wait_until(lambda: second.payload(DIGEST) == GRADIENT)


def test_a_block_that_waits_is_completed_by_another_peer(stack: ExitStack) -> None:
    """The first one has the block and not all of its payloads any more."""
    pruned, pruned_url = served_node(stack)
    archive, archive_url = served_node(stack)
    for node in (pruned, archive):
        NETWORK.found(node)
        NETWORK.run_round(node)
    assert pruned.head == archive.head
    pruned._store.prune(3)
    node, _ = served_node(stack)
    peers = Peers(node, [])
    with pytest.raises(WaitingBlockError, match="block 2 waits for 4 payloads"):  # of which three are there
        peers.fetch_from(web3_over_http(pruned_url))
    assert node.head.block_number == 1
    assert [each.size for each in node.wanted()] == [SIZES.gradient]
    assert peers.fetch_payloads(web3_over_http(archive_url)) == 1
    assert node.head == archive.head


def test_a_payload_of_many_ranges_comes_whole_over_http(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Larger than any request that the other node lets in."""
    size = 300_000
    network = Network(sizes=SIZES._replace(gradient=size))
    monkeypatch.setattr(client, "RANGE_BYTES", 50_000)
    node = Node.in_memory(genesis(), now=Clock())
    stack.callback(node.close)
    url = stack.enter_context(RpcServer(node, ServerParams(port=0, max_request_bytes=1000)))
    network.found(node)
    payload = bytes(range(256)) * (size // 256) + bytes(size % 256)
    network.post_plan(node)
    network.post_gradient(node, network.devices[0], payload)
    node.propose(address_of(network.leader(node)))
    seal(node, address_of(network.devices[0]))
    other, _ = served_node(stack)
    Peers(other, []).fetch_from(web3_over_http(url))
    assert other.head == node.head
    assert other.payload(payload_digest(payload)) == payload


def test_a_payload_that_does_not_come_with_its_post_is_fetched_at_once(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at the next poll: with large models every phase of a round would wait for one."""
    monkeypatch.setattr(outbox, "_PUSHED_BYTES", SIZES.gradient - 1)
    network = Network()
    first, first_url = served_node(stack)
    second, second_url = served_node(stack)
    network.found(first)
    Peers(second, []).fetch_from(web3_over_http(first_url))
    stack.enter_context(Peers(second, [first_url], pull_s=60))
    stack.enter_context(Peers(first, [second_url], pull_s=60))
    time.sleep(0.6)  # the first poll is over
    network.post_plan(first)
    network.post_gradient(first, network.devices[0])
    wait_until(lambda: len(second.pool) == 2 and second.wanted() == [])
