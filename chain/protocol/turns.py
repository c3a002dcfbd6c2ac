"""Whose turn it is to lead (P12): what the registry computes, computed again by whoever doubts."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from chain.protocol.ranking import ranked_servers
from chain.wire.address import Address
from chain.wire.headers import Header

FOUNDING_BLOCK = 1
MOST_SERVERS = 64
DORMANT_AFTER = 5
MOST_DOUBLINGS = 6
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


@dataclass(frozen=True)
class Sleep:
    """What a server's silence has cost it when a round begins (D3.7)."""

    doublings: int = 0
    """How many rounds its next sleep costs, as a power of two."""
    owed: int = 0
    """Rounds in which it must yet post before it is waited for; without any it is awake."""

    def after_a_post(self) -> "Sleep":
        """Its post is in a block: one round less is owed."""
        return Sleep(self.doublings, max(self.owed - 1, 0))

    def again(self) -> "Sleep":
        """It falls asleep: the first time for a round, each relapse for twice as many."""
        return Sleep(min(self.doublings + 1, MOST_DOUBLINGS), 2**self.doublings)


class Attendance:
    """When servers last posted, and who is dormant (D3.7): no post in 5 blocks or more, of at least 2 leaders, and then
    not yet in as many rounds as that costs.
    """

    def __init__(self) -> None:
        self._last: dict[bytes, int] = {}
        self._sleeps: dict[bytes, Sleep] = {}
        """Of each server when the round of its last post began."""
        self._reign: tuple[bytes, int] = (b"", 0)

    def follow(self, round_: int, leader: bytes, senders: Iterable[bytes]) -> None:
        """A round has been sealed: who led it, and who of its servers posted in it."""
        for sender in set(senders):
            self._sleeps[sender] = self._sleep(sender, round_)
            self._last[sender] = round_
        self._reign = (leader, self._reign[1] + 1 if leader == self._reign[0] else 1)

    def dormant(self, servers: Iterable[bytes], round_: int) -> list[bytes]:
        """Who is dormant when a round begins: not waited for, and last in rank."""
        return [server for server in servers if self._sleep(server, round_).owed]

    def _sleep(self, server: bytes, round_: int) -> Sleep:
        """A server's when a round begins that it has not posted in."""
        sleep = self._sleeps.get(server, Sleep()).after_a_post()
        absent = round_ - 1 - self._last.get(server, 0)
        is_silent = absent >= DORMANT_AFTER and self._reign[1] < absent
        return sleep.again() if is_silent and not sleep.owed else sleep
