"""The ClientApp as Flower calls it: a message and a context in, a message out, whatever comes."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict

from clients.client_app import app, device_of
from clients.data import Dataset
from clients.evaluation import evaluate_model
from clients.models import Vector, build_network, to_vector
from clients.parameters import DataParams
from clients.partition import partition
from clients.replies import DataReply, GradientReply, read_reply
from tests.clients.messages import NODE_ID, an_order, message_with, over_the_wire, sent

RUN_CONFIG: dict[str, bool | float | int | str] = {
    "dataset": "synthetic",
    "devices": 4,
    "partition": "non-iid",
    "labels-per-device": 3,
    "hidden": "8",
    "seed": 0,
    "rounds": 100,  # a key of another part
}


def context(node: dict[str, Any] | None = None, **run: Any) -> Context:
    run_config = {**RUN_CONFIG, **{key.replace("_", "-"): value for key, value in run.items()}}
    node_config: dict[str, Any] = {"partition-id": 0} if node is None else node
    return Context(run_id=1, node_id=NODE_ID, node_config=node_config, state=RecordDict(), run_config=run_config)


@pytest.fixture(scope="module")
def model() -> Vector:
    """The model that every device of `RUN_CONFIG` starts from."""
    return to_vector(build_network("fashion-mnist-cnn", (1, 28, 28), 10, (8,), seed=0))


def ask(message: Message, where: Context) -> Message:
    return over_the_wire(app(over_the_wire(message), where))


def error_of(reply: Message) -> tuple[int, str]:
    assert reply.has_error()
    return reply.error.code, reply.error.reason or ""


def share_of(dataset: Dataset, device: int) -> torch.Tensor:
    params = DataParams(devices=4, partition="non-iid", labels_per_device=3)
    return torch.from_numpy(partition(dataset.train.labels.numpy(), params, 2)[device])


def test_an_order_to_train_comes_back_as_a_gradient(model: Vector) -> None:
    reply = read_reply(ask(sent(an_order(model, device=3, samples=700)), context({"partition-id": 3})))
    assert isinstance(reply, GradientReply)
    assert (reply.device, reply.round, reply.samples, reply.iterations) == (3, 4, 700, 3)
    assert reply.values.shape == model.shape
    assert np.linalg.norm(reply.values) > 0


def test_the_same_order_has_the_same_answer_again(model: Vector) -> None:
    first, second = (read_reply(ask(sent(an_order(model, device=0)), context())) for _ in range(2))
    assert isinstance(first, GradientReply)
    assert isinstance(second, GradientReply)
    np.testing.assert_array_equal(first.values, second.values)


def test_a_model_that_took_the_step_of_the_gradient_has_a_smaller_loss(synthetic: Dataset, model: Vector) -> None:
    order = an_order(model, device=0, samples=600, iterations=10, batch=25)
    reply = read_reply(ask(sent(order), context()))
    assert isinstance(reply, GradientReply)
    network = build_network("fashion-mnist-cnn", (1, 28, 28), 10, (8,), seed=0)
    own = synthetic.train.select(share_of(synthetic, 0))
    after = (model - 0.1 * reply.values).astype(np.float32)
    assert evaluate_model(network, after, own).loss < evaluate_model(network, model, own).loss


def test_an_order_to_offload_comes_back_as_data_of_the_devices_labels(synthetic: Dataset, model: Vector) -> None:
    reply = read_reply(ask(sent(an_order(model, device=1, samples=50, offload_to=2)), context({"partition-id": 1})))
    assert isinstance(reply, DataReply)
    assert reply.images.shape == (50, 1, 28, 28)
    assert reply.images.dtype == np.uint8
    assert set(reply.labels.tolist()) <= set(synthetic.train.labels[share_of(synthetic, 1)].tolist())
    assert len(set(reply.labels.tolist())) == 3


def test_a_device_that_never_offloads_trains_instead(model: Vector) -> None:
    where = context({"partition-id": 1, "offload": "never"})
    reply = read_reply(ask(sent(an_order(model, device=1, offload_to=2)), where))
    assert isinstance(reply, GradientReply)


def test_a_device_introduces_itself(synthetic: Dataset) -> None:
    where = context({"device-id": 2, "offload": "0,1"})
    reply = ask(message_with(RecordDict(), "query.introduce"), where)
    expected = {"device": 2, "samples": len(share_of(synthetic, 2)), "offload": "0,1"}
    assert dict(reply.content["about"]) == expected


def test_the_device_id_of_a_real_device_goes_before_the_partition_of_a_simulation() -> None:
    assert device_of(context({"device-id": 2, "partition-id": 1}))[0].index == 2
    assert device_of(context({"partition-id": 1, "num-partitions": 4}))[0].index == 1


def test_a_model_is_evaluated_on_the_devices_own_share(synthetic: Dataset, model: Vector) -> None:
    content = RecordDict({"model": ArrayRecord({"model": Array(model)})})
    metrics = ask(message_with(content, "evaluate"), context({"partition-id": 2})).content["metrics"]
    network = build_network("fashion-mnist-cnn", (1, 28, 28), 10, (8,), seed=0)
    own = synthetic.train.select(share_of(synthetic, 2))
    expected = evaluate_model(network, model, own)
    assert metrics["accuracy"] == pytest.approx(expected.accuracy)
    assert metrics["loss"] == pytest.approx(expected.loss)
    assert metrics["num-examples"] == len(own)


def test_a_malformed_message_is_answered_with_an_error_reply(subtests: pytest.Subtests) -> None:
    all_contents: list[RecordDict] = [
        RecordDict(),
        RecordDict({"order": ConfigRecord({"round": "one"})}),
        RecordDict({"order": ConfigRecord({}), "model": ConfigRecord({"model": 1})}),
    ]
    all_message_types: list[str] = ["train", "query.offload", "evaluate"]
    for label_content, content in zip(["empty", "no model", "no array"], all_contents, strict=True):
        for message_type in all_message_types:
            with subtests.test(label_content, message_type=message_type):
                code, reason = error_of(ask(message_with(content, message_type), context()))
                assert code == 400
                assert reason.startswith("OrderError: expected ")


def test_an_order_for_another_device_is_answered_with_an_error_reply(model: Vector) -> None:
    assert error_of(ask(sent(an_order(model, device=3)), context({"partition-id": 0}))) == (
        400,
        "OrderError: order: it is for device 3, this is device 0",
    )


OWN_DATA = """
import torch
from clients.data import Dataset, Samples

def make(folder, seed):
    images = int((folder / "how-many").read_text())
    samples = Samples(torch.full((images, 1, 28, 28), 0.5), torch.arange(images) % 10)
    return Dataset("own", samples, samples, 10, str(folder))
"""


@pytest.fixture
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders of two real devices and the module that reads them; flwr-datasets is not installed."""
    monkeypatch.chdir(tmp_path)
    for name in ("datasets", "flwr_datasets"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "own_data_of_devices.py").write_text(OWN_DATA)
    for name, images in (("attic", 30), ("cellar", 12)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "how-many").write_text(str(images))
    return tmp_path


def real_device(number: int, folder: Path) -> Context:
    node = {"device-id": number, "data-dir": str(folder), "allow-plugins": True}
    return context(node, dataset="own_data_of_devices:make")


def test_a_device_with_a_data_folder_of_its_own_holds_all_of_it_and_needs_no_partition(own_data: Path) -> None:
    message = message_with(RecordDict(), "query.introduce")
    attic, cellar = real_device(0, own_data / "attic"), real_device(3, own_data / "cellar")
    assert dict(ask(message, attic).content["about"]) == {"device": 0, "samples": 30, "offload": "any"}
    assert dict(ask(message, cellar).content["about"]) == {"device": 3, "samples": 12, "offload": "any"}
    node = {"device-id": 0, "allow-plugins": True}
    without_folder = context(node, dataset="own_data_of_devices:make", data_dir=str(own_data / "attic"))
    code, reason = error_of(ask(message, without_folder))
    assert code == 400
    assert reason.startswith("PartitionError: dividing a data set needs flwr-datasets")


def test_a_device_trains_on_and_offloads_from_its_own_data_folder(own_data: Path, model: Vector) -> None:
    where = real_device(3, own_data / "cellar")
    gradient = read_reply(ask(sent(an_order(model, device=3, samples=100)), where))
    assert isinstance(gradient, GradientReply)
    assert gradient.samples == 12
    data = read_reply(ask(sent(an_order(model, device=3, samples=5, offload_to=0)), where))
    assert isinstance(data, DataReply)
    assert data.images.shape == (5, 1, 28, 28)
    assert set(data.images.ravel().tolist()) == {0.5}


def test_a_data_folder_of_its_own_without_the_files_is_answered_with_an_error_reply(tmp_path: Path) -> None:
    where = context({"device-id": 0, "data-dir": str(tmp_path)}, dataset="fashion-mnist")
    assert error_of(ask(message_with(RecordDict(), "query.introduce"), where)) == (
        400,
        f"DataError: --data-dir: no train-images-idx3-ubyte[.gz] in {tmp_path}; expected the four idx files of "
        "Fashion-MNIST there",
    )


MALFORMED_CONTEXTS = {
    "no number": (context({}), "ClientError: node configuration: found device-id None, expected a whole number"),
    "a word": (
        context({"device-id": "two"}),
        "ClientError: node configuration: found device-id 'two', expected a whole number",
    ),
    "too large": (context({"device-id": 4}), "ClientError: node configuration: found device-id 4, expected 0 to 3"),
    "negative": (context({"device-id": -1}), "ClientError: node configuration: found device-id -1, expected 0 to 3"),
    "consent": (
        context({"device-id": 0, "offload": "sometimes"}),
        'ClientError: offload: found "sometimes", expected any, never, or server numbers such as 0,2',
    ),
    "setting": (context(devices="ten"), "ParameterError: devices: found 'ten', expected a value of type int"),
    "choice": (
        context(partition="iidd"),
        'ParameterError: partition: found "iidd", expected one of iid, non-iid, dirichlet or your own as '
        'module:function (did you mean "iid"?)',
    ),
    "data set": (
        context(dataset="sinthetic"),
        'DataError: dataset: found "sinthetic", expected fashion-mnist, svhn, synthetic or your own as '
        'module:function (did you mean "synthetic"?)',
    ),
    "no data there": (
        context(dataset="fashion-mnist", data_dir="/no/such/folder"),
        "DataError: --data-dir: no train-images-idx3-ubyte[.gz] in /no/such/folder; expected the four idx files of "
        "Fashion-MNIST there",
    ),
    "hidden sizes": (
        context(hidden="many"),
        "ParameterError: hidden: found 'many', expected positive whole numbers such as 50 or 256,72",
    ),
    "partition": (
        context(devices=3, labels_per_device=11),
        "PartitionError: non-iid partition for 3 devices: 11 labels per device, but the data has 10",
    ),
}


def test_a_context_that_makes_no_device_is_answered_with_an_error_reply(subtests: pytest.Subtests) -> None:
    all_message_types: list[str] = ["train", "query.offload", "query.introduce", "evaluate"]
    for name in list(MALFORMED_CONTEXTS):
        for message_type in all_message_types:
            with subtests.test(name=name, message_type=message_type):
                where, reason = MALFORMED_CONTEXTS[name]
                assert error_of(ask(message_with(RecordDict(), message_type), where)) == (400, reason)


def test_a_real_device_runs_no_code_that_a_run_names_unless_its_owner_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q4: the run configuration is a message of whoever starts the run; the node configuration is the owner's word."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "strange_data.py").write_text("from clients.data import synthetic as load\n")
    named, device = {"dataset": "strange_data:load"}, {"device-id": 0}
    for word in ({}, {"allow-plugins": False}, {"allow-plugins": "false"}, {"allow-plugins": 0}):
        code, reason = error_of(ask(message_with(RecordDict(), "evaluate"), context(device | word, **named)))
        assert (code, "strange_data" in sys.modules) == (400, False)
        assert reason.startswith("ClientError: run configuration: found dataset = 'strange_data:load', code to run on")
    assert device_of(context(device | {"allow-plugins": True}, **named))[0].index == 0
    assert device_of(context({"partition-id": 1}, **named))[0].index == 1, "in a simulation it is the owner's"
