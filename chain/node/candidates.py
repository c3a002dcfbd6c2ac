"""Blocks that leaders have proposed and that devices mine, until one of them is sealed."""

from dataclasses import dataclass

from chain.errors import WorkError
from chain.node.admission import check_winner
from chain.node.body import Body
from chain.protocol.genesis import Genesis
from chain.wire.address import Address
from chain.wire.headers import Header
from chain.wire.seal import check_seal


@dataclass(frozen=True)
class Candidate:
    """A block but for its winner and its seal."""

    header: Header
    body: Body

    def header_for(self, device: bytes, genesis: Genesis) -> Header:
        """The header that this device mines (C6), ~514 bytes; the founding block has no winner."""
        if not device and self.header.block_number == 1:
            return self.header
        check_winner(self.header.block_number, device, self.body.execution, genesis)
        return self.header.for_winner(device)


class Candidates(dict[bytes, Candidate]):
    """The candidates on one head, by leader: one each, the last one proposed last."""

    def __init__(self, genesis: Genesis) -> None:
        super().__init__()
        self._genesis = genesis

    def work(self, device: bytes, leader: Address | None) -> Header:
        """The header a device mines: of this leader, or of whoever proposed last."""
        return self.of(leader).header_for(device, self._genesis)

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
            header = candidate.header.for_winner(device) if device else candidate.header
            if header.mining_hash == mining_hash:
                check_seal(mining_hash, nonce, header.difficulty)
                check_winner(header.block_number, device, candidate.body.execution, self._genesis)
                return Candidate(header.with_nonce(nonce), candidate.body)
        raise WorkError(
            f"no candidate of 0x{device.hex()} has mining hash 0x{mining_hash.hex()}: "
            "another block was sealed, or the work was handed to somebody else; ask for new work"
        )

    def drop(self, transaction_hash: bytes) -> None:
        """Give up the candidates that hold this transaction."""
        for leader, candidate in list(self.items()):
            if any(post.transaction.hash == transaction_hash for post in candidate.body.posts):
                del self[leader]
