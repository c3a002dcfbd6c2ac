"""One local update (eqs. 4-7), as one function over a LIST of training nodes.

A device calls it with itself, an edge server with itself, the simulation with everybody at once.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clients import stacked
from clients.batches import NodeKey, mini_batches
from clients.cores import map_on_cores
from clients.data import Samples
from clients.errors import LateError, ModelError, ParameterError
from clients.models import Vector, to_vector, with_parameters
from clients.plugins import OPEN_POINTS, load_plugin
from policy.streams import Purpose, stream

STACKED_OPTIMIZERS = OPEN_POINTS["optimizer"].names


@dataclass(frozen=True)
class TrainingNode:
    """A device or edge server that trains in this round: its data D_y, its iterations e_y, the model it starts from."""

    key: NodeKey
    samples: Samples
    indices: Tensor | None  # which samples are the node's; None: all
    iterations: int
    model: Vector

    def __len__(self) -> int:
        return len(self.samples) if self.indices is None else len(self.indices)


@dataclass(frozen=True)
class Recipe:
    """What all training nodes of a round have in common."""

    seed: int
    round: int
    optimizer: str
    learning_rate: float
    batch: int
    engine: str = "auto"
    chunk: int = 10
    ends_s: float = field(default=math.inf, compare=False)
    """When whoever trains stops, on the clock `now`: not part of what is trained."""
    now: Callable[[], float] = field(default=time.monotonic, compare=False)

    def check_time(self) -> None:
        """Raise `LateError` once it is over."""
        late_s = self.now() - self.ends_s
        if late_s >= 0:
            raise LateError(f"found {late_s:.3g} s past the deadline, expected to be done by then")


@dataclass(frozen=True)
class LocalUpdate:
    """The cumulative gradient C_y with its weight: the D_y samples and e_y iterations that made it (eqs. 6, 7)."""

    samples: int
    iterations: int
    values: Vector


Trainer = Callable[[Sequence[TrainingNode], nn.Module, Recipe], list[LocalUpdate]]
"""The form of `local_updates`."""


def local_updates(nodes: Sequence[TrainingNode], network: nn.Module, recipe: Recipe) -> list[LocalUpdate]:
    """The cumulative gradient of every node, in the order of `nodes`.

    Eqs. 4, 5 (L5):  w_y^0 = w,  w_y^e = w_y^{e-1} - eta * (mean gradient over mini-batch e)
    Eqs. 6, 7 (L6):  C_y = (w - w_y^{e_y}) / eta

    Both engines use the same mini-batches and agree to rounding. Past the recipe's end they stop with a `LateError`.
    """
    dimensions = nodes[0].samples.inputs.ndim - 1 if nodes else stacked.IMAGE
    if uses_stacked(network, recipe.engine, recipe.optimizer, recipe.batch, dimensions):
        trained = _train_stacked(nodes, network, recipe)
    else:
        trained = [_train_one(node, network, recipe) for node in nodes]
    recipe.check_time()
    eta = np.float32(recipe.learning_rate)
    return [
        LocalUpdate(len(node), node.iterations, (node.model - after) / eta)
        for node, after in zip(nodes, trained, strict=True)
    ]


def uses_stacked(
    network: nn.Module, engine: str, optimizer: str = "sgd", batch: int = 1, dimensions: int | None = None
) -> bool:
    """Whether `engine` means the stacked one for this network and samples of so many `dimensions` (None: those that the
    network is for). `stacked` insists; `auto` takes it where it is faster. An optimiser of others knows nothing of
    stacked parameters.
    """
    dimensions = stacked.dimensions_of(network) if dimensions is None else dimensions
    is_ours = optimizer in STACKED_OPTIMIZERS
    if engine == "stacked":
        if not is_ours:
            raise ModelError(f"engine stacked: found optimizer {optimizer}, expected sgd or adam; use sequential")
        stacked.check_stackable(network, dimensions)
        return True
    can = engine != "sequential" and is_ours and stacked.is_stackable(network, dimensions)
    return can and stacked.is_worthwhile(network, batch)


def make_step(name: str, parameters: Sequence[Tensor], learning_rate: float) -> Callable[[Tensor], None]:
    """The function that makes one step down a loss. The optimiser is fresh (L5): no state outlives a round.

    Plain SGD is one line; torch.optim would spend two seconds of the first step on importing its compiler.
    """
    if name == "sgd":

        def sgd(loss: Tensor) -> None:
            torch._foreach_add_(values, torch.autograd.grad(loss, parameters), alpha=-learning_rate)

        values = [parameter.detach() for parameter in parameters]  # shares memory, not history
        return sgd
    if name == "adam":
        optimizer: torch.optim.Optimizer = torch.optim.Adam(parameters, lr=learning_rate, foreach=True)
    else:
        optimizer = _foreign_optimizer(name, parameters, learning_rate)

    def step(loss: Tensor) -> None:
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def _foreign_optimizer(name: str, parameters: Sequence[Tensor], learning_rate: float) -> torch.optim.Optimizer:
    """What somebody's own function of (parameters, learning rate) makes."""
    made = load_plugin("optimizer", name, ParameterError)(parameters, learning_rate)
    if not isinstance(made, torch.optim.Optimizer):
        raise ParameterError(f"optimizer {name}: found {type(made).__name__}, expected a torch.optim.Optimizer")
    return made


@dataclass(frozen=True)
class Batches:
    """All mini-batches of one node, gathered."""

    inputs: Tensor  # (iterations, B, *shape of a sample), as stored
    labels: Tensor  # (iterations, B)


def gathered_batches(node: TrainingNode, recipe: Recipe) -> Batches:
    positions = mini_batches(recipe.seed, recipe.round, node.key, len(node), node.iterations, recipe.batch)
    chosen = torch.from_numpy(positions.reshape(-1))
    if node.indices is not None:
        chosen = node.indices[chosen]
    inputs = node.samples.inputs.index_select(0, chosen)
    labels = node.samples.labels.index_select(0, chosen)
    return Batches(inputs.view(*positions.shape, *inputs.shape[1:]), labels.view(positions.shape))


def _train_one(node: TrainingNode, network: nn.Module, recipe: Recipe) -> Vector:
    """The plain torch loop over one node: w_y^{e_y}."""
    mine = with_parameters(network, node.model)
    batches = gathered_batches(node, recipe)
    step = make_step(recipe.optimizer, list(mine.parameters()), recipe.learning_rate)
    with torch.random.fork_rng(devices=[]):  # for networks that draw, as Dropout does
        torch.manual_seed(int(stream(recipe.seed, Purpose.DROPOUT, recipe.round, node.key.counter).integers(2**62)))
        for inputs, labels in zip(batches.inputs, batches.labels, strict=True):
            recipe.check_time()
            step(F.cross_entropy(mine(node.samples.scale(inputs)), labels))
    return to_vector(mine)


def _train_stacked(nodes: Sequence[TrainingNode], network: nn.Module, recipe: Recipe) -> list[Vector]:
    """Nodes with batches of one form as grouped networks of at most `chunk` nodes, side by side on the cores."""
    groups: dict[object, list[int]] = {}
    for i, node in enumerate(nodes):
        inputs = node.samples.inputs
        form = (node.iterations, min(recipe.batch, len(node)), inputs.shape[1:], inputs.dtype)
        groups.setdefault((form, node.samples.mean, node.samples.std), []).append(i)
    parts = [
        part.tolist()
        for members in groups.values()
        for part in np.array_split(members, -(-len(members) // recipe.chunk))
    ]
    trained: dict[int, Vector] = {}
    made = map_on_cores(lambda part: _train_chunk([nodes[i] for i in part], network, recipe), parts)
    for part, vectors in zip(parts, made, strict=True):
        trained |= zip(part, vectors, strict=True)
    return [trained[i] for i in range(len(nodes))]


def _train_chunk(nodes: Sequence[TrainingNode], network: nn.Module, recipe: Recipe) -> list[Vector]:
    many = stacked.StackedNetwork(network, np.stack([node.model for node in nodes]), nodes[0].samples.inputs.ndim - 1)
    step = make_step(recipe.optimizer, many.parameters, recipe.learning_rate)
    batches = [gathered_batches(node, recipe) for node in nodes]
    if batches[0].inputs.ndim > stacked.IMAGE:
        # Interleave the nodes while the images are still bytes: (iterations, B, H, W, nodes, C)
        inputs = torch.stack([b.inputs for b in batches], dim=2).permute(0, 1, 4, 5, 2, 3).contiguous()
    else:  # (iterations, nodes, B, columns)
        inputs = torch.stack([b.inputs for b in batches], dim=1)
    labels = torch.stack([b.labels for b in batches], dim=1)  # (iterations, nodes, B)
    for step_inputs, step_labels in zip(inputs, labels, strict=True):
        recipe.check_time()
        step(many.loss(nodes[0].samples.scale(step_inputs, channels_last=True), step_labels))
    return many.vectors()
