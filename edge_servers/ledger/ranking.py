"""Who leads a round (L14, P12): the home server of the last winner, with a term cap and ranked successors."""

from collections.abc import Sequence

from chain.protocol.ranking import ranked_servers
from chain.wire.address import Address
from edge_servers.founding.standing import Tenure


def ranked_leaders(
    servers: Sequence[Address], winner_home: Address | None, block_hash: bytes, tenure: Tenure, term_cap: int
) -> list[Address]:
    """All servers in the order in which they may lead the next round; rank r may act after r * T.

    P12: first the home server of the device that sealed the last block, unless it has led `term_cap` rounds in a row
    (then it comes last); behind it the others by sha256(block hash || address).
    """
    spent = tenure.leader if tenure.terms >= term_cap else None
    return [Address(each) for each in ranked_servers(servers, winner_home, block_hash, spent)]
