"""What can be asked of a node: blocks, what is pending, the state after a block or with everything pending in it."""

import functools
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from chain.errors import StoreError
from chain.node.pool import PendingCall, Pool
from chain.node.vm import Execution, StateView, call_registry
from chain.protocol.genesis import Genesis
from chain.store.store import Store
from chain.wire.blocks import Block, encode_block
from chain.wire.headers import Header

KINDS = ("posts", "votes", "blocks", "work")
"""Posts and payloads in the pool; signatures beside the chain; sealed blocks; candidates to mine"""
_NOBODY = bytes(20)
_CALL_GAS = 1 << 40

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="NodeReader")


def under_lock(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """A method for any thread, one at a time, of a node that is open."""

    @functools.wraps(method)
    def with_lock(self: S, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._lock:
            self._check_open()
            return method(self, *args, **kwargs)

    return cast(Callable[Concatenate[S, P], R], with_lock)


class Changes:
    """How often what a node shows has changed, by kind, in one life of it: whoever waits for something asks again only
    then. For any thread.
    """

    def __init__(self) -> None:
        self._life = secrets.token_hex(4)
        self._counts = dict.fromkeys(KINDS, 0)
        self._lock = threading.Lock()
        self.listeners: list[Callable[[], None]] = []
        """Told, on the thread that changed something; they are quick and ask nothing of the node."""

    def note(self, kind: str) -> None:
        """Something of this kind has changed, and can be seen now."""
        with self._lock:
            self._counts[kind] += 1
            listeners = list(self.listeners)
        for tell in listeners:
            tell()

    def now(self) -> dict[str, str]:
        """A mark of each kind: it is another one after every change, and after a restart."""
        with self._lock:
            return {kind: f"{self._life}-{count}" for kind, count in self._counts.items()}


class NodeReader:
    """The chain as one participant holds it, to read."""

    def __init__(self, store: Store, pool: Pool) -> None:
        self._store, self._pool = store, pool
        self._lock = threading.RLock()
        self._is_open = True
        self._last: Block | None = None  # everybody asks for the newest block

    def close(self) -> None:
        """Stop; everything sealed is on disk. Idempotent."""
        with self._lock:
            if self._is_open:
                self._is_open = False
                self._store.close()

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """One thread at a time, and only while the node is open."""
        with self._lock:
            self._check_open()
            yield

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreError("this node is closed")

    @property
    def genesis(self) -> Genesis:
        """The rules of the network, fixed before its first block."""
        return self._store.genesis

    @property
    @under_lock
    def head(self) -> Header:
        """The last sealed block of the best chain."""
        return self._pool.head

    @under_lock
    def block(self, which: int | bytes) -> Block | None:
        """A canonical block by number, or any block by hash."""
        block_hash = self._store.canonical_hash(which) if isinstance(which, int) else which
        if self._last is not None and block_hash == self._last.header.hash:
            return self._last
        if block_hash is None or self._store.find_header(block_hash) is None:
            return None
        return self._store.block(block_hash)

    @under_lock
    def header(self, which: int | bytes) -> Header | None:
        """A canonical header by number, or any header by hash."""
        block_hash = self._store.canonical_hash(which) if isinstance(which, int) else which
        return None if block_hash is None else self._store.find_header(block_hash)

    @under_lock
    def block_bytes(self, block_hash: bytes) -> int:
        """What a block takes on disk."""
        return self._store.block_bytes(block_hash)

    @under_lock
    def raw_block(self, which: int | bytes) -> bytes | None:
        """A block as another node imports it."""
        block = self.block(which)
        return None if block is None else encode_block(block.header, block.transactions)

    @under_lock
    def place(self, transaction_hash: bytes) -> tuple[int, int] | None:
        """(block number, position) of a sealed transaction."""
        return self._store.place(transaction_hash)

    @under_lock
    def find_sealed(self, transaction_hash: bytes) -> tuple[Block, int] | None:
        """The canonical block of a sealed transaction, and its position there."""
        place = self._store.place(transaction_hash)
        block = None if place is None else self.block(place[0])
        return None if place is None or block is None else (block, place[1])

    @property
    @under_lock
    def pool(self) -> Pool:
        """What is pending. For the thread that owns the node; others ask `pending` and `find_pending`."""
        return self._pool

    @under_lock
    def pending(self) -> tuple[PendingCall, ...]:
        """The pending transactions, in the order of arrival."""
        return tuple(self._pool)

    @under_lock
    def find_pending(self, transaction_hash: bytes) -> PendingCall | None:
        """A pending transaction by its hash; None if it is not (or no longer) in the pool."""
        return self._pool.find(transaction_hash)

    @under_lock
    def total_difficulty(self, block_hash: bytes) -> int:
        """Sum of the difficulties of a block and all before it; the chain with most is the best one."""
        return self._store.total_difficulty(block_hash)

    @under_lock
    def state(self, header: Header | None = None) -> Execution | StateView:
        """The state after `header`, or the pending one. For the thread that owns the node; others ask the node."""
        return self._pool.state() if header is None else StateView(self._store, header)

    @under_lock
    def nonce(self, address: bytes, header: Header | None = None) -> int:
        """The nonce of the address' next transaction, after `header` or (None) everything pending."""
        return self.state(header).nonce(address)

    @under_lock
    def code(self, address: bytes, header: Header | None = None) -> bytes:
        """The code of the contract at an address; empty where there is none."""
        return self.state(header).code(address)

    @under_lock
    def storage(self, address: bytes, slot: int, header: Header | None = None) -> int:
        """The word that a contract keeps at a slot of its storage."""
        return self.state(header).storage(address, slot)

    @under_lock
    def call(
        self, data: bytes, to: bytes | None = None, sender: bytes = _NOBODY, header: Header | None = None
    ) -> bytes:
        """What a call would return, after `header` or (None) in the pending state."""
        gas = min(_CALL_GAS, self.genesis.gas_limit)
        return self.state(header).call(sender, to or self.genesis.registry, data, gas)

    @under_lock
    def ask(self, name: str, *arguments: Any, header: Header | None = None) -> Any:
        """The answer of a view of the registry."""
        return call_registry(self.state(header), self.genesis, name, *arguments)
