"""A torch file is described before torch reads it: what asks for more than is there, or for a call, is refused."""

import io
import struct
import zipfile
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from policy.errors import StoredFileError
from policy.torch_files import StoredTensor, read_torch_file
from tests.policy.hostile_torch_files import Raw, calling, described, members_of, saved, with_pickle, zipped

NUMBERS = np.arange(6, dtype="<f4").tobytes()
HONEST = saved({"a": torch.arange(6.0).reshape(2, 3)})


def test_what_torch_saves_is_described_number_by_number() -> None:
    network = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(network.parameters())
    network(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    content = {"network": network.state_dict(), "optimizer": optimizer.state_dict(), "n": [1, 2.5, None, True, 2**70]}
    found = read_torch_file(saved(content))
    assert found.content["n"] == [1, 2.5, None, True, 2**70]
    weight = found.content["network"]["weight"]
    assert (weight.kind, weight.shape, weight.offset, weight.stored) == ("Float", (2, 3), 0, 6)
    assert bytes(found.storages[weight.storage]) == network.weight.detach().numpy().tobytes()
    assert found.content["optimizer"]["state"][0]["step"].shape == ()


@given(
    st.dictionaries(st.text(max_size=5), st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False)))
)
def test_plain_values_come_back_as_they_were(content: dict[str, Any]) -> None:
    assert read_torch_file(saved(content)).content == content


def test_a_view_of_a_storage_is_a_part_of_it() -> None:
    found = read_torch_file(saved({"a": torch.arange(6.0)[2:4]})).content["a"]
    assert found == StoredTensor("Float", (2,), "0", 2, 6)


@pytest.mark.parametrize(
    ("tensor", "said", "message"),
    [
        (Raw((1 << 30, 6), (0, 1)), 6, "expected each number once and in order"),
        (Raw((6,), (0,)), 6, "expected each number once"),
        (Raw((3, 2), (1, 3)), 6, "in order"),
        (Raw((6,), (1,), offset=1), 6, "expected each number once"),
        (Raw((1 << 40,), (1,)), 1 << 40, "found 24 bytes, the file says 4398046511104"),
        (Raw((6,), (1,), key="1"), 6, "KeyError"),
        (Raw((6,), (1, 1)), 6, "zip"),
        (Raw((-6,), (1,)), 6, "expected a whole number from 0 on"),
        (Raw((1 << 61,) * 40, (1,) * 40), 6, "at most 16 numbers"),
    ],
)
def test_a_tensor_that_is_more_than_its_bytes_is_refused(tensor: Raw, said: int, message: str) -> None:
    with pytest.raises(StoredFileError, match=message):
        read_torch_file(described({"a": tensor}, {"0": NUMBERS}, said))


@pytest.mark.parametrize(
    "content",
    [
        calling("builtins bytearray", b"\x8a\x05\x00\x00\x00\x00\x02\x85"),
        calling("torch Tensor", b"J\x00\x00\x00\x40\x85"),
        calling("os system", b"X\x04\x00\x00\x00true\x85"),
        calling("_codecs encode", b"X\x01\x00\x00\x00aX\x06\x00\x00\x00latin1\x86"),
        calling("torch._utils _rebuild_meta_tensor_no_storage", b")"),
        calling("collections Counter", b")"),
    ],
)
def test_a_pickle_that_calls_something_is_refused(content: bytes) -> None:
    """`torch.load(weights_only=True)` would make a bytearray of 8 GiB out of 40 bytes."""
    with pytest.raises(StoredFileError, match="expected tensors only"):
        read_torch_file(with_pickle(HONEST, content))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x02}",
        b"\x80\x02}.}",
        b"\x80\x02}}.",
        b"\x80\x02.",
        b"\x80\x02)\x93.",
        b"\x80\x02}(" + b"\x85" * 9 + b"u.",
        b"\x80\x02}" + b")" + b"\x85" * 100_000 + b"K\x01s.",
        b"\x80\x02}r\xff\xff\xff\x7f" + b"j\x01\x00\x00\x00.",
        b"\x80\x02ccollections\nOrderedDict\n)R}X\x04\x00\x00\x00evilK\x01sb.",
        b"cposix\nsystem\n(X\x04\x00\x00\x00truetR.",
        b"i" * 50,
        b"\x80\x02X\xff\xff\xff\xffab.",
        b"\x80\x02l.",
        b"\x80\x02Q.",
    ],
)
def test_a_damaged_or_strange_pickle_is_refused(content: bytes) -> None:
    with pytest.raises(StoredFileError):
        read_torch_file(with_pickle(HONEST, content))


def test_tuples_of_tuples_are_not_told_for_ever() -> None:
    """A stride of 200 tuples, each of the one before it twice, has more words than a disk has room for."""
    stride: Any = ()
    for _ in range(200):
        stride = (stride, stride)
    with pytest.raises(StoredFileError, match="expected shape and stride as tuples of at most 16 numbers"):
        read_torch_file(described(Raw((2,), (stride,)), {"0": bytes(8)}, 2))


def test_numbers_that_no_tensor_has_are_refused() -> None:
    with pytest.raises(StoredFileError, match="found numbers that belong to no tensor"):
        read_torch_file(zipped(members_of(HONEST) | {"archive/data/1": b"more"}))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"archive/code.py": b"x"}, "expected those of torch.save"),
        ({"archive/constants.pkl": b"x"}, "expected those of torch.save"),
        ({"other/data/0": NUMBERS}, "expected those of torch.save"),
        ({"archive/data/00": NUMBERS}, "expected those of torch.save"),
        ({"archive/byteorder": b"big"}, "say something else"),
        ({"archive/version": b"3" * 100}, "say something else"),
    ],
)
def test_other_members_than_those_of_torch_are_refused(more: dict[str, bytes], message: str) -> None:
    with pytest.raises(StoredFileError, match=message):
        read_torch_file(zipped(members_of(HONEST) | more))


# --- the zip file


def test_a_compressed_member_is_refused() -> None:
    bomb = zipped({"archive/data.pkl": b"\0" * (1 << 20)}, zipfile.ZIP_DEFLATED)
    assert len(bomb) < 2000
    with pytest.raises(StoredFileError, match="expected to be stored, not compressed"):
        read_torch_file(bomb)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ["archive/data/0", "archive/DATA/0", "archive/Data.pkl"])
def test_a_name_twice_is_refused_also_in_capitals(name: str) -> None:
    """Python takes the last, torch the first, whatever the case."""
    with pytest.raises(StoredFileError, match="found two members of one name"):
        read_torch_file(zipped([*members_of(HONEST).items(), (name, NUMBERS)]))


def test_bytes_before_between_and_after_the_members_are_refused() -> None:
    for strange in (
        b"MZ" + HONEST,
        HONEST + b"!",
        HONEST[:100] + b"!" + HONEST[100:],
        HONEST + HONEST,
        HONEST[:-1],
        b"",
    ):
        with pytest.raises(StoredFileError):
            read_torch_file(strange)


def test_a_second_directory_that_only_some_readers_see_is_refused() -> None:
    """Python looks for the 64-bit directory before its locator, torch where the locator says."""
    at = HONEST.rindex(b"PK\x06\x07")
    moved = HONEST[: at + 8] + struct.pack("<Q", 0) + HONEST[at + 16 :]
    with pytest.raises(StoredFileError, match="found two directories that differ"):
        read_torch_file(moved)


def test_a_member_that_says_it_is_a_folder_is_refused() -> None:
    """Torch fills the tensor with whatever was in memory: often the honest values that were just compared."""
    raw = bytearray(HONEST)
    entry = raw.index(b"archive/data/0", raw.index(b"PK\x01\x02")) - 46
    raw[entry + 38] = 0x10
    with pytest.raises(StoredFileError, match="expected to be a file"):
        read_torch_file(bytes(raw))


def test_any_flipped_byte_is_refused_or_changes_nothing() -> None:
    honest = read_torch_file(HONEST)
    for place in range(len(HONEST)):
        raw = bytearray(HONEST)
        raw[place] ^= 0x41
        try:
            found = read_torch_file(bytes(raw))
        except StoredFileError:
            continue
        assert found.content == honest.content, place
        assert found.storages == honest.storages
        try:
            loaded = torch.load(io.BytesIO(bytes(raw)), weights_only=True)
        except RuntimeError:  # torch is stricter in places
            continue
        np.testing.assert_array_equal(loaded["a"], torch.arange(6.0).reshape(2, 3))


def test_an_ordered_dictionary_is_told_from_a_plain_one() -> None:
    assert type(read_torch_file(saved(OrderedDict(a=1))).content) is OrderedDict
