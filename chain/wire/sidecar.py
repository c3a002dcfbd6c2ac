"""A payload beside a post (B1): bytes that a digest names."""

import hashlib
from dataclasses import dataclass
from functools import cached_property


def payload_digest(payload: bytes) -> bytes:
    """What a post calls its payload: sha256, which CPUs have in hardware and the EVM as a precompile."""
    return hashlib.sha256(payload).digest()


@dataclass(frozen=True)
class Sidecar:
    """A payload on its way. Its digest is computed once, by whoever needs it first: outside every lock."""

    payload: bytes

    @cached_property
    def digest(self) -> bytes:
        """Its sha256."""
        return payload_digest(self.payload)

    def __repr__(self) -> str:
        return f"Sidecar({len(self.payload)} bytes)"
