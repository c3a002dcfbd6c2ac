"""Pools of nodes that know each other: what a peer has pending and this node has not, fetched and admitted.

A post is passed on once. Whoever was away then, or refused it because something before it was missing, asks: a peer's
order of arrival is one in which everything is admitted. What is refused all the same is held, within bounds, and tried
again when something else has come.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eth_hash.auto import keccak
from web3 import Web3

from chain.client.asking import read_bytes, request
from chain.errors import (
    ChainError,
    KnownTransactionError,
    NodeUnreachableError,
    NonceError,
    PhaseOrderError,
    PoolFullError,
    RevertedError,
    TransactionRefusedError,
    UnknownParentError,
    UnregisteredSenderError,
    WaitingBlockError,
)
from chain.node.node import Node
from chain.wire.sidecar import Sidecar

MOST_PENDING = 4096
"""Hashes of a peer that are looked at"""
MOST_HELD, MOST_HELD_BYTES = 256, 16 << 20
MOST_TRIES = 4
_MOST_KNOWN = 2 * MOST_PENDING
_MAY_PASS = (NonceError, RevertedError, UnregisteredSenderError, PoolFullError, PhaseOrderError)
"""Refusals that something which comes later may lift"""
_log = logging.getLogger(__name__)


@dataclass
class _Held:
    """A post that was refused for now."""

    raw: bytes
    sidecars: Sequence[Sidecar]
    tries: int = 1

    @property
    def size(self) -> int:
        return len(self.raw) + sum(len(each.payload) for each in self.sidecars)


class PoolSync:
    """What this node has seen of the posts that are pending elsewhere, in this attempt at a round. For any thread."""

    def __init__(self, node: Node) -> None:
        self._node, self._lock = node, threading.RLock()
        self._place = (node.head.hash, node.attempt)
        self._known: OrderedDict[bytes, None] = OrderedDict()
        """Were in the pool here, or were refused for good: not asked for again. Some were left out on purpose."""
        self._held: OrderedDict[bytes, _Held] = OrderedDict()
        self._is_news = False

    def hear(self, kind: str, raw: bytes) -> bool:
        """This node has accepted something; whether there are posts that were too early, and may not be any more."""
        with self._lock:
            if kind == "transaction":
                self._note(keccak(raw))
            self._is_news = True
            return bool(self._held)

    def fetch(self, web3: Web3) -> int:
        """Take what a peer has pending and was never here; returns how many were admitted, late ones included."""
        return self.take(web3, request(web3, "bfl_pendingTransactions"))

    def take(self, web3: Web3, pending: Any) -> int:
        """The same, where it has said already what is pending there."""
        count = 0
        for each in _hashes_in(pending):
            if self._is_unknown(each):
                count += self._fetch_one(web3, each)
        return count + self.retry()

    def retry(self) -> int:
        """Try again what is held, as long as something new has come; returns how many were admitted."""
        count = 0
        while self._take_news():
            with self._lock:
                held = list(self._held.items())
            for transaction_hash, each in held:
                count += self._admit(transaction_hash, each)
        return count

    def _take_news(self) -> bool:
        with self._lock:
            is_news, self._is_news = self._is_news, False
            return is_news and bool(self._held)

    def _is_unknown(self, transaction_hash: bytes) -> bool:
        place = (self._node.head.hash, self._node.attempt)
        with self._lock:
            if place != self._place:  # another round or attempt: what did not fit may fit now
                self._place = place
                self._known.clear()
                self._held.clear()
            is_seen = transaction_hash in self._known or transaction_hash in self._held
        return not is_seen and self._node.find_pending(transaction_hash) is None

    def _fetch_one(self, web3: Web3, transaction_hash: bytes) -> int:
        found = _pending_post(web3, transaction_hash)
        return 0 if found is None else self._admit(transaction_hash, found)

    def _admit(self, transaction_hash: bytes, post: _Held) -> int:
        """Whether the node takes it; if not, it is held where that may change."""
        try:
            self._node.submit(post.raw, post.sidecars)
        except KnownTransactionError:
            is_taken = False  # it came another way meanwhile
        except _MAY_PASS as error:
            _log.debug("post 0x%s is refused for now: %s", transaction_hash.hex(), error)
            with self._lock:
                self._hold(transaction_hash, post)
            return 0
        except TransactionRefusedError as error:
            _log.debug("post 0x%s of a peer is refused: %s", transaction_hash.hex(), error)
            is_taken = False
        else:
            is_taken = True
        with self._lock:
            self._held.pop(transaction_hash, None)
            self._note(transaction_hash)
            self._is_news |= is_taken
        return int(is_taken)

    def _hold(self, transaction_hash: bytes, post: _Held) -> None:
        if transaction_hash not in self._held:
            self._held[transaction_hash] = post
        else:
            post.tries += 1
            if post.tries >= MOST_TRIES:
                del self._held[transaction_hash]
                self._note(transaction_hash)
        while len(self._held) > MOST_HELD or sum(each.size for each in self._held.values()) > MOST_HELD_BYTES:
            self._held.popitem(last=False)

    def _note(self, transaction_hash: bytes) -> None:
        self._known[transaction_hash] = None
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)


def _hashes_in(found: Any) -> list[bytes]:
    if not isinstance(found, list):
        raise NodeUnreachableError(f"found {found!r:.80} where the peer should answer with hashes")
    return [read_bytes(each) for each in found[:MOST_PENDING]]


def _pending_post(web3: Web3, transaction_hash: bytes) -> _Held | None:
    """A post that a peer has pending, with the payloads beside it that are small; None where it is sealed by now."""
    found = request(web3, "bfl_getPending", Web3.to_hex(transaction_hash))
    if found is None:
        return None
    try:
        raw, beside = read_bytes(found["raw"]), [Sidecar(read_bytes(each)) for each in found["sidecars"]]
    except (KeyError, TypeError) as error:
        raise NodeUnreachableError(f"found {found!r:.80} where the peer should answer with a post") from error
    if keccak(raw) != transaction_hash:
        _log.warning("a peer sends another post than 0x%s", transaction_hash.hex())
        return None
    return _Held(raw, beside)


def is_gap(error: ChainError) -> bool:
    """Whether a post or a block is refused because something else may be missing here."""
    is_missing = isinstance(error, (*_MAY_PASS, UnknownParentError, WaitingBlockError))
    return is_missing and not isinstance(error, KnownTransactionError)
