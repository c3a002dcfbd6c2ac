"""Who leads a round (L14, P12): the home server of the last winner, with a term cap and ranked successors."""

from collections.abc import Sequence
from dataclasses import dataclass

from chain.ranking import ranked_servers


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
    spent = _bytes(reign.leader) if reign.terms >= term_cap else None
    home = None if winner_home is None else _bytes(winner_home)
    by_bytes = {_bytes(server): server for server in servers}
    return [by_bytes[each] for each in ranked_servers(by_bytes, home, block_hash, spent)]


def _bytes(address: str) -> bytes:
    return bytes.fromhex(address.removeprefix("0x"))
