"""Zip files that hide nothing: members stored as they are, one after the other, each name once.

Readers of zip files differ in what they make of a strange one: of two members of one name, of a directory that is not
where it should be, of capitals. In a file that passes here all of them see the same bytes, and no more than there are.
"""

import io
import struct
import zipfile
import zlib

from policy.errors import StoredFileError

_END, _END64, _LOCATOR64 = struct.Struct("<4s4H2LH"), struct.Struct("<4sQ2H2L4Q"), struct.Struct("<4sLQL")
_LOCAL = struct.Struct("<4s5H3L2H")
_IN_END64 = 0xFFFFFFFF
_DESCRIPTOR_BYTES = 24
"""At most, behind a member"""
_HARMLESS_FLAGS = 0x0808  # a descriptor follows; the name is UTF-8
_DOS_ATTRIBUTES = 0xFFFF
_NOT_A_ZIP = (zipfile.BadZipFile, NotImplementedError, struct.error, ValueError)


def stored_members(raw: bytes) -> dict[str, memoryview]:
    """The members of a zip file by name, not copied; `StoredFileError` says what is strange about it."""
    try:
        directory = _directory_start(raw)
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            entries = archive.infolist()
        found, at = {}, 0
        for entry in entries:
            content, at = _member(raw, entry, at)
            found[entry.filename] = content
    except _NOT_A_ZIP as error:
        raise StoredFileError(f"found no plain zip file: {error}") from error
    if not 0 <= directory - at <= _DESCRIPTOR_BYTES:
        raise StoredFileError(f"found {directory - at} bytes before the directory that are no member's")
    if len({name.lower() for name in found}) != len(entries):
        raise StoredFileError("found two members of one name")
    return found


def _directory_start(raw: bytes) -> int:
    """Where the directory begins: it must end where the file's last record begins, and that with the file."""
    end = len(raw) - _END.size
    signature, *_, size, start, comment = _END.unpack(raw[max(0, end) :])
    if signature != b"PK\x05\x06" or comment:
        raise StoredFileError("found no directory at the end, expected a zip file and nothing after it")
    if raw[max(0, end - _LOCATOR64.size) :][:4] == b"PK\x06\x07":
        said, place = (start, size), _LOCATOR64.unpack(raw[end - _LOCATOR64.size : end])[2]
        end -= _LOCATOR64.size + _END64.size
        signature, record_bytes, *_, size, start = _END64.unpack(raw[max(0, end) :][: _END64.size])
        fits = all(old in (new, _IN_END64) for old, new in zip(said, (start, size), strict=True))
        if (signature, record_bytes, place) != (b"PK\x06\x06", _END64.size - 12, end) or not fits:
            raise StoredFileError("found two directories that differ")
    if start + size != end:
        raise StoredFileError(f"found a directory of {size} bytes at {start}, expected it to end at {end}")
    return int(start)


def _member(raw: bytes, entry: zipfile.ZipInfo, at: int) -> tuple[memoryview, int]:
    """A member that begins where the one before it ended, and where it ends itself."""
    name, start = entry.orig_filename, entry.header_offset
    signature, _, flags, method, *_, name_bytes, extra_bytes = _LOCAL.unpack_from(raw, start)
    begin = start + _LOCAL.size + name_bytes + extra_bytes
    end = begin + entry.file_size
    checks = {
        "a place of its own": signature == b"PK\x03\x04" and 0 <= start - at <= (_DESCRIPTOR_BYTES if at else 0),
        "a plain name": name.isascii() and name.isprintable() and name == entry.filename,
        "one name": raw[start + _LOCAL.size : start + _LOCAL.size + name_bytes] == name.encode("ascii", "replace"),
        "to be stored, not compressed": method == entry.compress_type == zipfile.ZIP_STORED
        and entry.compress_size == entry.file_size,
        "no strange flags": not (flags | entry.flag_bits) & ~_HARMLESS_FLAGS,
        "to be a file": not entry.external_attr & _DOS_ATTRIBUTES,  # a "folder" has what was in memory before
        "the bytes that its checksum is of": end <= len(raw) and zlib.crc32(memoryview(raw)[begin:end]) == entry.CRC,
    }
    for expected, holds in checks.items():
        if not holds:
            raise StoredFileError(f"member {name!r:.80}: expected {expected}")
    return memoryview(raw)[begin:end], end
