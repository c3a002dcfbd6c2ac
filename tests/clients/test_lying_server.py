"""Attacks of a home server on its own devices: it has a server's key, and all their lines go through it (Q5)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message
from torch import nn

from chain.wire.plan import Plan
from chain.wire.transactions import decode_transaction
from clients import device as devices
from clients.device import Device
from clients.errors import OrderError
from clients.replies import DataReply, SignedReply, read_reply
from clients.training import LocalUpdate, Recipe, TrainingNode, local_updates
from edge_servers.round import begin
from edge_servers.round import plan as plan_round
from tests.clients.chain_device import answer, joined, order_to
from tests.clients.lying_server import for_all, planned
from tests.edge_servers.small_network import SHARE, SmallChain, small_chain


@pytest.fixture(scope="module")
def chain() -> Iterator[SmallChain]:
    """A network whose second round is planned; devices 0 and 4 offload."""
    made = small_chain()
    made.federation.run_round()
    begin(made.federation.servers)
    plan_round(made.federation.servers)
    yield made
    made.hosted.close()


Join = Callable[..., Device]


@pytest.fixture
def join(chain: SmallChain) -> Join:
    """A process of a device that knows what its file says, and nothing else."""
    return lambda device, memory=None: joined(chain, device, memory=memory)


def signed(message: Message) -> SignedReply:
    reply = read_reply(message)
    assert isinstance(reply, SignedReply)
    return reply


def reason(message: Message) -> str:
    assert message.has_error()
    return str(message.error.reason)


def test_sixty_orders_for_one_image_get_no_answer(chain: SmallChain, join: Join, plan: Plan) -> None:
    """Labels of 60 images, one gradient each, by another seed each. Signed or not, none is answered."""
    device, right = join(3), order_to(chain, 3)
    for seed in range(60):
        one = replace(right, samples=1, iterations=1, batch=1, seed=seed)
        for asked in (
            replace(one, ledger=None, proof=b"", plan_post=b"", plan_payload=b""),
            one,
            replace(planned(chain, right, for_all(plan, samples=1, iterations=1)), batch=1, seed=seed),
        ):
            assert "OrderError: " in reason(answer(device, asked))
    assert signed(answer(device, right)).round == 2


def test_many_answers_are_a_few_and_all_the_same(chain: SmallChain, join: Join) -> None:
    device, order = join(3), order_to(chain, 3)
    replies = {signed(answer(device, order)).transaction for _ in range(3)}
    assert len(replies) == 1
    for _ in range(20):
        assert "has answered it 3 times, at most 3 are allowed" in reason(answer(device, order))


def test_data_too_are_handed_over_a_few_times_and_always_the_same(chain: SmallChain, join: Join) -> None:
    device, order = join(0), order_to(chain, 0)
    found = [read_reply(answer(device, order)) for _ in range(3)]
    for reply in found:
        assert isinstance(reply, DataReply)
        np.testing.assert_array_equal(reply.labels, device.table.labels[:SHARE].numpy())
    assert "at most 3 are allowed" in reason(answer(device, order))


def test_whoever_has_the_gradient_does_not_get_the_data_too(chain: SmallChain, join: Join, plan: Plan) -> None:
    """A second plan, lawful by itself, that sends the device's data to the liar; and the other way round."""
    device, right = join(3), order_to(chain, 3)
    greedy = planned(chain, right, for_all(plan, assignment=0))
    assert signed(answer(device, right))
    assert "has answered another order of round 2, attempt 0 already" in reason(answer(device, greedy))
    device = join(3)
    assert isinstance(read_reply(answer(device, greedy)), DataReply)
    assert "has answered another order of round 2, attempt 0 already" in reason(answer(device, right))


def test_a_grown_nonce_is_no_way_to_a_second_signature(chain: SmallChain, join: Join) -> None:
    device, right = join(3), order_to(chain, 3)
    assert right.ledger is not None
    assert signed(answer(device, right))
    later = replace(right, ledger=replace(right.ledger, nonce=right.ledger.nonce + 1))
    assert "has answered another order of round 2, attempt 0 already" in reason(answer(device, later))


def test_a_plan_for_every_phi_gets_one_answer(chain: SmallChain, join: Join, plan: Plan) -> None:
    """What the founding leaves open could be asked for again and again: it is one round all the same."""
    device, right = join(3), order_to(chain, 3)
    replies = [answer(device, planned(chain, right, replace(plan, phi=phi))) for phi in range(1, 9)]
    assert [reply.has_error() for reply in replies] == [False] + [True] * 7


def test_attempts_of_its_own_get_a_liar_two_more_copies_of_the_same_gradient(
    chain: SmallChain, join: Join, plan: Plan
) -> None:
    """A device cannot know which attempts there were: it answers three, with what everybody has seen already."""
    device, right = join(3), order_to(chain, 3)
    mine = signed(answer(device, right))
    greedy = for_all(plan, assignment=0)
    replies = [answer(device, planned(chain, right, greedy, attempt=attempt)) for attempt in range(1, 9)]
    assert [reply.has_error() for reply in replies] == [False] * 2 + [True] * 6
    assert {signed(reply).payload for reply in replies[:2]} == {mine.payload}


def test_a_plan_of_a_later_round_needs_a_model_that_is_not_there(chain: SmallChain, join: Join, plan: Plan) -> None:
    device, right = join(3), order_to(chain, 3)
    for round_ in (1, 3, 10**6):
        assert "OrderError: " in reason(answer(device, planned(chain, right, replace(plan, round=round_))))
    assert signed(answer(device, right))


# --- restarts ---------------------------------------------------------------------------------------------------------


def test_a_restart_does_not_start_the_count_anew(chain: SmallChain, join: Join, tmp_path: Path) -> None:
    path, order = tmp_path / "device-3.json", order_to(chain, 3)
    replies = {signed(answer(join(3, path), order)).transaction for _ in range(3)}
    assert len(replies) == 1
    assert "at most 3 are allowed" in reason(answer(join(3, path), order))


def test_a_restart_is_no_way_to_another_order(chain: SmallChain, join: Join, plan: Plan, tmp_path: Path) -> None:
    path, order = tmp_path / "device-3.json", order_to(chain, 3)
    assert signed(answer(join(3, path), order))
    for other in (planned(chain, order, for_all(plan, assignment=0)), planned(chain, order, replace(plan, phi=9))):
        assert "has answered another order of round 2, attempt 0 already" in reason(answer(join(3, path), other))


def off(nodes: Sequence[TrainingNode], network: nn.Module, recipe: Recipe) -> list[LocalUpdate]:
    """Another torch after the restart: it rounds otherwise."""
    return [replace(update, values=update.values * 1.01) for update in local_updates(nodes, network, recipe)]


def test_a_machine_that_rounds_otherwise_after_a_restart_signs_nothing_else(
    chain: SmallChain, join: Join, tmp_path: Path
) -> None:
    path, order = tmp_path / "device-3.json", order_to(chain, 3)
    first = signed(answer(join(3, path), order))
    told = reason(answer(join(3, path), order, train=off))
    assert "has signed another gradient for round 2, attempt 0 already" in told
    assert signed(answer(join(3, path), order)).transaction == first.transaction


def test_a_process_that_dies_before_its_reply_has_answered_all_the_same(
    chain: SmallChain, join: Join, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed while it trains: what it might have told is counted before it tells it."""
    path, order = tmp_path / "device-3.json", order_to(chain, 3)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(devices, "_train_together", killed)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            answer(join(3, path), order)
    monkeypatch.undo()
    assert "at most 3 are allowed" in reason(answer(join(3, path), order))


def test_after_a_restart_a_device_does_not_go_back_to_an_earlier_block(
    chain: SmallChain, join: Join, tmp_path: Path
) -> None:
    path, order = tmp_path / "device-3.json", order_to(chain, 3)
    assert signed(answer(join(3, path), order))
    again = join(3, path).wallet
    assert again is not None
    assert again.known.hash == chain.hosted.nodes[0].head.hash
    with pytest.raises(OrderError, match="found round 1, block 2 is final already"):
        again.check(replace(order, round=1))


def test_the_signature_is_on_the_disk_before_anybody_sees_it(chain: SmallChain, join: Join, tmp_path: Path) -> None:
    path, order = tmp_path / "device-3.json", order_to(chain, 3)
    device = join(3, path)
    sign = signed(answer(device, order)).transaction
    assert decode_transaction(sign).nonce == (order.ledger.nonce if order.ledger else -1)
    path.chmod(0o644)  # a memory that it does not trust any more
    assert "is open to others" in reason(answer(device, order))
