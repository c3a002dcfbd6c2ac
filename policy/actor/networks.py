"""The actor and the critic that share their weights over devices and slots: one set of weights for any N, M and G.

One small network scores device n in slot (m, g), several times over (`PASSES`) with the same weights: after each pass
everybody hears what the others would do (`physics.messages`), so that two devices do not want one slot and a loud
device sees whom it disturbs. Gradients go through all passes.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from policy.actor.hybrid_action import Heads
from policy.actor.physics import Inputs, messages

PASSES = 4
HIDDEN = 32
LOG_STD = (-2.5, 0.0)
"""Bounds of the spread while learning: some of it stays, or nothing would be tried"""
SETTLED_LOG_STD = (-4.0, 0.0)
"""Bounds once the choices are learnt: shares can be told more exactly"""
SCORE_SCALE = 5.0
"""So that small weights can say sure things"""
SLOT_FEATURES = 18
DEVICE_FEATURES = 6


@dataclass(frozen=True)
class SharedOutputs:
    """What the shared actor says about B states; means in (-1, 1)."""

    logits: Tensor  # (B, N, 1 + M G): local first
    device_mean: Tensor  # (B, N, 2): CPU and hash rate
    log_std: Tensor  # (4,)
    features: Tensor  # (B, N, M, G, SLOT_FEATURES): after the last pass
    slot_share: nn.Module  # from features to power and bandwidth

    def at(self, choice: Tensor) -> Heads:
        """Logits, and means of the continuous parameters given the choices (R, B, N)."""
        slots = self.logits.shape[2] - 1
        place = torch.arange(choice[0].numel()).view_as(choice[0]) * slots + (choice - 1).clamp(min=0)
        chosen = self.features.flatten(0, 3).index_select(0, place.flatten()).view(*choice.shape, -1)
        alone = self.device_mean.expand(choice.shape[0], *self.device_mean.shape)
        return Heads(self.logits, torch.cat([torch.tanh(self.slot_share(chosen)), alone], dim=-1), self.log_std)


def slot_probabilities(logits: Tensor, shape: torch.Size) -> Tensor:
    """Probabilities that a device gets a slot: it wants it, and of several who want it one gets it.  # (B, N, M, G)"""
    wanted = torch.softmax(logits, dim=2)[:, :, 1:].reshape(shape)
    return wanted / wanted.sum(dim=1, keepdim=True).clamp(min=1.0)


def logits_with_local(scores: Tensor) -> Tensor:
    """Scores of slots as logits, that of training locally being 0.  # (B, N, 1 + M G)"""
    flat = scores.flatten(2)
    return torch.cat([torch.zeros_like(flat[:, :, :1]), flat], dim=2)


def margin_over_best_other(values: Tensor, dim: int) -> Tensor:
    """Each value minus the largest of the others along `dim`."""
    if values.shape[dim] == 1:
        return torch.zeros_like(values)
    top = values.topk(2, dim=dim).values
    first, second = top.narrow(dim, 0, 1), top.narrow(dim, 1, 1)
    return values - torch.where(values >= first, second, first)


def static_features(inputs: Inputs) -> Tensor:
    """What does not change from pass to pass.  # (B, N, M, G, 6)"""
    shape = inputs.snr.shape
    decibels = torch.log10(inputs.snr.clamp(min=1e-6)) / 2
    parts = (
        decibels,
        margin_over_best_other(decibels, 1).clamp(-2, 2),
        margin_over_best_other(decibels.flatten(2), 2).reshape(shape).clamp(-2, 2),
        torch.log1p(inputs.local_s)[:, :, None, None].expand(shape),
        4 * inputs.server_s[..., None].expand(shape),
        2 * inputs.data_s[:, :, None, None].expand(shape),
    )
    return torch.stack(parts, dim=-1)


def slot_features(inputs: Inputs, still: Tensor, q: Tensor, before: Tensor) -> Tensor:
    """What the network sees of a device in a slot, when all do what q says.  # (B, N, M, G, SLOT_FEATURES)"""
    heard = messages(inputs, q)
    saved = inputs.local_s[:, :, None, None] - inputs.server_s[..., None] - heard.upload_s - heard.harm_s
    parts = (
        torch.log10(heard.noise) / 2,
        heard.efficiency / 8,
        heard.weight.clamp(max=3.0),
        heard.load / 2,
        torch.log1p(heard.upload_s),
        torch.log1p(heard.harm_s),
        saved.clamp(-4, 4) / 2,
        margin_over_best_other(saved, 1).clamp(-2, 2),
        margin_over_best_other(saved.flatten(2), 2).reshape(saved.shape).clamp(-2, 2),
        (q.sum(dim=1, keepdim=True) - q).clamp(max=3.0),
        q,
        before.clamp(-10, 10) / 5,
    )
    return torch.cat([still, torch.stack(parts, dim=-1)], dim=-1)


def device_features(inputs: Inputs, slots: int) -> Tensor:
    """What the network sees of a device alone.  # (B, N, DEVICE_FEATURES)"""
    crowd = torch.full_like(inputs.local_s, float(inputs.local_s.shape[1] / slots)).log() / 2
    parts = (
        2 * inputs.level - 1, inputs.hash_rate, inputs.demand / 4, torch.log1p(inputs.local_s), inputs.data_s, crowd,
    )  # fmt: skip
    return torch.stack(parts, dim=-1)


class QuickTanh(nn.Module):
    """tanh x = 2 sigmoid(2 x) - 1, which torch computes four times as fast so on a CPU."""

    def forward(self, x: Tensor) -> Tensor:
        """tanh of every element."""
        return 2 * torch.sigmoid(2 * x) - 1


def perceptron(*sizes: int, last_gain: float) -> nn.Sequential:
    """Linear layers with tanh between them, orthogonal at first."""
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        linear = nn.Linear(before, after)
        nn.init.orthogonal_(linear.weight, 1.0)
        nn.init.zeros_(linear.bias)
        layers += [linear, QuickTanh()]
    nn.init.orthogonal_(layers[-2].weight, last_gain)  # type: ignore[arg-type]
    return nn.Sequential(*layers[:-1])


class SharedActor(nn.Module):
    """Discrete and continuous actor: any number of devices, servers and sub-channels."""

    architecture = "shared"

    def __init__(self, hidden: int = HIDDEN, passes: int = PASSES) -> None:
        super().__init__()
        self.hidden, self.passes, self.log_std_bounds = hidden, passes, LOG_STD
        self.score = perceptron(SLOT_FEATURES, hidden, hidden, 1, last_gain=0.1)
        self.slot_share = perceptron(SLOT_FEATURES, hidden, 2, last_gain=0.1)
        self.device_share = perceptron(DEVICE_FEATURES, hidden, 2, last_gain=0.1)
        self.log_std = nn.Parameter(torch.full((4,), -1.0))

    @property
    def sizes(self) -> dict[str, int]:
        """The constructor's arguments, which a file of weights keeps."""
        return {"hidden": self.hidden, "passes": self.passes}

    def settle(self, passes: int) -> None:
        """Change to the late phase of training: more passes, and shares with less noise."""
        self.passes, self.log_std_bounds = passes, SETTLED_LOG_STD

    def forward(self, inputs: Inputs) -> SharedOutputs:
        """Score all slots in `passes` passes, then say what the policy does in B states."""
        shape, still = inputs.snr.shape, static_features(inputs)
        scores = torch.zeros_like(inputs.snr)
        q = torch.full_like(scores, 1.0 / max(shape[1], shape[2] * shape[3]))
        for _ in range(self.passes):
            scores = SCORE_SCALE * self.score(slot_features(inputs, still, q, scores))[..., 0]
            q = slot_probabilities(logits_with_local(scores), shape)
        return SharedOutputs(
            logits=logits_with_local(scores),
            device_mean=torch.tanh(self.device_share(device_features(inputs, shape[2] * shape[3]))),
            log_std=self.log_std.clamp(*self.log_std_bounds),
            features=slot_features(inputs, still, q, scores),
            slot_share=self.slot_share,
        )


class SharedCritic(nn.Module):
    """What a device's action adds to T, in seconds: by slot for learning, and for mining."""

    def __init__(self, hidden: int = HIDDEN) -> None:
        super().__init__()
        self.slot = perceptron(SLOT_FEATURES, hidden, hidden, 1, last_gain=0.1)
        self.device = perceptron(DEVICE_FEATURES, hidden, 2, last_gain=0.1)

    def forward(self, inputs: Inputs, features: Tensor) -> tuple[Tensor, Tensor]:
        """Learning by choice (B, N, 1 + M G), mining (B, N)."""
        alone = self.device(device_features(inputs, features.shape[2] * features.shape[3]))
        slots = self.slot(features)[..., 0].flatten(2)
        return torch.cat([alone[..., :1], slots], dim=2), alone[..., 1]
