"""The payloads of one block as an archive has them: each is held against its digest when it is first read."""

from collections.abc import Sequence

from chain.errors import InspectionError
from chain.protocol.availability import kept_payloads
from chain.protocol.posts import PayloadSource, SignedCall
from chain.wire.address import Address
from chain.wire.sidecar import payload_digest


class CheckedPayloads:
    """A `PayloadSource` that believes nobody; what it has read stays as long as it does."""

    def __init__(self, archive: PayloadSource) -> None:
        self._archive = archive
        self._read: dict[bytes, bytes | None] = {}

    def payload(self, digest: bytes) -> bytes | None:
        """The payload with this digest; None where the archive has it not, or not any more."""
        if digest not in self._read:
            found = self._archive.payload(digest)
            if found is not None and payload_digest(found) != digest:
                raise InspectionError(
                    f"the payload 0x{digest.hex()} has another digest: 0x{payload_digest(found).hex()}"
                )
            self._read[digest] = found
        return self._read[digest]

    def has_payload(self, digest: bytes) -> bool:
        """Whether the archive has it, and it is the right one."""
        return self.payload(digest) is not None

    def read_kept(self, posts: Sequence[SignedCall], builder: Address) -> tuple[int, bool]:
        """Read every payload that a block keeps: how many bytes there are, and whether some are missing (B6)."""
        size, is_missing = 0, False
        for kept in kept_payloads(posts, builder, self):
            payload = self.payload(kept.digest)
            if payload is None:
                is_missing = True
            elif len(payload) != kept.size:
                raise InspectionError(f"a payload of {len(payload)} bytes, its post names {kept.size}")
            size += len(payload or b"")
        return size, is_missing
