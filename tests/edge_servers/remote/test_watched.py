"""A watched connection asks again only where something has changed, and says what a fresh one would say."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from web3 import Web3

from chain.client.asking import changes_at, web3_over_http
from chain.client.connection import Connection
from chain.client.keys import address_of
from chain.errors import LedgerError, NodeAwayError, NodeUnreachableError
from chain.node.node import Node
from chain.rpc.server import RpcServer, ServerParams
from edge_servers.remote.watched import WatchedConnection
from tests.chain.network import Network, founded_node, passes_of, seal

NETWORK = Network()
READS = ("bfl_pendingTransactions", ("bfl_votes", 1), ("bfl_getRawHeader", "latest"), ("bfl_getRawHeader", "finalized"))


class Counting(WatchedConnection):
    """Counts what is asked for."""

    asked = 0

    def _asked(self, ask: Any) -> Any:
        self.asked += 1
        return super()._asked(ask)


@pytest.fixture
def served() -> Iterator[tuple[Node, str]]:
    with ExitStack() as stack:
        node = founded_node(NETWORK)
        stack.callback(node.close)
        yield node, stack.enter_context(RpcServer(node, ServerParams(port=0)))


def read(connection: Connection) -> list[Any]:
    return [connection.request(*([each] if isinstance(each, str) else each)) for each in READS]


def asked_by(connection: Counting) -> int:
    before = connection.asked
    read(connection)
    return connection.asked - before


def test_what_cannot_have_changed_is_not_asked_for(served: tuple[Node, str]) -> None:
    node, url = served
    watched = Counting(web3_over_http(url), node.genesis.registry)
    assert asked_by(watched) == 4
    assert asked_by(watched) == 4, "before it has been told of marks it asks"
    watched.rest(0.0)
    assert [asked_by(watched), asked_by(watched)] == [4, 0]
    NETWORK.post_plan(node)
    watched.rest(5.0)
    assert [asked_by(watched), asked_by(watched)] == [1, 0], "the pool alone"
    node.take_pass(passes_of(1, 1, NETWORK.servers[:1])[0])
    watched.rest(5.0)
    assert [asked_by(watched), asked_by(watched)] == [4, 0]


def test_what_it_posts_it_sees_at_once(served: tuple[Node, str]) -> None:
    node, url = served
    watched = Counting(web3_over_http(url), node.genesis.registry)
    watched.rest(0.0)
    assert watched.votes(1) == ([], [])
    (given,) = passes_of(1, 1, NETWORK.servers[:1])
    assert watched.send_pass(given)
    assert watched.votes(1) == ([], [given])


def test_reading_something_else_forgets_nothing_and_what_is_old_is_not_kept(served: tuple[Node, str]) -> None:
    node, url = served
    watched = Counting(web3_over_http(url), node.genesis.registry)
    watched.rest(0.0)
    read(watched)
    watched.request("bfl_genesis")
    assert asked_by(watched) == 0
    for round_ in range(50):
        watched.request("bfl_votes", round_)
    watched._kept = {key: (kept[0] - 10, *kept[1:]) for key, kept in watched._kept.items()}
    watched.rest(0.0)
    assert watched._kept == {}


def test_it_says_what_a_fresh_one_says_after_every_change(served: tuple[Node, str]) -> None:
    node, url = served
    watched = Counting(web3_over_http(url), node.genesis.registry)
    fresh = Connection(web3_over_http(url), node.genesis.registry)
    leader = NETWORK.leader(node)
    steps: list[Callable[[], object]] = [
        lambda: NETWORK.post_plan(node, leader),
        lambda: node.propose(address_of(leader)),
        lambda: seal(node, address_of(NETWORK.devices[0])),
        lambda: node.take_pass(passes_of(1, 1, NETWORK.servers[:1])[0]),
        lambda: node.take_pass(passes_of(1, 1, NETWORK.servers[1:2])[0]),  # and the head is left
        lambda: NETWORK.begin_attempt(node),
    ]
    for step in steps:
        step()
        watched.rest(5.0)
        assert read(watched) == read(fresh)
        assert (watched.head(), watched.final_number()) == (fresh.head(), fresh.final_number())
        assert watched.block_hash(watched.head()) == fresh.block_hash(fresh.head())


def test_after_a_while_it_asks_in_any_case(served: tuple[Node, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge_servers.remote.watched._KEPT_S", 0.0)
    watched = Counting(web3_over_http(served[1]), served[0].genesis.registry)
    watched.rest(0.0)
    assert [asked_by(watched), asked_by(watched)] == [4, 4]


def test_where_nobody_answers_a_rest_is_short_and_nothing_is_believed(served: tuple[Node, str]) -> None:
    node, url = served
    watched = Counting(web3_over_http(url), node.genesis.registry, retry_s=0.0)
    watched.rest(0.0)
    read(watched)
    watched.web3 = web3_over_http("http://127.0.0.1:9")
    watched.rest(0.01)
    with pytest.raises(NodeAwayError):
        read(watched)


@pytest.mark.parametrize("answer", [[], {"posts": 1}, "x", None])
def test_an_answer_that_is_none_is_refused(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    web3 = web3_over_http("http://127.0.0.1:9")

    class Answer:
        def raise_for_status(self) -> None: ...

        def json(self) -> Any:
            return answer

    monkeypatch.setattr("requests.Session.get", lambda *_, **__: Answer())
    with pytest.raises(NodeUnreachableError, match="where the node should answer with what has changed"):
        changes_at(web3, {}, 0.0)


def test_only_a_node_over_http_can_be_waited_at() -> None:
    with pytest.raises(LedgerError, match="expected a node over HTTP to wait at"):
        changes_at(Web3(), {}, 0.0)
