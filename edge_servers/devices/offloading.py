"""Offloaded data on their way: a device hands them to its home server, which passes them to the one the plan names."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import torch

from chain.wire.plan import Plan
from clients.data import Samples
from clients.replies import DataReply, SealedReply
from edge_servers.ledger.running_round import RunningRound

Hosted = Mapping[int, RunningRound]
"""What the servers of this process hold of the round, by number"""


class DataPaths(Protocol):
    """How a server's offloaded data get where the plan wants them, and how it gets those of others."""

    asks_again: bool
    """Whether a device whose data did not arrive can still be asked to train."""

    def open(self, plan: Plan, attempt: int, within_s: float, serving: Sequence[int]) -> None:
        """A plan was read: from now on its data may come, for so long, of each device from the server that orders it.
        Those of before are gone.
        """

    def hand_over(self, device: int, target: int, data: DataReply | SealedReply, hosted: Hosted) -> str:
        """Bring a device's data to their target; nothing where they are there, else why not."""

    def decline(self, device: int, target: int) -> None:
        """Tell the target that this device's data will not come."""

    def fetch(self, devices: Collection[int]) -> dict[int, DataReply]:
        """What came from other homes of these devices' data, once all are there or time is over."""


class InThisProcess:
    """All servers are of one process: data change hands, and nobody else carries them."""

    asks_again = False

    def open(self, plan: Plan, attempt: int, within_s: float, serving: Sequence[int]) -> None:
        """Nobody else sends anything."""

    def hand_over(self, device: int, target: int, data: DataReply | SealedReply, hosted: Hosted) -> str:
        """To a server of this process."""
        if target not in hosted or isinstance(data, SealedReply):
            return f"server {target} is not hosted by this process and cannot be reached from here"
        hosted[target].data[device] = data
        return ""

    def decline(self, device: int, target: int) -> None:
        """It waits for nothing."""

    def fetch(self, devices: Collection[int]) -> dict[int, DataReply]:
        """There are no others."""
        return {}


def union_of(handed_over: Mapping[int, DataReply], like: Samples) -> Samples:
    """D_m: all data that was offloaded to one server, by ascending device, scaled like the task's samples (L3)."""
    parts = [handed_over[device] for device in sorted(handed_over)]
    return replace(
        like,
        inputs=torch.from_numpy(np.concatenate([part.inputs for part in parts])),
        labels=torch.from_numpy(np.concatenate([part.labels for part in parts])),
    )
