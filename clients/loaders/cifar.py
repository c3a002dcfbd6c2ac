"""CIFAR-10: 50,000 and 10,000 images of 3 x 32 x 32, from the files that the user has or torchvision's download."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from clients.data import Dataset, Samples
from clients.errors import DataError
from clients.loaders.pickles import read_batch
from clients.sources import bounded_waits, cache_folder, import_torchvision

FOLDER = "cifar-10-batches-py"
_TRAIN, _TEST = tuple(f"data_batch_{n}" for n in range(1, 6)), ("test_batch",)
_SHAPE, _CLASSES = (3, 32, 32), 10


def cifar_10(folder: Path | None, seed: int) -> Dataset:  # noqa: ARG001 - every data set has this signature
    """From --data-dir (with or without cifar-10-batches-py in it), else from the cache, else downloaded."""
    root = folder or cache_folder() / "cifar-10"
    place = _place(root)
    if place is None and folder is None:
        _download(root)
        place = _place(root)
    if place is None:
        raise DataError(
            f"--data-dir: found no {_TRAIN[0]} in {root}, expected the files of cifar-10-python.tar.gz; unpack it "
            f"there: tar xf cifar-10-python.tar.gz -C {root}"
        )
    scale = ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
    train, test = (Samples(*_read([place / name for name in names]), *scale) for names in (_TRAIN, _TEST))
    return Dataset("cifar-10", train, test, _CLASSES, f"files in {place}")


def _place(root: Path) -> Path | None:
    return next((place for place in (root, root / FOLDER) if (place / _TRAIN[0]).is_file()), None)


def _read(paths: list[Path]) -> tuple[torch.Tensor, torch.Tensor]:
    parts = [_checked(path, read_batch(path)) for path in paths]
    images = np.concatenate([images for images, _ in parts])
    return torch.from_numpy(images), torch.from_numpy(np.concatenate([labels for _, labels in parts]))


def _checked(path: Path, batch: dict[str, Any]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    data, labels = batch.get("data"), batch.get("labels")
    if not isinstance(data, np.ndarray) or not isinstance(labels, list) or data.shape != (len(labels), 3 * 32 * 32):
        found = f"data of shape {data.shape}" if isinstance(data, np.ndarray) else "no data"
        count = len(labels) if isinstance(labels, list) else "no"
        raise DataError(f"{path}: found {found} with {count} labels, expected (n, 3072) with n labels")
    wrong = next((label for label in labels if type(label) is not int or not 0 <= label < _CLASSES), None)
    if wrong is not None:
        shown = wrong if type(wrong) is int and wrong.bit_length() < 64 else f"of type {type(wrong).__name__}"
        raise DataError(f"{path}: found the label {shown}, expected 0 to {_CLASSES - 1}")
    return data.reshape(-1, *_SHAPE), np.array(labels, dtype=np.int64)


def _download(root: Path) -> None:
    """torchvision's own loader would unpickle what it finds; only its download is used."""
    try:
        import_torchvision()
        from torchvision.datasets import CIFAR10
        from torchvision.datasets.utils import download_and_extract_archive

        with bounded_waits():
            download_and_extract_archive(CIFAR10.url, str(root), filename=CIFAR10.filename, md5=CIFAR10.tgz_md5)
    except (ImportError, OSError, RuntimeError) as error:
        raise DataError(
            f"CIFAR-10 was not found in {root} and cannot be fetched ({type(error).__name__}: {error}). Fetch "
            "cifar-10-python.tar.gz, unpack it, and name its folder with --data-dir."
        ) from error
