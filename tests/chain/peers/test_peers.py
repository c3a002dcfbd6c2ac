"""Nodes that know each other stay in step: they pass on what they accept and fetch what they missed."""

import logging
import re
import socket
import threading
import time
from contextlib import ExitStack
from typing import Any

import pytest
from web3.types import RPCEndpoint

from chain.client.asking import web3_over_http
from chain.client.keys import address_of
from chain.errors import ChainError, UnknownParentError
from chain.node.node import Node
from chain.peers.peers import Peers
from chain.rpc.in_process import web3_in_process
from chain.rpc.server import RpcServer, ServerParams
from tests.chain.network import Clock, Network, genesis, seal
from tests.chain.rpc.served import served_node, wait_until

DEAD = "http://127.0.0.1:9"


def test_a_node_that_starts_late_fetches_the_whole_chain(stack: ExitStack) -> None:
    network = Network()
    first, url = served_node(stack)
    network.found(first)
    for _ in range(3):
        network.run_round(first)
    second, _ = served_node(stack)
    stack.enter_context(Peers(second, [url], pull_s=0.05))
    wait_until(lambda: second.head.hash == first.head.hash)
    assert second.head.block_number == 4


def test_posts_and_blocks_reach_the_other_node_at_once(stack: ExitStack) -> None:
    network = Network()
    first, first_url = served_node(stack)
    second, second_url = served_node(stack)
    stack.enter_context(Peers(first, [second_url], pull_s=60))
    stack.enter_context(Peers(second, [first_url], pull_s=60))
    network.found(first)
    wait_until(lambda: second.head.hash == first.head.hash)
    leader = network.leader(first)
    network.post_plan(first, leader)
    wait_until(lambda: len(second.pool) == 1)
    network.post_gradient(second, network.devices[0])
    wait_until(lambda: len(first.pool) == 2)
    second.propose(address_of(leader))
    seal(second, address_of(network.devices[0]))
    wait_until(lambda: first.head.hash == second.head.hash)
    assert first.head.block_number == 2


def test_two_nodes_that_sealed_different_blocks_converge(stack: ExitStack) -> None:
    network = Network()
    first, first_url = served_node(stack)
    network.found(first)
    second, second_url = served_node(stack)
    Peers(second, []).fetch_from(web3_over_http(first_url))
    network.run_round(first, winner=network.devices[0])
    network.run_round(second, winner=network.devices[1])
    assert first.head.hash != second.head.hash
    expected = min(first.head.hash, second.head.hash)
    stack.enter_context(Peers(first, [second_url], pull_s=0.05))
    stack.enter_context(Peers(second, [first_url], pull_s=0.05))
    wait_until(lambda: first.head.hash == second.head.hash == expected)


def test_a_dead_peer_holds_nobody_up(stack: ExitStack) -> None:
    network = Network()
    first, _ = served_node(stack)
    second, second_url = served_node(stack)
    stack.enter_context(Peers(first, [DEAD, second_url], pull_s=0.05))
    network.found(first)
    wait_until(lambda: second.head.hash == first.head.hash)


def test_a_peer_of_another_network_changes_nothing(stack: ExitStack) -> None:
    network = Network()
    stranger, url = served_node(stack, chain_id=777)
    network.found(stranger)
    node, _ = served_node(stack)
    with pytest.raises(UnknownParentError, match="another network"):
        Peers(node, []).fetch_from(web3_over_http(url))
    assert node.head.block_number == 0


def told(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == "chain.peers.peers" and each.levelno == level]


def test_a_peer_that_goes_and_comes_back_is_told_once_each(stack: ExitStack, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "chain.peers.peers")
    node, _ = served_node(stack)
    other = Node.in_memory(genesis(), now=Clock())
    stack.callback(other.close)
    with RpcServer(other, ServerParams(port=0)) as url:
        stack.enter_context(Peers(node, [url], pull_s=0.02))
        time.sleep(0.2)
        assert caplog.records == []
    wait_until(lambda: len(told(caplog, logging.DEBUG)) > 3)
    assert told(caplog, logging.INFO) == []
    with RpcServer(other, ServerParams(port=int(url.rpartition(":")[2]))):
        wait_until(lambda: told(caplog, logging.INFO) != [])
        time.sleep(0.1)
    assert told(caplog, logging.INFO) == [f"peer {url} answers again"]
    first = told(caplog, logging.WARNING)[0]
    assert re.fullmatch(rf"peer {url}: no node answers at {url} \(.*\); start the node, or correct the address", first)
    wait_until(lambda: len(told(caplog, logging.WARNING)) == 2)


def test_a_peer_that_comes_up_and_wants_a_token_is_told_again(
    stack: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "chain.peers.peers")
    node, _ = served_node(stack)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    stack.enter_context(Peers(node, [f"http://127.0.0.1:{port}"], pull_s=0.02))
    wait_until(lambda: len(told(caplog, logging.DEBUG)) > 1)
    stack.enter_context(RpcServer(node, ServerParams(port=port, token="secret")))  # noqa: S106
    wait_until(lambda: len(told(caplog, logging.WARNING)) == 2)
    assert told(caplog, logging.WARNING)[1].endswith(
        "; set BFL_RPC_TOKEN to the node's token (of a peer: --peer-token)"
    )


def test_a_peer_of_another_network_is_told_once(stack: ExitStack, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "chain.peers.peers")
    stranger, url = served_node(stack, chain_id=777)
    node, _ = served_node(stack)
    with Peers(node, [url], pull_s=0.02):
        wait_until(lambda: len(told(caplog, logging.DEBUG)) > 3)
    assert told(caplog, logging.WARNING) == [
        f"peer {url}: the peer is of another network: found genesis 0x{stranger.head.hash.hex()}, "
        f"expected 0x{node.head.hash.hex()}; leave it out, or start from its genesis"
    ]


def test_a_peer_that_lies_about_its_blocks_is_not_believed(stack: ExitStack) -> None:
    network = Network()
    honest, _ = served_node(stack)
    network.found(honest)
    liar, url = served_node(stack)
    network.found(liar)
    network.run_round(liar)
    real = liar.raw_block
    damaged = bytearray(real(2) or b"")
    damaged[-40] ^= 1
    liar.raw_block = lambda which: bytes(damaged) if which == liar.head.hash else real(which)  # type: ignore[method-assign]
    with pytest.raises(ChainError):
        Peers(honest, []).fetch_from(web3_over_http(url))
    assert honest.head.block_number == 1


def test_no_thread_is_left_behind(stack: ExitStack) -> None:
    node, url = served_node(stack)
    with Peers(node, [url, DEAD], pull_s=0.05):
        time.sleep(0.1)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("peer ")]
    assert node.listeners == []


def test_news_that_come_together_go_together_and_a_block_goes_alone(stack: ExitStack) -> None:
    network = Network()
    first, _ = served_node(stack)
    network.found(first)
    second, second_url = served_node(stack)
    Peers(second, []).fetch_from(web3_in_process(first))
    sent: list[list[str]] = []
    peers = Peers(first, [second_url], pull_s=60)
    provider: Any = peers._peers[0][1].provider
    send = provider.make_batch_request

    def noted(calls: list[tuple[RPCEndpoint, Any]]) -> Any:
        sent.append([method for method, _ in calls])
        return send(calls)

    provider.make_batch_request = noted
    stack.enter_context(peers)
    wait_until(lambda: bool(sent))
    sent.clear()
    leader = network.leader(first)
    network.post_plan(first, leader)
    for device in network.devices[:3]:
        network.post_gradient(first, device)
    wait_until(lambda: len(second.pool) == 4)
    first.propose(address_of(leader))
    seal(first, address_of(network.devices[0]))
    wait_until(lambda: second.head.hash == first.head.hash)
    assert sum(each.count("bfl_sendPost") for each in sent) == 4
    assert ["bfl_importBlock"] in sent
    assert all(len(each) == 1 for each in sent if "bfl_importBlock" in each)
