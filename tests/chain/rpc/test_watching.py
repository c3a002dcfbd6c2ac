"""GET /changes: an answer is held until something has changed, costs nobody else anything, and ends with the server."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from chain.client.keys import address_of
from chain.node.node import Node
from chain.node.reading import KINDS
from chain.rpc import watching
from chain.rpc.doors import AUDITORS
from chain.rpc.server import RpcServer, ServerParams
from tests.chain.network import Network, founded_node, passes_of, seal

NETWORK = Network()


@pytest.fixture
def node() -> Iterator[Node]:
    founded = founded_node(NETWORK)
    yield founded
    founded.close()


def changes(url: str, **query: Any) -> dict[str, str]:
    found: dict[str, str] = requests.get(f"{url}/changes", params=query, timeout=20).json()
    return found


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {kind for kind in KINDS if before[kind] != after[kind]}


def test_whoever_has_seen_nothing_is_answered_at_once(node: Node) -> None:
    with RpcServer(node, ServerParams(port=0)) as url:
        assert changes(url) == node.changes.now()
        assert changes(url, hold=60) == node.changes.now()


def test_every_kind_of_change_gives_another_mark_and_no_other(node: Node) -> None:
    leader = NETWORK.leader(node)
    steps: dict[str, Callable[[], object]] = {
        "posts": lambda: NETWORK.post_plan(node, leader),
        "work": lambda: node.propose(address_of(leader)),
        "blocks": lambda: seal(node, address_of(NETWORK.devices[0])),
        "votes": lambda: node.take_pass(passes_of(2, 1, NETWORK.servers[:1])[0]),
    }
    for kind, step in steps.items():
        before = node.changes.now()
        step()
        assert changed(before, node.changes.now()) == {kind}


def test_an_answer_is_held_until_what_was_seen_changes(node: Node) -> None:
    with RpcServer(node, ServerParams(port=0)) as url:
        seen = changes(url)
        found: list[dict[str, str]] = []
        waiting = threading.Thread(target=lambda: found.append(changes(url, posts=seen["posts"], hold=5)))
        waiting.start()
        node.take_pass(passes_of(1, 1, NETWORK.servers[:1])[0])  # of another kind than he waits for
        waiting.join(0.3)
        assert not found
        NETWORK.post_plan(node)
        waiting.join(4)
        assert changed(seen, found[0]) == {"posts", "votes"}


def test_nothing_changes_and_it_ends_all_the_same(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "HOLD_S", 0.2)
    with RpcServer(node, ServerParams(port=0)) as url:
        seen = changes(url)
        for hold in ("0.1", "1e9", "inf", "nan", "-1", "a while"):
            assert changes(url, **seen, hold=hold) == seen


def test_another_life_of_a_node_has_other_marks() -> None:
    assert not set(founded_node(NETWORK).changes.now().values()) & set(founded_node(NETWORK).changes.now().values())


def test_a_server_that_stops_waits_for_nobody(node: Node) -> None:
    server = RpcServer(node, ServerParams(port=0))
    url = server.start()
    seen = changes(url)
    waiting = threading.Thread(target=lambda: changes(url, **seen, hold=5))
    waiting.start()
    time.sleep(0.2)
    server.stop()
    waiting.join(3)
    assert not waiting.is_alive()
    assert node.changes.listeners == []


def test_who_waits_takes_nobodys_turn(node: Node) -> None:
    """Far more than are answered at once (16, and 4 of one address)."""
    with RpcServer(node, ServerParams(port=0)) as url:
        seen = changes(url)
        held = [threading.Thread(target=lambda: changes(url, **seen, hold=5)) for _ in range(30)]
        for each in held:
            each.start()
        time.sleep(0.3)
        asked = requests.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber"}, timeout=3).json()
        assert asked["result"] == "0x1"
        assert all(each.is_alive() for each in held)
        NETWORK.post_plan(node)
        for each in held:
            each.join(5)
        assert not any(each.is_alive() for each in held)


def test_who_waits_too_often_and_who_only_reads_are_answered_at_once(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "MOST_PER_VISITOR", 1)
    with RpcServer(node, ServerParams(port=0)) as url:
        seen = changes(url)
        first = threading.Thread(target=lambda: changes(url, **seen, hold=5))
        first.start()
        time.sleep(0.3)
        assert changes(url, **seen, hold=5) == seen
        assert first.is_alive()
        NETWORK.post_plan(node)
        first.join(5)
    with RpcServer(node, ServerParams(port=0, doors=AUDITORS)) as url:
        seen = changes(url)
        assert changes(url, **seen, hold=5) == seen


def test_the_door_is_the_same_as_for_questions(node: Node) -> None:
    with RpcServer(node, ServerParams(port=0, token="open")) as url:  # noqa: S106
        assert requests.get(f"{url}/changes", timeout=20).status_code == 401
        page = {"Origin": "http://somewhere", "Authorization": "Bearer open"}
        assert requests.get(f"{url}/changes", headers=page, timeout=20).status_code == 403
        given = requests.get(f"{url}/changes", headers={"Authorization": "Bearer open"}, timeout=20)
        assert given.json() == node.changes.now()
