"""Payloads for those who reach a chain from outside: of a node of ours fetched in ranges, of another network kept by
the edge servers themselves (B7).
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Protocol

from chain.errors import SidecarDigestError, SidecarSizeError
from chain.protocol.posts import PayloadSource
from chain.wire.sidecar import Sidecar, payload_digest

RANGE_BYTES = 4 << 20
"""Of a payload, in one answer"""
MOST_BYTES = 4 << 30
"""Of a payload whose size nobody has told"""
_KEPT_BYTES = 16 << 20


class PayloadShelf(PayloadSource, Protocol):
    """Where payloads lie beside a network that holds none: nothing there enforces that they are available."""

    def put(self, sidecar: Sidecar) -> None:
        """Keep a payload."""


class MemoryShelf:
    """Payloads in memory; all ledgers of one process share one."""

    def __init__(self, sidecars: Iterable[Sidecar] = ()) -> None:
        self._payloads = {sidecar.digest: sidecar.payload for sidecar in sidecars}

    def put(self, sidecar: Sidecar) -> None:
        """Keep a payload."""
        self._payloads[sidecar.digest] = sidecar.payload

    def payload(self, digest: bytes) -> bytes | None:
        """The payload with this digest, if somebody has put it."""
        return self._payloads.get(digest)

    def has_payload(self, digest: bytes) -> bool:
        """Whether a payload is here."""
        return digest in self._payloads


FetchRange = Callable[[bytes, int, int], tuple[int, bytes] | None]
"""(size of the whole, some bytes) of the payload with a digest from an offset on; None where it is not"""


def fetch_payload(
    digest: bytes, fetch: FetchRange, size: int | None = None, begun: bytearray | None = None, most: int = MOST_BYTES
) -> bytes | None:
    """A payload in ranges from whoever has it, checked against its digest; None where it is not.

    `size`, where it is known, or else `most` bounds what is taken. `begun` is what an earlier try got, and what a
    broken one leaves.
    """
    found = bytearray() if begun is None else begun
    while True:
        answer = fetch(digest, len(found), RANGE_BYTES)
        if answer is None:
            return None
        whole, part = answer
        if size is not None and whole != size:
            raise SidecarSizeError(f"found a payload of {whole} bytes, its post names {size}")
        if size is None and whole > most:
            raise SidecarSizeError(f"found a payload of {whole} bytes, expected at most {most}")
        if len(part) != min(RANGE_BYTES, whole - len(found)):  # nobody drips a payload byte by byte
            raise SidecarSizeError(f"found {len(part)} bytes from {len(found)} on of a payload of {whole}")
        found += part
        if len(found) == whole:
            break
    payload = bytes(found)
    if payload_digest(payload) != digest:
        found.clear()
        raise SidecarDigestError(f"found another payload than the one with digest 0x{digest.hex()}")
    return payload


class PayloadCache:
    """The last payloads that were fetched, up to some memory."""

    def __init__(self, most_bytes: int = _KEPT_BYTES) -> None:
        self._most, self._kept = most_bytes, OrderedDict[bytes, bytes]()

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._kept

    def find(self, digest: bytes, fetch: Callable[[], bytes | None]) -> bytes | None:
        """A payload, fetched only if it is not here."""
        if digest in self._kept:
            self._kept.move_to_end(digest)
            return self._kept[digest]
        payload = fetch()
        if payload is not None and len(payload) <= self._most:
            self._kept[digest] = payload
            while sum(map(len, self._kept.values())) > self._most:
                self._kept.popitem(last=False)
        return payload
