"""How a machine of a network is: its parts, the nodes that it reaches, its clock beside theirs."""

import fcntl
import json
import os
import shutil
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import httpx

from bfl.errors import BflError
from bfl.network.devices.hash_share import SHARE_FILE, read_share
from bfl.network.devices.mining_limit import limit_of
from bfl.network.kits import DeviceKit, EdgeKit
from policy.clock import epoch_s
from policy.files import read_bounded_text

STATE, LOG, LOCK, METRICS = "state.json", "log", ".lock", "metrics.jsonl"
MOST_SKEW_S = 3.0
_ASK_S = 5.0
_MOST_BYTES = 1 << 16
_LEAST_FREE_BYTES = 100_000_000
_LOOK_S = 0.2
_HALF_S = 0.5
"""A date says whole seconds, and is half of one old on average"""
_ASKED = ("bfl_status", "web3_clientVersion")


@dataclass(frozen=True)
class PartState:
    """A program of this machine."""

    name: str
    pid: int | None
    starts: int
    is_done: bool
    told: str = ""
    """What it says of itself, such as where it is."""

    @property
    def word(self) -> str:
        """For people."""
        if self.pid is not None:
            return f"runs, pid {self.pid}" + (f", {self.told}" if self.told else "")
        return "has done its work" if self.is_done else "waits to be started again"


@dataclass(frozen=True)
class NodeState:
    """A node as it answers."""

    name: str
    block: int | None
    skew_s: float = 0.0
    """By how much this machine's clock is ahead of its."""
    trouble: str = ""
    version: str = ""
    pending: int | None = None
    """Posts in its pool"""

    @property
    def word(self) -> str:
        """For people."""
        if self.trouble:
            return self.trouble
        skew = f"; this machine's clock is {self.skew_s:+.0f} s off: install chrony"
        return f"block {self.block}" + (skew if abs(self.skew_s) > MOST_SKEW_S else "")


def is_running(folder: Path) -> bool:
    """Whether `bfl network edge` or `device` runs this kit. Nothing is written: a lock of root would keep the kit's
    own user out.
    """
    try:
        with (folder / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def check_rests(folder: Path) -> None:
    """Raise `BflError` where it runs."""
    if is_running(folder):
        raise BflError(f"{folder} runs already; stop it first: bfl network stop {folder}")


def last_round(folder: Path) -> str:
    """What an edge's last round came to; nothing where it has none, as a device."""
    path = folder / METRICS
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _MOST_BYTES))
        lines = file.read().splitlines()
    try:
        found = json.loads(lines[-1])
        accuracy = "" if found["accuracy"] is None else f", accuracy {100 * found['accuracy']:.1f} %"
        return f"{found['round']}{accuracy}, {time.time() - path.stat().st_mtime:.0f} s ago"
    except (ValueError, KeyError, TypeError, IndexError):  # it is being written
        return ""


def find_lack_of_room(folder: Path) -> str:
    """What is said where the disk is as good as full; nothing where it is not."""
    free_mb, least_mb = shutil.disk_usage(folder).free / 1e6, _LEAST_FREE_BYTES / 1e6
    return "" if free_mb >= least_mb else f"found {free_mb:.0f} MB free, expected {least_mb:.0f} at least: make room"


def check_room(folder: Path) -> None:
    """Raise `BflError` where a machine would soon stop in the middle of something."""
    if lack := find_lack_of_room(folder):
        raise BflError(f"the disk of {folder}: {lack}")


def parts_of(folder: Path) -> list[PartState]:
    """What its supervisor has noted; nothing where it does not run."""
    path = folder / STATE
    if not is_running(folder) or not path.exists():
        return []
    state = _read_state(path)
    return [
        PartState(name, each["pid"], each["starts"], each["done"], each["told"])
        for name, each in state["parts"].items()
    ]


def _read_state(path: Path) -> Any:
    try:
        return json.loads(read_bounded_text(path, _MOST_BYTES))
    except (OSError, ValueError) as error:
        raise BflError(f"{path} cannot be read: {error}") from error


def nodes_of(kit: EdgeKit | DeviceKit) -> list[NodeState]:
    """Every node of the network that this machine knows, asked with its certificate."""
    with client_of(kit) as client:
        return [state_of(client, name, url) for name, url in places_of(kit)]


def client_of(kit: EdgeKit | DeviceKit) -> httpx.Client:
    """It shows the machine's certificate."""
    return httpx.Client(verify=kit.tls.client_context(), timeout=_ASK_S, trust_env=False)


def places_of(kit: EdgeKit | DeviceKit) -> list[tuple[str, str]]:
    """(name, URL) of the nodes that a machine knows, its own first."""
    if isinstance(kit, DeviceKit):
        return [(each.name, each.node_url) for each in kit.config.edges]
    host = f"[{kit.config.address}]" if ":" in kit.config.address else kit.config.address
    own = (kit.config.name, f"https://{host}:{kit.config.node_port}")
    return [own, *((each.name, each.node_url) for each in kit.config.peers)]


def state_of(client: httpx.Client, name: str, url: str) -> NodeState:
    """How a node is; it may be anybody's, so its answers are bounded."""
    try:
        health, date = _answer(client, "GET", f"{url}/health", None)
        skew_s = epoch_s() - parsedate_to_datetime(date).timestamp() - _HALF_S
        asked = [{"jsonrpc": "2.0", "id": n, "method": method, "params": []} for n, method in enumerate(_ASKED)]
        found, _ = _answer(client, "POST", url, asked)
        told, version = (each["result"] for each in sorted(found, key=lambda each: int(each["id"])))
        word = _printable(f"{told['state']}: {told['told']}"[:300])
        trouble = "" if told["state"] == "RUNNING" else word
        pending = int(told["pending"], 16) if "pending" in told else None  # before 0.10 a node did not say
        return NodeState(name, int(health["block"]), skew_s, trouble, _printable(str(version)[:40]), pending)
    except httpx.HTTPError as error:
        return NodeState(name, None, trouble=f"does not answer at {url} ({type(error).__name__}: {error})"[:200])
    except (ValueError, KeyError, TypeError, ArithmeticError, RecursionError) as error:
        return NodeState(name, None, trouble=f"answers otherwise than a node ({error!r:.80})")


def _answer(client: httpx.Client, verb: str, url: str, asked: Any) -> tuple[Any, str]:
    """An answer as JSON, and when it was given. A node may be anybody's: what it says ends, in bytes and in time."""
    end, raw = time.monotonic() + _ASK_S, bytearray()
    with client.stream(verb, url, json=asked) as response:
        for part in response.iter_raw():
            raw += part
            if len(raw) > _MOST_BYTES or time.monotonic() > end:
                raise ValueError(f"found an answer of more than {_MOST_BYTES} bytes or {_ASK_S:g} s")
        return json.loads(raw), response.headers["date"]


def _printable(word: str) -> str:
    """What a stranger wrote, without what moves a terminal's cursor."""
    return "".join(each if each.isprintable() else "?" for each in word)


def stop_kit(folder: Path, within_s: float) -> bool:
    """End what runs a kit, as Ctrl-C does; whether something ran. `BflError` where it does not end."""
    if not is_running(folder):
        return False
    if not (folder / STATE).exists():
        raise BflError(f"{folder} is just starting; try again")
    pid = int(_read_state(folder / STATE)["pid"])
    os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + within_s
    while is_running(folder):
        if time.monotonic() > end:
            raise BflError(f"{folder}: process {pid} has not ended within {within_s:g} s; see {folder / LOG}")
        time.sleep(_LOOK_S)
    return True


def mining_told(kit: DeviceKit) -> str:
    """The limit of a device's miner that is in force now (D8)."""
    try:
        share = read_share(kit.folder / SHARE_FILE)
    except BflError as error:
        return str(error)
    return limit_of(share, kit.config.hashes_per_s or None, None).told


def last_lines(folder: Path, count: int, part: str = "") -> Sequence[str]:
    """Of the machine's log."""
    path = folder / LOG
    if not path.exists():
        raise BflError(f"{folder} has no log: it has not run yet")
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - (1 << 20)))
        lines = file.read().decode(errors="replace").splitlines()
    return [line for line in lines if is_of(line, part)][-count:]


def is_of(line: str, part: str) -> bool:
    """Whether a line of the log is of a part; of any where none is named."""
    return not part or line[20:].startswith(f"{part} ")
