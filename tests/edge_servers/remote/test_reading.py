"""A chain and a ledger over JSON-RPC say what the node at hand says."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from web3.types import RPCEndpoint, RPCResponse

from chain.errors import RpcError
from chain.node.access import LocalLedger
from chain.protocol.slots import Slot
from chain.rpc.in_process import web3_in_process
from edge_servers.ledger.block_check import RoundChecker
from edge_servers.ledger.chain_sealing import seal_of, standing_at
from edge_servers.remote.chain import RemoteChain
from edge_servers.remote.ledger import RemoteLedger
from edge_servers.remote.network import RemoteNetwork
from edge_servers.remote.watched import WatchedConnection
from edge_servers.replay.record import GradientReader, parameters_in
from edge_servers.round import close, plan, train
from tests.edge_servers.chain_network import ChainNetwork, chain_network


def connected(network: ChainNetwork) -> WatchedConnection:
    return WatchedConnection(web3_in_process(network.node), network.node.genesis.registry)


def test_where_a_network_stands_is_read_over_rpc_as_from_the_node_itself() -> None:
    with chain_network() as network:
        network.run(2)
        chain, checker = RemoteChain(connected(network)), RoundChecker(GradientReader(network.founding))

        far = standing_at(chain, chain.final, checker)
        near = standing_at(network.node, network.node.final, checker)

        assert (far.round, far.block_hash, far.winner, far.tenure, far.excluded) == (
            near.round, near.block_hash, near.winner, near.tenure, near.excluded,
        )  # fmt: skip
        assert far.divergence == near.divergence
        np.testing.assert_array_equal(far.model, near.model)


def test_what_is_held_against_devices_is_read_over_rpc_as_from_the_node_itself() -> None:
    kept: dict[str, Any] = {"devices": 5, "filter": "krum", "reputation": 2, "term_cap": 1}
    with chain_network(attack="sign-flip@all:device=3,strength=20", **kept) as network:
        network.run(2)
        chain, checker = RemoteChain(connected(network)), RoundChecker(GradientReader(network.founding))
        far = standing_at(chain, chain.final, checker)
        assert far.reputation == network.servers[0].standing.reputation
        assert far.reputation.aside(3) == (3,)


@pytest.mark.parametrize("round_", [1, 2])
def test_how_a_round_ended_is_read_over_rpc_as_from_the_node_itself(round_: int) -> None:
    with chain_network() as network:
        network.run(2)
        chain, header = RemoteChain(connected(network)), network.header(round_)

        far, near = seal_of(chain, header, network.founding), seal_of(network.node, header, network.founding)

        assert (far.round, far.block_hash, far.leader, far.winner, far.attempt) == (
            near.round, near.block_hash, near.leader, near.winner, near.attempt,
        )  # fmt: skip


def test_a_network_is_known_from_its_founding_block() -> None:
    with chain_network() as network:
        connection = connected(network)
        chain = RemoteChain(connection)
        first = chain.block(1)
        assert first is not None
        assert parameters_in(first, chain) == network.founding.encode()
        remote = RemoteNetwork(connection, chain, network.founding)

        assert remote.known_chain().model_digest == network.hosted.known_chain().model_digest


def test_posts_of_the_running_round_are_fetched_once_and_read_as_at_hand() -> None:
    with chain_network() as network:
        for server in network.servers:
            server.begin_round()
        for phase in (plan, train, close):
            phase(network.servers)
        connection = connected(network)
        asked: list[str] = []
        provider = connection.web3.provider
        ask = provider.make_request

        def counting(method: RPCEndpoint, params: Any) -> RPCResponse:
            asked.append(method)
            return ask(method, params)

        provider.make_request = counting  # type: ignore[method-assign]
        far, near = RemoteLedger(connection, network.node.genesis), LocalLedger(network.node)

        for slot in (Slot.PLAN, Slot.GRADIENT, Slot.ROLL, Slot.CLOSE):
            assert {who: post.digest for who, post in far.posts(1, slot).items()} == {
                who: post.digest for who, post in near.posts(1, slot).items()
            }
            assert all(post.payload == near.posts(1, slot)[who].payload for who, post in far.posts(1, slot).items())

        assert asked.count("bfl_getPending") == len(network.node.pending())
        assert "bfl_getSidecar" not in asked


def test_posts_that_are_too_much_for_one_answer_are_read_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    with chain_network() as network:
        network.walk("plan", "close")
        connection = connected(network)
        ask_all, sizes = connection.request_all, []

        def short(calls: Sequence[tuple[Any, ...]]) -> list[Any]:
            sizes.append(len(calls))
            return [*ask_all(calls[:3]), *(RpcError("ask for less at once") for _ in calls[3:])]

        monkeypatch.setattr(connection, "request_all", short)
        ledger = RemoteLedger(connection, network.node.genesis)
        assert [post.digest for post in ledger.round_posts(1)] == [
            post.digest for post in LocalLedger(network.node).round_posts(1)
        ]
        assert sizes == list(range(sizes[0], 0, -3))

        def refused(calls: Sequence[tuple[Any, ...]]) -> list[Any]:
            return [RpcError("no") for _ in calls]

        monkeypatch.setattr(connection, "request_all", refused)
        with pytest.raises(RpcError, match="no"):
            RemoteLedger(connection, network.node.genesis).round_posts(1)
