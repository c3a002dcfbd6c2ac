"""In which order servers may lead (P12). Standard library only: edge servers without the chain rank by it too."""

import hashlib
from collections.abc import Collection


def ranked_servers(
    servers: Collection[bytes],
    winner_home: bytes | None,
    parent_hash: bytes,
    spent: bytes | None,
    dormant: Collection[bytes] = (),
) -> list[bytes]:
    """The winner's home, the others by sha256(parent hash || address), the leader whose term is spent behind them, and
    dormant servers last (D3.7).
    """

    def place(address: bytes) -> tuple[int, bytes]:
        first = 3 if address in dormant else 2 if address == spent else 0 if address == winner_home else 1
        return first, hashlib.sha256(parent_hash + address).digest()

    return sorted(servers, key=place)
