"""Offloaded data on its way: a device hands it to its home server, which passes it to the server the plan names."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch

from clients.data import Samples
from clients.orders import DataReply
from edge_servers.learning.gradients import Refusal
from edge_servers.ledger.running_round import RunningRound


def pass_on(rounds: Mapping[int, RunningRound]) -> None:
    """Give every collected data set to its target among the servers hosted here, by number (a SuperNode has one
    SuperLink).
    """
    for work in rounds.values():
        for device, data in work.outgoing.items():
            target = work.plan.assignment[device]
            if target in rounds:
                rounds[target].data[device] = data
            else:
                detail = f"server {target} is not hosted by this process and cannot be reached from here"
                work.refusals.append(Refusal(f"device {device}", "unreachable", detail))
        work.outgoing.clear()


def union_of(handed_over: Mapping[int, DataReply], like: Samples) -> Samples:
    """D_m: all data that was offloaded to one server, by ascending device, scaled like the task's samples (L3)."""
    parts = [handed_over[device] for device in sorted(handed_over)]
    return replace(
        like,
        images=torch.from_numpy(np.concatenate([part.images for part in parts])),
        labels=torch.from_numpy(np.concatenate([part.labels for part in parts])),
    )
