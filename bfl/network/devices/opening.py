"""A device of a kit as the one process that has its key: what a resident one opens once, a stock one for each order."""

import contextlib
import logging
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from eth_account.signers.local import LocalAccount
from filelock import FileLock, Timeout

from bfl.errors import BflError
from bfl.network.devices.hash_share import note_share
from bfl.network.kits import FOUNDING, UNUSED, DeviceKit
from chain.signer.disk import settle_folder
from clients.consent import Consent
from clients.device import Device
from clients.joined import Joined, OwnChoice, open_device, read_joined
from clients.memory import keep_freed_memory
from clients.order_check import SignedPlan
from clients.parameters import TrainingParams
from policy.clock import epoch_s
from policy.files import read_bounded_text, replacing

MEMORY, LOST = "device.json", "memory-lost"
"""What it signed; and when that was lost, if it ever was (D5)"""
_IN_USE = "device.lock"
_MOST_BYTES = 100
_LOG = logging.getLogger(__name__)


@contextlib.contextmanager
def opened_device(
    kit: DeviceKit, account: LocalAccount, say: Callable[[str], None], wait_s: float
) -> Iterator[tuple[Device, TrainingParams]]:
    """The kit's device with its key, consent, data and memory; `BflError` where another process has it for `wait_s`."""
    keep_freed_memory()
    torch.set_num_threads(1)
    with _alone(kit.folder, wait_s):
        yield _open(kit, account, say)


def _open(kit: DeviceKit, account: LocalAccount, say: Callable[[str], None]) -> tuple[Device, TrainingParams]:
    config, joined = kit.config, read_joined(kit.folder / FOUNDING)
    choice = OwnChoice(Consent(config.offload), config.data, config.allow_plugins)
    lost_s, memory = _lost_s(kit.folder, say), kit.folder / MEMORY
    noted = _planned(kit.folder, joined, config.index)
    opened = open_device(joined, config.index, account, choice, memory, lost_s, noted)
    (kit.folder / UNUSED).unlink(missing_ok=True)  # after the memory is there
    return opened


def _lost_s(folder: Path, say: Callable[[str], None]) -> float | None:
    """When its memory was lost; None where it never was. On the disk, and for ever: the next process may be started
    before a new round has begun, and finds the memory that this one begins. Later rounds do not mind.
    """
    path = folder / LOST
    if not (folder / MEMORY).exists() and not (folder / UNUSED).exists():
        _write_lost(path)
        say(f"found no {MEMORY}: it signs nothing until a round that begins from now on (D5)")
    if not path.exists():
        return None
    try:
        return _finite(read_bounded_text(path, _MOST_BYTES))
    except (OSError, ValueError) as error:
        raise BflError(
            f"{path} does not say when {MEMORY} was lost ({error!r:.80}); move {MEMORY} away: then it is lost now"
        ) from error


def _finite(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):  # no time is before or after what is none
        raise ValueError(f"found {text!r:.20}, expected seconds")
    return found


def _write_lost(path: Path) -> None:
    """On the disk before there is a memory again."""
    try:
        with replacing(path) as part:
            part.write_text(f"{epoch_s():.3f}\n", encoding="ascii")
            with part.open("rb") as file:
                os.fsync(file.fileno())
        settle_folder(path.parent)
    except OSError as error:
        raise BflError(f"{path} cannot be written: {error.strerror}; without it nothing is signed") from error


def _planned(folder: Path, joined: Joined, index: int) -> Callable[[SignedPlan], None]:
    """Notes for the miner what an accepted plan gives this device (D8)."""

    def note(signed: SignedPlan) -> None:
        plan = signed.plan
        try:
            note_share(folder, plan.round, signed.attempt, joined.work.hash_share(plan.round, index, plan.hash_rate))
        except OSError as error:  # its miner then does what the plan before, or its owner, says
            _LOG.warning("the plan's share of hash power cannot be noted: %s", error)

    return note


@contextlib.contextmanager
def _alone(folder: Path, wait_s: float) -> Iterator[None]:
    """Two processes with one key would sign twice (D5). Whoever is killed gives it back."""
    lock = FileLock(folder / _IN_USE, timeout=wait_s, mode=0o600, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise BflError(
            f"{folder} is in use: another process has its key, expected none; stop that one first"
        ) from error
    except OSError as error:
        raise BflError(f"{folder / _IN_USE} cannot be locked: {error.strerror}; may this user write there?") from error
    try:
        yield
    finally:
        lock.release()
