"""Folders of images, as torchvision lays them out: `--dataset image-folder --data-dir pets` with pets/cat/1.jpg.

The sub-folders of FOLDER/train and FOLDER/test are the classes, or those of FOLDER, of which a fifth is for the test.
Only Pillow's header is believed before an image is unpacked: a picture of a few bytes may claim gigabytes.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from clients.data import Dataset, Samples
from clients.errors import DataError
from clients.loaders.splits import class_names, kept_for_test, numbered
from clients.parameters import DataParams

ENDINGS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".bmp": "BMP", ".webp": "WEBP", ".ppm": "PPM", ".pgm": "PPM"}
MOST_FILE_BYTES, MOST_PIXELS, MOST_BYTES = 64 << 20, 50_000_000, 4 << 30
Images = NDArray[np.uint8]


def image_folder(folder: Path | None, seed: int, settings: DataParams) -> Dataset:
    """Images in folders by class, each made --image-size high and wide; grey ones keep one channel."""
    if folder is None:
        raise DataError("dataset image-folder: found no --data-dir, expected the folder with a folder per class")
    parts = [folder / "train", folder / "test"]
    files = [_files(part) for part in (parts if all(part.is_dir() for part in parts) else [folder])]
    names = class_names([label for part in files for _, label in part], settings, str(folder))
    labels = [numbered([label for _, label in part], names) for part in files]
    images = _read_all([path for part in files for path, _ in part], settings.image_size, folder)
    if len(files) == 2:
        split = len(labels[0])
        train, test = (images[:split], labels[0]), (images[split:], labels[1])
    else:
        out = kept_for_test(labels[0], names, seed, str(folder))
        train, test = (images[~out], labels[0][~out]), (images[out], labels[0][out])
    mean, std = _scale(train[0])
    made = [Samples(torch.from_numpy(a), torch.from_numpy(b), mean, std) for a, b in (train, test)]
    source = f"{folder}, {images.shape[1]} x {images.shape[2]} x {images.shape[3]}, classes {', '.join(names):.200}"
    return Dataset("image-folder", made[0], made[1], len(names), source, labels_per_device=min(2, len(names)))


def _files(folder: Path) -> list[tuple[Path, str]]:
    """Every image with its class, in the order of their names, whatever order the disk has."""
    try:
        classes = sorted(each for each in folder.iterdir() if each.is_dir() and not each.name.startswith("."))
        found = [
            (path, each.name)
            for each in classes
            for path in sorted(each.rglob("*"))
            if path.suffix.lower() in ENDINGS and path.is_file() and not path.name.startswith(".")
        ]
    except OSError as error:
        raise DataError(
            f"{folder}: cannot be read ({error.strerror}); expected a folder with a folder per class"
        ) from error
    if not found:
        raise DataError(
            f"{folder}: found {len(classes)} folders and no image in them, expected FOLDER/CLASS/NAME with an ending "
            f"of {', '.join(ENDINGS)}"
        )
    return found


def _read_all(paths: Sequence[Path], size: int, folder: Path) -> Images:
    """(images, channels, size, size): one channel where no image has colours."""
    needed = len(paths) * 3 * size * size
    if needed > MOST_BYTES:
        raise DataError(
            f"{folder}: found {len(paths):,} images, {needed:,} bytes at --image-size {size}, expected at most "
            f"{MOST_BYTES:,}; take fewer images or a smaller --image-size"
        )
    images = np.empty((len(paths), 3, size, size), dtype=np.uint8)
    for image, path in zip(images, paths, strict=True):
        image[:] = _read(path, size)
    is_grey = (images[:, :1] == images).all()
    return images[:, :1].copy() if is_grey else images


def _read(path: Path, size: int) -> Images:
    from PIL import Image, ImageOps

    with _told_of(path):
        length = path.stat().st_size
        if length > MOST_FILE_BYTES:
            raise DataError(f"{path}: found {length:,} bytes, expected an image of at most {MOST_FILE_BYTES:,}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # ours is the smaller bound
            opened: Any = Image.open(path, formats=sorted(set(ENDINGS.values())))
        with opened:
            if opened.width * opened.height > MOST_PIXELS:
                raise DataError(
                    f"{path}: found {opened.width:,} x {opened.height:,} pixels in {length:,} bytes, expected at most "
                    f"{MOST_PIXELS:,} pixels; make it smaller or remove it"
                )
            if opened.format == "JPEG":
                opened.draft("RGB", (2 * size, 2 * size))
            upright = ImageOps.exif_transpose(opened).convert("RGB")
            small = upright.resize((size, size), Image.Resampling.BILINEAR, reducing_gap=3.0)
    return np.asarray(small, dtype=np.uint8).transpose(2, 0, 1)


@contextmanager
def _told_of(path: Path) -> Iterator[None]:
    """What Pillow throws at a damaged file, as a sentence with its name."""
    from PIL import Image

    try:
        yield
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        what = str(error).removesuffix(f" '{path}'").removesuffix(f" {str(path)!r}")
        raise DataError(f"{path}: is no image that can be read ({what}); fetch it again or remove it") from error


def _scale(images: Images) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel in [0, 1], from whole numbers: the same on every machine."""
    means, stds = [], []
    for channel in range(images.shape[1]):
        counts = np.bincount(images[:, channel].reshape(-1), minlength=256)
        values, total = np.arange(256), int(counts.sum())
        first, second = int(counts @ values), int(counts @ values**2)
        variance = (second * total - first**2) / total**2
        means.append(first / total / 255)
        stds.append(max(variance, 1.0) ** 0.5 / 255)
    return tuple(means), tuple(stds)
