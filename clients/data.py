"""Data sets: Fashion-MNIST, SVHN, a synthetic one, and the door for your own (`module:function`).

A sample is an array of any shape: an image, a row of a table, a text as numbers of its words. Inputs stay as they are
stored until they are used; a device's share is a list of indices into the one table (no copies).
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clients.errors import DataError
from clients.parameters import DataParams
from clients.plugins import load_plugin
from clients.sources import find_fashion_mnist, read_svhn, with_torchvision
from policy.streams import Purpose, stream

INPUT_TYPES = (torch.uint8, torch.float32, torch.int64)


@dataclass(frozen=True)
class Samples:
    """Samples with their labels, and how to scale them for a network."""

    inputs: Tensor
    """(samples, *shape of one). Bytes and floats are scaled; whole numbers (int64) are names, of words or letters, and
    go to the network as they are."""
    labels: Tensor  # (samples,), int64
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    vocabulary: int = 0
    """int64 inputs are from 0 to less than this: a stranger's data would make a server's embedding fail otherwise."""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def sample_bytes(self) -> int:
        """Bytes of one sample, as the latency model counts data."""
        return self.inputs[:1].numel() * self.inputs.element_size()

    def select(self, indices: Tensor) -> "Samples":
        """The samples at `indices`, copied."""
        return replace(self, inputs=self.inputs.index_select(0, indices), labels=self.labels[indices])

    def scale(self, inputs: Tensor, channels_last: bool = False) -> Tensor:
        """Samples as the network sees them: in [0, 1] where they are bytes, then (x - mean) / std per channel, which is
        the first dimension of one sample, or the last where it says so.
        """
        if inputs.dtype == torch.int64:
            return inputs
        shape = (-1,) if channels_last else (-1, *(1,) * (self.inputs.ndim - 2))
        std, mean = torch.tensor(self.std).view(shape), torch.tensor(self.mean).view(shape)
        unit = 255.0 if inputs.dtype == torch.uint8 else 1.0
        return torch.mul(inputs, 1 / (std * unit)).sub_(mean / std)


@dataclass(frozen=True)
class Dataset:
    """What a data set plug-in returns. `labels_per_device` is its non-IID setting of L1."""

    name: str
    train: Samples
    test: Samples
    classes: int
    source: str
    labels_per_device: int = 2
    model: str = ""
    """What `--model auto` means; empty: what fits the shape of a sample (clients/models.py)."""
    groups: NDArray[np.int64] | None = None
    """Who each training sample is from (a writer, a hospital), for `--partition by-group`."""

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Of one sample: (channels, height, width) of an image, (columns,) of a table, (length,) of a text."""
        return tuple(self.train.inputs.shape[1:])


Loader = Callable[..., Any]
"""A function of (folder, seed), or of (folder, seed, settings): the settings are a `DataParams`."""


def load_dataset(name: str, folder: str, seed: int, settings: DataParams | None = None) -> Dataset:
    """The data set `name`: one of ours, or `module:function` with the signature of `synthetic` below."""
    make: Loader = load_plugin("dataset", name, DataError)
    place = Path(folder).expanduser() if folder else None
    asked = (place, seed, settings or DataParams()) if _takes_settings(make) else (place, seed)
    dataset = with_torchvision(lambda: make(*asked))
    if not isinstance(dataset, Dataset):
        raise DataError(f"dataset {name}: found {type(dataset).__name__}, expected a clients.data.Dataset")
    check_dataset(dataset)
    return dataset


def dataset_of(settings: DataParams, folder: str = "") -> Dataset:
    """The data set that settings name; `folder`: where the data of whoever asks are, if not where the settings say."""
    return load_dataset(settings.dataset, folder or settings.data_dir, settings.seed, settings)


def _takes_settings(make: Loader) -> bool:
    try:
        inspect.signature(make).bind(None, 0, None)
    except (TypeError, ValueError):  # two parameters; or code that does not say how many
        return False
    return True


def check_dataset(dataset: Dataset) -> None:
    """Raise `DataError` unless inputs, labels, shapes, classes and groups fit together."""
    for part, samples in (("train", dataset.train), ("test", dataset.test)):
        where = f"dataset {dataset.name}, {part}"
        _check_inputs(samples, where)
        if samples.labels.dtype != torch.int64 or len(samples.labels) != len(samples.inputs) or not len(samples):
            raise DataError(
                f"{where}: found {len(samples.labels)} labels of {samples.labels.dtype} for {len(samples.inputs)} "
                "samples, expected one int64 label per sample and at least one sample"
            )
        low, high = int(samples.labels.min()), int(samples.labels.max())
        if low < 0 or high >= dataset.classes:
            raise DataError(f"{where}: found labels {low} to {high}, expected 0 to {dataset.classes - 1}")
    train, test = ((tuple(s.inputs.shape[1:]), s.inputs.dtype, s.vocabulary) for s in (dataset.train, dataset.test))
    if train != test:
        raise DataError(
            f"dataset {dataset.name}: train samples are {_form(*train)}, test samples {_form(*test)}; expected the same"
        )
    if dataset.groups is not None and len(dataset.groups) != len(dataset.train):
        raise DataError(
            f"dataset {dataset.name}: found groups of {len(dataset.groups)} samples, expected one for each of the "
            f"{len(dataset.train)} to train on"
        )


def _form(shape: tuple[int, ...], dtype: torch.dtype, vocabulary: int) -> str:
    return f"{shape} of {dtype}" + (f" below {vocabulary}" if vocabulary else "")


def _check_inputs(samples: Samples, where: str) -> None:
    inputs = samples.inputs
    if inputs.ndim < 2 or inputs.dtype not in INPUT_TYPES or 0 in inputs.shape[1:]:
        raise DataError(
            f"{where}: found samples of shape {tuple(inputs.shape)} and {inputs.dtype}, expected (samples, ...) in "
            "uint8, float32 or int64: images (samples, channels, height, width), tables (samples, columns), texts as "
            "numbers of words (samples, length); convert others with .float() or .long()"
        )
    channels = inputs.shape[1]
    if {len(samples.mean), len(samples.std)} - {1, channels} or not all(
        math.isfinite(mean) and 0 < std < math.inf for mean in samples.mean for std in samples.std
    ):
        raise DataError(
            f"{where}: found mean {samples.mean} and std {samples.std}, "
            f"expected 1 or {channels} numbers each, std above 0"
        )
    if inputs.is_floating_point() and not inputs.isfinite().all():
        raise DataError(f"{where}: found NaN or infinity among the samples, expected finite numbers")
    if inputs.dtype == torch.int64 and len(inputs):
        low, high = int(inputs.min()), int(inputs.max())
        if low < 0 or high >= samples.vocabulary:
            raise DataError(
                f"{where}: found int64 inputs {low} to {high} and vocabulary={samples.vocabulary}, expected a "
                "vocabulary above all of them, and none below 0; numbers that were measured belong in float32"
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
        model="clients.models:fashion_mnist_cnn",
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


_MORE_STYLES, _COMMON, _MORE_NOISE = 4, 0.3, 20.0
"""Of synthetic data at hardness 1"""


def synthetic(folder: Path | None, seed: int, settings: DataParams | None = None) -> Dataset:  # noqa: ARG001
    """Ten blurry prototypes with noise, 1 x 28 x 28, made from the seed: for tests and machines with no data.

    The harder, the more styles a class has, the more of each is common to all classes, and the more noise there is.
    """
    hardness = (settings or DataParams()).hardness
    rng = stream(seed, Purpose.SYNTHETIC)
    styles = 1 + round(_MORE_STYLES * hardness)
    coarse = rng.uniform(0, 255, (styles, 10, 7, 7))
    coarse = (1 - _COMMON * hardness) * coarse + _COMMON * hardness * coarse.mean((0, 1))
    prototypes = coarse.repeat(4, axis=2).repeat(4, axis=3)

    def draw(count: int) -> Samples:
        labels = rng.permutation(np.arange(count) % 10)
        style = rng.integers(styles, size=count) if styles > 1 else np.zeros(count, dtype=np.int64)
        noisy = 0.5 * prototypes[style, labels] + rng.normal(64, 60 + _MORE_NOISE * hardness, (count, 28, 28))
        images = noisy.clip(0, 255).astype(np.uint8)
        return Samples(*_tensors(images[:, None], labels), (0.5,), (0.25,))

    return Dataset("synthetic", draw(6_000), draw(1_000), 10, f"made from seed {seed}")


def _tensors(images: NDArray[np.uint8], labels: NDArray[np.integer]) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(images.copy()), torch.from_numpy(labels.astype(np.int64))
