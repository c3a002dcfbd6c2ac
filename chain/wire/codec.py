"""Arrays <-> canonical bytes (P6, P8, B1): what is hashed, and travels beside the post that names its digest.

    magic BFLG, BFLI or BFLM | version u8 | dtype u8 | tensors u16 | sizes u32 each | int8: scales f32 each | values

The magic says what it is, a gradient, an iterate or a model: none can be taken for another. Little endian, no padding,
one byte string per array; decoding refuses every other, so nobody can post one gradient
under two digests. -0.0 is written as 0.0 and refused when read. An int8 scale is the smallest float32 s with
127 s >= max|x|: nothing is clipped, and the largest value becomes +-127. A subnormal s would be too coarse for that:
its tensor (all |x| < 1.5e-36) is written as zeros, scale 0.
"""

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chain.errors import CodecError

VERSION = 2
MAX_TENSORS = 4096
_PREFIX = struct.Struct("<4sBBH")
_CODES = {"fp32": 1, "fp16": 2, "int8": 3, "int32": 4}
_NAMES = {code: name for name, code in _CODES.items()}
_DTYPES = {k: np.dtype(v) for k, v in {"fp32": "<f4", "fp16": "<f2", "int8": "i1", "int32": "<i4"}.items()}
_MIN_SCALE, _MAX_SCALE = 2.0**-126, float(np.finfo(np.float32).max)  # the normal float32


class PayloadKind(StrEnum):
    """What a payload of numbers is."""

    GRADIENT = "gradient"
    ITERATE = "iterate"
    MODEL = "model"

    @property
    def magic(self) -> bytes:
        """How it begins."""
        return b"BFL" + self.name[:1].encode()


_KINDS = {kind.magic: kind for kind in PayloadKind}


class GradientCodec(StrEnum):
    """How the values of a gradient or a model are written; models are fp32."""

    FP32 = "fp32"
    FP16 = "fp16"
    INT8 = "int8"


@dataclass(frozen=True)
class PayloadHeader:
    """What a payload says it is. Its length fits; its values are checked by decoding only."""

    kind: PayloadKind
    dtype: str
    sizes: tuple[int, ...]
    version: int


def encode_floats(
    values: NDArray[np.floating],
    sizes: Sequence[int],
    codec: GradientCodec | str,
    kind: PayloadKind = PayloadKind.GRADIENT,
) -> bytes:
    """A gradient or a model, made of tensors of these sizes. Rounds half to even to what the codec holds."""
    if (name := str(codec)) not in tuple(GradientCodec):
        raise CodecError(f"found codec {codec!r}, expected one of {', '.join(GradientCodec)}")
    tensors = _checked_sizes(sizes)
    flat = _checked_vector(values, sum(tensors), "f", "float16, float32 or float64")
    values_ = _quantise(flat, tensors) if name == "int8" else _rounded_values(flat, name)
    return _header(kind, tensors, name) + values_


def decode_floats(
    data: bytes, sizes: Sequence[int] | None = None, kind: PayloadKind = PayloadKind.GRADIENT
) -> NDArray[np.float64]:
    """The exact values of a canonical fp32, fp16 or int8 payload (P8); of these tensors, if `sizes` are given."""
    return view_floats(data, sizes, kind).astype(np.float64, copy=False)


def view_floats(
    data: bytes, sizes: Sequence[int] | None = None, kind: PayloadKind = PayloadKind.GRADIENT
) -> NDArray[np.floating]:
    """As `decode_floats`, the same numbers in the type they are stored in: those of fp32 and fp16 take no memory of
    their own. Whoever computes with them makes them float64 first (P8).
    """
    header, scales, stored = _open(data, sizes, kind, tuple(GradientCodec))
    if header.dtype == "int8":
        return _dequantise(stored, np.frombuffer(scales, "<f4"), header.sizes)
    if (bad := ~np.isfinite(stored) | _negative_zeros(stored)).any():
        _refuse_first(bad, stored, "a finite number other than -0.0")
    return stored


def encode_iterate(values: NDArray[np.integer], sizes: Sequence[int]) -> bytes:
    """An iterate in fixed point; the scaling by 2^24 is the caller's (P8)."""
    tensors = _checked_sizes(sizes)
    flat = _checked_vector(values, sum(tensors), "iu", "integers")
    stored = flat.astype(_DTYPES["int32"], copy=False)
    if stored is not flat:
        _check_none(stored != flat, flat, f"{-(2**31)} to {2**31 - 1}")
    return _header(PayloadKind.ITERATE, tensors, "int32") + stored.tobytes()


def iterate_digest(values: NDArray[np.int32], sizes: Sequence[int]) -> bytes:
    """sha256 of what `encode_iterate` makes of int32 values, without making it."""
    hashed = hashlib.sha256(_header(PayloadKind.ITERATE, _checked_sizes(sizes), "int32"))
    hashed.update(np.ascontiguousarray(values, _DTYPES["int32"]).data)
    return hashed.digest()


def decode_iterate(data: bytes, sizes: Sequence[int] | None = None) -> NDArray[np.int32]:
    """The fixed point numbers of a canonical int32 payload; of these tensors, if `sizes` are given."""
    _, _, stored = _open(data, sizes, PayloadKind.ITERATE, ("int32",))
    return stored.astype(np.int32)


def payload_header(data: bytes) -> PayloadHeader:
    """The header alone, for people who only look."""
    return _read_header(_checked_bytes(data))


def _read_header(raw: bytes) -> PayloadHeader:
    """All lengths are compared as integers before any array is made."""
    if len(raw) < _PREFIX.size:
        raise CodecError(f"found {len(raw)} bytes, expected at least {_PREFIX.size}")
    magic, version, code, tensors = _PREFIX.unpack_from(raw)
    if magic not in _KINDS or version != VERSION:
        known = ", ".join(map(repr, _KINDS))
        raise CodecError(f"found magic {magic!r}, version {version}, expected one of {known}, version {VERSION}")
    if code not in _NAMES:
        raise CodecError(f"found dtype code {code}, expected one of {sorted(_NAMES)}")
    if len(raw) < _PREFIX.size + 4 * tensors:
        raise CodecError(f"found {len(raw)} bytes, expected at least {_PREFIX.size + 4 * tensors}")
    header = PayloadHeader(_KINDS[magic], _NAMES[code], struct.unpack_from(f"<{tensors}I", raw, _PREFIX.size), version)
    if len(raw) != (expected := encoded_size(header.sizes, header.dtype)):
        raise CodecError(f"found {len(raw)} bytes, expected {expected}")
    return header


def encoded_size(sizes: Sequence[int], codec_name: str) -> int:
    """Exact length in bytes of a payload of these tensors, also for "int32"."""
    if (name := str(codec_name)) not in _CODES:
        raise CodecError(f"found codec {codec_name!r}, expected one of {', '.join(_CODES)}")
    tensors = _checked_sizes(sizes)
    return _PREFIX.size + (8 if name == "int8" else 4) * len(tensors) + _DTYPES[name].itemsize * sum(tensors)


def _header(kind: PayloadKind, sizes: tuple[int, ...], name: str) -> bytes:
    return _PREFIX.pack(kind.magic, VERSION, _CODES[name], len(sizes)) + struct.pack(f"<{len(sizes)}I", *sizes)


def _checked_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    """Sizes as Python's integers, whose sum cannot wrap."""
    try:
        found = tuple(map(index, sizes))
    except TypeError as error:
        raise CodecError(f"found sizes {sizes!r:.60}, expected a sequence of integers") from error
    if not 1 <= len(found) <= MAX_TENSORS:
        raise CodecError(f"found {len(found)} tensors, expected 1 to {MAX_TENSORS}")
    if wrong := [size for size in found if not 1 <= size < 2**32]:
        raise CodecError(f"found size {wrong[0]} of tensor {found.index(wrong[0])}, expected 1 to {2**32 - 1}")
    return found


def _checked_vector(values: Any, length: int, kinds: str, wanted: str) -> NDArray[Any]:
    found = values.dtype if isinstance(values, np.ndarray) else None
    if found is None or found.kind not in kinds or found.itemsize > 8:  # a longdouble differs between machines
        raise CodecError(f"found {found or type(values).__name__}, expected an ndarray of {wanted}")
    if values.shape != (length,):
        raise CodecError(f"found shape {values.shape}, expected ({length},), the sum of the sizes")
    return np.asarray(values)


def _checked_bytes(data: Any) -> bytes:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise CodecError(f"found {type(data).__name__}, expected bytes")
    try:
        return bytes(data)  # no copy of bytes; a copy of what could change under our hands
    except ValueError as error:
        raise CodecError("found a released memoryview, expected bytes") from error


def _check_none(bad: NDArray[np.bool_], values: NDArray[Any], expected: str, where: str = "at index") -> None:
    if bad.any():
        _refuse_first(bad, values, expected, where)


def _refuse_first(bad: NDArray[np.bool_], values: NDArray[Any], expected: str, where: str = "at index") -> None:
    first = int(bad.argmax())
    raise CodecError(f"found {values[first]} {where} {first}, expected {expected}")


def _negative_zeros(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where -0.0 is: the lone sign bit, which read as a signed integer is the smallest."""
    return np.asarray(values.view(f"<i{values.itemsize}") == -(1 << (8 * values.itemsize - 1)))


def _open(
    data: Any, sizes: Any, kind: PayloadKind, names: tuple[str, ...]
) -> tuple[PayloadHeader, bytes, NDArray[Any]]:
    """Header, scales (none but for int8) and values as they are stored, yet unchecked."""
    header = _read_header(raw := _checked_bytes(data))
    if header.kind != kind:
        raise CodecError(f"found a payload of kind {header.kind}, expected {kind}")
    if header.dtype not in names:
        raise CodecError(f"found a payload of {header.dtype}, expected {' or '.join(names)}")
    if sizes is not None and (wanted := _checked_sizes(sizes)) != header.sizes:
        raise CodecError(f"found tensors of sizes {header.sizes!s:.200}, expected {wanted!s:.200}")
    start = len(raw) - _DTYPES[header.dtype].itemsize * sum(header.sizes)
    stored = np.frombuffer(raw, _DTYPES[header.dtype], offset=start)
    return header, raw[_PREFIX.size + 4 * len(header.sizes) : start], stored


def _rounded_values(flat: NDArray[Any], name: str) -> bytes:
    """fp32 or fp16 values. What overflows becomes infinite, and is refused with what already was."""
    with np.errstate(all="ignore"):
        stored = flat.astype(_DTYPES[name])
    if (bad := ~np.isfinite(stored)).any():
        _refuse_first(bad, flat, f"a number within +-{np.finfo(stored.dtype).max}, the largest of {name}")
    stored[_negative_zeros(stored)] = 0
    return stored.tobytes()


def _peaks(magnitudes: NDArray[Any], sizes: tuple[int, ...]) -> NDArray[Any]:
    """The largest magnitude of each tensor."""
    return np.asarray(np.maximum.reduceat(magnitudes, np.cumsum((0, *sizes[:-1]))))


def _quantise(flat: NDArray[Any], sizes: tuple[int, ...]) -> bytes:
    """int8 scales and values. 127 s has 31 bits, so float64 compares it with max|x| exactly."""
    with np.errstate(all="ignore"):
        x, largest = flat.astype(np.float64), 127 * _MAX_SCALE
        _check_none(~(np.abs(x) <= largest), flat, f"a number within +-{largest}, the largest of int8")
        peaks = _peaks(np.abs(x), sizes)
        s = (peaks / 127).astype(np.float32)
        s = np.where(127 * s.astype(np.float64) < peaks, np.nextafter(s, np.float32(np.inf)), s).astype("<f4")
        s[s < _MIN_SCALE] = 0
        x /= np.repeat(np.where(s > 0, s, 1.0), sizes)  # over 1, what is flushed rounds to 0
        return s.tobytes() + np.rint(x, out=x).astype(np.int8).tobytes()


def _dequantise(stored: NDArray[np.int8], scales: NDArray[np.float32], sizes: tuple[int, ...]) -> NDArray[np.float64]:
    """int * scale, exact in float64 (31 bits). Refuses what `_quantise` does not write."""
    _check_none(stored == -128, stored, "-127 to 127")
    normal = (scales >= _MIN_SCALE) & (scales <= _MAX_SCALE)
    _check_none(~normal & (scales.view("<u4") != 0), scales, "0.0 or a positive normal number", "as scale of tensor")
    peaks = _peaks(np.abs(stored), sizes)
    _check_none(peaks != np.where(normal, 127, 0), peaks, "127, or 0 if the scale is 0", "as largest |value| of tensor")
    return np.repeat(scales.astype(np.float64), sizes) * stored
