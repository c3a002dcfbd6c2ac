"""What a run on the chain will cost: disk and memory, told before round 1; a disk that is too small is refused."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from bfl.config import RunSettings
from bfl.errors import BflError
from bfl.show.text import size_text
from chain.wire.codec import encoded_size

_CHAIN_BYTES_PER_POST = 1200
"""Header, transaction, receipt and state, on average (benchmarks/long_run.py)"""
_DOCUMENT_BYTES_PER_DEVICE = 250
"""Of plan and closed list"""
_PROCESS_BYTES = 450 << 20
"""torch, py-evm, numpy and a small dataset"""
_LARGE_BYTES = 1 << 30
"""Of disk or memory, where it is worth a word how to need less"""
_PRUNED_EVERY = 10
"""Blocks; what a flag may still be about is not pruned either"""


@dataclass(frozen=True)
class RunCost:
    """Upper bounds, in bytes."""

    per_round: int
    total: int
    memory: int

    def __str__(self) -> str:
        return (
            f"about {size_text(self.per_round)} per round, {size_text(self.total)} in all; "
            f"memory about {size_text(self.memory)}"
        )

    @property
    def advice(self) -> str:
        """How to need less, where it is much."""
        said = []
        if self.total > _LARGE_BYTES:
            said.append("a smaller chain: keep-payloads 10 (but then only those rounds can be derived again)")
        if self.memory > 2 * _LARGE_BYTES:
            said.append("less memory: fewer devices or a smaller model")
        return "; ".join([*said, "smaller posts: codec int8"] if said else [])


def run_cost(settings: RunSettings, architecture: nn.Module, rounds: int) -> RunCost:
    """What `rounds` rounds take: a node keeps every gradient, and the model; iterates are not stored (B3)."""
    sizes = [parameter.numel() for parameter in architecture.parameters()]
    devices, servers = settings.data.devices, settings.rounds.edges
    gradient, model = encoded_size(sizes, settings.rounds.codec), encoded_size(sizes, "fp32")
    steps = 1 + (settings.rounds.max_phi if settings.rounds.is_auto_phi else settings.rounds.first_phi)
    posts = devices + servers * (steps + 1) + 3
    small = posts * _CHAIN_BYTES_PER_POST + devices * _DOCUMENT_BYTES_PER_DEVICE
    nodes, whole = settings.rounds.nodes, devices * gradient + model
    kept = settings.rounds.kept_rounds
    late = settings.rounds.flag_window + _PRUNED_EVERY + 1
    full = rounds if kept is None else min(rounds, max(kept, settings.rounds.flag_window) + late)
    total = nodes * (rounds * small + full * whole + (rounds - full) * model // 10)
    return RunCost(nodes * (small + whole), total, memory_bytes(settings, architecture))


def memory_bytes(settings: RunSettings, architecture: nn.Module) -> int:
    """What a process needs. Beside the payloads of a round: its iterates (two steps of each server, and the last ones
    posted), what sums them up in float64, models before and after, and what the trainer holds for each device.
    """
    sizes = [parameter.numel() for parameter in architecture.parameters()]
    gradient, model = encoded_size(sizes, settings.rounds.codec), encoded_size(sizes, "fp32")
    devices, servers = settings.data.devices, settings.rounds.edges
    return _PROCESS_BYTES + devices * (gradient + 4 * model) + servers * 8 * model + 8 * model


def memory_told(settings: RunSettings, architecture: nn.Module) -> str:
    """What a run without a chain needs, where that is much; and where this machine does not have it."""
    needed, here = memory_bytes(settings, architecture), os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed <= 2 * _LARGE_BYTES:
        return ""
    return f"about {size_text(needed)}" + f"; this machine has {size_text(here)}" * (needed > here)


def check_disk(cost: RunCost, folder: Path) -> None:
    """Refuse a run that does not fit on the disk of its folder."""
    where = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    free = shutil.disk_usage(where).free
    if cost.total > free:
        raise BflError(
            f"this run writes {size_text(cost.total)}, and the disk of {where} has {size_text(free)} free; choose "
            "fewer --rounds, --codec int8, --keep-payloads 10, or an --out on another disk"
        )
