"""Who leads a round (L14, P12): the home server of the last winner, with a term cap and ranked successors."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Reign:
    """Who led last, and for how many rounds in a row."""

    leader: str = ""
    terms: int = 0

    def after(self, leader: str) -> "Reign":
        """The reign once `leader` has led one more round."""
        return Reign(leader, self.terms + 1 if leader == self.leader else 1)


def ranked_leaders(
    servers: Sequence[str], winner_home: str | None, block_hash: bytes, reign: Reign, term_cap: int
) -> list[str]:
    """All servers in the order in which they may lead the next round; rank r may act after r * T.

    P12: first the home server of the device that sealed the last block, unless it has led `term_cap` rounds in a row
    (then it comes last); behind it the others by sha256(block hash || address).
    """
    by_hash = sorted(servers, key=lambda address: _rank(block_hash, address))
    spent = reign.leader if reign.terms >= term_cap else None
    first = [winner_home] if winner_home is not None and winner_home != spent else []
    last = [spent] if spent is not None and len(servers) > 1 else []
    return first + [s for s in by_hash if s not in first and s not in last] + last


def _rank(block_hash: bytes, address: str) -> bytes:
    return hashlib.sha256(block_hash + bytes.fromhex(address.removeprefix("0x"))).digest()
