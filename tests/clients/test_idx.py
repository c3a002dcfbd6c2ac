"""idx files: read exactly, or refused with their name."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy
from numpy.typing import NDArray

from clients import idx
from clients.errors import DataError
from clients.idx import read_idx
from tests.clients.idx_files import idx_bytes

CUBE = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


def refusal(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_idx(path)
    return str(caught.value)


def test_three_labels_worked_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "labels"
    path.write_bytes(bytes.fromhex("0000080100000003070009"))
    assert read_idx(path).tolist() == [7, 0, 9]


def test_two_images_of_one_by_two_worked_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "images"
    path.write_bytes(bytes.fromhex("00000803000000020000000100000002010203ff"))
    assert read_idx(path).tolist() == [[[1, 2]], [[3, 255]]]


arrays = st.one_of(
    st_numpy.arrays(np.uint8, st_numpy.array_shapes(min_dims=1, max_dims=1, max_side=20)),
    st_numpy.arrays(np.uint8, st_numpy.array_shapes(min_dims=3, max_dims=3, max_side=6)),
)


@given(array=arrays, zipped=st.booleans())
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_idx_file_is_read_as_written_plain_or_gzipped(
    tmp_path: Path, array: NDArray[np.uint8], zipped: bool
) -> None:
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(idx_bytes(array)) if zipped else idx_bytes(array))
    np.testing.assert_array_equal(read_idx(path), array)


@given(missing=st.integers(1, 24))
@settings(max_examples=24, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_truncated_idx_file_is_refused_with_its_name(tmp_path: Path, missing: int) -> None:
    path = tmp_path / "images"
    assert refusal(path, idx_bytes(CUBE)[:-missing]) == (
        f"{path}: found {24 - missing} bytes of data, expected 24 for shape (2, 3, 4); "
        "the file is truncated or damaged: fetch it again"
    )


def test_an_idx_file_cut_off_inside_its_header_is_refused_with_its_name(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    cases: list[tuple[str, int, int]] = [
        ("00000801", 4, 8),
        ("0000080180", 5, 8),
        ("000008030000", 6, 16),
        ("0000080300000002000000030000", 14, 16),
    ]
    for content, found, expected in cases:
        with subtests.test(content=content, found=found, expected=expected):
            path = tmp_path / "images"
            assert refusal(path, bytes.fromhex(content)) == (
                f"{path}: found {found} bytes, expected a header of {expected}; fetch it again"
            )


def test_a_header_that_claims_more_than_any_memory_holds_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "images"
    assert refusal(path, bytes.fromhex("00000803800000008000000000000004")) == (
        f"{path}: found 0 bytes of data, expected {2**64:,} for shape (2147483648, 2147483648, 4); "
        "the file is truncated or damaged: fetch it again"
    )


def test_bytes_after_the_end_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "images"
    assert "found 25 bytes of data, expected 24" in refusal(path, idx_bytes(CUBE) + b"x")


def test_a_file_without_the_magic_number_is_refused_with_what_it_has(subtests: pytest.Subtests, tmp_path: Path) -> None:
    cases: list[tuple[bytes, str]] = [
        (b"", "nothing"),
        (b"\0\0", "0000"),
        (b"<!DOCTYPE html>", "3c21444f"),  # what a failed download leaves behind
        (bytes.fromhex("00000d010000000100000000"), "00000d01"),  # idx of floats
        (bytes.fromhex("00000802000000010000000100"), "00000802"),  # two dimensions
    ]
    for content, found in cases:
        with subtests.test(content=content, found=found):
            path = tmp_path / "images"
            assert refusal(path, content) == (
                f"{path}: found header {found}, expected 00000801 or 00000803 (idx of bytes); "
                "the file is damaged or not an idx file: fetch it again"
            )


def test_a_truncated_gzip_file_is_refused_with_its_name(subtests: pytest.Subtests, tmp_path: Path) -> None:
    cases: list[int] = [2, 5, 12, -9, -1]
    for kept in cases:
        with subtests.test(kept=kept):
            path = tmp_path / "images.gz"
            message = refusal(path, gzip.compress(idx_bytes(CUBE))[:kept])
            assert message.startswith(f"{path}: cannot be read (")
            assert message.endswith("; fetch it again")


def test_a_gzip_file_with_a_flipped_bit_is_refused(tmp_path: Path) -> None:
    zipped = bytearray(gzip.compress(idx_bytes(CUBE)))
    zipped[-8] ^= 1  # its checksum
    assert "cannot be read (CRC check failed" in refusal(tmp_path / "images.gz", bytes(zipped))


def test_a_folder_in_place_of_a_file_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_idx(tmp_path)


def test_a_gzipped_file_that_unpacks_to_anything_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idx, "_MOST_BYTES", 1000)
    told = "found more than 1,000 bytes, expected an idx file; fetch it again"
    assert refusal(tmp_path / "images.gz", gzip.compress(bytes(1001))) == f"{tmp_path / 'images.gz'}: {told}"
    assert refusal(tmp_path / "images", bytes(1001)) == f"{tmp_path / 'images'}: {told}"
