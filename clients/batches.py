"""Which samples a node uses in a round: its subset (P22) and its mini-batches (L4)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policy.streams import Purpose, stream

_SERVERS_FROM = 2**32


@dataclass(frozen=True)
class NodeKey:
    """A training node: ("device", n) or ("server", m)."""

    role: str
    index: int

    @property
    def counter(self) -> int:
        """Its place in the random streams; devices and servers never share one."""
        return self.index if self.role == "device" else _SERVERS_FROM + self.index

    def __str__(self) -> str:
        return f"{self.role} {self.index}"


def round_subset(seed: int, round_: int, device: int, share: int, wanted: int) -> NDArray[np.int64]:
    """Positions of a round's fresh subset in a device's share (P22), ascending; all of it where `wanted` covers it."""
    if wanted >= share:
        return np.arange(share)
    chosen = stream(seed, Purpose.SUBSET, round_, device).choice(share, wanted, replace=False, shuffle=False)
    return np.sort(chosen)


def mini_batches(seed: int, round_: int, node: NodeKey, samples: int, iterations: int, batch: int) -> NDArray[np.int64]:
    """Positions of every mini-batch of a node, (iterations, B), B = min(batch, samples), none twice in a batch (L4)."""
    rng = stream(seed, Purpose.BATCHES, round_, node.counter)
    size = min(batch, samples)
    return np.stack([rng.choice(samples, size, replace=False, shuffle=False) for _ in range(iterations)])
