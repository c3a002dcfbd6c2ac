"""Whose turn it is to lead (P12), from headers alone: what the registry computes, computed again by whoever doubts."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from chain.protocol.ranking import ranked_servers
from chain.wire.address import Address
from chain.wire.headers import Header

FOUNDING_BLOCK = 1
MOST_SERVERS = 64
"""As registry.vy has it"""


@dataclass(frozen=True)
class Membership:
    """Who takes part, and the terms of leading; all of it is in the founding block (P2)."""

    homes: Mapping[bytes, bytes]
    """Home server of each participant; a server's is itself."""
    term_cap: int
    turn_s: int

    @property
    def servers(self) -> tuple[bytes, ...]:
        """The edge servers, by address."""
        return tuple(sorted(who for who, home in self.homes.items() if who == home))

    def is_device(self, who: bytes) -> bool:
        """Whether `who` is registered and no server."""
        return who in self.homes and self.homes[who] != who


def spent_leader(parents: Sequence[Header], term_cap: int) -> Address | None:
    """Who has led the last `term_cap` rounds without a break; `parents` are the headers before the block, ascending."""
    rounds = [header.coinbase for header in parents if header.block_number > FOUNDING_BLOCK][-term_cap:]
    return rounds[0] if len(rounds) == term_cap and len(set(rounds)) == 1 else None


def rank_of(
    server: bytes, parents: Sequence[Header], membership: Membership, excluded: Collection[bytes] = ()
) -> int | None:
    """Rank of a server for the block after `parents[-1]`; None if it may not lead at all."""
    parent = parents[-1]
    active = [each for each in membership.servers if each not in excluded]
    winner_home = membership.homes[parent.winner] if parent.winner and membership.is_device(parent.winner) else None
    ranked = ranked_servers(active, winner_home, parent.hash, spent_leader(parents, membership.term_cap))
    return ranked.index(server) if server in ranked else None
