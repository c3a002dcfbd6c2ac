"""Who leads a round (L14, P12): the home server of the last winner, with a term cap and ranked successors."""

from collections.abc import Sequence

from chain.protocol.ranking import ranked_servers
from edge_servers.founding.standing import Tenure


def ranked_leaders(
    servers: Sequence[str], winner_home: str | None, block_hash: bytes, tenure: Tenure, term_cap: int
) -> list[str]:
    """All servers in the order in which they may lead the next round; rank r may act after r * T.

    P12: first the home server of the device that sealed the last block, unless it has led `term_cap` rounds in a row
    (then it comes last); behind it the others by sha256(block hash || address).
    """
    spent = _bytes(tenure.leader) if tenure.terms >= term_cap else None
    home = None if winner_home is None else _bytes(winner_home)
    by_bytes = {_bytes(server): server for server in servers}
    return [by_bytes[each] for each in ranked_servers(by_bytes, home, block_hash, spent)]


def _bytes(address: str) -> bytes:
    return bytes.fromhex(address.removeprefix("0x"))
