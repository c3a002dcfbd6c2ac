"""The local update in double precision, written plainly from eqs. 4-7: what the engines are measured against."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from clients.batches import mini_batches
from clients.models import with_parameters
from clients.training import LocalUpdate, Recipe, TrainingNode


def exact_update(node: TrainingNode, network: nn.Module, recipe: Recipe) -> NDArray[np.float64]:
    """C_y = (w - w_y^{e_y}) / eta, one image scale, one gradient and one step at a time, all in float64."""
    mine = with_parameters(network, node.model).double()
    weights = list(mine.parameters())
    start = torch.cat([w.detach().clone().flatten() for w in weights])
    own = torch.arange(len(node.samples)) if node.indices is None else node.indices
    unit = 255.0 if node.samples.inputs.dtype == torch.uint8 else 1.0
    mean, std = (torch.tensor(t, dtype=torch.float64).view(-1, 1, 1) for t in (node.samples.mean, node.samples.std))
    adam = Adam(weights) if recipe.optimizer == "adam" else None
    for positions in mini_batches(recipe.seed, recipe.round, node.key, len(node), node.iterations, recipe.batch):
        chosen = own[torch.from_numpy(positions)]
        images = (node.samples.inputs[chosen].double() / unit - mean) / std
        loss = F.cross_entropy(mine(images), node.samples.labels[chosen])
        gradients = torch.autograd.grad(loss, weights)
        steps = adam.steps(gradients) if adam else gradients
        with torch.no_grad():
            for w, step in zip(weights, steps, strict=True):
                w.sub_(recipe.learning_rate * step)
    end = torch.cat([w.detach().flatten() for w in weights])
    cumulative: NDArray[np.float64] = ((start - end) / recipe.learning_rate).numpy()
    return cumulative


class Adam:
    """Kingma & Ba, Algorithm 1, with their constants."""

    def __init__(self, weights: Sequence[Tensor]) -> None:
        self.t = 0
        self.m = [torch.zeros_like(w) for w in weights]
        self.v = [torch.zeros_like(w) for w in weights]

    def steps(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        """m_hat / (sqrt(v_hat) + epsilon)."""
        self.t += 1
        self.m = [0.9 * m + 0.1 * g for m, g in zip(self.m, gradients, strict=True)]
        self.v = [0.999 * v + 0.001 * g**2 for v, g in zip(self.v, gradients, strict=True)]
        return [
            (m / (1 - 0.9**self.t)) / ((v / (1 - 0.999**self.t)).sqrt() + 1e-8)
            for m, v in zip(self.m, self.v, strict=True)
        ]


def weight_errors(
    updates: Sequence[LocalUpdate], exact: Sequence[NDArray[np.float64]], nodes: Sequence[TrainingNode], eta: float
) -> NDArray[np.float64]:
    """|found - exact| / |exact| of every node's trained weights w_y = w - eta C_y."""
    errors = []
    for update, cumulative, node in zip(updates, exact, nodes, strict=True):
        start = node.model.astype(np.float64)
        found, expected = start - eta * update.values.astype(np.float64), start - eta * cumulative
        errors.append(np.linalg.norm(found - expected) / np.linalg.norm(expected))
    return np.array(errors)


def gradient_errors(updates: Sequence[LocalUpdate], exact: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """|found - exact| / |exact| of every node's cumulative gradient C_y."""
    return np.array([np.linalg.norm(u.values - e) / np.linalg.norm(e) for u, e in zip(updates, exact, strict=True)])
