"""How good a model is on a set of samples."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from clients.data import Samples
from clients.models import Vector, with_parameters

_BATCH = 1_000


@dataclass(frozen=True)
class Scores:
    """Share of samples classified right, and mean cross-entropy."""

    accuracy: float
    loss: float


def evaluate_model(network: nn.Module, vector: Vector, samples: Samples) -> Scores:
    """Accuracy and loss of the model `vector` on `samples`."""
    filled = with_parameters(network, vector).eval()
    are_images = samples.inputs.ndim == 4
    if are_images:
        filled = filled.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    right, loss = 0, 0.0
    with torch.inference_mode():
        for inputs, labels in zip(
            torch.split(samples.inputs, _BATCH), torch.split(samples.labels, _BATCH), strict=True
        ):
            scaled = samples.scale(inputs)
            scores = filled(scaled.contiguous(memory_format=torch.channels_last) if are_images else scaled)
            right += int((scores.argmax(dim=1) == labels).sum())
            loss += float(F.cross_entropy(scores, labels, reduction="sum"))
    return Scores(right / len(samples), loss / len(samples))


def mean_scores(scores: list[Scores]) -> Scores:
    """The average over several models (`traditional` has one per edge server)."""
    return Scores(float(np.mean([s.accuracy for s in scores])), float(np.mean([s.loss for s in scores])))
