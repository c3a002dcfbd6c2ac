"""The paper's own networks: flat over all devices, one set of weights for one N, M and G.

Discrete actor 64-32 (softmax), continuous actor 128-64 (tanh) that also sees everybody's choice, critic 200-100.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from policy.actor.hybrid_action import Heads
from policy.actor.networks import LOG_STD, perceptron
from policy.env.observation import observation_size
from policy.errors import ObservationError
from policy.parameters import LatencyParams


@dataclass(frozen=True)
class FlatOutputs:
    """What the flat actor says about B states."""

    logits: Tensor  # (B, N, 1 + S)
    seen: Tensor  # (B, observation)
    share: nn.Module
    log_std: Tensor

    def at(self, choice: Tensor) -> Heads:
        """The heads at choices (R, B, N): the continuous actor reads the observation and all choices."""
        options = self.logits.shape[2]
        chosen = one_hot(choice, options).flatten(2).float()
        seen = self.seen.expand(choice.shape[0], *self.seen.shape)
        means = torch.tanh(self.share(torch.cat([seen, chosen], dim=2)))
        return Heads(self.logits, means.reshape(*choice.shape, 4), self.log_std)


class FlatActor(nn.Module):
    """The paper's two actor networks, for exactly these numbers of devices, servers and sub-channels."""

    architecture = "paper"

    def __init__(self, params: LatencyParams) -> None:
        super().__init__()
        self.sizes = {"devices": params.devices, "servers": params.servers, "channels": params.channels}
        self.devices, self.options, self.size = params.devices, params.slots + 1, observation_size(params)
        chosen = self.devices * self.options
        self.choice = perceptron(self.size, 64, 32, chosen, last_gain=0.01)
        self.share = perceptron(self.size + chosen, 128, 64, self.devices * 4, last_gain=0.01)
        self.log_std = nn.Parameter(torch.full((4,), -1.0))

    def forward(self, seen: Tensor) -> FlatOutputs:
        """The policy at B observations."""
        if seen.ndim != 2 or seen.shape[1] != self.size:
            raise ObservationError(
                f"found an observation of shape {tuple(seen.shape)}, expected (B, {self.size}): the paper's network "
                f"serves the {self.devices} devices it was trained for"
            )
        logits = self.choice(seen).reshape(-1, self.devices, self.options)
        return FlatOutputs(logits, seen, self.share, self.log_std.clamp(*LOG_STD))


class FlatCritic(nn.Module):
    """V(s): the reward to expect."""

    def __init__(self, params: LatencyParams) -> None:
        super().__init__()
        self.value = perceptron(observation_size(params), 200, 100, 1, last_gain=1.0)

    def forward(self, seen: Tensor) -> Tensor:
        """V(s) of B observations.  # (B,)"""
        return torch.as_tensor(self.value(seen)[:, 0])
