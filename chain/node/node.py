"""A node of the embedded chain: pool, candidate blocks, seals, import, fork choice. One lock: it is thread-safe."""

import functools
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from chain.errors import InvalidBlockError, StoreError, UnknownParentError, WorkError
from chain.node.admission import check_finality, check_founding, check_leader, check_winner, executed_body
from chain.node.pool import MAX_POOL_BYTES, Body, PendingCall, Pool
from chain.node.vm import Execution, StateView, call_registry
from chain.protocol.consensus import check_header, check_time, is_better, next_difficulty
from chain.protocol.genesis import Genesis
from chain.protocol.round_check import CheckRound, RoundBody
from chain.store.database import IN_MEMORY
from chain.store.store import Store
from chain.wire.blocks import EMPTY_UNCLES_HASH, Block, decode_block, encode_block
from chain.wire.headers import Header
from chain.wire.receipts import EMPTY_TRIE_ROOT, block_bloom, trie_root
from chain.wire.seal import check_seal, draw_winner, find_nonce
from chain.wire.transactions import Transaction

_NOBODY = bytes(20)
_CALL_GAS = 1 << 40


@dataclass(frozen=True)
class Work:
    """What a device mines: its own header (C6), ~514 bytes."""

    header: Header

    @property
    def mining_hash(self) -> bytes:
        """What the nonce is searched for."""
        return self.header.mining_hash


@dataclass(frozen=True)
class _Candidate:
    header: Header
    body: Body


P = ParamSpec("P")
R = TypeVar("R")


def _locked(method: Callable[Concatenate["Node", P], R]) -> Callable[Concatenate["Node", P], R]:
    @functools.wraps(method)
    def with_lock(self: "Node", *args: P.args, **kwargs: P.kwargs) -> R:
        with self._lock:
            self._check_open()
            return method(self, *args, **kwargs)

    return cast(Callable[Concatenate["Node", P], R], with_lock)


class Node:
    """The chain as one participant holds it."""

    def __init__(
        self,
        store: Store,
        now: Callable[[], float] = time.time,
        check_round: CheckRound | None = None,
        pool_bytes: int = MAX_POOL_BYTES,
    ) -> None:
        self._store, self._now, self._check_round = store, now, check_round
        self._lock = threading.RLock()
        self._is_open = True
        self._pool = Pool(store, now, pool_bytes)
        self._candidates: dict[bytes, _Candidate] = {}
        self._last: Block | None = None  # everybody asks for the newest block
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

    def close(self) -> None:
        """Stop; everything sealed is on disk. Idempotent."""
        with self._lock:
            if self._is_open:
                self._is_open = False
                self._store.close()

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreError("this node is closed")

    # --- reading

    @property
    def genesis(self) -> Genesis:
        """The network's rules."""
        return self._store.genesis

    @property
    @_locked
    def head(self) -> Header:
        """The last sealed block of the best chain."""
        return self._pool.head

    @_locked
    def block(self, which: int | bytes) -> Block | None:
        """A canonical block by number, or any block by hash."""
        block_hash = self._store.canonical_hash(which) if isinstance(which, int) else which
        if self._last is not None and block_hash == self._last.header.hash:
            return self._last
        if block_hash is None or self._store.find_header(block_hash) is None:
            return None
        return self._store.block(block_hash)

    @_locked
    def header(self, which: int | bytes) -> Header | None:
        """A canonical header by number, or any header by hash."""
        block_hash = self._store.canonical_hash(which) if isinstance(which, int) else which
        return None if block_hash is None else self._store.find_header(block_hash)

    @_locked
    def block_bytes(self, block_hash: bytes) -> int:
        """What a block takes on disk."""
        return self._store.block_bytes(block_hash)

    @_locked
    def raw_block(self, which: int | bytes) -> bytes | None:
        """A block as another node imports it."""
        block = self.block(which)
        return None if block is None else encode_block(block.header, block.transactions)

    @_locked
    def place(self, transaction_hash: bytes) -> tuple[int, int] | None:
        """(block number, position) of a sealed transaction."""
        return self._store.place(transaction_hash)

    @_locked
    def sealed(self, transaction_hash: bytes) -> tuple[Block, int] | None:
        """The canonical block of a sealed transaction, and its position there."""
        place = self._store.place(transaction_hash)
        block = None if place is None else self.block(place[0])
        return None if place is None or block is None else (block, place[1])

    @property
    @_locked
    def pool(self) -> Pool:
        """What is pending. For the thread that owns the node; others ask `pending` and `find_pending`."""
        return self._pool

    @_locked
    def pending(self) -> tuple[PendingCall, ...]:
        """The pending transactions, in the order of arrival."""
        return tuple(self._pool)

    @_locked
    def find_pending(self, transaction_hash: bytes) -> PendingCall | None:
        """A pending transaction."""
        return self._pool.find(transaction_hash)

    @_locked
    def total_difficulty(self, block_hash: bytes) -> int:
        """Work behind a block."""
        return self._store.total_difficulty(block_hash)

    @_locked
    def state(self, header: Header | None = None) -> Execution | StateView:
        """The state after `header`, or the pending one. For the thread that owns the node; others ask the node."""
        return self._pool.state() if header is None else StateView(self._store, header)

    @_locked
    def nonce(self, address: bytes, header: Header | None = None) -> int:
        """The nonce of the address' next transaction, after `header` or (None) everything pending."""
        return self.state(header).nonce(address)

    @_locked
    def code(self, address: bytes, header: Header | None = None) -> bytes:
        """Code at the address."""
        return self.state(header).code(address)

    @_locked
    def storage(self, address: bytes, slot: int, header: Header | None = None) -> int:
        """A storage slot."""
        return self.state(header).storage(address, slot)

    @_locked
    def call(
        self, data: bytes, to: bytes | None = None, sender: bytes = _NOBODY, header: Header | None = None
    ) -> bytes:
        """What a call would return, after `header` or (None) in the pending state."""
        gas = min(_CALL_GAS, self.genesis.gas_limit)
        return self.state(header).call(sender, to or self.genesis.registry, data, gas)

    @_locked
    def ask(self, name: str, *arguments: Any, header: Header | None = None) -> Any:
        """The answer of a view of the registry."""
        return call_registry(self.state(header), self.genesis, name, *arguments)

    # --- transactions

    @_locked
    def submit(self, signed: bytes | Transaction) -> bytes:
        """Admit a signed transaction to the pool; returns its hash. It is durable once sealed, not before (P5).

        Bytes from anywhere; a `Transaction` from this process, which has read or signed it already.
        """
        transaction = self._pool.admit(signed)
        self._tell("transaction", transaction.raw)
        return transaction.hash

    @_locked
    def drop(self, transaction_hash: bytes) -> bool:
        """Leave a pending transaction out of what this node builds; candidates that hold it are given up."""
        self._candidates = {
            leader: candidate
            for leader, candidate in self._candidates.items()
            if all(post.transaction.hash != transaction_hash for post in candidate.body.posts)
        }
        return self._pool.drop(transaction_hash)

    # --- building and sealing

    @_locked
    def propose(self, coinbase: bytes, timestamp: int | None = None) -> Header:
        """Make everything pending a candidate block of leader `coinbase`, checked by `check_round`, to be mined."""
        parent = self._pool.head
        timestamp = max(parent.timestamp, int(self._now())) if timestamp is None else timestamp
        body = self._pool.body(coinbase, timestamp)
        header = Header(
            parent_hash=parent.hash,
            uncles_hash=EMPTY_UNCLES_HASH,
            coinbase=coinbase,
            state_root=EMPTY_TRIE_ROOT,
            transaction_root=trie_root([post.transaction.raw for post in body.posts]),
            receipt_root=trie_root([receipt.encoded for receipt in body.receipts]),
            bloom=block_bloom(body.receipts),
            difficulty=next_difficulty(self.genesis, parent, timestamp),
            block_number=parent.block_number + 1,
            gas_limit=self.genesis.gas_limit,
            gas_used=body.gas_used,
            timestamp=timestamp,
            extra_data=b"",
            mix_hash=bytes(32),
            nonce=bytes(8),
            base_fee_per_gas=0,
        )
        check_time(header, parent, self.genesis, max(parent.timestamp, self._now()))
        check_founding(header, body.execution, self.genesis)
        check_leader(header, body.execution, self.genesis)
        self._check_body(header, parent, body)
        header = replace(header, state_root=body.execution.state_root())
        self._candidates.pop(coinbase, None)  # the last one proposed stands last
        self._candidates[coinbase] = _Candidate(header, body)
        return header

    @_locked
    def work(self, device: bytes, coinbase: bytes | None = None) -> Work:
        """The header `device` mines: of leader `coinbase`, or of the last candidate."""
        candidate = self._candidate(coinbase)
        if not device and candidate.header.block_number == 1:
            return Work(candidate.header)
        check_winner(candidate.header.block_number, device, candidate.body.execution, self.genesis)
        return Work(candidate.header.for_winner(device))

    @_locked
    def submit_work(self, mining_hash: bytes, nonce: bytes, device: bytes) -> Header:
        """Seal: the first valid nonce makes the candidate a block. A nonce found by another device is invalid."""
        for candidate in reversed(self._candidates.values()):
            header = candidate.header.for_winner(device) if device else candidate.header
            if header.mining_hash == mining_hash:
                check_seal(mining_hash, nonce, header.difficulty)
                check_winner(header.block_number, device, candidate.body.execution, self.genesis)
                return self._accept(header.sealed(nonce), candidate.body)
        raise WorkError(
            f"no candidate of 0x{device.hex()} has mining hash 0x{mining_hash.hex()}: "
            "another block was sealed, or the work was handed to somebody else; ask for new work"
        )

    @_locked
    def seal_by_draw(self, hash_shares: Mapping[bytes, float], seed: bytes) -> Header:
        """Deterministic mode for simulation: the winner drawn by hash share, its nonce searched for real."""
        winner = draw_winner(hash_shares, seed)
        work = self.work(winner)
        nonce = find_nonce(work.mining_hash, work.header.difficulty)
        if nonce is None:
            raise WorkError(f"no nonce was found for difficulty {work.header.difficulty}")
        return self.submit_work(work.mining_hash, nonce, winner)

    def _candidate(self, coinbase: bytes | None) -> _Candidate:
        if not self._candidates:
            raise WorkError("there is no candidate block to mine; a leader proposes one first")
        if coinbase is None:
            return next(reversed(self._candidates.values()))
        if coinbase not in self._candidates:
            raise WorkError(f"0x{coinbase.hex()} has proposed no block on this head")
        return self._candidates[coinbase]

    # --- importing

    @_locked
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
                self._candidates = {}
                self._pool.follow(self._store.head(), undone)
        self._last = block
        self._tell("block", encode_block(header, transactions) if self.listeners else b"")
        return header

    def _tell(self, kind: str, raw: bytes) -> None:
        for listener in self.listeners:
            listener(kind, raw)
