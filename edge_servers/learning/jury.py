"""The root set at work (P7): losses of many models at once, and the update that the root set itself would send."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from clients import stacked
from clients.batches import NodeKey
from clients.data import Dataset, Samples
from clients.evaluation import evaluate_model
from clients.models import Vector
from clients.root_draw import root_digest, root_indices
from clients.training import Recipe, TrainingNode, local_updates
from edge_servers.errors import FederationError
from edge_servers.learning.aggregation import Exact
from edge_servers.parameters import Settings

_ROOT = NodeKey("server", 2**31)
"""Whose mini-batches it draws: no server's"""
_ITERATIONS = 30
"""Of its update. Ten point where two labels happen to: thirty find colluders that ten do not (docs/attacks.md)"""
_AT_ONCE = 25
"""Models whose losses are computed together: more need memory and are no faster"""
_KEPT = 16


@dataclass
class RootJury:
    """The root set with the network and the recipe of a run. What it has computed last is at hand: in a simulation the
    servers that check a leader share its process.
    """

    network: nn.Module
    samples: Samples
    settings: Settings
    _known: dict[bytes, Vector] = field(default_factory=dict, repr=False)

    @property
    def digest(self) -> str:
        """What the founding names the root set by."""
        return root_digest(self.samples)

    def losses(self, models: Sequence[Vector]) -> list[float]:
        """Mean cross-entropy of each model."""
        found: list[float] = []
        for first in range(0, len(models), _AT_ONCE):
            some = np.stack(models[first : first + _AT_ONCE]).astype(np.float32)
            found += self._remembered(some, self._losses).tolist()
        return found

    def _losses(self, models: "np.ndarray[tuple[int, int], np.dtype[np.float32]]") -> Vector:
        if not stacked.is_stackable(self.network):
            each = [evaluate_model(self.network, model, self.samples).loss for model in models]
            return np.array(each, np.float32)
        many = stacked.StackedNetwork(self.network, models)
        images = self.samples.scale(self.samples.inputs).permute(0, 2, 3, 1)  # (B, H, W, C)
        with torch.inference_mode():
            scores = many.scores(images[:, :, :, None, :].expand(-1, -1, -1, len(models), -1))
            labels = self.samples.labels.expand(len(models), -1)
            loss = F.cross_entropy(scores.flatten(0, 1), labels.reshape(-1), reduction="none")
        means: Vector = loss.view(len(models), -1).mean(dim=1).numpy()
        return means

    def update(self, model: Vector, round_: int) -> Exact:
        """The cumulative gradient of a training node that holds the root set."""

        def train(start: Vector) -> Vector:
            training, seed = self.settings.training, self.settings.data.seed
            recipe = Recipe(seed, round_, "sgd", training.learning_rate, training.batch, "sequential")
            node = TrainingNode(_ROOT, self.samples, None, _ITERATIONS, start)
            return local_updates([node], self.network, recipe)[0].values

        return self._remembered(model, train, round_).astype(np.float64)

    def _remembered(self, given: Vector, compute: "object", *more: int) -> Vector:
        key = hashlib.sha256(np.ascontiguousarray(given).tobytes() + repr((given.shape, more)).encode()).digest()
        if key not in self._known:
            while len(self._known) >= _KEPT:
                del self._known[next(iter(self._known))]
            self._known[key] = compute(given)  # type: ignore[operator]
        return self._known[key]


def jury_of(dataset: Dataset, settings: Settings, network: nn.Module, founded: str = "") -> RootJury | None:
    """The root set of a run, drawn from its training data; None where no filter judges.

    `founded`: its digest in the founding, where there is one; with other data nobody can judge.
    """
    if not settings.root_set:
        return None
    labels = dataset.train.labels.numpy()
    drawn = root_indices(labels, settings.root_set, settings.data.seed)
    jury = RootJury(network, dataset.train.select(torch.from_numpy(drawn)), settings)
    if not len(jury.samples):
        raise FederationError(f"root-set: found no label with two images in {dataset.name}, expected at least one")
    if founded and jury.digest != founded:
        raise FederationError(
            f"root-set: found images of sha256 {jury.digest}, the network was founded with {founded}; is data-dir the "
            "data set that it was founded with?"
        )
    return jury
