"""What a device may answer, hand over, and make its gradient from: each rule alone, at its border."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from flwr.app import Message
from flwr.supercore.task_identity import TaskIdentity
from numpy.typing import NDArray
from torch import nn

from clients.data import Samples
from clients.orders import Order
from clients.replies import DataReply, GradientReply, data_message, gradient_message, signed_message
from edge_servers.devices.admission import Expected, admit_reply, check_data, check_origin
from edge_servers.errors import GradientRefusedError
from edge_servers.founding.network import LearningTask
from edge_servers.ledger.board import Board
from tests.clients.messages import an_order, sent

SAMPLES, CLASSES = 4, 3


def task(kind: type[Any] = np.uint8) -> LearningTask:
    """Images of 1 x 2 x 2."""
    like = Samples(torch.from_numpy(np.zeros((1, 1, 2, 2), kind)), torch.zeros(1, dtype=torch.int64), (0.5,), (0.25,))
    return LearningTask(nn.Linear(4, CLASSES), like, CLASSES)


def images(count: int = SAMPLES, kind: type[Any] = np.uint8) -> NDArray[Any]:
    return np.zeros((count, 1, 2, 2), kind)


def labels(*found: int, kind: type[Any] = np.int64) -> NDArray[Any]:
    return np.array(found, kind)


def reason(given: NDArray[Any], of: NDArray[Any], kind: type[Any] = np.uint8) -> str:
    """Why data are refused; empty if they are not."""
    try:
        check_data(DataReply(0, 1, given, of), task(kind), SAMPLES)
    except GradientRefusedError as error:
        return error.reason
    return ""


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (labels(0, 1, 2, 2), ""),
        (labels(0, 0, 0, 0), ""),
        (labels(0, 1, 2, 3), "malformed"),
        (labels(-1, 1, 2, 2), "malformed"),
        (labels(0, 1, 2), "malformed"),
        (labels(0, 1, 2, 2, 2), "malformed"),
        (labels(0, 1, 2, 2, kind=np.int32), "malformed"),
    ],
)
def test_labels_are_the_classes_one_for_each_image(of: NDArray[Any], expected: str) -> None:
    assert reason(images(), of) == expected


@pytest.mark.parametrize("given", [images(3), images(5), images(kind=np.float32), np.zeros((SAMPLES, 2, 2), np.uint8)])
def test_images_are_as_many_as_planned_and_of_the_form_of_the_task(given: NDArray[Any]) -> None:
    assert reason(given, labels(0, 1, 2, 2)) == "malformed"


@pytest.mark.parametrize(("value", "expected"), [(0.5, ""), (np.nan, "not-finite"), (-np.inf, "not-finite")])
def test_images_of_floats_are_finite(value: float, expected: str) -> None:
    given = images(kind=np.float32)
    given[2, 0, 1, 1] = value
    assert reason(given, labels(0, 1, 2, 2), np.float32) == expected


def test_names_are_of_the_vocabulary() -> None:
    """A name that the embedding does not have would stop the training of the server that got it."""
    like = Samples(torch.zeros(1, 3, dtype=torch.int64), torch.zeros(1, dtype=torch.int64), vocabulary=7)
    texts = LearningTask(nn.Linear(4, CLASSES), like, CLASSES)
    for worst, told in (
        (6, ""),
        (7, "found inputs 0 to 7, expected 0 to 6"),
        (-1, "found inputs -1 to 0, expected 0 to 6"),
    ):
        given = np.zeros((SAMPLES, 3), np.int64)
        given[1, 2] = worst
        try:
            check_data(DataReply(0, 1, given, labels(0, 1, 2, 2)), texts, SAMPLES)
            found = ""
        except GradientRefusedError as error:
            found = str(error)
        assert found.endswith(told)
        assert bool(found) is bool(told)


ORIGIN = GradientReply(
    device=1, round=2, samples=40, iterations=3, model_digest="m", plan_digest="p", values=np.zeros(2, np.float32)
)
EXPECTED = cast(Expected, SimpleNamespace(model_digest="m", plan=SimpleNamespace(digest="p"), samples=40, iterations=3))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"model_digest": "n"}, "stale"),
        ({"plan_digest": "q"}, "stale"),
        ({"samples": 39}, "wrong-weight"),
        ({"samples": 41}, "wrong-weight"),
        ({"iterations": 2}, "wrong-weight"),
        ({"iterations": 4}, "wrong-weight"),
    ],
)
def test_a_gradient_is_made_from_this_model_and_this_plan_with_its_weight(
    changes: dict[str, Any], expected: str
) -> None:
    check_origin(ORIGIN, EXPECTED)
    with pytest.raises(GradientRefusedError) as refused:
        check_origin(replace(ORIGIN, **changes), EXPECTED)
    assert refused.value.reason == expected


# --- what the plan asked for


LOCAL = -1
ORDER: Order = an_order()


@pytest.fixture(autouse=True)
def _flower_identity() -> None:
    """Flower stamps every message with who runs; a real process is told so at its start."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1


def expected_of(target: int, round_: int = ORDER.round, device: int = ORDER.device) -> Expected:
    """A plan that says where everybody trains."""
    plan = SimpleNamespace(round=round_, assignment=(target,) * 4, samples=(SAMPLES,) * 4, iterations=(3,) * 4)
    return Expected(cast(Any, plan), cast(Any, SimpleNamespace(index=device)), "m", task(), cast(Any, None))


def board(is_signed: bool = False) -> Board:
    return cast(Board, SimpleNamespace(is_signed=is_signed))


def handed_over() -> Message:
    return data_message(ORDER, images(), labels(0, 1, 2, 2), sent(ORDER))


@pytest.mark.parametrize("target", [0, 1])
def test_data_are_taken_from_a_device_that_is_to_offload(target: int) -> None:
    assert isinstance(admit_reply(handed_over(), expected_of(target), board()), DataReply)


def test_data_of_a_device_that_is_to_train_are_refused() -> None:
    """There is no server that they are for."""
    with pytest.raises(GradientRefusedError, match="found data, expected a gradient: the plan says train") as refused:
        admit_reply(handed_over(), expected_of(LOCAL), board())
    assert refused.value.reason == "malformed"


def test_data_are_looked_at_before_they_are_taken() -> None:
    reply = data_message(ORDER, images(), labels(0, 1, 2, CLASSES), sent(ORDER))
    with pytest.raises(GradientRefusedError, match="found labels 0 to 3, expected 0 to 2"):
        admit_reply(reply, expected_of(0), board())


@pytest.mark.parametrize(("round_", "device"), [(ORDER.round + 1, ORDER.device), (ORDER.round, ORDER.device + 1)])
def test_an_answer_of_another_round_or_device_is_stale(round_: int, device: int) -> None:
    with pytest.raises(GradientRefusedError) as refused:
        admit_reply(handed_over(), expected_of(0, round_, device), board())
    assert refused.value.reason == "stale"


def test_a_signed_gradient_is_read_by_the_board_with_its_payload_as_that_of_this_device() -> None:
    asked: list[tuple[object, ...]] = []
    reader = cast(Board, SimpleNamespace(is_signed=True, read_signed=lambda *given: asked.append(given)))
    expected = expected_of(LOCAL)
    device = SimpleNamespace(index=ORDER.device, address="0xab")
    reply = signed_message(ORDER, (b"post", b"values"), sent(ORDER))
    admit_reply(reply, replace(expected, device=cast(Any, device)), reader)
    assert asked == [(b"post", b"values", "0xab", expected.plan)]


def test_a_chain_takes_no_gradient_without_a_signature() -> None:
    reply = gradient_message(ORDER, SAMPLES, 3, np.zeros(15, np.float32), sent(ORDER))
    with pytest.raises(GradientRefusedError) as refused:
        admit_reply(reply, expected_of(LOCAL), board(is_signed=True))
    assert refused.value.reason == "unsigned"
