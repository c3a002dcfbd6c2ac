"""A server's way through the attempts at a round (D3): what it signs beside the ledger, and what others have signed.

Without a ledger there is one attempt, and nobody signs. On a chain (`chain_attempts.py`) a majority's signatures end a
round or start its next attempt.
"""

from collections.abc import Collection
from typing import Protocol

from chain.wire.address import Address
from edge_servers.founding.network import Network
from edge_servers.founding.standing import Standing
from edge_servers.ledger.ranking import ranked_leaders


class Attempts(Protocol):
    """What a server signs and asks in an attempt; `server` is one that this process hosts."""

    def ranking(self, standing: Standing) -> list[Address]:
        """Who may lead the next round, in their order (P12)."""

    def start_s(self, round_: int, attempt: int) -> float:
        """When an attempt began: its deadlines count from it (D3.3)."""

    def is_final(self, round_: int) -> bool:
        """Whether a majority has signed the block of a round."""

    def find_later(self, round_: int, attempt: int) -> int | None:
        """The highest attempt above this one that a majority has passed to."""

    def joined(self, round_: int, attempt: int) -> Collection[Address]:
        """Who has passed to this attempt or a later one: they are there, and worth waiting for."""

    def is_over(self, round_: int, attempt: int) -> bool:
        """Whether the network has left an attempt."""

    def begin(self, server: Address, round_: int, attempt: int) -> bool:
        """As its leader, begin an attempt: adopt a block that was signed before and post nothing (False), or post what
        lets it plan (True).
        """

    def choice(self, round_: int, attempt: int) -> bytes | None:
        """The block that the leader of an attempt has signed and others may sign."""

    def has_block(self, round_: int, attempt: int) -> bool:
        """Whether a block of an attempt is sealed already: somebody was killed before it was signed."""

    def has_signed(self, server: Address, round_: int, attempt: int) -> bool:
        """Whether a server has signed a block in an attempt."""

    def endorse(self, server: Address, round_: int, attempt: int) -> bool:
        """Sign a block in an attempt, once: as its leader the one that it had sealed, else the leader's choice; whether
        there was one.
        """

    def endorse_final(self, server: Address, round_: int) -> None:
        """Sign the final block of a round as well, where a server has not and may."""

    def pass_on(self, server: Address, round_: int, attempt: int) -> None:
        """Sign that a server is done with everything below an attempt."""

    def post_endorsements(self, server: Address, round_: int) -> None:
        """Post all signatures under the block of a round that are here."""

    def post_again(self, server: Address, round_: int) -> None:
        """On start, first: send again, in the same bytes, what a server has signed in a round (D5)."""


class OneAttempt:
    """The schemes without a ledger: the leader does it, or nobody."""

    def __init__(self, network: Network, term_cap: int) -> None:
        self._network, self._term_cap = network, term_cap
        self._last = 0

    def ranking(self, standing: Standing) -> list[Address]:
        """Who may lead the next round, in their order."""
        network = self._network
        home = None if standing.winner is None else network.servers[network.devices[standing.winner].home]
        return ranked_leaders(network.servers, home, standing.block_hash, standing.tenure, self._term_cap)

    def start_s(self, round_: int, attempt: int) -> float:
        """Always: nobody's clock is compared with anybody's."""
        return float("inf")

    def is_final(self, round_: int) -> bool:
        """Nothing undoes a round that has ended."""
        return self._last >= round_

    def find_later(self, round_: int, attempt: int) -> int | None:
        """There is none."""
        return None

    def joined(self, round_: int, attempt: int) -> Collection[Address]:
        """Everybody."""
        return self._network.servers

    def is_over(self, round_: int, attempt: int) -> bool:
        """Never."""
        return False

    def begin(self, server: Address, round_: int, attempt: int) -> bool:
        """The leader plans."""
        return True

    def choice(self, round_: int, attempt: int) -> bytes | None:
        """Nobody signs."""
        return None

    def has_block(self, round_: int, attempt: int) -> bool:
        """There are no blocks."""
        return False

    def has_signed(self, server: Address, round_: int, attempt: int) -> bool:
        """Nobody signs."""
        return False

    def endorse(self, server: Address, round_: int, attempt: int) -> bool:
        """There are no blocks: the round has ended."""
        self._last = round_
        return True

    def endorse_final(self, server: Address, round_: int) -> None:
        """Nobody signs."""

    def pass_on(self, server: Address, round_: int, attempt: int) -> None:
        """There is nothing to pass on to."""

    def post_endorsements(self, server: Address, round_: int) -> None:
        """Nobody signs."""

    def post_again(self, server: Address, round_: int) -> None:
        """Nobody signs."""
