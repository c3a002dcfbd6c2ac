"""The parameterised action as a distribution (S31): a softmax over slots, and Gaussians around tanh means that only
count where the choice uses them.

Sizes: R samples of the action of N devices in B states.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from policy.world.projection import BANDWIDTH, CPU, HASH, LOCAL, POWER


@dataclass(frozen=True)
class Heads:
    """A policy in B states, its means at R sampled choices."""

    logits: Tensor  # (B, N, 1 + S): local first
    means: Tensor  # (R, B, N, 4), in (-1, 1): power, bandwidth, CPU, hash
    log_std: Tensor  # (4,)

    def detach(self) -> "Heads":
        """The same without gradients: the old policy that later ones are compared with."""
        return Heads(self.logits.detach(), self.means.detach(), self.log_std.detach().clone())


class Outputs(Protocol):
    """What an actor says of B states: logits at once, means of the continuous parameters once the choice is known."""

    @property
    def logits(self) -> Tensor:
        """(B, N, 1 + S)"""

    def at(self, choice: Tensor) -> Heads:
        """Logits, and means of the continuous parameters given the choices (R, B, N)."""


@dataclass(frozen=True)
class Sample:
    """R actions in each of B states."""

    choice: Tensor  # (R, B, N), whole numbers
    raw: Tensor  # (R, B, N, 4): Gaussian, not clipped

    @property
    def shares(self) -> Tensor:
        """u = (clip(c, -1, 1) + 1) / 2."""
        return shares(self.raw)


def shares(raw: Tensor) -> Tensor:
    """From the actor's range [-1, 1] to [0, 1]."""
    return (raw.clamp(-1.0, 1.0) + 1) / 2


def draw_sample(outputs: Outputs, samples: int, generator: torch.Generator) -> Sample:
    """R actions: the choices first, then the parameters that go with them."""
    probabilities = torch.softmax(outputs.logits.detach(), dim=2)
    flat = probabilities.reshape(-1, probabilities.shape[2])
    picked = torch.multinomial(flat, samples, replacement=True, generator=generator)
    choice = picked.T.reshape(samples, *probabilities.shape[:2])
    heads = outputs.at(choice).detach()
    noise = torch.randn(heads.means.shape, generator=generator)
    return Sample(choice, heads.means + heads.log_std.exp() * noise)


def parameter_mask(choice: Tensor) -> Tensor:
    """Which of the four parameters count: {p, b, psi} if offloading, {f, psi} if local.  # (..., N, 4)"""
    offloads = (choice != LOCAL).float()
    parts: list[Tensor] = [torch.ones_like(offloads)] * 4
    parts[POWER], parts[BANDWIDTH], parts[CPU], parts[HASH] = (
        offloads,
        offloads,
        1 - offloads,
        torch.ones_like(offloads),
    )
    return torch.stack(parts, dim=-1)


def choice_log_prob(heads: Heads, sample: Sample) -> Tensor:
    """log pi^d(a | s).  # (R, B, N)"""
    logs = torch.log_softmax(heads.logits, dim=2).expand(*sample.choice.shape, -1)
    return logs.gather(3, sample.choice[..., None])[..., 0]


def share_log_prob(heads: Heads, sample: Sample) -> Tensor:
    """log pi^c(c | s, a) up to a constant; 0 for parameters the choice does not use.  # (R, B, N, 4)"""
    deviation = (sample.raw - heads.means) / heads.log_std.exp()
    return parameter_mask(sample.choice) * (-0.5 * deviation**2 - heads.log_std)


def entropy(heads: Heads) -> Tensor:
    """Mean entropy of a device's choice, in nats."""
    logs = torch.log_softmax(heads.logits, dim=2)
    return -(logs.exp() * logs).sum(dim=2).mean()


def gaussian_divergence(old_mean: Tensor, old_log_std: Tensor, new_mean: Tensor, new_log_std: Tensor) -> Tensor:
    """KL(old || new) of two Gaussians."""
    spread = (torch.exp(2 * old_log_std) + (old_mean - new_mean) ** 2) / (2 * torch.exp(2 * new_log_std))
    return new_log_std - old_log_std + spread - 0.5


def divergence(old: Heads, new: Heads, sample: Sample) -> Tensor:
    """S31: KL(old || new) of one device's action, the mean over devices and states.

    KL of the choice in closed form, and of the parameters in closed form at the choices drawn from the old policy:
    their mean estimates sum_a pi_old(a | s) KL_c(s, a) without bias, also where means depend on everybody's choice.
    """
    old_logs, new_logs = (torch.log_softmax(heads.logits, dim=2) for heads in (old, new))
    by_choice = (old_logs.exp() * (old_logs - new_logs)).sum(dim=2).mean()
    by_share = gaussian_divergence(old.means, old.log_std, new.means, new.log_std)
    return by_choice + (parameter_mask(sample.choice) * by_share).sum(dim=3).mean()
