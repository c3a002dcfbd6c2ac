"""Blocks that leaders have proposed and that devices mine, until one of them is sealed."""

from dataclasses import dataclass

from chain.errors import WorkError
from chain.node.admission import check_winner
from chain.node.pool import Body
from chain.protocol.consensus import next_difficulty
from chain.protocol.genesis import Genesis
from chain.wire.address import Address
from chain.wire.blocks import EMPTY_UNCLES_HASH
from chain.wire.headers import Header
from chain.wire.receipts import EMPTY_TRIE_ROOT, block_bloom, trie_root
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


class Candidates:
    """The candidates on one head: one per leader, the last one proposed last."""

    def __init__(self, genesis: Genesis) -> None:
        self._genesis = genesis
        self._by_leader: dict[bytes, Candidate] = {}

    def add(self, header: Header, body: Body) -> Header:
        """Put a leader's block up for mining, instead of its earlier one."""
        self._by_leader.pop(header.coinbase, None)
        self._by_leader[header.coinbase] = Candidate(header, body)
        return header

    def work(self, device: bytes, leader: Address | None) -> Header:
        """The header a device mines: of this leader, or of whoever proposed last."""
        return self.of(leader).header_for(device, self._genesis)

    def of(self, leader: Address | None) -> Candidate:
        """The candidate of this leader, or the last one proposed."""
        if not self._by_leader:
            raise WorkError("there is no candidate block to mine; a leader proposes one first")
        if leader is None:
            return next(reversed(self._by_leader.values()))
        if leader not in self._by_leader:
            raise WorkError(f"{leader} has proposed no block on this head")
        return self._by_leader[leader]

    def seal(self, mining_hash: bytes, nonce: bytes, device: bytes) -> Candidate:
        """The candidate that a device's nonce seals, with the seal. A nonce found by another device is invalid."""
        for candidate in reversed(self._by_leader.values()):
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
        self._by_leader = {
            leader: candidate
            for leader, candidate in self._by_leader.items()
            if all(post.transaction.hash != transaction_hash for post in candidate.body.posts)
        }

    def clear(self) -> None:
        """There is a new head: none of them fits on it."""
        self._by_leader = {}


def candidate_header(genesis: Genesis, body: Body, leader: Address, timestamp: int) -> Header:
    """The header of a leader's block with this body; the state root, which ends the execution, is still to come."""
    parent = body.execution.parent
    return Header(
        parent_hash=parent.hash,
        uncles_hash=EMPTY_UNCLES_HASH,
        coinbase=leader,
        state_root=EMPTY_TRIE_ROOT,
        transaction_root=trie_root([post.transaction.raw for post in body.posts]),
        receipt_root=trie_root([receipt.encoded for receipt in body.receipts]),
        bloom=block_bloom(body.receipts),
        difficulty=next_difficulty(genesis, parent, timestamp),
        block_number=parent.block_number + 1,
        gas_limit=genesis.gas_limit,
        gas_used=body.gas_used,
        timestamp=timestamp,
        extra_data=b"",
        mix_hash=bytes(32),
        nonce=bytes(8),
        base_fee_per_gas=0,
    )
