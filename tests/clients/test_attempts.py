"""A round has attempts (D3.1): a device answers each once, with the same work, and computes it once (Q5)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Message
from torch import nn

from chain.protocol.contract import Call, decode_call
from chain.wire.transactions import decode_transaction
from clients.device import Device, answer_orders
from clients.errors import LateError, OrderError
from clients.order_check import read_signed_plan, work_digest
from clients.orders import Order
from clients.replies import DataReply, SignedReply, read_reply
from clients.training import LocalUpdate, Recipe, TrainingNode, local_updates
from clients.wallet import Wallet
from tests.clients.messages import over_the_wire, sent
from tests.clients.paper_chain import CHAIN, GENESIS, WORK, device_of, order_of


class Trainings:
    """Trains, and counts by device; while `late` it does not finish."""

    def __init__(self) -> None:
        self.devices: list[int] = []
        self.calls, self.late, self.factor = 0, False, 1.0

    def __call__(self, nodes: Sequence[TrainingNode], network: nn.Module, recipe: Recipe) -> list[LocalUpdate]:
        self.calls += 1
        if self.late:
            raise LateError("found no time")
        self.devices += [node.key.index for node in nodes]
        made = local_updates(nodes, network, recipe)
        return [replace(update, values=update.values * np.float32(self.factor)) for update in made]


@pytest.fixture
def trainings() -> Trainings:
    return Trainings()


def answers(trainings: Trainings, *asked: tuple[Device, Order]) -> list[Message]:
    messages = [(device, over_the_wire(sent(order))) for device, order in asked]
    return answer_orders(messages, "auto", 10, trainings)


def answer(device: Device, order: Order, trainings: Trainings | None = None) -> Message:
    return answers(trainings or Trainings(), (device, order))[0]


def reason(message: Message) -> str:
    assert message.has_error()
    return str(message.error.reason)


def signed(message: Message) -> SignedReply:
    assert not message.has_error(), message.error.reason
    reply = read_reply(message)
    assert isinstance(reply, SignedReply)
    return reply


def call_of(message: Message) -> Call:
    return decode_call(decode_transaction(signed(message).transaction).data)


def is_data(message: Message) -> bool:
    assert not message.has_error(), message.error.reason
    return isinstance(read_reply(message), DataReply)


# --- the attempt of an order ------------------------------------------------------------------------------------------


def test_a_signed_plan_is_read_with_its_attempt(subtests: pytest.Subtests) -> None:
    for attempt in (0, 1, 7, 2**32 - 1):
        with subtests.test(attempt=attempt):
            order = order_of(attempt=attempt)
            read = read_signed_plan(order.plan_post, order.plan_payload, GENESIS, CHAIN.servers, WORK)
            assert (read.attempt, read.plan.start_ms) == (attempt, 1_000 * attempt)


def test_a_plan_at_an_attempt_that_no_order_can_name_is_refused() -> None:
    order = order_of(attempt=2**32)
    with pytest.raises(OrderError, match="expected a plan at an attempt below 4294967296"):
        Wallet(device_of().wallet.account, CHAIN).accept(order)  # type: ignore[union-attr]


def test_an_order_at_another_attempt_than_its_plan_is_refused() -> None:
    order = order_of(attempt=1)
    assert order.ledger is not None
    lying = replace(order, ledger=replace(order.ledger, attempt=2))
    assert "found attempt 2, the plan says 1" in reason(answer(device_of(), lying))


def test_the_call_that_a_device_signs_names_the_attempt(subtests: pytest.Subtests) -> None:
    device = device_of()
    for attempt in (0, 2, 5):
        with subtests.test(attempt=attempt):
            order = order_of(attempt=attempt, leader=attempt % 3)
            call = call_of(answer(device, order))
            assert (call.name, call["round"], call["attempt"]) == ("gradient", 1, attempt)
            assert bytes(call["plan_digest"]).hex() == order.plan_digest


# --- which attempts are answered --------------------------------------------------------------------------------------


def test_each_attempt_has_one_answer_and_there_are_three() -> None:
    device = device_of()
    for attempt in (0, 1, 2):
        assert call_of(answer(device, order_of(attempt=attempt)))["attempt"] == attempt
        other = order_of(attempt=attempt, phi=9)
        assert f"has answered another order of round 1, attempt {attempt}" in reason(answer(device, other))
    told = reason(answer(device, order_of(attempt=3)))
    assert "has answered 3 attempts of round 1, at most 3 are allowed" in told


def test_attempts_rise(trainings: Trainings) -> None:
    device = device_of()
    first, third = order_of(attempt=0), order_of(attempt=2)
    before = signed(answer(device, first, trainings))
    assert signed(answer(device, third, trainings))
    told = reason(answer(device, order_of(attempt=1), trainings))
    assert "found attempt 1, this device has answered attempt 2 of round 1" in told
    assert signed(answer(device, first, trainings)) == before  # the same order again: the same bytes again
    assert "has answered another order of round 1, attempt 0" in reason(answer(device, order_of(phi=2), trainings))


def test_the_next_round_begins_with_any_attempt() -> None:
    device = device_of()
    assert signed(answer(device, order_of(attempt=2)))
    assert call_of(answer(device, order_of(round=2, attempt=1)))["attempt"] == 1
    assert "found round 1" in reason(answer(device, order_of(attempt=3)))


def test_a_restart_forgets_no_attempt(tmp_path: Path) -> None:
    path = tmp_path / "device.json"
    replies = [signed(answer(device_of(memory=path), order_of(attempt=attempt))) for attempt in (0, 2)]
    assert "has answered attempt 2" in reason(answer(device_of(memory=path), order_of(attempt=1)))
    assert "another order" in reason(answer(device_of(memory=path), order_of(attempt=2, phi=2)))
    again = [signed(answer(device_of(memory=path), order_of(attempt=attempt))) for attempt in (0, 2)]
    assert again == replies
    assert signed(answer(device_of(memory=path), order_of(attempt=3)))
    assert "at most 3 are allowed" in reason(answer(device_of(memory=path), order_of(attempt=4)))


def test_attempts_of_a_round_are_the_same_work() -> None:
    """Whatever a plan may say otherwise is no part of it; whatever the device computes with is."""
    order = order_of()
    same = [order_of(attempt=1, phi=5, leader=2), order_of(attempt=2, offload_to=1)]
    assert {work_digest(each) for each in same} == {work_digest(order)}
    others = [
        replace(order, samples=9), replace(order, iterations=1), replace(order, seed=1), replace(order, batch=1),
        replace(order, model_digest="ab" * 32), replace(order, round=2), replace(order, device=1),
        replace(order, learning_rate=1.0), replace(order, optimizer="adam"),
    ]  # fmt: skip
    assert len({work_digest(each) for each in (order, *others)}) == 10


# --- the update is computed once --------------------------------------------------------------------------------------


def test_a_later_attempt_gets_the_update_that_is_there_already(trainings: Trainings) -> None:
    device = device_of()
    replies = [answer(device, order_of(attempt=attempt), trainings) for attempt in (0, 1, 1, 4, 0)]
    assert trainings.devices == [0]
    assert len({signed(reply).payload for reply in replies}) == 1
    assert [call_of(reply)["attempt"] for reply in replies] == [0, 1, 1, 4, 0]


def test_the_next_round_is_trained_anew_and_the_last_update_is_gone(trainings: Trainings) -> None:
    device = device_of()
    for round_ in (1, 2):
        for attempt in (0, 1):
            assert signed(answer(device, order_of(round=round_, attempt=attempt), trainings))
    assert trainings.devices == [0, 0]
    assert device.wallet is not None
    assert device.wallet.computed(order_of(round=1)) is None
    assert device.wallet.computed(order_of(round=2)) is not None


def test_an_update_makes_room_before_the_next_is_trained() -> None:
    device = device_of()
    assert device.wallet is not None
    assert signed(answer(device, order_of()))
    device.wallet.accept(order_of(round=2))
    assert device.wallet.computed(order_of()) is None


def test_an_update_of_an_earlier_round_that_comes_late_takes_nobodys_place() -> None:
    wallet, late, now = (
        device_of().wallet,
        LocalUpdate(1, 1, np.zeros(3, np.float32)),
        LocalUpdate(2, 1, np.zeros(3, np.float32)),
    )
    assert wallet is not None
    wallet.keep(order_of(round=2), now)
    wallet.keep(order_of(round=1), late)
    assert wallet.computed(order_of(round=2)) is now


def test_signatures_of_an_earlier_round_are_not_given_again() -> None:
    wallet = device_of().wallet
    assert wallet is not None
    for round_ in (1, 2):
        wallet.signed_once(round_, 0, "one", lambda: (b"signed", b"payload"))
    with pytest.raises(OrderError, match="found round 1, this device has signed for round 2"):
        wallet.signed_once(1, 0, "one", lambda: (b"signed", b"payload"))


def test_devices_that_train_together_reuse_their_updates_too(trainings: Trainings) -> None:
    """Device 2 hears of attempt 1 alone."""
    devices = [device_of(n) for n in range(3)]
    first = answers(trainings, *((devices[n], order_of(n)) for n in (0, 1)))
    second = answers(trainings, *((devices[n], order_of(n, attempt=1)) for n in (0, 1, 2)))
    third = answers(trainings, *((devices[n], order_of(n, attempt=2)) for n in (2, 1, 0)))
    assert (trainings.devices, trainings.calls) == ([0, 1, 2], 2)
    payloads = [signed(reply).payload for reply in second]
    assert [signed(reply).payload for reply in first] == payloads[:2]
    assert [signed(reply).payload for reply in third] == payloads[::-1]
    assert [signed(reply).device for reply in third] == [2, 1, 0]


def test_two_attempts_in_one_call_are_one_training(trainings: Trainings) -> None:
    """The orders of a leader that died were never fetched; those of the next one come with them."""
    device, other = device_of(), device_of(1)
    replies = answers(trainings, (device, order_of()), (other, order_of(1)), (device, order_of(attempt=1)))
    assert trainings.devices == [0, 1]
    assert [call_of(reply)["attempt"] for reply in replies] == [0, 0, 1]
    assert signed(replies[0]).payload == signed(replies[2]).payload != signed(replies[1]).payload


def test_whoever_was_late_at_one_attempt_trains_at_the_next(trainings: Trainings) -> None:
    device, trainings.late = device_of(), True
    assert "LateError" in reason(answer(device, order_of(), trainings))
    trainings.late = False
    assert signed(answer(device, order_of(attempt=1), trainings))
    assert trainings.devices == [0]


def test_after_a_restart_the_update_is_computed_again(tmp_path: Path, trainings: Trainings) -> None:
    path = tmp_path / "device.json"
    first = signed(answer(device_of(memory=path), order_of(), trainings))
    later = signed(answer(device_of(memory=path), order_of(attempt=1), trainings))
    assert (trainings.devices, later.payload) == ([0, 0], first.payload)


def test_a_machine_that_rounds_otherwise_after_a_restart_signs_for_no_slot_twice(
    tmp_path: Path, trainings: Trainings
) -> None:
    path, orders = tmp_path / "device.json", [order_of(attempt=attempt) for attempt in (0, 1, 2)]
    for order in orders[:2]:
        assert signed(answer(device_of(memory=path), order, trainings))
    restarted, trainings.factor = device_of(memory=path), 1.01
    for attempt, order in enumerate(orders[:2]):
        told = reason(answer(restarted, order, trainings))
        assert f"has signed another gradient for round 1, attempt {attempt}" in told
    assert signed(answer(restarted, orders[2], trainings))


# --- where the data go ------------------------------------------------------------------------------------------------


def test_data_go_to_one_server_of_a_round_however_many_attempts_ask(tmp_path: Path, trainings: Trainings) -> None:
    """The next leader may send them elsewhere: then the device trains, as every order to offload allows."""
    path = tmp_path / "device.json"
    assert is_data(answer(device_of(memory=path), order_of(offload_to=1)))
    reply = answer(device_of(memory=path), order_of(attempt=1, offload_to=2, leader=2), trainings)
    assert (call_of(reply)["attempt"], trainings.devices) == (1, [0])
    assert is_data(answer(device_of(memory=path), order_of(attempt=2, offload_to=1)))


def test_the_server_that_has_the_data_gets_the_same_again(trainings: Trainings) -> None:
    device = device_of()
    replies = [answer(device, order_of(attempt=attempt, offload_to=1), trainings) for attempt in (0, 1, 1)]
    for reply in replies:
        data = read_reply(reply)
        assert isinstance(data, DataReply)
        np.testing.assert_array_equal(data.inputs, device.table.inputs[:10].numpy())
    assert trainings.calls == 0


def test_whoever_has_the_gradient_does_not_get_the_data_at_a_later_attempt(
    tmp_path: Path, trainings: Trainings
) -> None:
    path = tmp_path / "device.json"
    device = device_of(memory=path)
    assert signed(answer(device, order_of(), trainings))
    for again in (device, device_of(memory=path)):
        reply = answer(again, order_of(attempt=1, offload_to=1), trainings)
        assert call_of(reply)["attempt"] == 1
    assert is_data(answer(device, order_of(round=2, offload_to=1)))


def test_whoever_was_told_to_train_and_told_nothing_may_still_offload(trainings: Trainings) -> None:
    device, trainings.late = device_of(), True
    assert "LateError" in reason(answer(device, order_of(), trainings))
    assert is_data(answer(device, order_of(attempt=1, offload_to=1)))


def test_a_server_without_consent_takes_nobodys_place() -> None:
    device = device_of(consent="2")
    assert signed(answer(device_of(consent="2"), order_of(offload_to=1)))
    assert is_data(answer(device, order_of(offload_to=2)))
    assert signed(answer(device, order_of(attempt=1, offload_to=1)))


def test_data_are_not_handed_over_before_that_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "device.json"
    device = device_of(memory=path)
    assert device.wallet is not None
    monkeypatch.setattr(device.wallet, "accept", lambda _: path.write_bytes(b""))
    assert "is open to others" in reason(answer(device, order_of(offload_to=1)))
