"""Mining for a network of nodes: every node is asked for work, because a candidate is on the leader's node only.

Nodes are asked in parallel, each on a thread of its own and at its own pace: one that is dead or slow costs the others
nothing. Of what they offer, what fits the head that most of them have counts, and of that the newest. A seal goes to
the node that its work came from, then to the others.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from web3 import Web3

from chain.client.asking import changes_at, read_bytes, request
from chain.errors import ChainError, NodeAwayError, WorkError
from chain.mining.miner import Found, Miner
from chain.protocol.consensus import next_difficulty
from chain.protocol.genesis import Genesis, read_genesis
from chain.wire.address import Address
from chain.wire.headers import Header

ASK_S = 0.5
"""Between two questions to a node that does not answer, and two looks at what is being mined"""
TIMEOUT_S = 5.0
"""Of one question; a node that takes longer is asked again"""
_HOLD_S = 2.0
"""As long as nothing changes at a node, it says so that often"""
_LEAST_S = 0.1
"""Between two questions, whatever a node says of changes"""
_RENEW_S = 8.0
"""After which a node is asked for the same work again: its time would get too old"""
_STALE_S = 6.0
"""After which what a node said last counts no more"""
_MINED = ("work", "blocks")
"""Changes that a miner waits for"""
_SUBMIT_TRIES = 5
_LATE_S = 1 << 40
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Offer:
    """What a node said when it was asked: its head, and a header to mine on it if it has a candidate."""

    url: str
    head: Header
    work: Header | None
    heard_s: float


def check_work_of(work: Header, head: Header, genesis: Genesis, device: bytes) -> None:
    """Raise `WorkError` unless this header is the device's own, follows the head and is as difficult as the rule may
    make it: nobody is kept busy with a puzzle that has no end.
    """
    if work.winner != device:
        raise WorkError(f"the work is of {work.winner}, expected this device's own, {Address(device)}")
    if work.parent_hash != head.hash or work.block_number != head.block_number + 1:
        raise WorkError(f"the work is block {work.block_number}, which does not follow block {head.block_number}")
    most, least = (next_difficulty(genesis, head, head.timestamp + later_s) for later_s in (0, _LATE_S))
    if not least <= work.difficulty <= most:
        raise WorkError(f"the work has difficulty {work.difficulty}, expected {least} to {most}")


def best_of(offers: Sequence[Offer]) -> Offer | None:
    """What to mine: on the head that most nodes have (then the later one), the newest candidate."""
    votes = Counter(each.head.hash for each in offers)
    with_work = [each for each in offers if each.work is not None]
    if not with_work:
        return None

    def rank(offer: Offer) -> tuple[int, int, int, bytes]:
        work = offer.work or offer.head
        return votes[offer.head.hash], offer.head.block_number, work.timestamp, work.mining_hash

    return max(with_work, key=rank)


class NodesMiner:
    """A device that mines for whoever leads, until it is told to stop."""

    def __init__(
        self,
        nodes: Sequence[tuple[str, Web3]],
        device: Address,
        miner: Miner,
        stop: threading.Event,
        tell: Callable[[str], None] = _log.info,
        ask_s: float = ASK_S,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        """`nodes`: (address, web3 with a short timeout) of each; `tell` hears what happens, a line each; `stop` ends
        it; `look` is called every `ask_s` or sooner, on the thread that has the miner.
        """
        self._nodes, self._device, self._miner, self._ask_s = list(nodes), device, miner, ask_s
        self._stop, self._tell, self._look = stop, tell, look
        self._offers: dict[str, Offer] = {}
        self._troubles: dict[str, str] = {}
        self._genesis: Genesis | None = None
        self._lock, self._news = threading.Lock(), threading.Event()
        self._threads = [
            threading.Thread(target=self._watch, args=node, name=f"work of {node[0]}", daemon=True) for node in nodes
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()  # the threads end by themselves; one that waits for a dead node holds nobody up
        self._miner.cancel()

    def run(self, blocks: int | None = None) -> int:
        """Mine until told to stop, or until so many blocks are sealed; returns how many were."""
        sealed, mined = 0, None
        while not self._stop.is_set() and sealed != blocks:
            self._look()
            best = best_of(self._fresh())
            if best is None or best.work is None:
                self._rest(mined)
                mined = None
            elif mined is None or mined.work != best.work:
                mined = best
                self._begin(best.url, best.work)
            if mined is None:
                self._wait()
            elif (found := self._miner.poll(self._ask_s)) is not None:
                sealed += self._submit(mined, found)
                mined = None
        return sealed

    def _rest(self, mined: Offer | None) -> None:
        if mined is not None:
            self._miner.cancel()
            self._tell("no node has work; waiting")

    def _begin(self, url: str, work: Header) -> None:
        self._tell(f"mining block {work.block_number} of 0x{work.coinbase.hex()}, difficulty {work.difficulty}: {url}")
        self._miner.start(work.mining_hash, work.difficulty)

    def _wait(self) -> None:
        self._news.wait(self._ask_s)
        self._news.clear()

    # --- asking

    def _watch(self, url: str, web3: Web3) -> None:
        """Ask a node whenever its head or its candidate has changed; as long as nothing has, what it said holds."""
        seen: dict[str, str] = {}
        asked_s = 0.0
        while not self._stop.is_set():
            try:
                marks = {kind: mark for kind, mark in changes_at(web3, seen, _HOLD_S).items() if kind in _MINED}
                offer = self._offers.get(url)
                now = time.monotonic()
                if marks != seen or offer is None or now > asked_s + _RENEW_S:
                    offer, asked_s = self._ask(url, web3), now
                self._note_offer(replace(offer, heard_s=time.monotonic()))
                seen = marks
            except ChainError as error:
                seen = {}
                self._note_trouble(url, str(error))
                self._stop.wait(self._ask_s)
            else:
                self._note_trouble(url, "")
                self._stop.wait(_LEAST_S)

    def _note_offer(self, offer: Offer) -> None:
        with self._lock:
            self._offers[offer.url] = offer
        self._news.set()

    def _ask(self, url: str, web3: Web3) -> Offer:
        if self._genesis is None:
            self._genesis = read_genesis(str(request(web3, "bfl_genesis")))
        try:
            found = read_bytes(request(web3, "bfl_getWork", Web3.to_hex(self._device)))
        except WorkError:
            found = b""
        head = Header.from_bytes(read_bytes(request(web3, "bfl_getRawHeader", "latest")))
        work = Header.from_bytes(found) if found else None
        if work is not None and work.parent_hash != head.hash:
            work = None  # a block was sealed in between
        if work is not None:
            check_work_of(work, head, self._genesis, self._device)
        return Offer(url, head, work, time.monotonic())

    def _fresh(self) -> list[Offer]:
        with self._lock:
            oldest_s = time.monotonic() - max(_STALE_S, 3 * self._ask_s)
            self._offers = {url: each for url, each in self._offers.items() if each.heard_s >= oldest_s}
            return list(self._offers.values())

    def _note_trouble(self, url: str, trouble: str) -> None:
        """Tell when it begins and when it is over, not at every question."""
        before = self._troubles.get(url, "")
        self._troubles[url] = trouble
        if trouble and not before:
            self._tell(f"node {url}: {trouble}")
        elif before and not trouble:
            self._tell(f"node {url} answers again")

    # --- sealing

    def _submit(self, mined: Offer, found: Found) -> bool:
        """Hand in a seal: where the work came from, as long as nobody answers there, and then at the others."""
        others = [node for node in self._nodes if node[0] != mined.url]
        for attempt in range(_SUBMIT_TRIES):
            for url, web3 in [node for node in self._nodes if node[0] == mined.url] + (others if attempt else []):
                try:
                    return self._submitted_to(url, web3, found)
                except NodeAwayError as error:
                    _log.debug("node %s: %s", url, error)
                except ChainError as error:
                    if url == mined.url:
                        self._tell(f"the seal is refused by {url}: {error}")
                        self._forget(url)
                        return False
                    _log.debug("node %s: %s", url, error)  # it does not know the candidate
            if self._stop.wait(self._ask_s):
                break
        self._tell(f"the seal is lost: {mined.url} does not answer, and no other node knows the candidate")
        self._forget(mined.url)
        return False

    def _submitted_to(self, url: str, web3: Web3, found: Found) -> bool:
        words = map(Web3.to_hex, (found.mining_hash, found.nonce, self._device))
        block_hash = read_bytes(request(web3, "bfl_submitWork", *words))
        self._tell(f"sealed block 0x{block_hash.hex()} after {found.hashes} hashes: {url}")
        self._forget(url)
        return True

    def _forget(self, url: str) -> None:
        """What this node offered is mined; it is asked anew before anything else is."""
        with self._lock:
            self._offers.pop(url, None)
