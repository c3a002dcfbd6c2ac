"""Data that were given in Python, as a data set of ours: arrays, tensors, torch data sets."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfl.errors import BflError
from clients.plugins import offer

if TYPE_CHECKING:
    from torch import Tensor

    from clients.data import Dataset

_TEST_SHARE = 5
"""Where no test data are given, one sample in so many is kept for the test: always the same ones"""
_SOURCE = "given in Python"
_EXPECTED = "(x, y), (x, y, x_test, y_test), a torch data set, two of them, or a clients.data.Dataset"


def named_data(data: Any) -> str:
    """The name under which a run records these data. Their digest is part of it: no others are taken for them."""
    dataset = as_dataset(data)
    digest = _digest(dataset)
    own = "" if dataset.name == "given" else dataset.name
    dataset = replace(dataset, name=own or f"given data {digest[:8]}")
    make = _always(dataset)
    make.__module__, make.__qualname__ = "given", f"dataset_{digest[:16]}"
    return offer("dataset", make)


def _always(dataset: "Dataset") -> Callable[[Path | None, int], "Dataset"]:
    def make(folder: Path | None, seed: int) -> "Dataset":  # noqa: ARG001 - every data set has this signature
        return dataset

    return make


def as_dataset(data: Any) -> "Dataset":
    """Data in any of the forms that are understood."""
    from clients.data import Dataset

    if isinstance(data, Dataset):
        return data
    train, test = _parts(data)
    inputs, labels = _pair(train, "train")
    if test is None:
        return _held_out(inputs, labels)
    return _made((inputs, labels), _pair(test, "test"), _SOURCE)


def _parts(data: Any) -> tuple[Any, Any]:
    """What is for training, and what for the test or None."""
    if hasattr(data, "__getitem__") and hasattr(data, "__len__") and not isinstance(data, (tuple, list)):
        return data, None  # a torch data set
    if not isinstance(data, (tuple, list)) or len(data) not in (2, 4):
        found = f"{len(data)} of them" if isinstance(data, (tuple, list)) else type(data).__name__
        raise BflError(f"data: found {found}, expected {_EXPECTED}")
    if len(data) == 4:
        return tuple(data[:2]), tuple(data[2:])
    if all(isinstance(part, (tuple, list)) and len(part) == 2 for part in data) or all(map(_is_dataset, data)):
        return data[0], data[1]
    return tuple(data), None


def _is_dataset(part: Any) -> bool:
    from torch.utils.data import Dataset as TorchDataset

    return isinstance(part, TorchDataset)


def _pair(part: Any, where: str) -> tuple["Tensor", "Tensor"]:
    """Inputs and labels as tensors."""
    import numpy as np
    import torch

    inputs, labels = _stacked(part) if _is_dataset(part) else part
    x = inputs if isinstance(inputs, torch.Tensor) else torch.as_tensor(np.asarray(inputs))
    x = x.float() if x.is_floating_point() else x
    y = np.asarray(labels).reshape(-1)
    if len(x) != len(y) or not len(y):
        raise BflError(f"data, {where}: found {len(x)} samples and {len(y)} labels, expected one label per sample")
    if not np.issubdtype(y.dtype, np.integer):
        raise BflError(f"data, {where}: found labels of type {y.dtype}, expected whole numbers 0, 1, 2, ...")
    return x.detach().cpu().contiguous(), torch.as_tensor(y.astype(np.int64))


def _stacked(part: Any) -> tuple[Any, Any]:
    """A torch data set as one tensor of inputs and one list of labels."""
    import torch
    from torch.utils.data import TensorDataset

    if isinstance(part, TensorDataset) and len(part.tensors) == 2:
        return part.tensors
    pairs = [part[index] for index in range(len(part))]
    return torch.stack([torch.as_tensor(x) for x, _ in pairs]), [int(y) for _, y in pairs]


def _held_out(inputs: "Tensor", labels: "Tensor") -> "Dataset":
    import numpy as np
    import torch

    order = torch.from_numpy(np.random.default_rng(0).permutation(len(labels)))
    kept = len(labels) // _TEST_SHARE
    if not kept:
        raise BflError(f"data: found {len(labels)} samples, expected at least {_TEST_SHARE}, or test data beside them")
    test, train = order[:kept], order[kept:].sort().values
    told = f"{_SOURCE}, {kept:,} of {len(labels):,} samples held out for the test"
    return _made((inputs[train], labels[train]), (inputs[test], labels[test]), told)


def _made(train: tuple["Tensor", "Tensor"], test: tuple["Tensor", "Tensor"], source: str) -> "Dataset":
    from clients.data import Dataset, Samples

    classes = 1 + int(max(train[1].max(), test[1].max()))
    return Dataset("given", Samples(*train), Samples(*test), max(2, classes), source)


def _digest(dataset: "Dataset") -> str:
    """sha256 of everything that is learned from and tested on."""
    found = hashlib.sha256()
    for samples in (dataset.train, dataset.test):
        for tensor in (samples.inputs, samples.labels):
            found.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
            found.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        found.update(f"{samples.mean}{samples.std}".encode())
    return found.hexdigest()
