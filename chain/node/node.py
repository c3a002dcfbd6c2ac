"""A node of the embedded chain: pool, candidate blocks, seals, import, fork choice. One lock: it is thread-safe."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from chain.errors import (
    InvalidBlockError,
    SidecarDigestError,
    SidecarSizeError,
    TransactionRefusedError,
    UnknownParentError,
    UnwantedSidecarError,
    WaitingBlockError,
    WorkError,
)
from chain.node.admission import (
    check_before_waiting,
    check_body,
    check_founding,
    check_leader,
    check_payloads,
    executed_body,
    read_posts,
)
from chain.node.body import Body
from chain.node.candidates import Candidate
from chain.node.following import ChainFollower
from chain.node.pool import MAX_POOL_BYTES, Pool
from chain.node.reading import under_lock
from chain.node.waiting import WaitingBlock
from chain.protocol.availability import checked_sidecars
from chain.protocol.consensus import check_header, check_time, next_difficulty
from chain.protocol.genesis import Genesis
from chain.protocol.posts import SignedCall
from chain.protocol.round_check import CheckRound, RoundBody
from chain.store.database import IN_MEMORY
from chain.store.store import Store
from chain.wire.address import Address
from chain.wire.blocks import decode_transactions, open_sealed_block
from chain.wire.headers import Header
from chain.wire.seal import draw_winner, find_nonce
from chain.wire.sidecar import Sidecar
from chain.wire.transactions import Transaction


class Node(ChainFollower):
    """The chain as one participant holds it."""

    def __init__(
        self,
        store: Store,
        now: Callable[[], float] = time.time,
        check_round: CheckRound | None = None,
        pool_bytes: int = MAX_POOL_BYTES,
        keep_payloads: int | None = None,
    ) -> None:
        """`keep_payloads`: of how many rounds gradients and models are kept (B6); all if it is not said."""
        super().__init__(store, Pool(store, now, pool_bytes), now, keep_payloads)
        self._check_round = check_round

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
        with ExitStack() as undo:
            undo.callback(store.close)
            node = cls(store, **options)
            undo.pop_all()
        return node

    @classmethod
    def in_memory(cls, genesis: Genesis, **options: Any) -> "Node":
        """A node that forgets everything when it ends."""
        return cls.create(IN_MEMORY, genesis, **options)

    # --- transactions

    def submit(self, signed: bytes | Transaction, sidecars: Sequence[Sidecar] = ()) -> bytes:
        """Admit a signed transaction to the pool with the payloads beside it; returns its hash. It is durable once
        sealed, not before (P5).

        Bytes from anywhere; a `Transaction` from this process, which has read or signed it already. Signature, role and
        size are checked before a payload is hashed, and hashing holds nobody up (B2).
        """
        post = self._pool.read(signed)
        if sidecars and self._misses_payloads(post):
            for sidecar in sidecars:
                self.deliver(sidecar.digest, sidecar.payload)
            self._tell("transaction", post.transaction.raw, sidecars)
            return post.transaction.hash
        with self._exclusive():
            self._pool.check(post)
            for named in post.commitments:
                self._check_size(named)
        beside = checked_sidecars(post, sidecars)
        with self._exclusive():
            attempt = self._pool.attempt
            self._pool.admit(post, beside)
            if self._pool.attempt != attempt:
                self._candidates.clear()  # of an attempt that is over
            self.changes.note("posts")
            self._tell("transaction", post.transaction.raw, tuple(beside.values()))
            if beside:
                self._retry()  # a block may have waited for it
        return post.transaction.hash

    def deliver(self, digest: bytes, payload: bytes) -> None:
        """Take a payload that a pending post or a waiting block names; then try the blocks that waited for it."""
        with self._exclusive():
            sizes = [each.size for each in self.wanted() if each.digest == digest]
        if not sizes:
            raise UnwantedSidecarError(f"nothing here waits for a payload with digest 0x{digest.hex()}")
        if len(payload) not in sizes:
            named = " or ".join(map(str, sizes))
            raise SidecarSizeError(f"found a payload of {len(payload)} bytes, its post names {named}")
        sidecar = Sidecar(payload)
        if sidecar.digest != digest:
            raise SidecarDigestError(
                f"found a payload with digest 0x{sidecar.digest.hex()}, its post names 0x{digest.hex()}"
            )
        with self._exclusive():
            if self._is_pending(digest):
                self._pool.payloads.take(sidecar)
            self._waiting.take(sidecar)
            self._retry()
            self._waiting.forget()
            self.changes.note("posts")

    # --- building and sealing

    @under_lock
    def propose(self, leader: bytes, timestamp: int | None = None) -> Header:
        """Make everything pending a candidate block of a leader, checked by `check_round`, to be mined."""
        parent, coinbase = self._pool.head, Address(leader)
        self._finality.check_running()
        self.check_agrees()
        self._finality.check_none_missing(parent)
        timestamp = max(parent.timestamp, int(self._now())) if timestamp is None else timestamp
        body = self._body_to_propose(coinbase, timestamp)
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
        self.changes.note("work")
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

    def import_block(self, raw: bytes, sidecars: Sequence[Sidecar] = ()) -> Header:
        """Take a block another node sealed, or raise what is wrong with it. Known blocks are no error.

        `WaitingBlockError` where a payload is missing here: it counts as soon as that is delivered (B4).
        """
        header, body = open_sealed_block(raw)  # before the lock is taken, and before a signature is looked at (Q6)
        if self.header(header.hash) is not None:
            return header
        with self._judging(header):
            self._check_place(header)
            posts = read_posts(header, decode_transactions(body), self.genesis)
        beside = {sidecar.digest: sidecar for sidecar in sidecars}
        with self._exclusive():
            self._finality.check_running()
            block = WaitingBlock(header, posts)
            self._ask_for(block, beside)
            try:
                self._import(block)
            finally:
                self._retry()
                self._waiting.forget()
            return header

    def _ask_for(self, block: WaitingBlock, beside: Mapping[bytes, Sidecar]) -> None:
        """Ask whoever may have them for the payloads of a block; a closed list that comes names more, its rolls."""
        asked: set[bytes] = set()
        while missing := [each for each in block.missing(self) if each.digest not in asked]:
            for each in missing:
                asked.add(each.digest)
                sidecar = beside.get(each.digest) or self._ask_sources(each.digest)
                if sidecar is not None and len(sidecar.payload) == each.size:
                    self._waiting.take(sidecar)

    @under_lock
    def _check_place(self, header: Header) -> Header:
        """What a header must obey before anything else of its block is looked at; returns its parent."""
        parent = self._store.find_header(header.parent_hash)
        if parent is None:
            if header.parent_hash in self._waiting:
                raise WaitingBlockError(f"block {header.block_number}: its parent waits for payloads")
            raise UnknownParentError(f"block {header.block_number}: parent 0x{header.parent_hash.hex()} is unknown")
        check_header(header, parent, self.genesis, self._now())
        self._finality.check_branch(parent)
        return parent

    def _import(self, block: WaitingBlock) -> None:
        """Execute and take a block whose payloads are here; let it wait if they are not."""
        with self._judging(block.header):
            self._check_and_accept(block)

    def _check_and_accept(self, block: WaitingBlock) -> None:
        header, posts = block.header, block.posts
        missing = block.missing(self)
        if missing:
            parent = self._check_place(header)
            check_payloads(header, posts, self.genesis, self._pool.sizes)
            check_before_waiting(self._store, header, parent, posts)
            self._waiting.add(block)
            raise WaitingBlockError(
                f"block {header.block_number} waits for {len(missing)} payloads, the first is "
                f"0x{missing[0].digest.hex()}: nobody who was asked has them"
            )
        try:
            parent = self._check_place(header)
            check_payloads(header, posts, self.genesis, self._pool.sizes)
            body = self._take_over(header, parent, posts) or executed_body(self._store, header, parent, posts)
            check_body(header, body, self.genesis)
            self._check_body(header, parent, body)
            self._accept(header, body)
        finally:
            self._waiting.remove(header.hash)

    def _take_over(self, header: Header, parent: Header, posts: Sequence[SignedCall]) -> Body | None:
        """The pool's own execution, if the block has the same posts in the same order on the same parent (B9)."""
        if parent.hash != self._pool.head.hash:
            return None
        return self._pool.take_over(posts, header.coinbase, header.timestamp)

    def _retry(self) -> None:
        """Take the blocks whose payloads have come."""
        for block in self._waiting:
            if not block.missing(self):
                try:
                    self._import(block)
                except (InvalidBlockError, TransactionRefusedError, WaitingBlockError):
                    continue  # its sender is gone; whoever sends it again hears why

    def _check_body(self, header: Header, parent: Header, body: Body) -> None:
        if self._check_round is not None and header.block_number > 1:
            statuses = tuple(receipt.status for receipt in body.receipts)
            self._check_round(RoundBody(header, parent, body.posts, statuses, self), self)
