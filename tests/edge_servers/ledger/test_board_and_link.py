"""The board's rules, and waits that end."""

import pytest

from edge_servers.errors import BoardError, LeaderFailedError
from edge_servers.ledger.board import InProcessBoard, RoundSlot
from edge_servers.round import begin, close, plan, post_gradients, train, train_on_offloaded
from tests.edge_servers.addresses import address
from tests.edge_servers.chain_network import chain_network
from tests.edge_servers.small_network import small_federation

A, B, C = (address(n) for n in (10, 11, 12))


def test_one_post_per_slot_and_sender() -> None:
    board = InProcessBoard()
    board.post(RoundSlot(1, "iterate", 2), A, "x")
    board.post(RoundSlot(1, "iterate", 3), A, "y")
    with pytest.raises(BoardError, match=f"{A} has already posted iterate 2 of round 1"):
        board.post(RoundSlot(1, "iterate", 2), A, "z")
    assert board.read(RoundSlot(1, "iterate", 2)) == {A: "x"}


def test_posts_come_in_ascending_order_of_address() -> None:
    board = InProcessBoard()
    for sender in (C, A, B):
        board.post(RoundSlot(1, "gradient"), sender, sender)
    assert list(board.read(RoundSlot(1, "gradient"))) == [A, B, C]


def test_where_all_servers_are_of_one_process_nobody_waits_for_what_is_not_there() -> None:
    board = InProcessBoard()
    board.post(RoundSlot(1, "iterate"), A, 1)
    assert board.wait_for(RoundSlot(1, "iterate"), [A, B], float("inf")) == {A: 1}
    assert board.wait(lambda: None, float("inf")) is None


@pytest.mark.parametrize(
    ("slot", "told"),
    [
        (RoundSlot(2, "plan"), "plan of round 2"),
        (RoundSlot(2, "iterate", 3), "iterate 3 of round 2"),
        (RoundSlot(2, "iterate", 3, 1), "iterate 3 of round 2, attempt 1"),
    ],
)
def test_a_slot_says_what_it_is(slot: RoundSlot, told: str) -> None:
    assert str(slot) == told


def test_old_rounds_are_forgotten() -> None:
    board = InProcessBoard()
    for k in (1, 2):
        board.post(RoundSlot(k, "model"), A, k)
    assert board.read(RoundSlot(1, "model")) == {}
    assert board.read(RoundSlot(2, "model")) == {A: 2}


def test_a_server_that_has_no_plan_says_so() -> None:
    with pytest.raises(BoardError, match="server 1 has read no plan for round 1"):
        _ = small_federation().servers[1].current


def test_a_leader_that_stays_silent_is_named() -> None:
    federation = small_federation()
    begin(federation.servers)
    follower = next(server for server in federation.servers if not server.leads)
    leader = follower.network.server_index(follower.leader)
    with pytest.raises(LeaderFailedError, match=f"server {leader} posted no plan in its time"):
        follower.read_plan()


def test_on_a_chain_waiting_ends_at_the_deadline_which_is_a_time_and_not_a_while() -> None:
    with chain_network() as network:
        board, start_s = network.board(0), network.clock.now()
        for until_s in (start_s + 5.0, start_s + 5.0, start_s - 1.0):
            assert board.wait_for(RoundSlot(1, "plan"), [A], until_s) == {}
            assert network.clock.now() == start_s + 5.0


def test_the_leader_closes_the_list_only_once_every_cluster_has_said_who_is_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with chain_network() as network:
        leader = network.servers[network.leader]
        late = next(server for server in network.servers if server is not leader)
        begin(network.servers)
        plan(network.servers)
        for server in network.servers:
            server.send_orders()
            server.collect_data()
        train_on_offloaded(network.servers)
        for server in network.servers:
            if server is not late:
                server.collect_gradients()
                post_gradients([server])
        sleep = network.clock.sleep

        def late_cluster_arrives(seconds: float) -> None:
            """Something happens once somebody waits."""
            monkeypatch.undo()
            sleep(seconds)
            late.collect_gradients()
            post_gradients([late])

        monkeypatch.setattr(network.clock, "sleep", late_cluster_arrives)
        leader.post_close()
        leader.read_close()
        trained = {gradient.node for gradient in leader.current.closed}
        assert trained == {"server 0", *(f"device {n}" for n in range(1, 6))}


def test_a_neighbour_that_posts_no_iterate_is_named() -> None:
    federation = small_federation()
    for phase in (begin, plan, train, close):
        phase(federation.servers)
    federation.servers[0].post_aggregate()
    with pytest.raises(BoardError, match="server 1 did not post iterate of round 1"):
        federation.servers[0].mix()
