"""Where data sets come from. No test here reaches the network or runs apt-get."""

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from clients import sources
from clients.data import load_dataset
from clients.errors import DataError
from clients.sources import find_fashion_mnist, read_mnist_folder, read_svhn
from tests.clients.idx_files import NAMES, idx_bytes, write_mnist

REPOSITORY = Path(__file__).parents[2]


def offline() -> NoReturn:
    raise FileNotFoundError("this test is offline")


@pytest.fixture(autouse=True)
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no data anywhere and no way out: its home is `tmp_path`."""
    monkeypatch.setattr(sources, "DEBIAN_FOLDER", tmp_path / "usr" / "fashion-mnist")
    monkeypatch.setattr(sources, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(sources, "_download_with_torchvision", offline)
    monkeypatch.setattr(sources, "_fetch_debian_package", offline)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def places(home: Path) -> dict[str, Path]:
    """The four folders that are looked into, in their order."""
    return {
        "Debian's folder": home / "usr" / "fashion-mnist",
        "torchvision's cache in this folder": home / "data" / "FashionMNIST" / "raw",
        "our cache of torchvision's download": home / "cache" / "FashionMNIST" / "raw",
        "our cache of Debian's package": home / "cache" / "debian" / "fashion-mnist",
    }


@pytest.mark.parametrize("zipped", [False, True])
def test_a_folder_with_the_four_files_is_read_plain_or_gzipped(tmp_path: Path, zipped: bool) -> None:
    folder = write_mnist(tmp_path / "mine", train=12, test=3, zipped=zipped, fill=9)
    files = read_mnist_folder(folder, "a test")
    assert files.train_images.shape == (12, 28, 28)
    assert files.train_labels.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]
    assert files.test_images.shape == (3, 28, 28)
    assert files.test_labels.tolist() == [0, 1, 2]
    assert set(np.unique(files.train_images)) == {9}
    assert files.source == f"a test ({folder})"


def test_the_plain_file_is_preferred_to_the_gzipped_one(tmp_path: Path) -> None:
    folder = write_mnist(write_mnist(tmp_path / "mine", fill=1, zipped=True), fill=2)
    assert set(np.unique(read_mnist_folder(folder, "a test").train_images)) == {2}


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file_is_named_with_its_folder(tmp_path: Path, name: str) -> None:
    folder = write_mnist(tmp_path / "mine")
    (folder / name).unlink()
    with pytest.raises(FileNotFoundError) as caught:
        read_mnist_folder(folder, "a test")
    assert str(caught.value) == f"no {name}[.gz] in {folder}"


@pytest.mark.parametrize(("part", "images"), [("train", 6), ("t10k", 4)])
def test_more_images_than_labels_are_refused_with_the_file(tmp_path: Path, part: str, images: int) -> None:
    folder = write_mnist(tmp_path / "mine")
    (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx_bytes(np.zeros(images - 1, np.uint8)))
    with pytest.raises(DataError) as caught:
        read_mnist_folder(folder, "a test")
    assert str(caught.value) == (
        f"{folder / f'{part}-images-idx3-ubyte'}: found ({images}, 28, 28) images with ({images - 1},) labels, "
        "expected one label per image"
    )


def test_labels_in_the_place_of_images_are_refused(tmp_path: Path) -> None:
    folder = write_mnist(tmp_path / "mine")
    (folder / "train-images-idx3-ubyte").write_bytes(idx_bytes(np.zeros(6, np.uint8)))
    with pytest.raises(DataError, match=r"found \(6,\) images with \(6,\) labels"):
        read_mnist_folder(folder, "a test")


def test_the_folder_that_the_user_names_is_used_though_others_have_the_data(tmp_path: Path) -> None:
    write_mnist(places(tmp_path)["Debian's folder"], fill=1)
    mine = write_mnist(tmp_path / "mine", fill=2)
    files = find_fashion_mnist(mine)
    assert set(np.unique(files.train_images)) == {2}
    assert files.source == f"the folder you named ({mine})"


def test_a_named_folder_without_the_files_is_refused_though_others_have_the_data(tmp_path: Path) -> None:
    write_mnist(places(tmp_path)["Debian's folder"])
    with pytest.raises(DataError) as caught:
        find_fashion_mnist(tmp_path / "empty")
    assert str(caught.value) == (
        f"--data-dir: no train-images-idx3-ubyte[.gz] in {tmp_path / 'empty'}; "
        "expected the four idx files of Fashion-MNIST there"
    )


@pytest.mark.parametrize("first", range(4))
def test_the_first_place_that_has_the_data_wins(tmp_path: Path, first: int) -> None:
    for fill, folder in list(enumerate(places(tmp_path).values()))[first:]:
        write_mnist(folder, fill=fill)
    files = find_fashion_mnist(None)
    assert set(np.unique(files.train_images)) == {first}
    name = list(places(tmp_path))[first]
    assert files.source.startswith(f"{name} (")


def test_a_place_that_lacks_one_file_is_passed_over(tmp_path: Path) -> None:
    debian, torchvision, *_ = places(tmp_path).values()
    write_mnist(debian, fill=1)
    (debian / NAMES[3]).unlink()
    write_mnist(torchvision, fill=2)
    assert set(np.unique(find_fashion_mnist(None).train_images)) == {2}


def test_a_damaged_file_is_refused_and_not_passed_over(tmp_path: Path) -> None:
    debian, torchvision, *_ = places(tmp_path).values()
    write_mnist(debian)
    write_mnist(torchvision)
    damaged = debian / "t10k-labels-idx1-ubyte"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.raises(DataError) as caught:
        find_fashion_mnist(None)
    assert str(caught.value).startswith(f"{damaged}: found 3 bytes of data, expected 4")


def test_the_download_is_tried_after_the_folders_and_before_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_download_with_torchvision", lambda: write_mnist(tmp_path / "downloaded", fill=7))
    files = find_fashion_mnist(None)
    assert set(np.unique(files.train_images)) == {7}
    assert files.source == f"torchvision's download ({tmp_path / 'downloaded'})"


def test_when_nothing_has_the_data_the_error_lists_each_thing_tried_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        find_fashion_mnist(None)
    lines = str(caught.value).splitlines()
    looked_into = [places(tmp_path)[name] for name in places(tmp_path)]
    looked_into[1] = Path("data/FashionMNIST/raw")  # it is relative to the current folder
    assert lines[0] == "Fashion-MNIST was not found. Tried:"
    assert lines[1:5] == [
        f"  - {name}: no train-images-idx3-ubyte[.gz] in {folder}"
        for name, folder in zip(places(tmp_path), looked_into, strict=True)
    ]
    assert lines[5:7] == [
        "  - torchvision's download: this test is offline",
        "  - Debian's package, fetched: this test is offline",
    ]
    assert "dataset-fashion-mnist" in lines[7]
    assert "--data-dir" in lines[7]
    assert "--dataset synthetic" in lines[7]


def test_where_nothing_may_be_fetched_only_the_folders_are_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []

    def fetch() -> NoReturn:
        fetched.append("something")
        offline()

    for name in ("_download_with_torchvision", "_fetch_debian_package"):
        monkeypatch.setattr(sources, name, fetch)
    with pytest.raises(DataError) as caught:
        find_fashion_mnist(None, fetch=False)
    tried = [line for line in str(caught.value).splitlines() if line.startswith("  - ")]
    assert [line.removeprefix("  - ").partition(":")[0] for line in tried] == list(places(tmp_path))
    assert fetched == []
    write_mnist(places(tmp_path)["our cache of Debian's package"], fill=3)
    assert set(np.unique(find_fashion_mnist(None, fetch=False).train_images)) == {3}


class FakeApt:
    """apt-get and dpkg-deb as the test has them: `brings` is what the package unpacks to."""

    def __init__(self, debian_folder: Path, brings: bool = True, fails: str = "", cut_off: bool = False) -> None:
        self.debian_folder, self.brings, self.fails, self.cut_off = debian_folder, brings, fails, cut_off

    def __call__(self, command: list[str], cwd: str, **options: object) -> None:
        if self.fails:
            raise subprocess.CalledProcessError(100, command, output="", stderr=self.fails)
        if command[0] == "apt-get" and self.brings:
            (Path(cwd) / "dataset-fashion-mnist_1_all.deb").touch()
        if command[0] == "dpkg-deb":
            write_mnist(Path(cwd) / command[3] / self.debian_folder.relative_to("/"), zipped=True, fill=5)
            if self.cut_off:
                raise KeyboardInterrupt


FETCH = sources._fetch_debian_package


@pytest.fixture
def with_apt(empty_machine: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[FakeApt], None]:
    """Put a `FakeApt` in the place of the real one."""

    def install(apt: FakeApt) -> None:
        monkeypatch.setattr(sources, "_fetch_debian_package", FETCH)
        monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
        monkeypatch.setattr(subprocess, "run", apt)

    return install


def test_the_debian_package_is_unpacked_into_our_cache_and_found_there_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_apt: Callable[[FakeApt], None]
) -> None:
    with_apt(FakeApt(sources.DEBIAN_FOLDER))
    first = find_fashion_mnist(None)
    assert set(np.unique(first.train_images)) == {5}
    assert first.source.startswith("Debian's package, fetched (")
    monkeypatch.setattr(sources, "_fetch_debian_package", offline)
    assert find_fashion_mnist(None).source.startswith("our cache of Debian's package (")


def test_nothing_but_the_four_files_is_left_of_fetching_the_debian_package(
    tmp_path: Path, with_apt: Callable[[FakeApt], None]
) -> None:
    with_apt(FakeApt(sources.DEBIAN_FOLDER))
    find_fashion_mnist(None)
    left = [path.relative_to(tmp_path / "cache") for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert sorted(map(str, left)) == sorted(f"debian/fashion-mnist/{name}.gz" for name in NAMES)


def test_a_fetch_that_is_cut_off_leaves_nothing_that_looks_like_the_data(
    tmp_path: Path, with_apt: Callable[[FakeApt], None]
) -> None:
    with_apt(FakeApt(sources.DEBIAN_FOLDER, cut_off=True))
    with pytest.raises(KeyboardInterrupt):
        find_fashion_mnist(None)
    assert not places(tmp_path)["our cache of Debian's package"].exists()
    with_apt(FakeApt(sources.DEBIAN_FOLDER))
    assert set(np.unique(find_fashion_mnist(None).train_images)) == {5}


def test_a_cache_that_lacks_a_file_is_replaced_by_the_package(
    tmp_path: Path, with_apt: Callable[[FakeApt], None]
) -> None:
    cache = write_mnist(places(tmp_path)["our cache of Debian's package"], fill=1)
    (cache / NAMES[2]).unlink()
    with_apt(FakeApt(sources.DEBIAN_FOLDER))
    assert set(np.unique(find_fashion_mnist(None).train_images)) == {5}


def test_what_apt_get_says_is_in_the_list_of_things_tried(with_apt: Callable[[FakeApt], None]) -> None:
    with_apt(FakeApt(sources.DEBIAN_FOLDER, fails="E: noise\nE: Unable to locate package\n"))
    with pytest.raises(DataError, match="fetched: apt-get download failed: E: Unable to locate package"):
        find_fashion_mnist(None)


def test_an_apt_get_that_brings_nothing_is_in_the_list_of_things_tried(with_apt: Callable[[FakeApt], None]) -> None:
    with_apt(FakeApt(sources.DEBIAN_FOLDER, brings=False))
    with pytest.raises(DataError, match="apt-get download dataset-fashion-mnist brought no package"):
        find_fashion_mnist(None)


def test_a_machine_without_apt_get_says_so(
    with_apt: Callable[[FakeApt], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_apt(FakeApt(sources.DEBIAN_FOLDER))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(DataError, match="this machine has no apt-get and dpkg-deb"):
        find_fashion_mnist(None)


def test_fashion_mnist_from_a_folder_becomes_a_data_set_of_ten_classes(tmp_path: Path) -> None:
    dataset = load_dataset("fashion-mnist", str(write_mnist(tmp_path / "mine", train=20, test=10)), seed=0)
    assert dataset.train.inputs.shape == (20, 1, 28, 28)
    assert len(dataset.test) == 10
    assert dataset.sample_shape == (1, 28, 28)
    assert dataset.train.sample_bytes == 784
    assert (dataset.classes, dataset.labels_per_device, dataset.model) == (10, 2, "clients.models:fashion_mnist_cnn")
    black = dataset.train.scale(dataset.train.inputs)
    assert float(black.mean()) == pytest.approx(-0.2860 / 0.3530)


def write_svhn(folder: Path, labels: list[int]) -> Path:
    """SVHN's two files: X is (height, width, channel, image), y is 1 to 10, where 10 is the digit 0."""
    io = pytest.importorskip("scipy.io", reason="SVHN's .mat files need scipy")
    folder.mkdir()
    images = np.zeros((32, 32, 3, len(labels)), np.uint8)
    images[0, 1, 2] = np.arange(len(labels)) + 100  # row 0, column 1, blue
    for name in ("train_32x32.mat", "test_32x32.mat"):
        io.savemat(folder / name, {"X": images, "y": np.array(labels, np.uint8)[:, None]})
    return folder


@pytest.mark.slow
def test_torchvision_can_be_imported_by_others_after_us_and_by_us_again() -> None:
    """In a process of its own, where nothing has been imported yet."""
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    code = (
        "from clients.sources import import_torchvision; import_torchvision(); "
        "import torchvision.datasets; import_torchvision(); print(torchvision.datasets.SVHN.__name__)"
    )
    root = str(Path(sources.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "SVHN\n"), done.stderr


@pytest.fixture
def torchvision_datasets() -> Any:
    """torchvision's data sets, imported as the product does."""
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("SVHN needs torchvision")
    sources.import_torchvision()
    return importlib.import_module("torchvision.datasets")


@pytest.fixture
def no_checksums(torchvision_datasets: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """torchvision compares SVHN's files with the MD5 of the real ones; ours are small."""
    monkeypatch.setattr(torchvision_datasets.SVHN, "_check_integrity", lambda self: True)


def test_svhn_is_read_from_a_folder_with_digit_zero_as_label_zero(tmp_path: Path, no_checksums: None) -> None:
    dataset = load_dataset("svhn", str(write_svhn(tmp_path / "svhn", [10, 1, 9, 5])), seed=0)
    assert dataset.train.labels.tolist() == [0, 1, 9, 5]
    assert dataset.train.inputs.shape == (4, 3, 32, 32)
    assert dataset.train.inputs[:, 2, 0, 1].tolist() == [100, 101, 102, 103]
    assert int(dataset.train.inputs.sum()) == 100 + 101 + 102 + 103
    assert (dataset.labels_per_device, dataset.model) == (3, "clients.models:svhn_cnn")
    assert dataset.source == f"folder {tmp_path / 'svhn'}"


def test_svhn_from_a_folder_without_its_files_is_refused_with_the_folder_and_advice(
    tmp_path: Path, torchvision_datasets: Any
) -> None:
    with pytest.raises(DataError) as caught:
        read_svhn(tmp_path)
    message = str(caught.value)
    assert message.startswith(f"SVHN: {tmp_path} has no usable train_32x32.mat and test_32x32.mat (")
    assert message.endswith("Put both files into a folder and name it with --data-dir.")


def test_svhn_files_that_are_not_the_real_ones_are_refused(tmp_path: Path, torchvision_datasets: Any) -> None:
    with pytest.raises(DataError, match="corrupted"):
        read_svhn(write_svhn(tmp_path / "svhn", [1, 2]))


def in_a_fresh_process(code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True)


@pytest.mark.skipif(not importlib.util.find_spec("torchvision"), reason="torchvision is not installed")
def test_torchvision_can_be_imported_whatever_it_was_built_for() -> None:
    code = "from clients.sources import import_torchvision as load; load(); load(); import torchvision.datasets"
    shown = in_a_fresh_process(code)
    assert shown.returncode == 0, shown.stderr


@pytest.mark.skipif(not importlib.util.find_spec("torchvision"), reason="torchvision is not installed")
def test_declaring_nms_alone_does_not_make_a_cuda_build_of_torchvision_importable() -> None:
    plain = in_a_fresh_process("import torchvision")
    if plain.returncode == 0:
        pytest.skip("torchvision's compiled half loads here")
    code = (
        "import torch; torch.library.define('torchvision::nms',"
        " '(Tensor dets, Tensor scores, float iou_threshold) -> Tensor'); import torchvision"
    )
    assert "torchvision::qnms does not exist" in in_a_fresh_process(code).stderr
