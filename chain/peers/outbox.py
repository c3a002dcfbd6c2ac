"""What is to be passed on to one peer: news that come together go together, in one request."""

import queue
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from chain.wire.sidecar import Sidecar

_MOST = 1024
_PUSHED_BYTES = 1 << 20
_WAIT_S = 0.2
_GATHER_S = 0.02
"""News come in swarms: what follows the first goes along with it"""
_TOGETHER, _TOGETHER_BYTES = 32, 64 << 10
"""News in one request; one that is larger goes alone"""
_METHODS = {
    "transaction": "bfl_sendPost",
    "block": "bfl_importBlock",
    "endorsement": "bfl_sendEndorsement",
    "pass": "bfl_sendPass",
}
_News = tuple[str, bytes, Sequence[Sidecar]]


class Outbox:
    """Filled by whoever has accepted something, emptied by the thread that talks to the peer."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[_News] = queue.Queue(_MOST)
        self._held: list[_News] = []
        """Taken out, and left for the next request."""

    def put(self, kind: str, raw: bytes, sidecars: Sequence[Sidecar]) -> bool:
        """Whether there was room for it."""
        try:
            self._waiting.put_nowait((kind, raw, _small(sidecars)))
        except queue.Full:
            return False
        return True

    def next_calls(self) -> list[tuple[Any, ...]]:
        """What to send now, waited for a moment: a block alone and at once, whatever else together."""
        found, self._held = self._held, []
        with suppress(queue.Empty):
            found = found or [self._waiting.get(timeout=_WAIT_S)]
            if found[0][0] != "block":
                time.sleep(_GATHER_S)
                while not self._held:
                    each = self._waiting.get_nowait()
                    (found if _fits(each, found) else self._held).append(each)
        return [_call_for(each) for each in found]


def _fits(news: _News, found: list[_News]) -> bool:
    """Whether it may go along with what there is."""
    is_block = news[0] == "block"
    return not is_block and len(found) < _TOGETHER and sum(map(_size, [*found, news])) <= _TOGETHER_BYTES


def _size(news: _News) -> int:
    return len(news[1]) + sum(len(sidecar.payload) for sidecar in news[2])


def _call_for(news: _News) -> tuple[Any, ...]:
    kind, raw, sidecars = news
    beside = [["0x" + sidecar.payload.hex() for sidecar in sidecars]] if sidecars else []
    return (_METHODS[kind], "0x" + raw.hex(), *beside)


def _small(sidecars: Sequence[Sidecar]) -> Sequence[Sidecar]:
    """Payloads that travel with their post; larger ones are fetched in ranges by whoever misses them."""
    return sidecars if sum(len(each.payload) for each in sidecars) <= _PUSHED_BYTES else ()
