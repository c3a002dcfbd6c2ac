"""Follows a chain block by block, and notices where blocks that were shown have been replaced."""

import time
from collections.abc import Callable
from dataclasses import replace

from bfl.dashboard.facts import BlockFact, RoundFact
from bfl.dashboard.reading.block_facts import block_fact, round_fact
from bfl.dashboard.reading.feeds import Feed
from bfl.dashboard.reading.founded import Founded, read_founded
from chain.audit.archive import Archive
from chain.audit.payloads import CheckedPayloads
from chain.errors import ChainError
from chain.protocol.turns import FOUNDING_BLOCK
from chain.wire.blocks import Block

MOST_BLOCKS = 1_000_000
_RECENT = 16
"""Blocks whose signatures may still be on their way"""


class ChainFollower:
    """Facts of a chain's blocks and, where wanted, of its rounds; for one thread."""

    def __init__(self, open_feed: Callable[[], Feed], wants_round: Callable[[int], bool] = lambda _: True) -> None:
        """`wants_round` says of which rounds the block itself must tell, because nobody else does."""
        self._open_feed, self._wants_round = open_feed, wants_round
        self._feed: Feed | None = None
        self.founded: Founded | None = None
        self.blocks: list[BlockFact] = []
        self.rounds: dict[int, RoundFact] = {}
        self.reorganised = 0
        self.trouble = ""
        self._through: dict[int, dict[int, int]] = {}
        self._final = FOUNDING_BLOCK

    def poll(self, until_s: float) -> bool:
        """Read what is new until this time of the monotonic clock; whether there is more to read."""
        try:
            feed = self._opened()
            has_more = self._follow(feed, until_s)
            self.trouble = ""
            return has_more
        except ChainError as error:
            self.trouble = f"{error!s:.300}"
            self.close()
            return False

    def _opened(self) -> Feed:
        if self._feed is not None and self._feed.is_stale():
            self.close()
        if self._feed is None:
            self._feed = self._open_feed()
        return self._feed

    def _follow(self, feed: Feed, until_s: float) -> bool:
        archive = feed.archive
        head = archive.head()
        self._leave_what_was_replaced(archive, head.block_number)
        if self.founded is None or not self.founded.servers:
            self.founded = read_founded(archive)
        is_new = False
        while len(self.blocks) <= min(head.block_number, MOST_BLOCKS):
            if is_new and time.monotonic() > until_s:
                return True
            self._take(archive, self.founded, archive.block(len(self.blocks)))
            is_new = True
        self._look_for_signatures(feed)
        return False

    def _leave_what_was_replaced(self, archive: Archive, head: int) -> None:
        before = len(self.blocks)
        while self.blocks and not self._is_still(archive, self.blocks[-1], head):
            gone = self.blocks.pop()
            self.rounds.pop(gone.round, None)
            self._through.pop(gone.round, None)
        if not self.blocks and before:
            self.founded = None  # another chain
        self._final = min(self._final, max(FOUNDING_BLOCK, len(self.blocks) - 1))
        self.reorganised += len(self.blocks) < before

    def _is_still(self, archive: Archive, block: BlockFact, head: int) -> bool:
        return block.number <= head and f"0x{archive.header(block.number).hash.hex()}" == block.hash

    def _take(self, archive: Archive, founded: Founded, block: Block) -> None:
        fact = block_fact(block, founded, self._signers(archive, block.header.hash), block.header.block_number <= 1)
        if fact.round >= 1 and fact.number > FOUNDING_BLOCK and self._wants_round(fact.round):
            through = self._through.get(fact.round - 1, {})
            told, after = round_fact(block, fact, founded, CheckedPayloads(archive), through)
            self.rounds[fact.round], self._through[fact.round] = told, after
        self.blocks.append(fact)

    def _signers(self, archive: Archive, block_hash: bytes) -> int:
        """How many servers signed a block, in the attempt with most."""
        by_attempt: dict[int, set[bytes]] = {}
        for each in archive.endorsements(block_hash):
            by_attempt.setdefault(each.attempt, set()).add(each.signer)
        return max(map(len, by_attempt.values()), default=0)

    def _look_for_signatures(self, feed: Feed) -> None:
        """The last blocks become final some time after they were sealed; earlier ones have been when they were."""
        final, head = feed.final(), len(self.blocks) - 1
        for number in range(min(self._final, head) + 1, head + 1):
            block, signers = self.blocks[number], self.blocks[number].endorsements
            if number > head - _RECENT:
                signers = self._signers(feed.archive, bytes.fromhex(block.hash.removeprefix("0x")))
            if (number <= final, signers) != (block.is_final, block.endorsements):
                self.blocks[number] = replace(block, is_final=number <= final, endorsements=signers)
        self._final = min(final, head)

    def close(self) -> None:
        """Give back what is open; the facts stay."""
        feed, self._feed = self._feed, None
        if feed is not None:
            feed.close()
