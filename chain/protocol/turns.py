"""Whose turn it is to lead (P12): what the registry computes, computed again by whoever doubts."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from chain.protocol.ranking import ranked_servers
from chain.wire.address import Address
from chain.wire.headers import Header

FOUNDING_BLOCK = 1
MOST_SERVERS = 64
DORMANT_AFTER = 5
"""As registry.vy has them"""


@dataclass(frozen=True)
class Membership:
    """Who takes part, and the terms of leading; all of it is in the founding block (P2)."""

    homes: Mapping[bytes, bytes]
    """Home server of each participant; a server's is itself."""
    term_cap: int

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


def ranking_after(
    parents: Sequence[Header],
    membership: Membership,
    excluded: Collection[bytes] = (),
    dormant: Collection[bytes] = (),
) -> list[Address]:
    """Who may lead the block after `parents[-1]`, in their order: attempt a is of ranking[a mod its length] (D3.1).

    Whoever was excluded or dormant when the round began: a ranking does not change within one.
    """
    parent = parents[-1]
    active = [each for each in membership.servers if each not in excluded]
    winner_home = membership.homes[parent.winner] if parent.winner and membership.is_device(parent.winner) else None
    spent = spent_leader(parents, membership.term_cap)
    return [Address(each) for each in ranked_servers(active, winner_home, parent.hash, spent, dormant)]


class Attendance:
    """When servers last posted, and who is dormant (D3.7): no post in 5 blocks or more, of at least 2 leaders."""

    def __init__(self) -> None:
        self._last: dict[bytes, int] = {}
        self._reign: tuple[bytes, int] = (b"", 0)

    def follow(self, round_: int, leader: bytes, senders: Iterable[bytes]) -> None:
        """A round has been sealed: who led it, and who of its servers posted in it."""
        self._last.update(dict.fromkeys(senders, round_))
        self._reign = (leader, self._reign[1] + 1 if leader == self._reign[0] else 1)

    def dormant(self, servers: Iterable[bytes], round_: int) -> list[bytes]:
        """Who is dormant when a round begins."""
        absent = {server: round_ - 1 - self._last.get(server, 0) for server in servers}
        return [server for server, blocks in absent.items() if blocks >= DORMANT_AFTER and self._reign[1] < blocks]
