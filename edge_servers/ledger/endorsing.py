"""When a server signs a block (Q1): once per round, after its leader, and only where the block before it is final."""

from collections.abc import Callable
from typing import Any

from chain.client.ledger import Ledger
from chain.protocol.endorsements import Endorsement
from chain.protocol.turns import FOUNDING_BLOCK
from chain.wire.address import Address
from edge_servers.errors import EndorsementWithheldError

Wait = Callable[[Callable[[], Any]], Any]
"""Waits until something is there, as long as a leader's turn lasts; what it is, or None"""


def endorse_round(ledger: Ledger, server: Address, round_: int, wait: Wait, time_ms: int) -> Endorsement | None:
    """A server's signature under the sealed block of a round, handed to its node; None where there is nothing to sign.

    `EndorsementWithheldError` says why it does not sign. `ledger` writes with the server's key.
    """
    access = ledger.access
    if not 0 < round_ < access.head() or access.signed_by(server, round_):
        return None
    if access.final_number() < round_:  # the parent: block k + 1 is of round k
        raise EndorsementWithheldError("the block before it is not final")
    block_hash = wait(lambda: leaders_choice(ledger, round_, server))
    if block_hash is None:
        raise EndorsementWithheldError("its leader has signed no block")
    endorsement = ledger.endorse(round_, block_hash, time_ms)
    access.send_endorsement(endorsement)
    return endorsement


def leaders_choice(ledger: Ledger, round_: int, server: Address) -> bytes | None:
    """The block that a server may sign: what its leader signed, as far as this node has checked it, and after the block
    that is final: a leader may sign one of another branch.
    """
    access = ledger.access
    header = access.header(round_ + FOUNDING_BLOCK)
    if header.coinbase == server:
        return header.hash
    found = [access.find_header(each.block_hash) for each in access.signed_by(header.coinbase, round_)]
    return next((each.hash for each in found if each is not None and each.parent_hash == header.parent_hash), None)


def post_endorsements(ledger: Ledger, round_: int) -> None:
    """Post all signatures under the block of a round that are here: the record of what made it final."""
    found = ledger.access.endorsements(ledger.access.header(round_ + FOUNDING_BLOCK).hash)
    if found:
        ledger.submit_endorsements(found)
