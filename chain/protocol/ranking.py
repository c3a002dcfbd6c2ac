"""In which order servers may lead (P12). Standard library only: edge servers without the chain rank by it too."""

import hashlib
from collections.abc import Collection


def ranked_servers(
    servers: Collection[bytes], winner_home: bytes | None, parent_hash: bytes, spent: bytes | None
) -> list[bytes]:
    """The winner's home, the others by sha256(parent hash || address), the leader whose term is spent last."""
    by_hash = sorted(servers, key=lambda address: hashlib.sha256(parent_hash + address).digest())
    last = [each for each in by_hash if each == spent]
    first = [each for each in by_hash if each == winner_home and each != spent]
    return first + [each for each in by_hash if each not in first + last] + last
