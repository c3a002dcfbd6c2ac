"""A connection to a node of ours that asks again only when something has changed there: it waits at GET /changes."""

import time
from collections.abc import Mapping
from typing import Any

from web3 import Web3

from chain.client.asking import changes_at
from chain.client.connection import RETRY_S, Connection
from chain.errors import ChainError

_SIGNED = ("votes", "blocks")
_ALL = ("posts", *_SIGNED)
_CHANGED_BY: Mapping[str, tuple[str, ...]] = {
    "bfl_pendingTransactions": _ALL,
    "bfl_votes": _SIGNED,
    "bfl_endorsements": _SIGNED,
    "bfl_getRawHeader": _SIGNED,
    "bfl_attemptOf": _SIGNED,
    "bfl_status": _SIGNED,
}
"""Which changes make an answer another one: signatures may undo blocks and posts"""
_CHANGES = {
    **dict.fromkeys(("bfl_sendPost", "bfl_sendSidecar", "eth_sendRawTransaction", "bfl_holdEvidence"), ("posts",)),
    **dict.fromkeys(("bfl_sendEndorsement", "bfl_sendPass", "bfl_propose", "bfl_submitWork", "bfl_importBlock"), _ALL),
}
"""What a request may change by itself"""
_KEPT_S = 1.0
"""An answer is asked for again after so long in any case"""
_GATHER_S = 0.02
"""Changes come in swarms: what follows the first one is waited for"""
_AWAY_S = 0.2


class WatchedConnection(Connection):
    """A `Connection` that keeps answers until they may have changed. What it posts it sees at once."""

    def __init__(self, web3: Web3, registry: bytes, retry_s: float = RETRY_S) -> None:
        self._marks: dict[str, str] = {}
        self._kept: dict[tuple[Any, ...], tuple[float, tuple[str, ...], Any]] = {}
        super().__init__(web3, registry, retry_s=retry_s)

    def rest(self, seconds: float) -> None:
        """Until something has changed at the node, but no longer than this."""
        began = time.monotonic()
        try:
            self._marks = changes_at(self.web3, self._marks, seconds)
            self._kept = {key: kept for key, kept in self._kept.items() if began < kept[0] + _KEPT_S}
        except ChainError:  # whoever asks next is told why
            self._marks = {}
            time.sleep(min(seconds, _AWAY_S))
        time.sleep(max(0.0, min(_GATHER_S, began + seconds - time.monotonic())))

    def request(self, method: str, *params: Any) -> Any:
        """As ever, but an answer that cannot have changed is not asked for."""
        if changed := set(_CHANGES.get(method, ())):
            self._kept = {key: kept for key, kept in self._kept.items() if not changed & {*_CHANGED_BY[key[0]]}}
        kinds = _CHANGED_BY.get(method)
        if kinds is None:
            return super().request(method, *params)
        marks = tuple(self._marks.get(kind, "") for kind in kinds)
        key, now = (method, *params), time.monotonic()
        kept = self._kept.get(key)
        if kept is not None and kept[1] == marks and all(marks) and now < kept[0] + _KEPT_S:
            return kept[2]
        found = super().request(method, *params)
        self._kept[key] = (now, marks, found)
        return found

    def head(self) -> int:
        """Number of the last sealed block."""
        return self._header_at("latest").block_number

    def block_hash(self, number: int) -> bytes:
        """Hash of a sealed block."""
        return self.header(number).hash
