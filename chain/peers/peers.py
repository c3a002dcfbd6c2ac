"""Nodes that know each other: what one accepts it passes on, and what it missed it fetches, payloads in ranges. Over
JSON-RPC.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import requests
from web3 import Web3

from chain.client.asking import changes_at, ranges_of, read_bytes, request, request_all, web3_over_http
from chain.client.payloads import fetch_payload
from chain.client.tls import TlsClient
from chain.errors import (
    ChainError,
    EndorsementError,
    PassError,
    SidecarError,
    UnwantedSidecarError,
    WaitingBlockError,
)
from chain.node.node import Node
from chain.peers.branches import Refusals, missing_headers
from chain.peers.claims import Claims
from chain.peers.outbox import Outbox
from chain.peers.pool_sync import PoolSync
from chain.protocol.endorsements import Domain
from chain.protocol.passes import Pass, decode_signed
from chain.protocol.posts import Commitment
from chain.wire.headers import Header
from chain.wire.sidecar import Sidecar

_log = logging.getLogger(__name__)
_PULL_S = 2.0
_TIMEOUT_S = 10.0
_HURRY_S = 0.25
"""Between two polls, whatever happens"""
_MOST_VOTES = 4096


class Peers:
    """Keeps a node in step with others: one thread passes on, one asks. A slow or dead peer holds nobody up."""

    def __init__(
        self,
        node: Node,
        urls: Sequence[str],
        tokens: Mapping[str, str] | None = None,
        pull_s: float = _PULL_S,
        tls: TlsClient | None = None,
    ) -> None:
        """`tokens`: of each peer its own; one that is not here is sent none (Q6). `tls`: who asks, and whom it
        expects.
        """
        self._node, self._pull_s = node, pull_s
        self._peers = [(url, web3_over_http(url, (tokens or {}).get(url, ""), _TIMEOUT_S, tls)) for url in urls]
        self._refusals: WeakKeyDictionary[Web3, Refusals] = WeakKeyDictionary()
        self._outboxes = {url: Outbox() for url in urls}
        self._begun: dict[bytes, bytes] = {}
        self._claims = Claims()
        self._pools = PoolSync(node)
        self._hurries = {url: threading.Event() for url in urls}
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=target, args=(url, web3), name=f"peer {url}", daemon=True)
            for url, web3 in self._peers
            for target in (self._push, self._pull)
        ]

    def __enter__(self) -> "Peers":
        self._node.listeners.append(self._hear)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self.hurry()
        self._node.listeners.remove(self._hear)
        for thread in self._threads:
            thread.join(_TIMEOUT_S)

    def hurry(self) -> None:
        """Ask the peers now: something came that does not fit what is here. At most a few times per second."""
        for event in self._hurries.values():
            event.set()

    def _hear(self, kind: str, raw: bytes, sidecars: Sequence[Sidecar]) -> None:
        if self._pools.hear(kind, raw) or self._node.wanted():
            self.hurry()
        for url, outbox in self._outboxes.items():
            if not outbox.put(kind, raw, sidecars):
                _log.warning("peer %s is slow: a %s is not passed on; it will fetch the block", url, kind)

    def _push(self, url: str, web3: Web3) -> None:
        while not self._stop.is_set():
            calls = self._outboxes[url].next_calls()
            try:
                answers = request_all(web3, calls) if calls else []
            except ChainError as error:  # it is away
                answers = [error]
            for refusal in answers:
                if isinstance(refusal, ChainError):  # it knows it already, or misses the parent, and pulls it
                    _log.debug("peer %s: %s", url, refusal)

    def _pull(self, url: str, web3: Web3) -> None:
        trouble: type[Exception] | None = None
        seen: dict[str, str] = {}
        while not self._stop.is_set():
            try:
                own = self._node.changes.now()
                marks = {**changes_at(web3, {}, 0.0), "own votes": own["votes"], "own blocks": own["blocks"]}
                self._pools.retry()
                if marks != seen or self._hurries[url].is_set():
                    self._hurries[url].clear()
                    self._fetch_all(web3)
                seen = marks
            except ChainError as error:
                if not self._stop.is_set():
                    trouble = _tell_trouble(url, error, trouble)
                seen = {}
            else:
                if trouble is not None:
                    _log.info("peer %s answers again", url)
                trouble = None
            self._stop.wait(min(_HURRY_S, self._pull_s))
            self._hurries[url].wait(max(0.0, self._pull_s - _HURRY_S))

    def _fetch_all(self, web3: Web3) -> None:
        """Everything that a peer has and this node has not."""
        round_ = self._node.final.block_number
        asked = [("bfl_getRawHeader", "latest"), ("bfl_votes", round_), ("bfl_pendingTransactions",)]
        head, votes, pending = request_all(web3, asked)
        self._take_blocks(web3, Header.from_bytes(_bytes_in(head)))
        if self._node.final.block_number == round_:
            self._take_votes(web3, round_, votes)
        else:
            self.fetch_votes(web3)  # those were of a round that is over
        self._pools.take(web3, _content(pending))
        self.fetch_payloads(web3)

    def fetch_from(self, web3: Web3) -> int:
        """Take blocks of a peer that this node does not have, from a common ancestor on; returns how many."""
        return self._take_blocks(web3, Header.from_bytes(read_bytes(request(web3, "bfl_getRawHeader", "latest"))))

    def _take_blocks(self, web3: Web3, head: Header) -> int:
        count = 0
        for header in missing_headers(self._node, web3, head):
            if self._stop.is_set():
                break
            self._take_block(web3, header.hash)
            count += 1
        return count

    def _take_block(self, web3: Web3, block_hash: bytes) -> None:
        refusals = self._refusals.setdefault(web3, Refusals())
        refusals.check(block_hash)
        raw = read_bytes(request(web3, "bfl_getRawBlock", "0x" + block_hash.hex()))
        try:
            self._node.import_block(raw)
        except WaitingBlockError:
            self.fetch_payloads(web3)
            if self._node.header(block_hash) is None:
                raise
        except ChainError as error:
            refusals.note(block_hash, error)
            raise

    def fetch_votes(self, web3: Web3) -> int:
        """Ask a peer what servers signed in the round that is not final here (Q1, D3.2); returns how many are new."""
        round_ = self._node.final.block_number
        return self._take_votes(web3, round_, request(web3, "bfl_votes", round_) if round_ else [])

    def _take_votes(self, web3: Web3, round_: int, found: Any) -> int:
        count = 0
        for each in found[-_MOST_VOTES:] if isinstance(found, list) else ():
            signed = decode_signed(read_bytes(each), Domain.of(self._node.genesis))
            with suppress(EndorsementError, PassError):  # of a server that is none here, or before its time
                if isinstance(signed, Pass):
                    count += self._node.take_pass(signed)
                else:
                    count += self._node.take_endorsement(signed)
        self._fetch_endorsed(web3, round_)
        return count

    def _fetch_endorsed(self, web3: Web3, round_: int) -> None:
        """Blocks that servers signed and that are not here: whoever leads the next attempt may have to adopt one."""
        endorsements, _ = self._node.votes(round_)
        for block_hash in {each.block_hash for each in endorsements}:
            if self._node.header(block_hash) is None:
                with suppress(ChainError):  # this peer has it not, or it is none
                    self._take_block(web3, block_hash)

    def fetch_payloads(self, web3: Web3) -> int:
        """Ask a peer for the payloads that are missing here (B4); returns how many it had.

        One peer at a time is asked for each, as long as it answers: whoever drips holds nobody up.
        """
        count = 0
        for wanted in self._node.wanted():
            if not self._stop.is_set() and self._claims.take(wanted.digest):
                try:
                    count += self._fetch_payload(web3, wanted)
                finally:
                    self._claims.give_back(wanted.digest)
        return count

    def _fetch_payload(self, web3: Web3, wanted: Commitment) -> bool:
        """What one peer begins another goes on with; where that comes to nothing, it begins anew itself."""
        begun = bytearray(self._begun.pop(wanted.digest, b""))
        for start in (begun, bytearray()) if begun else (begun,):
            try:
                payload = self._fetch(web3, wanted, start)
                if payload is None:
                    return False
                self._node.deliver(wanted.digest, payload)
                return True
            except UnwantedSidecarError:
                return False  # another peer was quicker
            except SidecarError as error:
                _log.warning("a peer sends another payload than 0x%s: %s", wanted.digest.hex(), error)
        return False

    def _fetch(self, web3: Web3, wanted: Commitment, begun: bytearray) -> bytes | None:
        ranges = ranges_of(web3)

        def fetch(digest: bytes, start: int, length: int) -> tuple[int, bytes] | None:
            self._claims.renew(digest)
            return ranges(digest, start, length)

        payload = None
        try:
            payload = fetch_payload(wanted.digest, fetch, wanted.size, begun)
        except SidecarError:
            begun.clear()
            raise
        finally:
            if payload is None and begun:
                self._begun = {wanted.digest: bytes(begun)}  # of the last one that broke off
        return payload


def _content(found: Any) -> Any:
    """One answer of several; a refusal is raised."""
    if isinstance(found, ChainError):
        raise found
    return found


def _bytes_in(found: Any) -> bytes:
    return read_bytes(_content(found))


def _tell_trouble(url: str, error: ChainError, before: type[Exception] | None) -> type[Exception]:
    """Warn of a peer's trouble when it begins, not at every poll; returns its kind. A refusal is not an absence."""
    kind = requests.HTTPError if isinstance(error.__cause__, requests.HTTPError) else type(error)
    _log.log(logging.DEBUG if kind is before else logging.WARNING, "peer %s: %s", url, error)
    return kind
