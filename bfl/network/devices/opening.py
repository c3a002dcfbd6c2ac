"""A device of a kit as the one process that has its key: what a resident one opens once, a stock one for each order."""

import contextlib
import logging
import os
import time
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
from clients.wallet_memory import Start
from policy.files import read_bounded_text, replacing

MEMORY, LOST = "device.json", "memory-lost"
"""What it signed; and since when it waits because that was lost (D5)"""
_BOOT = Path("/proc/sys/kernel/random/boot_id")
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
        try:
            yield _open(kit, account, say)
        finally:
            if (kit.folder / MEMORY).exists():  # it has woken
                (kit.folder / LOST).unlink(missing_ok=True)


def _open(kit: DeviceKit, account: LocalAccount, say: Callable[[str], None]) -> tuple[Device, TrainingParams]:
    config, joined = kit.config, read_joined(kit.folder / FOUNDING)
    choice = OwnChoice(Consent(config.offload), config.data, config.allow_plugins)
    lost, memory = _lost(kit.folder, say), kit.folder / MEMORY
    noted = _planned(kit.folder, joined, config.index)
    opened = open_device(joined, config.index, account, choice, memory, lost, noted)
    (kit.folder / UNUSED).unlink(missing_ok=True)  # after the memory is there
    return opened


def _lost(folder: Path, say: Callable[[str], None]) -> Start | None:
    """Where its memory was lost: since when it waits; else None. On the disk until there is a memory again: the next
    process may be started before a new round has begun, and a stock device has one for each order.
    """
    path = folder / LOST
    if (folder / MEMORY).exists() or (folder / UNUSED).exists():
        path.unlink(missing_ok=True)
        return None
    since_s = _noted_s(path)
    if since_s is None:
        since_s = time.monotonic()
        _note(path, since_s)
        say(f"found no {MEMORY}: it signs nothing until a round that begins from now on (D5)")
    return Start(since_s=since_s)


def _noted_s(path: Path) -> float | None:
    """Seconds of this boot, as the clock may be put right meanwhile; after another boot, or nonsense, it waits anew."""
    try:
        boot, text = read_bounded_text(path, _MOST_BYTES).split(" ")
        found = float(text)
    except (OSError, ValueError):
        return None
    return found if boot == _boot() and 0 <= found <= time.monotonic() else None


def _boot() -> str:
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:  # elsewhere than on Linux; seconds of a boot that are over tell it too
        return "boot"


def _note(path: Path, since_s: float) -> None:
    """On the disk before there is a memory again."""
    try:
        with replacing(path) as part:
            part.write_text(f"{_boot()} {since_s:.3f}", encoding="ascii")
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
