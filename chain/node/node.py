"""A node of the embedded chain: pool, candidate blocks, seals, import, fork choice. One lock: it is thread-safe."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from chain.errors import InvalidBlockError, UnknownParentError, WorkError
from chain.node.admission import check_finality, check_founding, check_leader, executed_body
from chain.node.body import Body
from chain.node.candidates import Candidate, Candidates
from chain.node.pool import MAX_POOL_BYTES, Pool
from chain.node.reading import NodeReader, under_lock
from chain.protocol.consensus import check_header, check_time, is_better, next_difficulty
from chain.protocol.genesis import Genesis
from chain.protocol.round_check import CheckRound, RoundBody
from chain.store.database import IN_MEMORY
from chain.store.store import Store
from chain.wire.address import Address
from chain.wire.blocks import Block, decode_block, encode_block
from chain.wire.headers import Header
from chain.wire.seal import draw_winner, find_nonce
from chain.wire.transactions import Transaction


class Node(NodeReader):
    """The chain as one participant holds it."""

    def __init__(
        self,
        store: Store,
        now: Callable[[], float] = time.time,
        check_round: CheckRound | None = None,
        pool_bytes: int = MAX_POOL_BYTES,
    ) -> None:
        super().__init__(store, Pool(store, now, pool_bytes))
        self._now, self._check_round = now, check_round
        self._candidates = Candidates(store.genesis)
        self.listeners: list[Callable[[str, bytes], None]] = []
        """Told ("transaction" | "block", bytes) of what this node has accepted."""

    @classmethod
    def create(cls, path: Path | str, genesis: Genesis, **options: Any) -> "Node":
        """A node with a new database."""
        return cls._on(Store.create(path, genesis), options)

    @classmethod
    def open(cls, path: Path | str, **options: Any) -> "Node":
        """A node on an existing database."""
        return cls._on(Store.open(path), options)

    @classmethod
    def _on(cls, store: Store, options: Mapping[str, Any]) -> "Node":
        try:
            return cls(store, **options)
        except BaseException:
            store.close()
            raise

    @classmethod
    def in_memory(cls, genesis: Genesis, **options: Any) -> "Node":
        """A node that forgets everything when it ends."""
        return cls.create(IN_MEMORY, genesis, **options)

    # --- transactions

    def submit(self, signed: bytes | Transaction) -> bytes:
        """Admit a signed transaction to the pool; returns its hash. It is durable once sealed, not before (P5).

        Bytes from anywhere; a `Transaction` from this process, which has read or signed it already.
        """
        with self._exclusive():
            transaction = self._pool.admit(signed)
            for tell in self.listeners:
                tell("transaction", transaction.raw)
            return transaction.hash

    @under_lock
    def drop(self, transaction_hash: bytes) -> bool:
        """Leave a pending transaction out of what this node builds; candidates that hold it are given up."""
        self._candidates.drop(transaction_hash)
        return self._pool.drop(transaction_hash)

    # --- building and sealing

    @under_lock
    def propose(self, leader: bytes, timestamp: int | None = None) -> Header:
        """Make everything pending a candidate block of a leader, checked by `check_round`, to be mined."""
        parent, coinbase = self._pool.head, Address(leader)
        timestamp = max(parent.timestamp, int(self._now())) if timestamp is None else timestamp
        body = self._pool.body(coinbase, timestamp)
        header = body.header(
            coinbase, timestamp, next_difficulty(self.genesis, parent, timestamp), self.genesis.gas_limit
        )
        check_time(header, parent, self.genesis, max(parent.timestamp, self._now()))
        check_founding(header, body.execution, self.genesis)
        check_leader(header, body.execution, self.genesis)
        self._check_body(header, parent, body)
        header = replace(header, state_root=body.execution.state_root())
        self._candidates.pop(coinbase, None)  # the last one proposed stands last
        self._candidates[coinbase] = Candidate(header, body)
        return header

    @under_lock
    def work(self, device: bytes, leader: bytes | None = None) -> Header:
        """The header `device` mines: of this leader, or of the last candidate."""
        return self._candidates.work(device, None if leader is None else Address(leader))

    @under_lock
    def submit_work(self, mining_hash: bytes, nonce: bytes, device: bytes) -> Header:
        """Seal: the first valid nonce makes the candidate a block. A nonce found by another device is invalid."""
        sealed = self._candidates.seal(mining_hash, nonce, device)
        return self._accept(sealed.header, sealed.body)

    @under_lock
    def seal_by_draw(self, hash_shares: Mapping[bytes, float], seed: bytes) -> Header:
        """Deterministic mode for simulation: the winner drawn by hash share, its nonce searched for real."""
        winner = draw_winner(hash_shares, seed)
        header = self.work(winner)
        nonce = find_nonce(header.mining_hash, header.difficulty)
        if nonce is None:
            raise WorkError(f"no nonce was found for difficulty {header.difficulty}")
        return self.submit_work(header.mining_hash, nonce, winner)

    # --- importing

    @under_lock
    def import_block(self, raw: bytes) -> Header:
        """Take a block another node sealed, or raise what is wrong with it. Known blocks are no error."""
        header, transactions = decode_block(raw)
        if self._store.find_header(header.hash) is not None:
            return header
        parent = self._store.find_header(header.parent_hash)
        if parent is None:
            raise UnknownParentError(f"block {header.block_number}: parent 0x{header.parent_hash.hex()} is unknown")
        check_header(header, parent, self.genesis, self._now())
        check_finality(self._store, self._pool.head, parent)
        body = executed_body(self._store, header, parent, transactions)
        self._check_body(header, parent, body)
        return self._accept(header, body)

    def _check_body(self, header: Header, parent: Header, body: Body) -> None:
        if self._check_round is not None and header.block_number > 1:
            statuses = tuple(receipt.status for receipt in body.receipts)
            self._check_round(RoundBody(header, parent, body.posts, statuses), self)

    def _accept(self, header: Header, body: Body) -> Header:
        """Persist a checked block in one database transaction, and follow it if it is the best."""
        parent, head = body.execution.parent, self._pool.head
        difficulty = self._store.total_difficulty(parent.hash) + header.difficulty
        is_best = is_better(difficulty, header.hash, self._store.total_difficulty(head.hash), head.hash)
        transactions = tuple(post.transaction for post in body.posts)
        undone: list[Header] = []
        try:
            with self._store.transaction():
                root = body.execution.persist()
                if root != header.state_root:
                    raise InvalidBlockError(f"block {header.block_number}: the state moved while it was sealed")
                block = Block(header, transactions, body.receipts, difficulty)
                self._store.add_block(block)
                if is_best:
                    undone = self._store.make_canonical(header, [transaction.hash for transaction in transactions])
        finally:
            if is_best:
                self._candidates.clear()
                self._pool.follow(self._store.head(), undone)
        self._last = block
        raw = encode_block(header, transactions) if self.listeners else b""
        for tell in self.listeners:
            tell("block", raw)
        return header
