"""Where data sets come from: folders on this machine, torchvision, Debian's package."""

import importlib
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from clients.errors import DataError
from clients.idx import read_idx

DEBIAN_PACKAGE = "dataset-fashion-mnist"
DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")
_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)

_DOWNLOAD_TIMEOUT_S = 20.0

T = TypeVar("T")
Split = tuple[NDArray[np.uint8], NDArray[np.integer]]


def cache_folder() -> Path:
    """Where downloads are kept between runs."""
    return Path.home() / ".cache" / "bfl"


@dataclass(frozen=True)
class MnistFiles:
    """The four arrays of an MNIST-like data set and the place they were read from."""

    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.uint8]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.uint8]
    source: str


def find_fashion_mnist(folder: Path | None, fetch: bool = True) -> MnistFiles:
    """Fashion-MNIST from the first place that has it; damaged files are refused, not passed over.

    Order: the folder the user names (then only that one), Debian's folder, torchvision's cache, our own cache, and,
    where `fetch` allows it, torchvision's download and Debian's package fetched and unpacked without root.
    """
    if folder is not None:
        try:
            return read_mnist_folder(folder, "the folder you named")
        except FileNotFoundError as missing:
            raise DataError(f"--data-dir: {missing}; expected the four idx files of Fashion-MNIST there") from missing
    tried: list[str] = []
    for name, place in _candidate_folders(fetch):
        try:
            return read_mnist_folder(place(), name)
        except FileNotFoundError as missing:
            tried.append(f"{name}: {missing}")
    raise DataError(
        "Fashion-MNIST was not found. Tried:\n  - "
        + "\n  - ".join(tried)
        + f"\nInstall Debian's package ({DEBIAN_PACKAGE}), or name a folder with the four idx files (--data-dir), "
        "or use --dataset synthetic."
    )


def _candidate_folders(fetch: bool) -> list[tuple[str, Callable[[], Path]]]:
    here: list[tuple[str, Callable[[], Path]]] = [
        ("Debian's folder", lambda: DEBIAN_FOLDER),
        ("torchvision's cache in this folder", lambda: Path("data/FashionMNIST/raw")),
        ("our cache of torchvision's download", lambda: cache_folder() / "FashionMNIST" / "raw"),
        ("our cache of Debian's package", lambda: cache_folder() / "debian" / "fashion-mnist"),
    ]
    elsewhere: list[tuple[str, Callable[[], Path]]] = [
        ("torchvision's download", _download_with_torchvision),
        ("Debian's package, fetched", _fetch_debian_package),
    ]
    return here + elsewhere if fetch else here


def read_mnist_folder(folder: Path, source: str) -> MnistFiles:
    """The four files of `folder`, plain or .gz. `FileNotFoundError` where one is missing, `DataError` where damaged."""
    paths = [_plain_or_gz(folder, name) for name in _FILES]
    train_images, train_labels, test_images, test_labels = (read_idx(path) for path in paths)
    for path, images, labels in (
        (paths[0], train_images, train_labels),
        (paths[2], test_images, test_labels),
    ):
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise DataError(
                f"{path}: found {images.shape} images with {labels.shape} labels, expected one label per image"
            )
    return MnistFiles(train_images, train_labels, test_images, test_labels, f"{source} ({folder})")


def _plain_or_gz(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise FileNotFoundError(f"no {name}[.gz] in {folder}")


def with_torchvision(call: Callable[[], T]) -> T:
    """What a call returns that may import torchvision, as code of others does: once more where that failed for want of
    an operator.
    """
    try:
        return call()
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
    import_torchvision()
    return call()


def import_torchvision() -> None:
    """Import torchvision, also where it is a CUDA build beside a CPU build of torch.

    There its compiled half does not load, and its Python half stumbles over operators that only the compiled half
    declares: declare them and import again. Not before it has failed: where the compiled half loads, a second
    declaration would be the error. The one place that does this.
    """
    import torch

    try:
        importlib.import_module("torchvision.datasets")
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        for operator in ("nms", "qnms"):
            torch.library.define(
                f"torchvision::{operator}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            )
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        importlib.import_module("torchvision.datasets")


@contextmanager
def _bounded_waits() -> Iterator[None]:
    """torchvision's downloads set no time-out of their own; a network that swallows packets must not hang a run."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_DOWNLOAD_TIMEOUT_S)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def _download_with_torchvision() -> Path:
    try:
        import_torchvision()
        from torchvision.datasets import FashionMNIST

        with _bounded_waits():
            FashionMNIST(str(cache_folder()), download=True)
    except (ImportError, OSError, RuntimeError) as error:
        raise FileNotFoundError(f"{type(error).__name__}: {error}") from error
    return cache_folder() / "FashionMNIST" / "raw"


def _fetch_debian_package() -> Path:
    """`apt-get download` and `dpkg-deb -x` need no root; only `apt-get install` would."""
    target = cache_folder() / "debian" / "fashion-mnist"
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise FileNotFoundError("this machine has no apt-get and dpkg-deb")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileNotFoundError(f"{target.parent} cannot be made ({error.strerror})") from error
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        _run(["apt-get", "download", DEBIAN_PACKAGE], scratch)
        packages = list(Path(scratch).glob("*.deb"))
        if not packages:
            raise FileNotFoundError(f"apt-get download {DEBIAN_PACKAGE} brought no package")
        _run(["dpkg-deb", "-x", str(packages[0]), "unpacked"], scratch)
        unpacked = Path(scratch) / "unpacked" / DEBIAN_FOLDER.relative_to("/")
        shutil.rmtree(target, ignore_errors=True)  # it lacked a file, or we would not be here
        unpacked.rename(target)  # in one step: a killed process leaves no half of it
    return target


def _run(command: list[str], folder: str) -> None:
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=300)  # noqa: S603
    except subprocess.CalledProcessError as error:
        why = (error.stderr or error.stdout).strip().splitlines()
        raise FileNotFoundError(f"{' '.join(command[:2])} failed: {why[-1] if why else error.returncode}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FileNotFoundError(f"{' '.join(command[:2])} failed: {error}") from error


def read_svhn(folder: Path | None) -> tuple[Split, Split, str]:
    """SVHN's two .mat files through torchvision's loader, from the user's folder or torchvision's download."""
    root = folder or cache_folder() / "svhn"
    try:
        import_torchvision()
        from torchvision.datasets import SVHN

        with _bounded_waits():
            parts = [SVHN(str(root), split=split, download=folder is None) for split in ("train", "test")]
    except ImportError as error:
        raise DataError(f"SVHN needs torchvision and scipy ({error}): install bfl[simulation] and scipy") from error
    except (OSError, RuntimeError, ValueError) as error:
        raise DataError(
            f"SVHN: {root} has no usable train_32x32.mat and test_32x32.mat ({error}). "
            "Put both files into a folder and name it with --data-dir."
        ) from error
    train, test = ((part.data, part.labels) for part in parts)
    return train, test, f"{'folder' if folder else 'torchvision download'} {root}"
