"""The network of the NVFlare job, in a module of its own: server and sites import it by name."""

from torch import nn


class Network(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))


def network() -> nn.Module:
    return Network()
