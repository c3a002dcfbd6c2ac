"""A miner's limit: its owner's, of which the plan of a round may give a share (D8). No plan raises it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bfl.errors import BflError
from bfl.network.devices.hash_share import HashShare, read_share
from chain.mining.miner import Miner
from chain.wire.seal import HASH_BYTES, find_nonce
from policy.clock import epoch_s

_LOOK_S = 1.0
_MEASURED_S = 0.2
_BATCH, _ENDLESS = 2000, 2**200


@dataclass(frozen=True)
class Limit:
    """What is in force, and why."""

    hashes_per_s: float | None
    """None: as much as it can get."""
    told: str


def limit_of(share: HashShare | None, owner: float | None, full: float | None) -> Limit:
    """The limit, where a plan gives `share` to a device whose owner allows `owner`; without one it can do `full`."""
    allowed = "as much as it can get" if owner is None else f"its owner's {owner:g} hashes/s"
    most = full if owner is None else owner
    if share is None:
        return Limit(owner, f"{allowed}; no plan in force")
    told = f"{share.share:.2f} of {allowed}, by the plan of round {share.round}"
    return Limit(owner if most is None or share.share >= 1 else share.share * most, told)


def full_rate(clock: Callable[[], float] = time.thread_time) -> float:
    """Hashes per second of a core, measured now by this thread's own time: whatever else runs does not count."""
    began_s, hashes = clock(), 0
    while (took_s := clock() - began_s) < _MEASURED_S:
        find_nonce(bytes(HASH_BYTES), _ENDLESS, hashes, _BATCH)
        hashes += _BATCH
    return hashes / took_s


class PlannedLimit:
    """Keeps a miner at what the plan in force gives it. For the thread that has the miner."""

    def __init__(
        self,
        miner: Miner,
        path: Path,
        owner: float | None,
        tell: Callable[[str], None],
        now: Callable[[], float] = epoch_s,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        """`path`: where the device notes its share. `owner`: the most that it may ever be; None: no limit."""
        self._miner, self._path, self._owner, self._tell = miner, path, owner, tell
        self._now, self._seconds = now, seconds
        self._full = full_rate() if owner is None else owner
        self._limit, self._trouble, self._next_s = owner, "", 0.0

    def look(self) -> None:
        """Once a second: what is in force now."""
        if self._seconds() < self._next_s:
            return
        self._next_s = self._seconds() + _LOOK_S
        limit = limit_of(self._share(), self._owner, self._full)
        if limit.hashes_per_s != self._limit:
            self._limit = limit.hashes_per_s
            self._miner.set_limit(self._limit)
            rate = "none" if self._limit is None else f"{self._limit:.0f} hashes per second"
            self._tell(f"limit: {rate} ({limit.told})")

    def _share(self) -> HashShare | None:
        try:
            found, trouble = read_share(self._path, self._now), ""
        except BflError as error:
            found, trouble = None, str(error)
        if trouble and trouble != self._trouble:
            self._tell(trouble)
        self._trouble = trouble
        return found
