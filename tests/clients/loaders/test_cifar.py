"""CIFAR-10's files: the arrays that torchvision finds in them, and nothing that a pickle could do."""

import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.data import dataset_of, load_dataset
from clients.errors import DataError
from clients.loaders.pickles import read_batch
from clients.parameters import DataParams
from clients.sources import import_torchvision
from tests.clients.loaders.cifar_files import array, batch, made_batch, number, text, write_cifar

FEW = np.arange(3072, dtype=np.uint8).reshape(1, 3072)


def test_the_files_are_what_torchvision_reads_in_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import_torchvision()
    from torchvision.datasets import CIFAR10

    folder = write_cifar(tmp_path)
    (folder / "cifar-10-batches-py" / "batches.meta").write_bytes(pickle.dumps({"label_names": list("abcdefghij")}))
    monkeypatch.setattr("torchvision.datasets.cifar.check_integrity", lambda *_: True)
    for folder_named in (folder, folder / "cifar-10-batches-py"):
        ours = load_dataset("cifar-10", str(folder_named), 0)
        for samples, is_train in ((ours.train, True), (ours.test, False)):
            theirs: Any = CIFAR10(str(folder), train=is_train)
            assert np.array_equal(samples.inputs.permute(0, 2, 3, 1).numpy(), theirs.data)
            assert samples.labels.tolist() == theirs.targets
    assert (ours.sample_shape, len(ours.train), len(ours.test)) == ((3, 32, 32), 100, 20)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_files_that_python_3_wrote_are_read_too(tmp_path: Path, protocol: int) -> None:
    data, labels = made_batch("test_batch", 3)
    (tmp_path / "b").write_bytes(pickle.dumps({b"data": data, "labels": labels}, protocol))
    if protocol == 5:  # its arrays are made by a function of numpy that is not among ours
        with pytest.raises(DataError, match="found what is no file of CIFAR-10"):
            read_batch(tmp_path / "b")
        return
    read = read_batch(tmp_path / "b")
    assert np.array_equal(read["data"], data)
    assert read["labels"] == labels


class Runs:
    def __reduce__(self) -> Any:
        return os.mkdir, ("stolen",)


def test_a_pickle_that_would_run_something_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b").write_bytes(pickle.dumps({"data": Runs()}))
    with pytest.raises(DataError, match=r"found what is no file of CIFAR-10 \(it asks for posix.mkdir\)"):
        read_batch(tmp_path / "b")
    assert not (tmp_path / "stolen").exists()


HOSTILE = {
    "another module": b"\x80\x02cbuiltins\neval\n" + text(b"1") + b"\x85R.",
    "a class of ours changed": b"\x80\x02c_codecs\nencode\nN}U\x08__init__Ns\x86b.",
    "its attributes changed": b"\x80\x02cnumpy\ndtype\n}U\x04nameNsb.",
    "a place far away": b"\x80\x02}r" + struct.pack("<I", 2**31) + b".",
    "a persistent id": b"\x80\x02U\x01aQ.",
    "an extension": b"\x80\x02\x82\x01.",
    "an instance": b"\x80\x02(ios\nsystem\n.",
    "a number without an end": b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b"1.",
    "floats": b"\x80\x02}(" + text(b"data") + array(FEW).replace(b"u1", b"f8") + b"u.",
    "a shape that is too large": b"\x80\x02}("
    + text(b"data") + array(FEW).replace(number(3072) + b"\x86", b"J\xff\xff\xff\x7f\x86") + b"u.",
    "a negative shape": b"\x80\x02}("
    + text(b"data") + array(FEW).replace(number(3072) + b"\x86", b"J\xff\xff\xff\xff\x86") + b"u.",
    "a key as deep as the stack": b"\x80\x02})" + b"\x85" * 1_900_000 + b"K\x01s.",
    "a key that is no text": b"\x80\x02})" + b"\x85" * 5_000 + b"K\x01s.",
    "a text that is encoded again and again": b"\x80\x02]X" + (1 << 20).to_bytes(4, "little") + bytes(1 << 20)
    + b"q\x010c_codecs\nencode\nq\x020" + b"h\x02h\x01U\x06latin1\x86Ra" * 65 + b".",
    "no dictionary": b"\x80\x02].",
    "half a file": batch(FEW, [1])[:200],
    "nothing": b"",
    "no pickle": b"PK\x03\x04" + bytes(100),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_batch_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "b").write_bytes(HOSTILE[name])
    with pytest.raises(DataError, match=r"b: found what is no file of CIFAR-10 \("):
        read_batch(tmp_path / "b")
    (tmp_path / "good").write_bytes(batch(FEW, [1]))  # and it has changed nothing for the next
    assert np.array_equal(read_batch(tmp_path / "good")["data"], FEW)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (batch(FEW, [1, 2]), r"found data of shape \(1, 3072\) with 2 labels, expected \(n, 3072\) with n labels"),
        (batch(FEW[:, :9], [1]), r"found data of shape \(1, 9\) with 1 labels"),
        (batch(FEW, [10]), "found the label 10, expected 0 to 9"),
        (
            batch(FEW, [1]).replace(b"](K\x01e", b"]" + b"]" * 5000 + b"a" * 5000),
            "found the label of type list, expected 0 to 9",
        ),
        (b"\x80\x02}.", "found no data with no labels"),
    ],
)
def test_data_and_labels_fit(tmp_path: Path, content: bytes, told: str) -> None:
    folder = write_cifar(tmp_path)
    (folder / "cifar-10-batches-py" / "data_batch_3").write_bytes(content)
    with pytest.raises(DataError, match=f"data_batch_3: {told}"):
        load_dataset("cifar-10", str(folder), 0)


def test_a_folder_without_the_files_says_where_they_come_from(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"found no data_batch_1 in .*tar xf cifar-10-python.tar.gz -C"):
        dataset_of(DataParams(dataset="cifar-10", data_dir=str(tmp_path)))
