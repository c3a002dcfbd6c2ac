"""The board's rules, and waits that end."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from bfl.simulation.grid import SimulatedClock
from edge_servers.errors import BoardError, LeaderFailedError
from edge_servers.ledger.board import InProcessBoard, RoundSlot
from edge_servers.ledger.oversight import Trusting
from edge_servers.round import close, plan, post_gradients, train
from tests.edge_servers.addresses import address
from tests.edge_servers.small_network import small_federation

A, B, C = (address(n) for n in (10, 11, 12))


def test_one_post_per_slot_and_sender() -> None:
    board = InProcessBoard(SimulatedClock())
    board.post(RoundSlot(1, "iterate", 2), A, "x")
    board.post(RoundSlot(1, "iterate", 3), A, "y")
    with pytest.raises(BoardError, match=f"{A} has already posted iterate 2 of round 1"):
        board.post(RoundSlot(1, "iterate", 2), A, "z")
    assert board.read(RoundSlot(1, "iterate", 2)) == {A: "x"}


def test_posts_come_in_ascending_order_of_address() -> None:
    board = InProcessBoard(SimulatedClock())
    for sender in (C, A, B):
        board.post(RoundSlot(1, "gradient"), sender, sender)
    assert list(board.read(RoundSlot(1, "gradient"))) == [A, B, C]


def test_waiting_for_a_post_that_never_comes_ends_at_the_deadline() -> None:
    clock = SimulatedClock()
    board = InProcessBoard(clock)
    board.post(RoundSlot(1, "iterate"), A, 1)
    assert board.wait_for(RoundSlot(1, "iterate"), [A, B], 5.0) == {A: 1}
    assert clock.now() == pytest.approx(5.0, abs=0.11)


def test_old_rounds_are_forgotten() -> None:
    board = InProcessBoard(SimulatedClock())
    for k in (1, 2):
        board.post(RoundSlot(k, "model"), A, k)
    assert board.read(RoundSlot(1, "model")) == {}
    assert board.read(RoundSlot(2, "model")) == {A: 2}


def test_a_server_that_has_no_plan_says_so() -> None:
    with pytest.raises(BoardError, match="server 1 has read no plan for round 1"):
        _ = small_federation().servers[1].current


def test_a_leader_that_stays_silent_is_named_once_its_turn_is_over() -> None:
    clock = SimulatedClock()
    federation = small_federation(clock=clock)
    follower = next(server for server in federation.servers if not server.leads)
    leader = follower.network.server_index(follower.leader)
    with pytest.raises(LeaderFailedError, match=f"server {leader} posted no plan in its time"):
        follower.read_plan(20.0)
    assert clock.now() == pytest.approx(20.0, abs=0.11)


class LateClock(SimulatedClock):
    """Time in which something happens once somebody waits: another server's process, one day."""

    def __init__(self, happens: Callable[[], None]) -> None:
        super().__init__()
        self._happens: Callable[[], None] | None = happens

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self._happens:
            happens, self._happens = self._happens, None
            happens()


def test_the_leader_closes_the_list_only_once_every_cluster_has_said_who_is_out() -> None:
    federation = small_federation()
    leader = next(server for server in federation.servers if server.leads)
    late = next(server for server in federation.servers if not server.leads)

    def late_cluster_arrives() -> None:
        late.collect_gradients()
        post_gradients([late])

    board = InProcessBoard(LateClock(late_cluster_arrives))
    for server in federation.servers:
        server.access = replace(server.access, board=board, oversight=Trusting(board, server.network, "none"))
    plan(federation.servers)
    for server in federation.servers:
        server.send_orders()
        server.collect_data()
    for server in federation.servers:
        if server is not late:
            server.collect_gradients()
            post_gradients([server])
    leader.post_close()
    leader.read_close(0.0)
    trained = {gradient.node for gradient in leader.current.closed}
    assert trained == {"device 1", "device 2", "device 3", "device 5"}  # 0 and 4 offload


def test_a_neighbour_that_posts_no_iterate_is_named_at_the_deadline() -> None:
    federation = small_federation()
    for phase in (plan, train, close):
        phase(federation.servers)
    federation.servers[0].post_aggregate()
    with pytest.raises(BoardError, match="server 1 did not post iterate of round 1 within 900 s"):
        federation.servers[0].mix()
