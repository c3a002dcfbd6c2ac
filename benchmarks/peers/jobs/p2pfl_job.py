"""The job on p2pfl, ten nodes in one process that all talk to all; it evaluates the last model alone."""

import lightning
import torch
from datasets import Dataset, DatasetDict
from p2pfl.communication.protocols.protobuff.memory import MemoryCommunicationProtocol
from p2pfl.learning.dataset.p2pfl_dataset import P2PFLDataset
from p2pfl.learning.frameworks.pytorch.lightning_model import LightningModel
from p2pfl.node import Node
from p2pfl.settings import Settings
from p2pfl.utils.topologies import TopologyFactory, TopologyType
from p2pfl.utils.utils import set_standalone_settings, wait_convergence, wait_to_finish
from samples import BATCH, DEVICES, RATE, ROUNDS, Part, share, test
from torch import nn


class Network(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), RATE)

    def training_step(self, batch: dict[str, torch.Tensor], _: int) -> torch.Tensor:
        return nn.functional.cross_entropy(self(batch["image"]), batch["label"])

    def test_step(self, batch: dict[str, torch.Tensor], _: int) -> None:
        """p2pfl wants one."""


def table(part: Part) -> Dataset:
    return Dataset.from_dict({"image": part[0].numpy(), "label": part[1].numpy()}).with_format("torch")


def node(device: int) -> Node:
    data = DatasetDict({"train": table(share(device)), "test": table(share(device)).select([0])})
    protocol = MemoryCommunicationProtocol()
    return Node(
        LightningModel(Network()), P2PFLDataset(data, batch_size=BATCH), addr=f"node-{device}", protocol=protocol
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    set_standalone_settings()
    Settings.training.DISABLE_RAY = False
    nodes = [node(n) for n in range(DEVICES)]
    for one in nodes:
        one.start()
    TopologyFactory.connect_nodes(TopologyFactory.generate_matrix(TopologyType.FULL, DEVICES), nodes)
    wait_convergence(nodes, DEVICES - 1, wait=60)
    nodes[0].set_start_learning(rounds=ROUNDS, epochs=1)
    wait_to_finish(nodes, timeout=600)
    model, (x, y) = nodes[0].learner.get_model().get_model(), test()
    print(f"accuracy {(model(x).argmax(1) == y).float().mean():.4f}")
    for one in nodes:
        one.stop()
