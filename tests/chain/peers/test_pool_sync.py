"""The pools of nodes that know each other: what one missed it fetches, what came too early it tries again."""

import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from chain.client.asking import request, web3_over_http
from chain.client.keys import address_of
from chain.errors import KnownTransactionError
from chain.node.node import Node
from chain.peers import pool_sync
from chain.peers.peers import Peers
from chain.peers.pool_sync import PoolSync
from chain.rpc.in_process import web3_in_process
from chain.rpc.server import RpcServer, ServerParams
from chain.wire.sidecar import Sidecar
from tests.chain.network import Clock, Network, genesis, seal
from tests.chain.rpc.served import served_node, wait_until

NETWORK = Network()


def founded() -> Node:
    node = Node.in_memory(genesis(), now=Clock())
    NETWORK.found(node)
    return node


def hashes(node: Node) -> list[bytes]:
    return [entry.post.transaction.hash for entry in node.pending()]


def counted(node: Node, name: str) -> list[int]:
    """How often a method of a node was called, from now on."""
    calls: list[int] = []
    method: Callable[..., object] = getattr(node, name)

    def noted(*arguments: object) -> object:
        calls.append(len(calls))
        return method(*arguments)

    setattr(node, name, noted)
    return calls


def test_a_node_that_restarts_in_a_round_has_the_posts_and_payloads_of_its_peers(stack: ExitStack) -> None:
    first, url = served_node(stack)
    NETWORK.found(first)
    second, _ = served_node(stack)
    Peers(second, []).fetch_from(web3_in_process(first))
    NETWORK.post_plan(first)
    for device in NETWORK.devices[:3]:
        NETWORK.post_gradient(first, device, b"of " + address_of(device))
    assert (len(first.pending()), len(second.pending())) == (4, 0)
    stack.enter_context(Peers(second, [url], pull_s=60))
    wait_until(lambda: hashes(second) == hashes(first))
    wait_until(lambda: second.wanted() == [])
    second.propose(address_of(NETWORK.leader(second)))


def test_payloads_of_iterates_come_with_them() -> None:
    first, second = founded(), founded()
    NETWORK.post_plan(first)
    NETWORK.post_close(first)
    NETWORK.post_iterate(first, NETWORK.servers[0], 0)
    assert PoolSync(second).fetch(web3_in_process(first)) == 3
    assert all(second.has_payload(each.digest) for entry in first.pending() for each in entry.post.commitments)


def test_large_payloads_do_not_come_with_the_post_but_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chain.rpc.sidecar_methods.MOST_BESIDE_BYTES", 3)
    first, second = founded(), founded()
    NETWORK.post_plan(first)
    PoolSync(second).fetch(web3_in_process(first))
    assert hashes(second) == hashes(first)
    assert [each.size for each in second.wanted()] == [4]


def test_a_post_that_came_before_its_plan_is_tried_again_when_the_plan_is_there() -> None:
    first, second = founded(), founded()
    plan, gradient = NETWORK.post_plan(first), NETWORK.post_gradient(first, NETWORK.devices[0])
    planned, early = first.pending()
    first.pending = lambda: (early,)  # type: ignore[method-assign]
    sync, web3 = PoolSync(second), web3_in_process(first)
    assert sync.fetch(web3) == 0
    asked = counted(first, "find_pending")
    assert sync.fetch(web3) == 0
    assert asked == [], "it is held, and not asked for again"
    second.submit(planned.post.transaction, [Sidecar(b"plan")])
    sync.hear("transaction", planned.post.transaction.raw)
    assert sync.retry() == 1
    assert hashes(second) == [plan, gradient]


def test_what_stays_refused_is_not_tried_for_ever() -> None:
    first, second = founded(), founded()
    NETWORK.post_plan(first, payload=b"one")
    NETWORK.post_plan(second, payload=b"another")
    sync, web3 = PoolSync(second), web3_in_process(first)
    calls = counted(second, "submit")
    assert sync.fetch(web3) == 0
    assert len(second.pool.conflicts) == 1, "evidence, by the way"
    for device in NETWORK.devices:
        NETWORK.post_gradient(second, device)
        sync.hear("transaction", second.pending()[-1].post.transaction.raw)
        sync.retry()
        sync.fetch(web3)
    tried = len(calls) - len(NETWORK.devices)
    assert tried == pool_sync.MOST_TRIES


def test_a_new_head_is_a_new_start() -> None:
    first, second = founded(), founded()
    leader = NETWORK.post_round(first)
    sync, web3 = PoolSync(second), web3_in_process(first)
    first.propose(address_of(leader))
    seal(first, address_of(NETWORK.devices[0]))
    NETWORK.post_plan(first)
    assert sync.fetch(web3) == 0, "the plan of a round that has not begun here"
    Peers(second, []).fetch_from(web3)
    assert sync.fetch(web3) == 1
    assert hashes(second) == hashes(first)


def one_that_asks_another(stack: ExitStack) -> tuple[Node, Node, str]:
    """A node, another that is as far and polls it once a minute, and where that one answers."""
    first, url = served_node(stack)
    NETWORK.found(first)
    second = Node.in_memory(genesis(), now=Clock())
    stack.callback(second.close)
    peers = Peers(second, [url], pull_s=60)
    second_url = stack.enter_context(RpcServer(second, ServerParams(port=0), on_gap=peers.hurry))
    stack.enter_context(peers)
    wait_until(lambda: second.head.hash == first.head.hash)
    return first, second, second_url


def test_a_refused_push_makes_the_node_ask_at_once(stack: ExitStack) -> None:
    """A post with a gap before it: what is missing is fetched now, and not at the next poll."""
    first, second, second_url = one_that_asks_another(stack)
    NETWORK.post_plan(first)
    stack.enter_context(Peers(first, [second_url], pull_s=60))
    NETWORK.post_gradient(first, NETWORK.devices[0])
    wait_until(lambda: hashes(second) == hashes(first))


def test_a_post_that_is_here_already_makes_nobody_ask(stack: ExitStack) -> None:
    """Every post comes from every peer: each time but the first there is nothing missing."""
    first, second, second_url = one_that_asks_another(stack)
    NETWORK.post_plan(first)
    NETWORK.post_plan(second)
    raw = "0x" + first.pending()[0].post.transaction.raw.hex()
    asked = counted(first, "pending")
    with pytest.raises(KnownTransactionError):
        request(web3_over_http(second_url), "eth_sendRawTransaction", raw)
    time.sleep(0.6)
    assert asked == []


def test_what_came_another_way_meanwhile_is_not_held() -> None:
    first, second = founded(), founded()
    for node in (first, second):
        NETWORK.post_plan(node)
    sync, entry = PoolSync(second), first.pending()[0]
    assert sync._admit(entry.post.transaction.hash, pool_sync._Held(entry.post.transaction.raw, ())) == 0
    assert not sync._held


def test_a_block_without_its_parent_makes_the_node_ask_at_once(stack: ExitStack) -> None:
    first, second, second_url = one_that_asks_another(stack)
    NETWORK.run_round(first)
    stack.enter_context(Peers(first, [second_url], pull_s=60))
    NETWORK.run_round(first)
    wait_until(lambda: second.head.hash == first.head.hash)


def test_a_peer_that_names_nonsense_is_told_and_changes_nothing() -> None:
    first, second = founded(), founded()
    NETWORK.post_plan(first)
    sync, web3 = PoolSync(second), web3_in_process(first)
    entries = first.pending()
    other = founded()
    NETWORK.post_plan(other, payload=b"another")
    lie = other.pending()[0]
    first.find_pending = lambda _: lie  # type: ignore[method-assign, assignment]
    first.pending = lambda: entries  # type: ignore[method-assign]
    assert sync.fetch(web3) == 0, "another post than the one that was asked for"
    assert hashes(second) == []


def test_held_posts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_sync, "MOST_HELD", 2)
    first, second = founded(), founded()
    NETWORK.post_plan(first)
    for device in NETWORK.devices:
        NETWORK.post_gradient(first, device)
    plan, *gradients = first.pending()
    first.pending = lambda: tuple(gradients)  # type: ignore[method-assign]
    sync = PoolSync(second)
    sync.fetch(web3_in_process(first))
    second.submit(plan.post.transaction, [Sidecar(b"plan")])
    sync.hear("transaction", plan.post.transaction.raw)
    assert sync.retry() == 2
