"""A device carries out its orders; what goes wrong on one is that one's error reply and nobody else's trouble."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, Message, RecordDict
from torch import nn
from torch.nn import functional as F

from clients.batches import NodeKey, round_subset
from clients.consent import Consent
from clients.data import Samples
from clients.device import Device, answer_orders
from clients.errors import OrderError
from clients.models import to_vector
from clients.orders import Order
from clients.replies import DataReply, GradientReply, read_reply
from clients.training import LocalUpdate, Recipe, TrainingNode, local_updates
from tests.clients.messages import EVIL_BYTES, an_order, evil_array, message_with, sent

NETWORK = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
MODEL = np.linspace(-1, 1, 15, dtype=np.float32)


@pytest.fixture(scope="module")
def table() -> Samples:
    """40 samples of 4 pixels and 3 classes."""
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.random((40, 1, 2, 2), dtype=np.float32))
    return Samples(images, torch.from_numpy(rng.integers(0, 3, 40)), mean=(0.5,), std=(0.25,))


def device(table: Samples, index: int, consent: str = "any") -> Device:
    """Device n holds the samples n, n + 4, n + 8 ..."""
    return Device(index, table, np.arange(index, 40, 4), NETWORK, Consent(consent))


def order(index: int, **changes: object) -> Order:
    return an_order(MODEL, **{"device": index, **changes})


def ask(*asked: tuple[Device, Order]) -> list[Message]:
    return answer_orders([(device, sent(order)) for device, order in asked], engine="auto", chunk=10)


def with_model(array: Array) -> RecordDict:
    return RecordDict({"model": ArrayRecord({"model": array})})


def gradient_of(reply: Message) -> GradientReply:
    read = read_reply(reply)
    assert isinstance(read, GradientReply)
    return read


def data_of(reply: Message) -> DataReply:
    read = read_reply(reply)
    assert isinstance(read, DataReply)
    return read


def error_of(reply: Message) -> tuple[int, str]:
    assert reply.has_error()
    return reply.error.code, reply.error.reason or ""


def test_an_order_to_train_is_answered_with_the_gradient_of_the_rounds_subset(table: Samples) -> None:
    reply = gradient_of(ask((device(table, 2), order(2)))[0])
    subset = np.arange(2, 40, 4)[round_subset(7, 4, 2, share=10, wanted=8)]
    node = TrainingNode(NodeKey("device", 2), table, torch.from_numpy(subset), 3, MODEL)
    expected = local_updates([node], NETWORK, Recipe(7, 4, "sgd", 0.1, 5))[0]
    assert (reply.device, reply.round, reply.samples, reply.iterations) == (2, 4, 8, 3)
    assert (reply.model_digest, reply.plan_digest) == (order(2).model_digest, "plan-digest")
    np.testing.assert_array_equal(reply.values, expected.values)


def test_an_order_for_more_samples_than_the_share_has_uses_the_share(table: Samples) -> None:
    assert gradient_of(ask((device(table, 0), order(0, samples=2551)))[0]).samples == 10


def test_an_order_to_offload_is_answered_with_the_rounds_subset_as_stored(table: Samples) -> None:
    reply = data_of(ask((device(table, 2), order(2, offload_to=1)))[0])
    subset = np.arange(2, 40, 4)[round_subset(7, 4, 2, share=10, wanted=8)]
    assert (reply.device, reply.round) == (2, 4)
    np.testing.assert_array_equal(reply.inputs, table.inputs[subset].numpy())
    np.testing.assert_array_equal(reply.labels, table.labels[subset].numpy())


def test_a_device_that_does_not_consent_trains_instead(subtests: pytest.Subtests, table: Samples) -> None:
    cases: list[str] = ["never", "0,2"]
    for consent in cases:
        with subtests.test(consent=consent):
            offloading, training = ask(
                (device(table, 3, consent), order(3, offload_to=1)), (device(table, 3), order(3))
            )
            np.testing.assert_array_equal(gradient_of(offloading).values, gradient_of(training).values)


def test_a_device_offloads_to_the_servers_it_lists(table: Samples) -> None:
    assert len(data_of(ask((device(table, 3, "0,2"), order(3, offload_to=2)))[0]).labels) == 8


def test_an_order_for_another_device_is_refused(table: Samples) -> None:
    assert error_of(ask((device(table, 1), order(2)))[0]) == (
        400,
        "OrderError: order: it is for device 2, this is device 1",
    )


def test_an_order_with_a_model_of_another_size_is_refused(table: Samples) -> None:
    wrong = an_order(np.zeros(14, np.float32), device=1)
    assert error_of(ask((device(table, 1), wrong))[0]) == (
        400,
        "OrderError: order: the model has 14 values, expected 15",
    )


def test_a_malformed_order_is_answered_with_an_error_reply(table: Samples) -> None:
    replies = answer_orders([(device(table, 1), message_with(RecordDict()))], "auto", 10)
    code, reason = error_of(replies[0])
    assert code == 400
    assert reason.startswith("OrderError: expected records 'order' and 'model'")


def test_an_order_of_evil_bytes_does_not_harm_the_others(subtests: pytest.Subtests, table: Samples) -> None:
    for name in list(EVIL_BYTES):
        with subtests.test(name=name):
            content = RecordDict({"order": sent(order(1)).content["order"], **with_model(evil_array(name))})
            asked = [(device(table, 0), sent(order(0))), (device(table, 1), message_with(content))]
            sound, evil = answer_orders(asked, "auto", 10)
            assert gradient_of(sound).device == 0
            assert error_of(evil)[0] == 400


def test_replies_come_in_the_order_asked(table: Samples) -> None:
    replies = ask(
        (device(table, 3), order(3)),
        (device(table, 1), order(2)),
        (device(table, 2), order(2, offload_to=0)),
        (device(table, 0), order(0, learning_rate=0.01)),
        (device(table, 1), order(1)),
    )
    assert gradient_of(replies[0]).device == 3
    assert error_of(replies[1])[0] == 400
    assert data_of(replies[2]).device == 2
    assert gradient_of(replies[3]).device == 0
    assert gradient_of(replies[4]).device == 1


def test_no_orders_have_no_replies() -> None:
    assert answer_orders([], "auto", 10) == []


def test_devices_asked_together_answer_as_devices_asked_alone(table: Samples) -> None:
    asked = [(device(table, n), order(n, samples=4 + n, iterations=1 + n)) for n in range(4)]
    for together, one in zip(ask(*asked), asked, strict=True):
        alone = ask(one)[0]
        np.testing.assert_allclose(gradient_of(together).values, gradient_of(alone).values, rtol=1e-4, atol=1e-6)


def test_orders_of_different_rounds_rates_and_optimisers_are_each_trained_by_their_own(table: Samples) -> None:
    asked = [
        (device(table, 0), order(0)),
        (device(table, 1), order(1, round=5)),
        (device(table, 2), order(2, learning_rate=0.5)),
        (device(table, 3), order(3, optimizer="adam")),
    ]
    for together, one in zip(ask(*asked), asked, strict=True):
        np.testing.assert_array_equal(gradient_of(together).values, gradient_of(ask(one)[0]).values)


def test_all_that_share_a_recipe_are_trained_in_one_call(table: Samples) -> None:
    sizes = []

    def counted(nodes: Sequence[TrainingNode], network: nn.Module, recipe: Recipe) -> list[LocalUpdate]:
        sizes.append(len(nodes))
        return local_updates(nodes, network, recipe)

    asked = [(device(table, n), sent(order(n, round=4 if n < 3 else 5))) for n in range(4)]
    answer_orders(asked, "auto", 10, counted)
    assert sorted(sizes) == [1, 3]


class BrokenDevice(Device):
    """A device whose disk, memory or driver fails when it should train."""

    trouble: type[BaseException] = RuntimeError

    def training_node(self, order: Order) -> TrainingNode:
        raise self.trouble("the disk is gone")

    def hand_over(self, order: Order, message: Message) -> Message:
        raise self.trouble("the disk is gone")


def broken(table: Samples, index: int, trouble: type[BaseException]) -> Device:
    cls = type("Broken", (BrokenDevice,), {"trouble": trouble})
    made = cls(index, table, np.arange(index, 40, 4), NETWORK)
    assert isinstance(made, Device)
    return made


TROUBLES = [RuntimeError, OSError, MemoryError, ValueError, ZeroDivisionError, KeyError]


def test_a_device_whose_training_fails_does_not_harm_the_others(subtests: pytest.Subtests, table: Samples) -> None:
    for trouble in TROUBLES:
        with subtests.test(trouble=trouble):
            sound = [(device(table, n), order(n)) for n in (0, 2, 3)]
            replies = ask(sound[0], (broken(table, 1, trouble), order(1)), *sound[1:])
            code, reason = error_of(replies.pop(1))
            assert code == 500
            assert reason == f"ClientError: training failed: {trouble.__name__}: {trouble('the disk is gone')}"
            for reply, one in zip(replies, sound, strict=True):
                np.testing.assert_allclose(
                    gradient_of(reply).values, gradient_of(ask(one)[0]).values, rtol=1e-4, atol=1e-6
                )


def test_a_device_whose_offloading_fails_does_not_harm_the_others(subtests: pytest.Subtests, table: Samples) -> None:
    for trouble in TROUBLES:
        with subtests.test(trouble=trouble):
            replies = ask(
                (broken(table, 1, trouble), order(1, offload_to=0)), (device(table, 0), order(0, offload_to=0))
            )
            code, reason = error_of(replies[0])
            assert (code, reason.startswith(f"ClientError: offloading failed: {trouble.__name__}: ")) == (500, True)
            assert len(data_of(replies[1]).labels) == 8


def test_a_share_that_points_outside_the_table_fails_alone(table: Samples) -> None:
    astray = Device(1, table, np.arange(30, 50), NETWORK)
    replies = ask((device(table, 0), order(0)), (astray, order(1, samples=20)), (device(table, 2), order(2)))
    code, reason = error_of(replies[1])
    assert code == 500
    assert reason.startswith("ClientError: training failed: ")
    assert [gradient_of(replies[i]).device for i in (0, 2)] == [0, 2]


def test_a_label_outside_the_networks_scores_fails_alone(table: Samples) -> None:
    mislabelled = Samples(table.inputs, torch.full((40,), 9), table.mean, table.std)
    replies = ask((device(mislabelled, 0), order(0)), (device(table, 1), order(1)))
    assert error_of(replies[0])[0] == 500
    assert np.isfinite(gradient_of(replies[1]).values).all()


def test_a_network_that_the_engine_refuses_is_an_error_reply(table: Samples) -> None:
    network = nn.Sequential(nn.Flatten(), nn.Dropout(), nn.Linear(4, 3))
    replies = answer_orders([(Device(0, table, np.arange(9), network), sent(order(0)))], "stacked", 10)
    code, reason = error_of(replies[0])
    assert code == 500
    assert "training failed: ModelError: engine stacked: cannot stack Dropout" in reason


def test_a_device_introduces_itself_with_what_it_holds_and_allows(table: Samples) -> None:
    reply = device(table, 3, "0,2").introduce(message_with(RecordDict(), "query.introduce"))
    assert dict(reply.content["about"]) == {"device": 3, "samples": 10, "offload": "0,2"}


def test_a_device_evaluates_a_model_on_its_own_share(table: Samples) -> None:
    metrics = device(table, 1).evaluate(message_with(with_model(Array(MODEL)), "evaluate")).content["metrics"]
    images, labels = table.inputs[1::4].double(), table.labels[1::4]
    weight, bias = torch.from_numpy(MODEL[:12]).double().view(3, 4), torch.from_numpy(MODEL[12:]).double()
    scores = F.linear(((images - 0.5) / 0.25).flatten(1), weight, bias)
    assert metrics["accuracy"] == pytest.approx(float((scores.argmax(1) == labels).double().mean()))
    assert metrics["loss"] == pytest.approx(float(F.cross_entropy(scores, labels)), rel=1e-5)
    assert metrics["num-examples"] == 10


def test_a_model_that_cannot_be_evaluated_is_answered_with_an_error_reply(
    subtests: pytest.Subtests, table: Samples
) -> None:
    cases: list[tuple[RecordDict, str]] = [
        (RecordDict(), "OrderError: expected a record 'model': 'model'"),
        (RecordDict({"model": ArrayRecord({})}), "OrderError: expected a record 'model': found no array 'model'"),
        (
            with_model(Array(MODEL[:14])),
            "ModelError: found a vector of float32 and shape (14,), expected float32 of (15,)",
        ),
        (
            with_model(Array(MODEL.astype(np.float64))),
            "ModelError: found a vector of float64 and shape (15,), expected float32 of (15,)",
        ),
        (
            with_model(Array(np.arange(15))),
            "ModelError: found a vector of int64 and shape (15,), expected float32 of (15,)",
        ),
    ]
    for label, (content, reason) in zip(["no record", "no array", "too short", "float64", "int64"], cases, strict=True):
        with subtests.test(label):
            assert error_of(device(table, 1).evaluate(message_with(content, "evaluate"))) == (400, reason)


def test_evil_bytes_to_evaluate_are_answered_with_an_error_reply(subtests: pytest.Subtests, table: Samples) -> None:
    for name in list(EVIL_BYTES):
        with subtests.test(name=name):
            code, reason = error_of(device(table, 1).evaluate(message_with(with_model(evil_array(name)), "evaluate")))
            assert code == 400
            assert reason.startswith("OrderError: expected a record 'model': array 'model' ")


def test_numbers_of_a_type_that_numpy_does_not_know_are_answered_with_an_error_reply(table: Samples) -> None:
    data = Array(MODEL).data.replace(b"'<f4'", b"'<f3'")
    content = with_model(Array("float32", (15,), "numpy.ndarray", data))
    assert error_of(device(table, 1).evaluate(message_with(content, "evaluate")))[0] == 400


def test_a_device_accepts_its_own_order(table: Samples) -> None:
    accepted = device(table, 1).accept(sent(order(1)))
    np.testing.assert_array_equal(accepted.model, MODEL)
    with pytest.raises(OrderError, match="it is for device 3, this is device 1"):
        device(table, 1).accept(sent(order(3)))


def test_orders_do_not_change_the_network_of_the_device(table: Samples) -> None:
    before = to_vector(NETWORK)
    ask((device(table, 0), order(0)), (device(table, 1), order(1)))
    np.testing.assert_array_equal(to_vector(NETWORK), before)


def test_a_device_consents_unless_it_says_otherwise(table: Samples) -> None:
    assert Device(0, table, np.arange(3), NETWORK).consent.allows(5)


def test_devices_that_cannot_finish_in_time_answer_nothing(table: Samples) -> None:
    """One deadline for all of them; who has longer is not held up by who has not."""
    moments = iter([0.0] + [59.0] * 2 + [61.0] * 100)
    asked = [(device(table, n), sent(order(n, deadline_s=600.0 if n == 2 else 60.0))) for n in range(3)]
    replies = answer_orders(asked, "auto", 10, now=lambda: next(moments))
    for reply in replies[:2]:
        code, reason = error_of(reply)
        assert (code, reason) == (
            500,
            "ClientError: training failed: LateError: found 1 s past the deadline, expected to be done by then",
        )
    assert gradient_of(replies[2]).device == 2
