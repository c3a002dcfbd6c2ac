"""What the small files of a run folder say: its settings, how it ended, whether somebody is writing it. Data only:
nothing that a file names is run (Q4).
"""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bfl.config import read_toml
from bfl.dashboard.facts import About, Participant, Status
from bfl.dashboard.reading.clean import text, whole
from bfl.dashboard.reading.round_lines import MOST_DEVICES, MOST_SERVERS
from bfl.errors import ConfigError
from policy.files import read_bounded_text

_MOST_SUMMARY_BYTES = 1 << 20
_MOST_GRAPH_EDGES, _MOST_SETTINGS = 4096, 200
_QUIET_S = 30.0
"""Where the system does not say who holds a lock: a file that nobody has written for so long is nobody's"""
_LOCKS = Path("/proc/locks")


def read_settings_as_data(path: Path) -> dict[str, str | int | float]:
    """Settings of a run or kit, as they are written; `ConfigError` where the file cannot be read."""
    found = read_toml(path)
    return {
        text(key, 60): _plain(each) for key, each in list(found.items())[:200] if isinstance(each, str | int | float)
    }


def _plain(value: str | int | float) -> str | int | float:
    return text(value) if isinstance(value, str) else value


def about_run(name: str, folder: Path, settings: Mapping[str, str | int | float]) -> About:
    """What a run folder is about, as far as its settings tell; its chain tells more."""
    edges = whole(settings.get("edges"), 0, 0, MOST_SERVERS)
    return About(
        kind="run",
        name=name,
        place=str(folder),
        scheme=str(settings.get("scheme", "")),
        dataset=str(settings.get("dataset", "")),
        partition=str(settings.get("partition", "")),
        planner=str(settings.get("planner", "")),
        seed=whole(settings["seed"]) if "seed" in settings else None,
        rounds_planned=whole(settings["rounds"]) if "rounds" in settings else None,
        devices=whole(settings.get("devices"), 0, 0, MOST_DEVICES),
        edges=edges,
        graph=(),
        chain_id=None,
        is_simulated=True,
        settings=settings,
    )


def graph_of(settings: Mapping[str, str | int | float], edges: int) -> tuple[tuple[int, int], ...]:
    """Which servers gossip; nobody where the setting cannot be read or drawn."""
    from edge_servers.errors import EdgeError
    from edge_servers.learning.graph import make_graph  # takes half a second to import, and the page comes first

    try:
        found = sorted(make_graph(str(settings.get("graph", "line")), edges).edges) if edges else []
    except EdgeError:
        return ()
    return tuple(found) if len(found) <= _MOST_GRAPH_EDGES else ()


def participants_of(devices: int, edges: int) -> tuple[Participant, ...]:
    """By number alone, of a run without a chain."""
    from edge_servers.founding.network import home_server

    if not edges:
        return ()
    servers = [Participant(f"server {m}", "server", m, "", m, 0) for m in range(edges)]
    return (*servers, *(Participant(f"device {n}", "device", n, "", home_server(n, edges), 0) for n in range(devices)))


def status_of_run(folder: Path, rounds: int) -> tuple[Status, str]:
    """How a run stands, and what is wrong with its files."""
    if not folder.is_dir():
        return "unreachable", f"{folder} is gone: put it back, or show another run"
    if is_held(folder / ".lock", folder / "metrics.jsonl"):
        return ("running", "") if rounds else ("waiting", "")
    summary, trouble = _read_summary(folder / "summary.json")
    if summary.get("status") == "finished":
        return "finished", trouble
    return "interrupted", trouble


def _read_summary(path: Path) -> tuple[dict[str, Any], str]:
    try:
        found = json.loads(read_bounded_text(path, _MOST_SUMMARY_BYTES))
    except FileNotFoundError:
        return {}, ""
    except (OSError, ValueError, RecursionError) as error:
        return {}, f"{path} cannot be read: {error!s:.120}"
    return (found, "") if isinstance(found, dict) else ({}, f"{path}: found no summary of a run in it")


def is_held(lock: Path, beside: Path) -> bool:
    """Whether a process holds a lock. It is not tried: a run that starts meanwhile would find it taken."""
    try:
        inode = lock.stat().st_ino
    except OSError:
        return False
    try:
        lines = _LOCKS.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return _is_fresh(beside)
    return any(_inode_in(line) == inode for line in lines if " FLOCK " in line and "->" not in line)


def _inode_in(line: str) -> int | None:
    """Of a line such as: 1: FLOCK ADVISORY WRITE 4711 fe:01:123456 0 EOF."""
    fields = line.split()
    found = fields[5].rpartition(":")[2] if len(fields) > 5 else ""
    return int(found) if found.isdigit() else None


def _is_fresh(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime < _QUIET_S
    except OSError:
        return False


def settings_or_trouble(path: Path) -> tuple[dict[str, str | int | float], str]:
    """The settings, or why there are none."""
    try:
        return read_settings_as_data(path), ""
    except ConfigError as error:
        return {}, f"{error!s:.300}"
