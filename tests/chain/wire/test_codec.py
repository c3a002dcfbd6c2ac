"""Arrays as canonical bytes: golden vectors, exactness against plain Python, and everything that is refused."""

import math
import re
import struct
from dataclasses import FrozenInstanceError
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from chain.errors import CodecError
from chain.wire.codec import (
    MAX_TENSORS,
    VERSION,
    GradientCodec,
    PayloadHeader,
    PayloadKind,
    decode_floats,
    decode_iterate,
    encode_floats,
    encode_iterate,
    encoded_size,
    iterate_digest,
    payload_header,
    view_floats,
)
from chain.wire.sidecar import payload_digest

# Worked by hand. Prefix: "BFLG" ("BFLI" of an iterate), version, dtype, tensors; then sizes; then scales; then values.
GOLDEN: dict[str, tuple[list[float], tuple[int, ...], list[float], str]] = {
    # 1 = 0x3f800000, -2.5 = 0xc0200000 (-1.25 * 2^1), and the negative zero loses its sign.
    "fp32": (
        [1.0, -2.5, -0.0],
        (2, 1),
        [1.0, -2.5, 0.0],
        "42464c47 02 01 0200 02000000 01000000 0000803f 000020c0 00000000",
    ),
    # 1 = 0x3c00, -2.5 = 0xc100, 0.1 is nearest to 0x2e66 = 1638 / 2^14.
    "fp16": (
        [1.0, -2.5, 0.1],
        (1, 2),
        [1.0, -2.5, 1638 / 2**14],
        "42464c47 02 02 0200 01000000 02000000 003c 00c1 662e",
    ),
    # Scales 1, 0 and 1/2. -64.5 goes to the even -64 = 0xc0, -63.5 is -127 halves = 0x81, 0.25 half of a step: to 0.
    "int8": (
        [127.0, -64.5, 0.0, -63.5, 0.25],
        (2, 1, 2),
        [127.0, -64.0, 0.0, -63.5, 0.0],
        "42464c47 02 03 0300 02000000 01000000 02000000 0000803f 00000000 0000003f 7f c0 00 81 00",
    ),
    "int32": (
        [2**24, -1, -(2**31), 2**31 - 1],
        (4,),
        [2**24, -1, -(2**31), 2**31 - 1],
        "42464c49 02 04 0100 04000000 00000001 ffffffff 00000080 ffffff7f",
    ),
}
KINDS = dict.fromkeys(("fp32", "fp16", "int8"), PayloadKind.GRADIENT) | {"int32": PayloadKind.ITERATE}
PAYLOADS = {name: bytes.fromhex(golden[3]) for name, golden in GOLDEN.items()}
FLOATS = ("fp32", "fp16", "int8")
FORMATS = {"fp32": "<f", "fp16": "<e"}
STEP = 2.0**-149  # the smallest float32
SMALLEST_NORMAL = 2.0**-126

finite = st.floats(allow_nan=False, allow_infinity=False)
moderate = st.floats(-60000, 60000)
tiny = st.floats(-1e-35, 1e-35) | st.integers(-400 * 127, 400 * 127).map(lambda n: n * STEP)
int32s = st.integers(-(2**31), 2**31 - 1)


def tensors_of(elements: st.SearchStrategy[Any]) -> st.SearchStrategy[list[list[Any]]]:
    return st.lists(st.lists(elements, min_size=1, max_size=6), min_size=1, max_size=4)


def flat(tensors: list[list[Any]], dtype: type = np.float64) -> tuple[NDArray[Any], tuple[int, ...]]:
    return np.array([x for tensor in tensors for x in tensor], dtype), tuple(map(len, tensors))


@st.composite
def payloads(draw: st.DrawFn) -> bytes:
    """Canonical bytes of any dtype."""
    name = draw(st.sampled_from(tuple(GOLDEN)))
    if name == "int32":
        return encode_iterate(*flat(draw(tensors_of(int32s)), np.int64))
    kind = draw(st.sampled_from([PayloadKind.GRADIENT, PayloadKind.MODEL]))
    return encode_floats(*flat(draw(tensors_of(moderate | tiny))), name, kind)


def decoded(data: bytes) -> NDArray[Any]:
    """The values, with every warning of numpy an error: none may leave a decoder either."""
    with np.errstate(all="raise"):
        kind = payload_header(data).kind
        return decode_iterate(data) if kind == PayloadKind.ITERATE else decode_floats(data, kind=kind)


def encoded_again(data: bytes) -> bytes:
    """The bytes of what `data` decodes to."""
    header, values = payload_header(data), decoded(data)
    if header.kind == PayloadKind.ITERATE:
        return encode_iterate(values, header.sizes)
    return encode_floats(values, header.sizes, header.dtype, header.kind)


def is_refused_or_canonical(data: bytes) -> bool:
    try:
        return encoded_again(data) == data
    except CodecError:
        return True


def int8_payload(scale: float | bytes, values: list[int]) -> bytes:
    scale_bytes = scale if isinstance(scale, bytes) else struct.pack("<f", scale)
    return (
        struct.pack("<4sBBHI", b"BFLG", VERSION, 3, 1, len(values))
        + scale_bytes
        + struct.pack(f"{len(values)}b", *values)
    )


# --- golden vectors


@pytest.mark.parametrize("name", FLOATS)
def test_floats_are_the_bytes_worked_by_hand(name: str) -> None:
    values, sizes, read, _ = GOLDEN[name]
    for dtype in (np.float64, ">f8"):
        assert encode_floats(np.array(values, dtype), sizes, name) == PAYLOADS[name]
    found = decode_floats(PAYLOADS[name], sizes)
    assert found.dtype == np.float64
    assert found.tolist() == read
    assert not np.signbit(found[found == 0]).any()


@pytest.mark.parametrize("dtype", [np.int32, np.int64, ">i4"])
def test_an_iterate_is_the_bytes_worked_by_hand(dtype: Any) -> None:
    values, sizes, read, _ = GOLDEN["int32"]
    assert encode_iterate(np.array(values, dtype), sizes) == PAYLOADS["int32"]
    found = decode_iterate(PAYLOADS["int32"], sizes)
    assert found.dtype == np.int32
    assert found.tolist() == read


@pytest.mark.parametrize("name", GOLDEN)
def test_the_header_alone_tells_dtype_sizes_and_version(name: str) -> None:
    header = payload_header(PAYLOADS[name])
    assert header == PayloadHeader(kind=KINDS[name], dtype=name, sizes=GOLDEN[name][1], version=2)
    with pytest.raises(FrozenInstanceError):
        header.version = 3  # type: ignore[misc]


@pytest.mark.parametrize("name", GOLDEN)
def test_the_size_is_known_before_encoding(name: str) -> None:
    assert encoded_size(GOLDEN[name][1], name) == len(PAYLOADS[name])


def test_a_codec_is_named_by_its_member_or_its_text() -> None:
    values, sizes, _, _ = GOLDEN["int8"]
    assert encode_floats(np.array(values), sizes, GradientCodec.INT8) == PAYLOADS["int8"]
    assert encoded_size(sizes, GradientCodec.INT8) == encoded_size(np.array(sizes).tolist(), "int8")


# --- round trips


@given(tensors_of(st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_fp32_keeps_every_float32(tensors: list[list[float]]) -> None:
    values, sizes = flat(tensors, np.float32)
    assert decode_floats(encode_floats(values, sizes, "fp32"), sizes).tolist() == values.tolist()


def test_fp16_keeps_every_float16() -> None:
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    values = every[np.isfinite(every)]
    assert decode_floats(encode_floats(values, [values.size], "fp16")).tolist() == values.tolist()


@given(tensors_of(int32s))
def test_an_iterate_keeps_every_int32(tensors: list[list[int]]) -> None:
    values, sizes = flat(tensors, np.int64)
    assert decode_iterate(encode_iterate(values, sizes), sizes).tolist() == values.tolist()


@pytest.mark.parametrize("name", ["fp32", "fp16"])
@given(x=finite | moderate | tiny)
@example(x=65519.99)
@example(x=65520.0)
@example(x=float(np.finfo(np.float32).max) + 2.0**103)
@example(x=-STEP / 2)
def test_rounding_and_overflow_are_those_of_pythons_struct(name: str, x: float) -> None:
    """An oracle that is not numpy; adding 0.0 is what drops a negative zero."""
    try:
        (rounded,) = struct.unpack(FORMATS[name], struct.pack(FORMATS[name], x))
    except OverflowError:
        with pytest.raises(CodecError, match="at index 1, expected a number within"):
            encode_floats(np.array([0.0, x]), [2], name)
    else:
        data = encode_floats(np.array([0.0, x]), [2], name)
        assert data.endswith(struct.pack(FORMATS[name], rounded + 0.0))
        assert decode_floats(data)[1] == rounded


def scale_and_integers(x: list[float]) -> tuple[float, list[int]]:
    """What int8 makes of one tensor, read by hand from its bytes."""
    data = encode_floats(np.array(x), [len(x)], "int8")
    return struct.unpack_from("<f", data, 12)[0], list(struct.unpack_from(f"{len(x)}b", data, 16))


@given(st.lists(finite, min_size=1, max_size=6) | st.lists(moderate, min_size=1, max_size=6))
def test_an_int8_scale_is_the_smallest_that_clips_nothing(x: list[float]) -> None:
    peak = max(map(abs, x))
    assume(127 * SMALLEST_NORMAL <= peak <= 127 * float(np.finfo(np.float32).max))
    scale, integers = scale_and_integers(x)
    below = Fraction(float(np.nextafter(np.float32(scale), np.float32(0))))
    assert 127 * below < Fraction(peak) <= 127 * Fraction(scale)
    assert max(map(abs, integers)) == 127
    half = Fraction(scale) / 2 * (1 + Fraction(1, 2**45))  # the quotient is rounded to 53 bits before it is to 8
    assert all(abs(q * Fraction(scale) - Fraction(v)) <= half for q, v in zip(integers, x, strict=True))


@given(st.lists(tiny, min_size=1, max_size=6))
@example([STEP])
@example([64 * STEP, -STEP])
@example([127 * (SMALLEST_NORMAL - STEP)])
@example([math.nextafter(127 * (SMALLEST_NORMAL - STEP), 1)])
@example([5e-324])
def test_a_tensor_too_small_for_a_normal_scale_is_all_zeros(x: list[float]) -> None:
    scale, integers = scale_and_integers(x)
    if max(map(abs, x)) <= 127 * (SMALLEST_NORMAL - STEP):
        assert (scale, set(integers)) == (0.0, {0})
    else:
        assert scale >= SMALLEST_NORMAL
        assert max(map(abs, integers)) == 127


@given(tensors_of(moderate | tiny))
def test_int8_decodes_to_integer_times_scale_exactly(tensors: list[list[float]]) -> None:
    values, sizes = flat(tensors)
    expected = [Fraction(s) * q for t in tensors for s, qs in [scale_and_integers(t)] for q in qs]
    assert [Fraction(x) for x in decode_floats(encode_floats(values, sizes, "int8")).tolist()] == expected


@given(payloads())
def test_what_is_decoded_encodes_to_the_same_bytes(data: bytes) -> None:
    assert encoded_again(data) == data
    assert len(data) == encoded_size(payload_header(data).sizes, payload_header(data).dtype)


@given(payloads())
def test_bytearrays_and_memoryviews_are_read_like_bytes(data: bytes) -> None:
    expected = decoded(data).tolist()
    strided = memoryview(bytes(b for pair in zip(data, data, strict=True) for b in pair))[::2]
    for other in (bytearray(data), memoryview(data), strided):
        assert decoded(other).tolist() == expected  # type: ignore[arg-type]


def test_a_decoded_array_does_not_follow_a_buffer_that_changes() -> None:
    buffer = bytearray(PAYLOADS["int32"])
    found = decode_iterate(buffer)  # type: ignore[arg-type]
    buffer[-1] = 0
    assert found[-1] == 2**31 - 1


def test_encoding_leaves_the_callers_array_alone() -> None:
    for name in FLOATS:
        values = np.array([-0.0, 3.0], np.float32)
        encode_floats(values, [2], name)
        assert np.signbit(values[0])


def test_an_array_that_is_strided_is_encoded_as_what_it_shows() -> None:
    assert encode_floats(np.arange(6.0)[::2], [3], "fp32") == encode_floats(np.array([0.0, 2.0, 4.0]), [3], "fp32")


# --- bytes from outside


@given(st.binary(max_size=80))
def test_random_bytes_are_refused_as_codec_errors(data: bytes) -> None:
    assert is_refused_or_canonical(data)


@given(st.sampled_from(PayloadKind), st.integers(0, 5), st.lists(st.integers(0, 4), max_size=3), st.binary(max_size=40))
def test_random_bodies_behind_a_good_prefix_are_refused_or_canonical(
    kind: PayloadKind, code: int, sizes: list[int], body: bytes
) -> None:
    prefix = struct.pack(f"<4sBBH{len(sizes)}I", kind.magic, VERSION, code, len(sizes), *sizes)
    width = {1: 4, 2: 2, 3: 1, 4: 4}.get(code, 0) * sum(sizes) + 4 * len(sizes) * (code == 3)
    for data in (prefix + body, prefix + body[:width].ljust(width, b"\0")):
        assert is_refused_or_canonical(data)


@given(payloads())
def test_a_payload_cut_anywhere_is_refused(data: bytes) -> None:
    for length in range(len(data)):
        with pytest.raises(CodecError, match=f"found {length} bytes, expected"):
            decoded(data[:length])


@given(payloads(), st.binary(min_size=1, max_size=9))
def test_trailing_bytes_are_refused(data: bytes, more: bytes) -> None:
    with pytest.raises(CodecError, match=f"found {len(data) + len(more)} bytes, expected {len(data)}"):
        decoded(data + more)


@given(payloads(), st.data())
def test_a_payload_with_one_byte_changed_is_refused_or_canonical(data: bytes, choice: st.DataObject) -> None:
    position = choice.draw(st.integers(0, len(data) - 1))
    changed = bytearray(data)
    changed[position] = choice.draw(st.integers(0, 255))
    assert is_refused_or_canonical(bytes(changed))


@pytest.mark.parametrize("name", GOLDEN)
def test_every_change_of_one_byte_of_a_golden_vector_is_refused_or_another_array(name: str) -> None:
    data = PAYLOADS[name]
    for position in range(len(data)):
        for value in range(256):
            assert is_refused_or_canonical(data[:position] + bytes([value]) + data[position + 1 :])


@pytest.mark.parametrize(
    ("position", "value", "message"),
    [
        (0, 0x43, "found magic b'CFLG', version 2, expected one of b'BFLG', b'BFLI', b'BFLM', version 2"),
        (3, 0x41, "found magic b'BFLA', version 2, expected"),
        (4, 1, "found magic b'BFLG', version 1, expected"),
        (5, 0, r"found dtype code 0, expected one of \[1, 2, 3, 4\]"),
        (5, 5, "found dtype code 5"),
        (6, 0, "found 0 tensors, expected 1 to 4096"),
        (7, 0xFF, "found 28 bytes, expected at least"),
        (8, 0, "found size 0 of tensor 0, expected 1 to 4294967295"),
        (11, 0xFF, f"found 28 bytes, expected {16 + 4 * (0xFF000002 + 1)}"),
    ],
)
def test_a_wrong_header_is_refused_by_name(position: int, value: int, message: str) -> None:
    data = bytearray(PAYLOADS["fp32"])
    data[position] = value
    for read in (decode_floats, payload_header):
        with pytest.raises(CodecError, match=message):
            read(bytes(data))


def test_as_many_tensors_as_allowed_are_read_and_one_more_is_not() -> None:
    values = np.full(MAX_TENSORS + 1, 127.0)
    data = encode_floats(values[1:], [1] * MAX_TENSORS, "int8")
    assert decode_floats(data).tolist() == [127.0] * MAX_TENSORS
    n = MAX_TENSORS + 1
    with pytest.raises(CodecError, match="found 4097 tensors, expected 1 to 4096"):
        decode_floats(struct.pack("<4sBBH", b"BFLG", VERSION, 1, n) + struct.pack("<I", 1) * n + bytes(4 * n))
    with pytest.raises(CodecError, match="found 4097 tensors"):
        encode_floats(values, [1] * n, "int8")


@pytest.mark.parametrize("name", ["fp32", "fp16"])
@pytest.mark.parametrize("x", [math.nan, -math.inf, -0.0])
def test_stored_nan_infinity_and_negative_zero_are_refused(name: str, x: float) -> None:
    width = struct.calcsize(FORMATS[name])
    data = PAYLOADS[name][:-width] + struct.pack(FORMATS[name], x)
    with pytest.raises(CodecError, match=f"found {x} at index 2, expected a finite number other than -0.0"):
        decode_floats(data)


@pytest.mark.parametrize(
    ("scale", "values", "message"),
    [
        (1.0, [127, -128], "found -128 at index 1, expected -127 to 127"),
        (-1.0, [127], "found -1.0 as scale of tensor 0, expected 0.0 or a positive normal number"),
        (-0.0, [0], "found -0.0 as scale"),
        (math.nan, [127], "found nan as scale"),
        (bytes.fromhex("0100807f"), [127], "found nan as scale"),  # a signalling one
        (math.inf, [127], "found inf as scale"),
        (STEP, [127], "as scale of tensor 0"),
        (SMALLEST_NORMAL - STEP, [127], "as scale of tensor 0"),
        (1.0, [126, -126], "found 126 as largest .value. of tensor 0, expected 127, or 0 if the scale is 0"),
        (1.0, [0, 0], "found 0 as largest .value. of tensor 0"),
        (0.0, [0, 1], "found 1 as largest .value. of tensor 0"),
        (0.0, [127, 1], "found 127 as largest .value. of tensor 0"),
    ],
)
def test_int8_bytes_that_no_encoder_writes_are_refused(scale: float | bytes, values: list[int], message: str) -> None:
    with pytest.raises(CodecError, match=message):
        decoded(int8_payload(scale, values))


@pytest.mark.parametrize("scale", [SMALLEST_NORMAL, 1.0, float(np.finfo(np.float32).max)])
def test_int8_bytes_at_the_edge_of_the_scales_are_read(scale: float) -> None:
    data = int8_payload(scale, [-127, 1])
    assert decoded(data).tolist() == [-127 * scale, scale]
    assert encoded_again(data) == data


@pytest.mark.parametrize("data", [None, "BFLG", np.zeros(3)])
@pytest.mark.parametrize("read", [decode_floats, decode_iterate, payload_header])
def test_what_is_not_bytes_is_refused_by_its_type(read: Any, data: Any) -> None:
    with pytest.raises(CodecError, match=f"found {type(data).__name__}, expected bytes"):
        read(data)


def test_a_released_memoryview_is_refused() -> None:
    view = memoryview(PAYLOADS["fp32"])
    view.release()
    with pytest.raises(CodecError, match="found a released memoryview"):
        decode_floats(view)  # type: ignore[arg-type]


def test_gradient_iterate_and_model_cannot_be_taken_for_each_other() -> None:
    """Not even those with the same numbers: none has the digest of another."""
    gradient, iterate = PAYLOADS["fp32"], PAYLOADS["int32"]
    model = encode_floats(np.array(GOLDEN["fp32"][0]), GOLDEN["fp32"][1], "fp32", PayloadKind.MODEL)
    assert model == b"BFLM" + gradient[4:]
    assert decode_floats(model, kind=PayloadKind.MODEL).tolist() == decode_floats(gradient).tolist()
    for data, wrong, kinds in (
        (gradient, PayloadKind.MODEL, "of kind gradient, expected model"),
        (model, PayloadKind.GRADIENT, "of kind model, expected gradient"),
        (iterate, PayloadKind.GRADIENT, "of kind iterate, expected gradient"),
        (iterate, PayloadKind.MODEL, "of kind iterate, expected model"),
    ):
        for read in (decode_floats, view_floats):
            with pytest.raises(CodecError, match=f"found a payload {kinds}"):
                read(data, kind=wrong)
    for data in (gradient, model):
        with pytest.raises(CodecError, match="expected iterate"):
            decode_iterate(data)


def test_an_iterate_is_of_integers_and_all_else_of_floats() -> None:
    with pytest.raises(CodecError, match="found a payload of fp16, expected int32"):
        decode_iterate(b"BFLI" + PAYLOADS["fp16"][4:])
    for kind in (PayloadKind.GRADIENT, PayloadKind.MODEL):
        with pytest.raises(CodecError, match="found a payload of int32, expected fp32 or fp16 or int8"):
            decode_floats(kind.magic + PAYLOADS["int32"][4:], kind=kind)


@given(payloads())
def test_a_view_shows_the_same_numbers_in_the_type_they_are_stored_in(data: bytes) -> None:
    header = payload_header(data)
    assume(header.kind != PayloadKind.ITERATE)
    seen = view_floats(data, header.sizes, header.kind)
    assert seen.dtype == {"fp32": np.float32, "fp16": np.float16, "int8": np.float64}[header.dtype]
    assert seen.astype(np.float64).tolist() == decoded(data).tolist()
    if header.dtype != "int8":
        assert np.shares_memory(seen, np.frombuffer(data, np.uint8)), "no memory of its own"
        assert not seen.flags.writeable


@given(tensors_of(int32s))
def test_the_digest_of_an_iterate_is_that_of_its_bytes(tensors: list[list[int]]) -> None:
    values, sizes = flat(tensors, np.int32)
    expected = payload_digest(encode_iterate(values, sizes))
    assert iterate_digest(values, sizes) == expected
    assert iterate_digest(np.repeat(values, 2)[::2], sizes) == expected, "of what a strided array shows"


def test_tensors_other_than_expected_are_refused() -> None:
    with pytest.raises(CodecError, match=r"found tensors of sizes \(2, 1\), expected \(1, 2\)"):
        decode_floats(PAYLOADS["fp32"], [1, 2])
    with pytest.raises(CodecError, match=r"found tensors of sizes \(4,\), expected \(5,\)"):
        decode_iterate(PAYLOADS["int32"], (5,))


# --- arrays that have no bytes


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("x", [math.nan, -math.inf, 1e300])
def test_values_a_codec_cannot_hold_are_refused_with_their_index(name: str, x: float) -> None:
    message = f"found {re.escape(str(x))} at index 2, expected a number within .*, the largest of {name}"
    with pytest.raises(CodecError, match=message):
        encode_floats(np.array([1.0, 2.0, x, math.nan]), [1, 3], name)


def test_int8_holds_127_times_the_largest_float32_and_no_more() -> None:
    most = 127 * float(np.finfo(np.float32).max)
    assert decode_floats(encode_floats(np.array([-most]), [1], "int8")).tolist() == [-most]
    with pytest.raises(CodecError, match="at index 0, expected a number within"):
        encode_floats(np.array([math.nextafter(most, math.inf)]), [1], "int8")


@pytest.mark.parametrize(("x", "dtype"), [(2**31, np.int64), (-(2**31) - 1, np.int64), (2**64 - 1, np.uint64)])
def test_an_iterate_outside_int32_is_refused_with_its_index(x: int, dtype: Any) -> None:
    with pytest.raises(CodecError, match=f"found {x} at index 1, expected -2147483648 to 2147483647"):
        encode_iterate(np.array([0, x], dtype), [2])


@pytest.mark.parametrize(
    "values",
    [[1.0], None, np.array([1]), np.array([True]), np.array([1j]), np.array(["1"]), np.array([1], np.longdouble)],
    ids=str,
)
def test_a_gradient_of_another_type_is_refused(values: Any) -> None:
    with pytest.raises(CodecError, match="expected an ndarray of float16, float32 or float64"):
        encode_floats(values, [1], "fp32")


@pytest.mark.parametrize("values", [[1], None, np.array([1.0]), np.array([True]), np.array([1], "m8[s]")], ids=str)
def test_an_iterate_of_another_type_is_refused(values: Any) -> None:
    with pytest.raises(CodecError, match="expected an ndarray of integers"):
        encode_iterate(values, [1])


@pytest.mark.parametrize("values", [np.ones((2, 2)), np.ones(()), np.ones(3), np.ones(0)], ids=lambda v: str(v.shape))
def test_an_array_of_another_shape_than_the_sizes_is_refused(values: NDArray[np.float64]) -> None:
    with pytest.raises(CodecError, match=r"found shape \(.*\), expected \(4,\), the sum of the sizes"):
        encode_floats(values, [3, 1], "fp32")
    with pytest.raises(CodecError, match=r"found shape \(.*\), expected \(4,\)"):
        encode_iterate(values.astype(np.int32), [3, 1])


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([], "found 0 tensors, expected 1 to 4096"),
        ([2, 0], "found size 0 of tensor 1, expected 1 to 4294967295"),
        ([3, -1], "found size -1 of tensor 1"),
        ([2**32], "found size 4294967296 of tensor 0"),
        ([2.0], r"found sizes \[2.0\], expected a sequence of integers"),
        ("2", "found sizes '2'"),
        (2, "found sizes 2"),
        (None, "found sizes None"),
    ],
)
def test_sizes_that_make_no_tensors_are_refused(sizes: Any, message: str) -> None:
    for refused in (
        lambda: encode_floats(np.ones(2), sizes, "int8"),
        lambda: encode_iterate(np.ones(2, np.int32), sizes),
        lambda: encoded_size(sizes, "int32"),
    ):
        with pytest.raises(CodecError, match=message):
            refused()


@pytest.mark.parametrize("codec", ["int32", "fp64", "", None, 1])
def test_a_codec_that_is_none_is_refused(codec: Any) -> None:
    with pytest.raises(CodecError, match=f"found codec {codec!r}, expected one of fp32, fp16, int8"):
        encode_floats(np.ones(1), [1], codec)
    if codec != "int32":
        with pytest.raises(CodecError, match=f"found codec {codec!r}, expected one of fp32, fp16, int8, int32"):
            encoded_size([1], codec)
