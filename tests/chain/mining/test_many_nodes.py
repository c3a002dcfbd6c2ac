"""A miner that asks every node: a candidate is on the leader's node only, and some nodes are dead."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

import pytest

from chain.client.asking import web3_over_http
from chain.client.keys import address_of
from chain.errors import WorkError
from chain.mining.many_nodes import NodesMiner, Offer, best_of, check_work_of
from chain.mining.miner import Miner
from chain.node.node import Node
from chain.peers.peers import Peers
from chain.rpc.in_process import web3_in_process
from chain.rpc.server import RpcServer, ServerParams
from chain.wire.headers import Header
from tests.chain.network import Clock, Network, founded_node, genesis, seal
from tests.chain.rpc.served import served_node, wait_until

NETWORK = Network()
DEVICE = address_of(NETWORK.devices[0])
DEAD = "http://127.0.0.1:9"


class Running:
    """A miner of these nodes in a thread of its own, and what it says."""

    def __init__(
        self,
        stack: ExitStack,
        *urls: str,
        blocks: int | None = 1,
        limit: float | None = None,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        self.said: list[str] = []
        self.stop = threading.Event()
        miner = stack.enter_context(Miner(limit))
        nodes = [(url, web3_over_http(url, timeout_s=1.0)) for url in urls]
        running = stack.enter_context(NodesMiner(nodes, DEVICE, miner, self.stop, self.said.append, 0.05, look))
        self._thread = threading.Thread(target=running.run, args=(blocks,))
        self._thread.start()
        stack.callback(self.end)

    def end(self) -> None:
        self.stop.set()
        self._thread.join(10)
        assert not self._thread.is_alive()

    def says(self, start: str) -> Callable[[], bool]:
        return lambda: any(line.startswith(start) for line in self.said)


def same_chains(stack: ExitStack, count: int) -> list[tuple[Node, str]]:
    nodes = [served_node(stack) for _ in range(count)]
    NETWORK.found(nodes[0][0])
    for node, _ in nodes[1:]:
        Peers(node, []).fetch_from(web3_in_process(nodes[0][0]))
    return nodes


def propose(node: Node, payload: bytes = b"plan") -> Header:
    leader = NETWORK.leader(node)
    NETWORK.post_plan(node, leader, payload)
    return node.propose(address_of(leader))


def test_the_node_with_the_candidate_is_found_and_hears_of_the_seal(stack: ExitStack) -> None:
    (first, first_url), (second, second_url) = same_chains(stack, 2)
    running = Running(stack, DEAD, first_url, second_url)
    propose(second)
    wait_until(lambda: second.head.block_number == 2)
    assert (second.head.winner, first.head.block_number) == (DEVICE, 1)
    wait_until(running.says("sealed block 0x" + second.head.hash.hex()))
    assert running.says(f"node {DEAD}: no node answers")()
    assert len([line for line in running.said if DEAD in line]) == 1, "told once"


def test_a_node_that_takes_requests_and_says_nothing_costs_nothing(stack: ExitStack) -> None:
    silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    [(node, url)] = same_chains(stack, 1)
    propose(node)
    before_s = time.monotonic()
    Running(stack, f"http://127.0.0.1:{silent.getsockname()[1]}", url)
    wait_until(lambda: node.head.block_number == 2)
    assert time.monotonic() - before_s < 4


def test_a_block_that_somebody_else_sealed_is_not_mined_any_more(stack: ExitStack) -> None:
    [(node, url)] = same_chains(stack, 1)
    propose(node)
    running = Running(stack, url, limit=0.0)  # it never finds anything
    wait_until(running.says("mining block 2"))
    seal(node, address_of(NETWORK.devices[1]))
    wait_until(running.says("no node has work"))
    propose(node)
    wait_until(running.says("mining block 3"))


def test_it_looks_again_and_again_with_work_and_without(stack: ExitStack) -> None:
    [(node, url)] = same_chains(stack, 1)
    looked: list[int] = []
    running = Running(stack, url, limit=0.0, look=lambda: looked.append(threading.get_ident()))
    wait_until(lambda: len(looked) > 3)
    propose(node)
    wait_until(running.says("mining block 2"))
    before = len(looked)
    wait_until(lambda: len(looked) > before + 3)
    assert len(set(looked)) == 1, "always on the thread that has the miner"


def test_a_seal_waits_for_a_node_that_is_away_for_a_moment(stack: ExitStack) -> None:
    node = founded_node(NETWORK)
    stack.callback(node.close)
    propose(node)
    first = RpcServer(node, ServerParams(port=0))
    url = first.start()
    nodes = [(url, web3_over_http(url, timeout_s=1.0))]
    said: list[str] = []
    miner = stack.enter_context(Miner())
    running = NodesMiner(nodes, DEVICE, miner, threading.Event(), said.append, 0.2)
    offer = running._ask(*nodes[0])
    assert offer.work is not None
    miner.start(offer.work.mining_hash, offer.work.difficulty)
    found = miner.poll(30)
    assert found is not None
    first.stop()
    again = RpcServer(node, ServerParams(port=int(url.rpartition(":")[2])))
    stack.callback(again.stop)
    timer = threading.Timer(0.3, again.start)
    timer.start()
    assert running._submit(offer, found)
    timer.join()
    assert node.head.winner == DEVICE


def test_stopping_ends_it_whatever_it_does(stack: ExitStack) -> None:
    [(node, url)] = same_chains(stack, 1)
    propose(node)
    running = Running(stack, url, DEAD, limit=0.0, blocks=None)
    wait_until(running.says("mining block 2"))
    before_s = time.monotonic()
    running.end()
    assert time.monotonic() - before_s < 3


# --- what to mine


def offers(node: Node) -> tuple[Header, Header]:
    """(head, work) of a node with a candidate."""
    propose(node)
    return node.head, node.work(DEVICE)


def test_the_newest_candidate_on_the_head_of_most_nodes_is_mined() -> None:
    node = founded_node(NETWORK)
    head, work = offers(node)
    later = replace(work, timestamp=work.timestamp + 1)
    ahead = replace(head, block_number=7)
    alone = Offer("alone", ahead, replace(work, block_number=8, timestamp=work.timestamp + 9), 0.0)
    found = best_of([Offer("a", head, work, 0.0), Offer("b", head, None, 0.0), Offer("c", head, later, 0.0), alone])
    assert found is not None
    assert found.url == "c"
    assert best_of([Offer("a", head, work, 0.0), alone]) == alone, "of equally many the later head"
    assert best_of([Offer("b", head, None, 0.0)]) is None


def test_work_that_leads_nowhere_is_not_taken() -> None:
    head, work = offers(founded_node(NETWORK))
    check_work_of(work, head, genesis(), DEVICE)
    wrong = {
        "expected this device's own": work.for_winner(address_of(NETWORK.devices[1])),
        "does not follow block 1": replace(work, block_number=9),
        "which does not follow": replace(work, parent_hash=bytes(32)),
        "the work has difficulty": replace(work, difficulty=2**255),
    }
    for message, each in wrong.items():
        with pytest.raises(WorkError, match=message):
            check_work_of(each, head, genesis(), DEVICE)


def test_where_difficulty_moves_the_work_stays_within_what_the_rule_may_give() -> None:
    rules = genesis(difficulty=8000, difficulty_rule="retarget", block_s=10)
    node = founded_node(NETWORK, Clock(), rules)
    head, work = offers(node)
    check_work_of(replace(work, timestamp=head.timestamp + 5), head, rules, DEVICE)
    with pytest.raises(WorkError, match="expected"):
        check_work_of(replace(work, difficulty=2 * work.difficulty), head, rules, DEVICE)
