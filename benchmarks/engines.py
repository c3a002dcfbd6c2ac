"""How fast the engines train many devices, beside a bare torch loop: `python -m benchmarks.engines [--threads 1]`.

The bare loop is what anybody would write: each device in turn, a copy of the model, torch.optim.SGD. Prints a Markdown
table with ratios to it (above 1: faster) and whether both engines give the same bytes. Best of several repetitions.
"""

import argparse
import copy
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clients import stacked
from clients.batches import NodeKey
from clients.data import Samples
from clients.models import fashion_mnist_cnn, mlp, svhn_cnn, to_vector, with_parameters
from clients.training import LocalUpdate, Recipe, TrainingNode, gathered_batches, local_updates, uses_stacked


class Lstm(nn.Module):
    """Letters in, the class of the text out."""

    def __init__(self, vocabulary: int, classes: int) -> None:
        super().__init__()
        self.vectors = nn.Embedding(vocabulary, 32)
        self.lstm = nn.LSTM(32, 64, batch_first=True)
        self.scores = nn.Linear(64, classes)

    def forward(self, text: Tensor) -> Tensor:
        scores: Tensor = self.scores(self.lstm(self.vectors(text))[0][:, -1])
        return scores


def resnet_18(classes: int) -> nn.Module:
    """torchvision's, with GroupNorm, for images of 32 x 32."""
    from clients.sources import import_torchvision

    import_torchvision()
    from torchvision.models import resnet18

    made: nn.Module = resnet18(num_classes=classes, norm_layer=lambda channels: nn.GroupNorm(32, channels))
    made.conv1, made.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
    return made


def wide_cnn(width: int) -> nn.Module:
    """A plain chain that could be stacked: three convolutions of `width` channels."""
    layers: list[nn.Module] = []
    for inputs in (3, width, width):
        layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(width * 16, 10))


@dataclass(frozen=True)
class Case:
    """A network and the samples it is trained on."""

    name: str
    network: nn.Module
    shape: tuple[int, ...]
    vocabulary: int = 0
    devices: int = 10
    iterations: int = 10
    batch: int = 25


def cases(names: Sequence[str]) -> list[Case]:
    """Those asked for; all where none is named."""
    torch.manual_seed(0)
    table, photo = (30,), (3, 32, 32)
    made = [
        Case("CNN, 1 x 28 x 28 (L2)", fashion_mnist_cnn((1, 28, 28), 10), (1, 28, 28)),
        Case("CNN, 3 x 32 x 32 (L2)", svhn_cnn(photo, 10), photo),
        Case("MLP 30-64-10, table", mlp(table, 10), table),
        Case("MLP 30-512-512-10, table", mlp(table, 10, (512, 512)), table),
        Case("MLP 784-200-10, images", mlp((1, 28, 28), 10, (200,)), (1, 28, 28)),
        Case("MLP 784-2000-2000-10, images", mlp((1, 28, 28), 10, (2000, 2000)), (1, 28, 28), iterations=2),
        *(Case(f"3 convolutions of {w}, 3 x 32 x 32", wide_cnn(w), photo, iterations=3) for w in (4, 8, 16, 32, 64)),
        *(Case(f"MLP 30-{w}-{w}-10, table", mlp(table, 10, (w, w)), table) for w in (128, 256)),
        Case("LSTM 32-64, texts of 40", Lstm(128, 10), (40,), vocabulary=128),
        Case("ResNet-18 (GroupNorm)", resnet_18(10), photo, devices=2, iterations=1, batch=8),
    ]
    return [case for case in made if not names or any(name.lower() in case.name.lower() for name in names)]


def nodes_of(case: Case) -> list[TrainingNode]:
    """Devices with 100 samples each."""
    rng = np.random.default_rng(0)
    shape = (max(100, case.batch) * case.devices, *case.shape)
    if case.vocabulary:
        inputs = torch.from_numpy(rng.integers(case.vocabulary, size=shape))
    elif len(case.shape) == 1:
        inputs = torch.from_numpy(rng.standard_normal(shape).astype(np.float32))
    else:
        inputs = torch.from_numpy(rng.integers(256, size=shape).astype(np.uint8))
    samples = Samples(inputs, torch.from_numpy(rng.integers(10, size=len(inputs))), vocabulary=case.vocabulary)
    model = to_vector(case.network)
    indices = torch.arange(len(inputs)).view(case.devices, -1)
    return [
        TrainingNode(NodeKey("device", n), samples, indices[n], case.iterations, model) for n in range(case.devices)
    ]


def bare_loop(nodes: Sequence[TrainingNode], network: nn.Module, recipe: Recipe) -> list[LocalUpdate]:
    """What anybody would write, on the same mini-batches."""
    updates = []
    for node in nodes:
        mine = with_parameters(copy.deepcopy(network), node.model)
        optimizer = torch.optim.SGD(mine.parameters(), lr=recipe.learning_rate)
        batches = gathered_batches(node, recipe)
        for inputs, labels in zip(batches.inputs, batches.labels, strict=True):
            optimizer.zero_grad()
            F.cross_entropy(mine(node.samples.scale(inputs)), labels).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        values = (node.model - to_vector(mine)) / np.float32(recipe.learning_rate)
        updates.append(LocalUpdate(len(node), node.iterations, values))
    return updates


def best_s(trained: Mapping[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """Of each, the best of several repetitions that take turns, the first not counted: what disturbs one disturbs all.
    On one thread it is the processor's time that counts.
    """
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    best = dict.fromkeys(trained, math.inf)
    for repetition in range(repetitions + 1):
        for name, train in trained.items():
            began = clock()
            train()
            if repetition:
                best[name] = min(best[name], clock() - began)
    return best


def row(case: Case, repetitions: int) -> str:
    """One line of the table."""
    nodes = nodes_of(case)
    recipe = Recipe(0, 1, "sgd", 0.01, case.batch)
    with_engine = {name: replace(recipe, engine=name) for name in ("sequential", "stacked", "auto")}
    dimensions = len(case.shape)
    can = stacked.is_stackable(case.network, dimensions)
    if not can:
        del with_engine["stacked"]
    trained: dict[str, Callable[[], object]] = {
        name: partial(local_updates, nodes, case.network, each) for name, each in with_engine.items()
    }
    best = best_s({"bare": partial(bare_loop, nodes, case.network, recipe)} | trained, repetitions)
    cells = [f"{1000 * best['bare']:.1f}"]
    cells += [f"{best['bare'] / best[name]:.2f}" if name in best else "-" for name in ("sequential", "stacked", "auto")]
    same = "-"
    if can:
        one, two = (local_updates(nodes, case.network, with_engine[name]) for name in ("sequential", "stacked"))
        equal = all(np.array_equal(a.values, b.values) for a, b in zip(one, two, strict=True))
        apart = max(float(abs(a.values - b.values).max()) for a, b in zip(one, two, strict=True))
        same = "yes" if equal else f"no, up to {apart:.0e}"
    chosen = "stacked" if uses_stacked(case.network, "auto", batch=case.batch, dimensions=dimensions) else "sequential"
    return f"| {case.name} | {case.devices} | " + " | ".join(cells) + f" | {chosen} | {same} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=0, help="of torch; 0: one per core")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("cases", nargs="*", help="parts of names")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    print(f"{torch.get_num_threads()} threads; ratios to the bare loop, above 1 is faster\n")
    print("| network | devices | bare loop (ms) | sequential | stacked | auto | auto is | same bytes |")
    print("|---|---|---|---|---|---|---|---|")
    for case in cases(options.cases):
        print(row(case, options.repetitions), flush=True)


if __name__ == "__main__":
    main()
