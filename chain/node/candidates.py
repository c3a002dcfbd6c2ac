"""Blocks that leaders have proposed and that devices mine, until one of them is sealed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from chain.errors import WorkError
from chain.node.admission import check_winner
from chain.node.body import Body
from chain.protocol.consensus import next_difficulty
from chain.protocol.genesis import Genesis
from chain.wire.address import Address
from chain.wire.headers import Header
from chain.wire.seal import check_seal

FRESH_S = 30
"""How long ago work may have been handed out: a long search must not eat the next round's deadlines (D3.4)"""


@dataclass(frozen=True)
class Candidate:
    """A block but for its winner and its seal."""

    header: Header
    body: Body

    def header_for(self, device: bytes, genesis: Genesis, now: float) -> Header:
        """The header that this device mines (C6), ~514 bytes; the founding block has no winner."""
        if not device and self.header.block_number == 1:
            return self.header
        check_winner(self.header.block_number, device, self.body.execution, genesis)
        return self.at(max(self.header.timestamp, int(now)), genesis).for_winner(device)

    def at(self, timestamp: int, genesis: Genesis) -> Header:
        """The header as of this second: no post looks at the time, so nothing else depends on it (D3.4)."""
        difficulty = next_difficulty(genesis, self.body.execution.parent, timestamp)
        return replace(self.header, timestamp=timestamp, difficulty=difficulty)


class Candidates(dict[bytes, Candidate]):
    """The candidates on one head, by leader: one each, the last one proposed last."""

    def __init__(self, genesis: Genesis, now: Callable[[], float]) -> None:
        super().__init__()
        self._genesis, self._now = genesis, now

    def work(self, device: bytes, leader: Address | None) -> Header:
        """The header a device mines: of this leader, or of whoever proposed last."""
        return self.of(leader).header_for(device, self._genesis, self._now())

    def of(self, leader: Address | None) -> Candidate:
        """The candidate of this leader, or the last one proposed."""
        if not self:
            raise WorkError("there is no candidate block to mine; a leader proposes one first")
        if leader is None:
            return next(reversed(self.values()))
        if leader not in self:
            raise WorkError(f"{leader} has proposed no block on this head")
        return self[leader]

    def seal(self, mining_hash: bytes, nonce: bytes, device: bytes) -> Candidate:
        """The candidate that a device's nonce seals, with the seal. A nonce found by another device is invalid."""
        for candidate in reversed(self.values()):
            for header in self._handed_out(candidate, device):
                if header.mining_hash == mining_hash:
                    check_seal(mining_hash, nonce, header.difficulty)
                    check_winner(header.block_number, device, candidate.body.execution, self._genesis)
                    return Candidate(header.with_nonce(nonce), candidate.body)
        raise WorkError(
            f"no candidate of 0x{device.hex()} has mining hash 0x{mining_hash.hex()}: "
            "another block was sealed, or the work was handed to somebody else; ask for new work"
        )

    def _handed_out(self, candidate: Candidate, device: bytes) -> Iterator[Header]:
        """What a device may have been given of a candidate: as it was proposed, and of each of the last seconds."""
        yield candidate.header.for_winner(device) if device else candidate.header
        first, last = candidate.header.timestamp, int(self._now())
        if device:
            for second in range(last, max(first, last - FRESH_S), -1):
                yield candidate.at(second, self._genesis).for_winner(device)
