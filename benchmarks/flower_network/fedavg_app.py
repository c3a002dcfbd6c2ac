"""The app that stock Flower runs: FedAvg as its documents show it, with the arithmetic of ours.

It goes into the bundle as it is. What costs the peer nothing in practice is done for it: a device reads its own share
of the data alone, scaled by nobody else, and the model travels as one array.
"""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from clients.batches import NodeKey
from clients.data import Samples
from clients.evaluation import evaluate_model
from clients.models import build_network, to_vector
from clients.training import Recipe, TrainingNode, local_updates

client = ClientApp()
server = ServerApp()


def read_task(context: Context) -> tuple[Path, dict[str, Any]]:
    """The folder that the benchmark has filled, and what is trained."""
    folder = Path(str(context.run_config["folder"]))
    return folder, json.loads((folder / "task.json").read_text(encoding="utf-8"))


def read_samples(path: Path, task: dict[str, Any]) -> Samples:
    """A device's share, or the test set."""
    with np.load(path) as arrays:
        images, labels = torch.from_numpy(arrays["images"]), torch.from_numpy(arrays["labels"])
    return Samples(images, labels, tuple(task["mean"]), tuple(task["std"]))


def make_network(task: dict[str, Any]) -> torch.nn.Module:
    """Model 0."""
    return build_network(task["model"], tuple(task["sample-shape"]), task["classes"], task["hidden"], task["seed"])


@client.train()
def train(message: Message, context: Context) -> Message:
    """The local update of a device: what `clients.device` does, without plan, key and chain."""
    torch.set_num_threads(1)
    folder, task = read_task(context)
    device: Any = context.node_config["device-id"]
    round_: Any = message.content["config"]["server-round"]
    model = message.content.array_records["arrays"]["model"].numpy()
    samples = read_samples(folder / f"share-{device}.npz", task)
    node = TrainingNode(NodeKey("device", int(device)), samples, None, task["iterations"], model)
    recipe = Recipe(task["seed"], int(round_), task["optimizer"], task["learning-rate"], task["batch"], task["engine"])
    (update,) = local_updates([node], make_network(task), recipe)
    trained = model - np.float32(task["learning-rate"]) * update.values
    metrics: dict[str, Any] = {"num-examples": update.samples}
    content = RecordDict({"arrays": ArrayRecord({"model": Array(trained)}), "metrics": MetricRecord(metrics)})
    return Message(content, reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """FedAvg over all devices; the model of every round is evaluated here, as ours is."""
    torch.set_num_threads(1)
    folder, task = read_task(context)
    network, test = make_network(task), read_samples(folder / "test.npz", task)

    def evaluate(round_: int, arrays: ArrayRecord) -> MetricRecord:
        scores = evaluate_model(network, arrays["model"].numpy(), test)
        with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"round": round_, "accuracy": scores.accuracy, "time": time.time()}) + "\n")
        return MetricRecord({"accuracy": scores.accuracy})

    everybody = task["devices"]
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=everybody, min_available_nodes=everybody)
    first = ArrayRecord({"model": Array(to_vector(network))})
    strategy.start(grid, first, num_rounds=task["rounds"], evaluate_fn=evaluate)
