"""Folders of images: layouts, sizes, colours; damaged and hostile files."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from clients.data import Dataset, dataset_of
from clients.errors import DataError
from clients.parameters import DataParams


def load(path: Path, **settings: object) -> Dataset:
    return dataset_of(DataParams(dataset="image-folder", data_dir=str(path), **settings))  # type: ignore[arg-type]


def save(path: Path, colour: tuple[int, int, int], size: tuple[int, int] = (40, 20)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    for n in range(5):
        save(tmp_path / "cat" / f"{n}.png", (250, 0, n))
        save(tmp_path / "dog" / "more" / f"{n}.jpg", (0, 0, 200))
    (tmp_path / "cat" / "notes.txt").write_text("not an image")
    return tmp_path


def test_folders_are_classes_and_a_fifth_is_for_the_test(pets: Path) -> None:
    dataset = load(pets, image_size=16)
    assert dataset.sample_shape == (3, 16, 16)
    assert (len(dataset.train), len(dataset.test)) == (8, 2)
    assert sorted(dataset.test.labels.tolist()) == [0, 1]
    for image, label in zip(dataset.train.inputs, dataset.train.labels, strict=True):
        assert (image[0].float().mean() > 200) == (label == 0)
    scaled = dataset.train.scale(dataset.train.inputs).double()
    assert scaled.mean((0, 2, 3)).tolist() == pytest.approx([0, 0, 0], abs=1e-5)
    assert torch.equal(load(pets, image_size=16).train.inputs, dataset.train.inputs)


def test_train_and_test_folders_are_taken_as_they_are_and_grey_stays_grey(tmp_path: Path) -> None:
    for part, value in (("train", 10), ("test", 90)):
        for n, name in enumerate("ab"):
            save(tmp_path / part / name / "1.png", (value + n,) * 3)
    dataset = load(tmp_path, image_size=8)
    assert dataset.sample_shape == (1, 8, 8)
    assert dataset.train.inputs[:, 0, 0, 0].tolist() == [10, 11]
    assert dataset.test.inputs[:, 0, 0, 0].tolist() == [90, 91]


def png(width: int, height: int, body: bytes) -> bytes:
    """A PNG that claims a size."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(body)) + chunk(b"IEND", b"")


@pytest.mark.parametrize(("width", "height"), [(8_000, 8_000), (100_000, 100_000), (2**31 - 1, 1)])
def test_a_decompression_bomb_is_refused_before_it_is_unpacked(pets: Path, width: int, height: int) -> None:
    path = pets / "cat" / "bomb.png"
    path.write_bytes(png(width, height, bytes(1000)))
    with pytest.raises(DataError) as caught:
        load(pets)
    assert str(caught.value).startswith(f"{path}: ")
    assert "pixels" in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"", b"GIF89a" + bytes(50), png(40, 40, b"")[:-30], b"\x89PNG\r\n\x1a\n" + bytes(99)]
)
def test_a_damaged_image_is_refused_with_its_name(pets: Path, content: bytes) -> None:
    path = pets / "dog" / "bad.png"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"bad\.png: is no image that can be read \(.*\); fetch it again or remove it"):
        load(pets)


def test_more_than_fits_is_refused_before_anything_is_read(pets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clients.loaders.image_folder.MOST_BYTES", 10 * 3 * 32 * 32 - 1)
    with pytest.raises(DataError, match="found 10 images, 30,720 bytes at --image-size 32, expected at most 30,719"):
        load(pets)


def test_a_folder_without_classes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="found 0 folders and no image in them, expected FOLDER/CLASS/NAME"):
        load(tmp_path)
    with pytest.raises(DataError, match="cannot be read"):
        load(tmp_path / "nowhere")
    with pytest.raises(DataError, match="found no --data-dir"):
        dataset_of(DataParams(dataset="image-folder"))


def test_a_photograph_that_lies_on_its_side_is_put_upright(tmp_path: Path) -> None:
    pixels = np.zeros((20, 40, 3), np.uint8)
    pixels[:, :20] = 255  # white on the left
    exif = Image.Exif()
    exif[0x0112] = 6  # its left is above
    for name in "ab":
        for n in range(2):
            path = tmp_path / name / f"{n}.jpg"
            path.parent.mkdir(exist_ok=True)
            Image.fromarray(pixels).save(path, exif=exif)
    image = load(tmp_path, image_size=8).train.inputs[0, 0].float()
    assert image[0].mean() > 200
    assert image[-1].mean() < 50
