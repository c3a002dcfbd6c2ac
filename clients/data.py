"""Data sets: Fashion-MNIST, SVHN, a synthetic one, and the door for your own (`module:function`).

Images stay bytes until they are used; a device's share is a list of indices into the one table (no copies).
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clients.errors import DataError
from clients.plugins import load_plugin
from clients.sources import find_fashion_mnist, read_svhn
from policy.streams import Purpose, stream


@dataclass(frozen=True)
class Samples:
    """Images with their labels, and how to scale the images for a network."""

    inputs: Tensor  # (samples, channels, height, width), uint8 or float32
    labels: Tensor  # (samples,), int64
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def sample_bytes(self) -> int:
        """Bytes of one image, as the latency model counts data."""
        return self.inputs[:1].numel() * self.inputs.element_size()

    def select(self, indices: Tensor) -> "Samples":
        """The samples at `indices`, copied."""
        return replace(self, inputs=self.inputs.index_select(0, indices), labels=self.labels[indices])

    def scale(self, images: Tensor, channels_last: bool = False) -> Tensor:
        """Images as the network sees them: in [0, 1] where they are bytes, then (x - mean) / std per channel.

        Channels are the third dimension from the end, or the last one.
        """
        shape = (-1,) if channels_last else (-1, 1, 1)
        std, mean = torch.tensor(self.std).view(shape), torch.tensor(self.mean).view(shape)
        unit = 255.0 if images.dtype == torch.uint8 else 1.0
        return torch.mul(images, 1 / (std * unit)).sub_(mean / std)


@dataclass(frozen=True)
class Dataset:
    """What a data set plug-in returns. `labels_per_device` is its non-IID setting of L1."""

    name: str
    train: Samples
    test: Samples
    classes: int
    source: str
    labels_per_device: int = 2
    model: str = "clients.models:fashion_mnist_cnn"

    @property
    def sample_shape(self) -> tuple[int, int, int]:
        """(channels, height, width)."""
        channels, height, width = self.train.inputs.shape[1:]
        return channels, height, width


def load_dataset(name: str, folder: str, seed: int) -> Dataset:
    """The data set `name`: one of ours, or `module:function` with the signature of `synthetic` below."""
    make = load_plugin("dataset", name, DataError)
    dataset = make(Path(folder).expanduser() if folder else None, seed)
    if not isinstance(dataset, Dataset):
        raise DataError(f"dataset {name}: found {type(dataset).__name__}, expected a clients.data.Dataset")
    check_dataset(dataset)
    return dataset


def check_dataset(dataset: Dataset) -> None:
    """Raise `DataError` unless images, labels, shapes and classes fit together."""
    for part, samples in (("train", dataset.train), ("test", dataset.test)):
        where = f"dataset {dataset.name}, {part}"
        if samples.inputs.ndim != 4 or samples.inputs.dtype not in (torch.uint8, torch.float32):
            raise DataError(
                f"{where}: found images of shape {tuple(samples.inputs.shape)} and {samples.inputs.dtype}, "
                "expected (samples, channels, height, width) in uint8 or float32"
            )
        if samples.labels.dtype != torch.int64 or len(samples.labels) != len(samples.inputs) or not len(samples):
            raise DataError(
                f"{where}: found {len(samples.labels)} labels of {samples.labels.dtype} for {len(samples.inputs)} "
                "images, expected one int64 label per image and at least one image"
            )
        channels = samples.inputs.shape[1]
        if {len(samples.mean), len(samples.std)} - {1, channels} or not all(
            math.isfinite(mean) and 0 < std < math.inf for mean in samples.mean for std in samples.std
        ):
            raise DataError(
                f"{where}: found mean {samples.mean} and std {samples.std}, "
                f"expected 1 or {channels} numbers each, std above 0"
            )
        if samples.inputs.is_floating_point() and not samples.inputs.isfinite().all():
            raise DataError(f"{where}: found NaN or infinity among the images, expected finite numbers")
        low, high = int(samples.labels.min()), int(samples.labels.max())
        if low < 0 or high >= dataset.classes:
            raise DataError(f"{where}: found labels {low} to {high}, expected 0 to {dataset.classes - 1}")
    if dataset.train.inputs.shape[1:] != dataset.test.inputs.shape[1:]:
        raise DataError(
            f"dataset {dataset.name}: train images are {tuple(dataset.train.inputs.shape[1:])}, "
            f"test images {tuple(dataset.test.inputs.shape[1:])}; expected the same"
        )


def fashion_mnist(folder: Path | None, seed: int) -> Dataset:  # noqa: ARG001 - every data set has this signature
    """Fashion-MNIST (L1): 60,000 and 10,000 images of 1 x 28 x 28, from the first place that has it."""
    files = find_fashion_mnist(folder)
    scale = ((0.2860,), (0.3530,))
    return Dataset(
        name="fashion-mnist",
        train=Samples(*_tensors(files.train_images[:, None], files.train_labels), *scale),
        test=Samples(*_tensors(files.test_images[:, None], files.test_labels), *scale),
        classes=10,
        source=files.source,
    )


def svhn(folder: Path | None, seed: int) -> Dataset:  # noqa: ARG001
    """SVHN: 73,257 and 26,032 images of 3 x 32 x 32, through torchvision from a folder the user has."""
    train, test, source = read_svhn(folder)
    scale = ((0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970))
    return Dataset(
        name="svhn",
        train=Samples(*_tensors(*train), *scale),
        test=Samples(*_tensors(*test), *scale),
        classes=10,
        source=source,
        labels_per_device=3,
        model="clients.models:svhn_cnn",
    )


def synthetic(folder: Path | None, seed: int) -> Dataset:  # noqa: ARG001
    """Ten blurry prototypes with noise, 1 x 28 x 28, made from the seed: for tests and machines with no data."""
    rng = stream(seed, Purpose.SYNTHETIC)
    coarse = rng.uniform(0, 255, (10, 7, 7))
    prototypes = coarse.repeat(4, axis=1).repeat(4, axis=2)

    def draw(count: int) -> Samples:
        labels = rng.permutation(np.arange(count) % 10)
        noisy = 0.5 * prototypes[labels] + rng.normal(64, 60, (count, 28, 28))
        images = noisy.clip(0, 255).astype(np.uint8)
        return Samples(*_tensors(images[:, None], labels), (0.5,), (0.25,))

    return Dataset("synthetic", draw(6_000), draw(1_000), 10, f"made from seed {seed}")


def _tensors(images: NDArray[np.uint8], labels: NDArray[np.integer]) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(images.copy()), torch.from_numpy(labels.astype(np.int64))
