"""A server whose node refuses what the others have signed stops (D3.5): it posts and signs nothing, and says why."""

import threading
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from bfl.network import edge_server
from bfl.network.edge_server import RunningServer
from chain.errors import DivergedError, RoundRefusedError
from chain.protocol.round_check import ChainReader, RoundBody
from edge_servers import round as algorithm_1
from edge_servers.learning.gradients import Attendance
from edge_servers.ledger.board import RoundSlot
from tests.edge_servers.chain_network import ChainNetwork, chain_network

WHY = "its arithmetic is another one"


def refuse(body: RoundBody, _: ChainReader) -> NoReturn:
    raise RoundRefusedError(f"block {body.header.block_number}: {WHY}")


def let_refuse(network: ChainNetwork, server: int) -> None:
    """From now on the node of a server thinks otherwise."""
    network.hosted.nodes[server]._check_round = refuse


@pytest.mark.parametrize("rank", [1, 2])
def test_a_server_that_refuses_what_a_majority_signed_stops_and_says_both_digests(rank: int) -> None:
    with chain_network(nodes=3, devices=3, phi="1") as network:
        network.run()
        leader, stray = network.ranked[0], network.ranked[rank]
        let_refuse(network, stray)
        node, known = network.hosted.nodes[stray], network.header(1)
        with pytest.raises(DivergedError, match="DIVERGED at round 2") as told:
            network.run()
        block = network.hosted.nodes[leader].head
        assert (block.block_number, node.head.hash, node.final.hash) == (3, known.hash, known.hash)
        for expected in (WHY, block.hash.hex(), known.hash.hex()):
            assert expected in str(told.value)
        pending, votes = [entry.post.transaction.hash for entry in node.pending()], node.votes(2)
        for _ in range(2):  # started again, it comes to the same
            with pytest.raises(DivergedError):
                network.servers[stray].begin_round()
        own = network.servers[stray]
        assert not own.attempts.endorse(own.address, 2, 0)
        with pytest.raises(DivergedError):
            own.attempts.pass_on(own.address, 2, 1)
        with pytest.raises(DivergedError):
            own.board.post(RoundSlot(3, "roll"), own.address, Attendance((), ()))
        assert [entry.post.transaction.hash for entry in node.pending()] == pending
        assert node.votes(2) == votes
        signed, passes = network.hosted.nodes[leader].votes(2)
        assert {each.signer for each in signed} == {network.key(m) for m in range(3) if m != stray}
        assert passes == []


def test_the_others_go_on_without_it() -> None:
    with chain_network(nodes=3, devices=3, phi="1") as network:
        stray = network.ranked[2]
        let_refuse(network, stray)
        with pytest.raises(DivergedError):
            network.run()
        others = [server for server in network.servers if server.index != stray]
        assert algorithm_1.settle(others)
        algorithm_1.finish(others)
        assert [server.standing.round for server in others] == [1, 1]


def test_refusing_what_no_majority_signs_stops_nobody() -> None:
    """The leader alone signs; two of three nodes refuse, pass on, and would take the next leader's block."""
    with chain_network(nodes=3, devices=3, phi="1") as network:
        for server in network.ranked[1:]:
            let_refuse(network, server)
        network.walk("plan", "model")
        algorithm_1.seal(network.servers)
        assert not algorithm_1.settle(network.servers)
        for node in network.hosted.nodes:
            node.check_agrees()
        assert len(network.node.votes(1)[0]) == 1


def test_the_process_of_a_server_ends_with_what_its_node_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """After any other trouble it looks again."""
    tried: list[str] = []

    def one_round(*_: object) -> NoReturn:
        tried.append("round")
        raise RoundRefusedError("trouble") if len(tried) == 1 else DivergedError("DIVERGED at round 1")

    strategy = SimpleNamespace(federation=SimpleNamespace(round=0))
    monkeypatch.setattr(RunningServer, "_start", lambda *_: strategy)
    monkeypatch.setattr(RunningServer, "_one_round", one_round)
    monkeypatch.setattr(edge_server, "_AGAIN_S", 0.0)
    nothing: Any = None
    server = RunningServer(nothing, nothing, nothing, nothing, nothing, nothing, 3, nothing, nothing, nothing)
    with pytest.raises(DivergedError, match="DIVERGED at round 1"):
        server.run(threading.Event())
    assert tried == ["round", "round"]
