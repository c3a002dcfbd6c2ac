"""Arrays of others: read as they were written, or refused; a header is never believed before it is measured."""

import io
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy
from numpy.typing import NDArray

from clients.arrays import one_array, read_array

quick = settings(max_examples=80, deadline=None)
kinds = st.sampled_from(["<f2", "<f4", "<f8", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8"])
arrays = kinds.flatmap(
    lambda kind: st_numpy.arrays(
        np.dtype(kind), st_numpy.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4), fill=st.nothing()
    )
)
SOUND = np.array([1.0, -2.0, 0.5], np.float32)


def record_of(data: bytes) -> ArrayRecord:
    """A record that says it holds three floats, whatever its bytes are."""
    return ArrayRecord({"model": Array("float32", (3,), "numpy.ndarray", data)})


def npy(header: bytes, body: bytes = b"") -> bytes:
    """numpy's format 1.0 with any header."""
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + body


def header(kind: str = "<f4", shape: str = "3,", fortran: str = "False") -> bytes:
    """A header in the form that numpy writes."""
    return f"{{'descr': '{kind}', 'fortran_order': {fortran}, 'shape': ({shape}), }}\n".encode()


def saved(array: NDArray[Any]) -> bytes:
    """What numpy itself writes."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def zipped(array: NDArray[Any]) -> bytes:
    """What numpy writes into an .npz file."""
    buffer = io.BytesIO()
    np.savez(buffer, model=array)
    return buffer.getvalue()


def refusal(data: bytes) -> str:
    with pytest.raises(ValueError, match="array 'model'") as caught:
        read_array(record_of(data), "model")
    return str(caught.value)


# --- what is written is read ------------------------------------------------------------------------------------


@given(array=arrays)
@example(array=np.zeros((), np.float32))
@example(array=np.zeros(0, np.float32))
@example(array=np.zeros((3, 0, 2), np.int64))
@quick
def test_an_array_that_flower_wrote_is_read_as_it_was(array: NDArray[Any]) -> None:
    found = read_array(ArrayRecord({"images": Array(array)}), "images")
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.tobytes() == array.tobytes()  # also where it is NaN


@given(array=arrays.filter(lambda array: array.ndim > 0))
@quick
def test_a_record_with_one_array_holds_it_under_its_name(array: NDArray[Any]) -> None:
    record = one_array("gradient", array)
    assert list(record) == ["gradient"]
    found = read_array(record, "gradient")
    assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_one_array_may_lie_in_memory_in_any_way(subtests: pytest.Subtests) -> None:
    cases: list[NDArray[Any]] = [
        np.arange(12.0)[::3],
        np.arange(12.0)[::-1],
        np.arange(12).reshape(3, 4).T,
        np.arange(24).reshape(2, 3, 4)[:, 1],
    ]
    for label, array in zip(["every third", "backwards", "transposed", "a slice"], cases, strict=True):
        with subtests.test(label):
            np.testing.assert_array_equal(read_array(one_array("model", array), "model"), array)


def test_an_array_is_read_without_a_copy_and_cannot_be_written_to() -> None:
    record = one_array("model", SOUND)
    found = read_array(record, "model")
    assert np.shares_memory(found, np.frombuffer(record["model"].data, np.uint8))
    assert not found.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 7.0


# --- what is not there ------------------------------------------------------------------------------------------


def test_an_array_that_is_not_there_is_refused_by_its_name(subtests: pytest.Subtests) -> None:
    cases: list[Any] = [
        ArrayRecord({}),
        one_array("weights", SOUND),
        ConfigRecord({"model": b"x"}),
        MetricRecord({"model": 1.0}),
        None,
    ]
    for label, record in zip(["empty", "another name", "configuration", "metrics", "nothing"], cases, strict=True):
        with subtests.test(label), pytest.raises(ValueError, match=r"^found no array 'model'$"):
            read_array(record, "model")


# --- what is something else -------------------------------------------------------------------------------------


def test_bytes_that_are_not_numpys_format_are_refused_with_how_they_start(subtests: pytest.Subtests) -> None:
    cases: list[tuple[bytes, bytes]] = [
        (b"", b""),
        (b"PK\x03\x04garbage", b"PK\x03\x04garb"),
        (zipped(SOUND), zipped(SOUND)[:8]),
        (b"\x93NUMPY\x02\x00" + saved(SOUND)[8:], b"\x93NUMPY\x02\x00"),
        (b"\x80\x04\x95pickle", b"\x80\x04\x95pickl"),
    ]
    for label, (data, start) in zip(["nothing", "zip", "npz", "format 2.0", "pickle"], cases, strict=True):
        with subtests.test(label):
            assert refusal(data) == f"array 'model' starts with {start!r}, expected numpy's format 1.0"


def test_a_header_in_any_other_form_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[bytes] = [
        npy(b""),
        npy(b"-" * 9_000 + b"1\n"),
        npy(b"{'descr':'<f4', (\n"),
        npy(header(fortran="True"), SOUND.tobytes()),
        npy(header(shape="-3,"), SOUND.tobytes()),
        npy(header() + b"x", SOUND.tobytes()),
        npy(header().rstrip(b"\n"), SOUND.tobytes()),
        npy(header().rstrip(b"\n") + b" " * 600 + b"\n", SOUND.tobytes()),
        npy(header(kind=">f4"), SOUND.astype(">f4").tobytes()),
        npy(b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }\n", SOUND.tobytes()),
        saved(np.asfortranarray(np.ones((2, 3), np.float32))),
        saved(np.array([1, "two", None], dtype=object)),
        saved(np.array(["text"])),
        saved(SOUND.astype(">f4")),
    ]
    for label, data in zip(
        [
            "empty",
            "minus signs",
            "unclosed bracket",
            "Fortran order",
            "negative size",
            "something behind it",
            "no end of line",
            "far too long",
            "big-endian",
            "fields",
            "Fortran order of numpy",
            "objects of numpy",
            "text of numpy",
            "big-endian of numpy",
        ],
        cases,
        strict=True,
    ):
        with subtests.test(label):
            assert refusal(data) == "array 'model' has no plain header"


def test_what_are_no_real_numbers_are_refused(subtests: pytest.Subtests) -> None:
    cases: list[str] = ["|b1", "<c8", "<m8"]
    for kind in cases:
        with subtests.test(kind=kind):
            assert refusal(npy(header(kind), bytes(3 * np.dtype(kind).itemsize))).startswith("array 'model' has ")


def test_a_type_that_numpy_does_not_know_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[str] = ["<f3", "<z9", "<q8", "<i0", "<u99999999999999999999"]
    for kind in cases:
        with subtests.test(kind=kind):
            assert refusal(npy(header(kind), bytes(12))).startswith("array 'model' has ")


def test_a_shape_that_its_bytes_do_not_fill_is_refused_before_any_memory_is_taken(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str]] = [
        ("1000000000000000,", "(1000000000000000,)"),
        ("10000000000000000000000000,", "(10000000000000000000000000,)"),
        ("4294967296, 4294967296", "(4294967296, 4294967296)"),
        ("4,", "(4,)"),
        ("2,", "(2,)"),
        ("0,", "(0,)"),
        ("", "()"),
    ]
    for shape, told in cases:
        with subtests.test(shape=shape, told=told):
            assert refusal(npy(header(shape=shape), SOUND.tobytes())) == (
                f"array 'model' has 12 bytes, expected float32 numbers of shape {told}"
            )


@given(data=st.data())
@quick
def test_an_array_cut_off_anywhere_or_with_something_behind_it_is_refused(data: st.DataObject) -> None:
    whole = saved(SOUND)
    refusal(whole[: data.draw(st.integers(0, len(whole) - 1))])
    refusal(whole + data.draw(st.binary(min_size=1, max_size=20)))


# --- whatever comes ---------------------------------------------------------------------------------------------

texts = st.text("0123456789,() -'fFxTrue", max_size=20)
headers = st.builds(
    header, kind=st.from_regex(r"[<>|=]?[a-zA-Z]?[0-9]{0,3}", fullmatch=True), shape=texts, fortran=texts
)
anything = st.one_of(
    st.binary(max_size=300),
    st.builds(npy, st.binary(max_size=100), st.binary(max_size=40)),
    st.builds(npy, headers, st.binary(max_size=40)),
    st.builds(
        npy,
        st.builds(
            header, kind=st.from_regex(r"[<|][a-z][0-9]{1,3}", fullmatch=True), shape=st.sampled_from(["0,", "3,"])
        ),
        st.sampled_from([b"", bytes(12)]),
    ),
)


@given(data=anything)
@example(data=npy(header(shape="0, 1000000000000, 1000000000000, 1000000000000")))
@example(data=npy(header(shape="0, 100000000000000000000000000000")))
@example(data=npy(header(shape="0, " + "1, " * 80)))
@settings(max_examples=500, deadline=None)
@pytest.mark.filterwarnings("ignore:Data type alias")
def test_whatever_the_bytes_are_they_are_an_array_of_numbers_or_a_value_error(data: bytes) -> None:
    try:
        found = read_array(record_of(data), "model")
    except ValueError:
        return
    assert found.dtype.kind in "fiu"
    assert found.nbytes <= len(data)


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Give up on what takes longer: a pattern that tries every way of reading a text would take for ever."""

    def give_up(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_long_shape_is_refused_at_once(subtests: pytest.Subtests) -> None:
    cases: list[str] = ["1" * 400 + "x", "1, " * 100 + "x", "1 " * 200 + "x", "1," * 200 + "x"]
    for label, shape in zip(["one long number", "commas and spaces", "spaces", "commas"], cases, strict=True):
        with subtests.test(label), at_most(5.0):
            assert refusal(npy(header(shape=shape))) == "array 'model' has no plain header"
