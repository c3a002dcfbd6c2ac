"""Small runs on synthetic data, for the tests of this folder."""

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bfl.config import RunSettings, read_settings
from bfl.simulation import run as simulation
from edge_servers.report import RoundReport

ROOT = Path(__file__).resolve().parents[2]
SMALL: dict[str, object] = {
    "dataset": "synthetic", "hardness": 0, "rounds": 4, "devices": 4, "iterations": 2, "batch": 10, "threads": 1,
    "scheme": "consensus-no-chain", "planner": "fixed", "filter": "none",
}  # fmt: skip

Metrics = list[dict[str, Any]]
HINT = "What the words mean: the same command with --explain\n"
"""The last line of what `bfl audit` shows"""


def small(**changes: object) -> RunSettings:
    """Settings of a run that takes about a second."""
    return read_settings(flags=SMALL | {name.replace("_", "-"): value for name, value in changes.items()})


def without_details(lines: Metrics) -> Metrics:
    """What a recovered line has: the chain keeps reasons, not details."""
    for line in lines:
        line["refused"] = [(refusal["node"], refusal["reason"]) for refusal in line["refused"]]
    return lines


def flags_of(settings: Mapping[str, object]) -> list[str]:
    """The settings as the command line wants them."""
    return [word for key, value in settings.items() for word in (f"--{key}", str(value))]


def ignore(report: RoundReport) -> None:
    """Nobody watches."""


def ctrl_c_after(round_: int) -> Callable[[RoundReport], None]:
    """Somebody who presses Ctrl-C once this round is done."""

    def press(report: RoundReport) -> None:
        if report.round == round_:
            raise KeyboardInterrupt

    return press


def run_through(settings: RunSettings, out: Path) -> Metrics:
    """A whole run, uninterrupted; its metrics apart from seconds."""
    simulation.run(simulation.start(settings, out), ignore)
    return metrics_without_seconds(out)


def interrupt(settings: RunSettings, out: Path, after: int) -> None:
    """A run that Ctrl-C ends after some rounds."""
    summary = simulation.run(simulation.start(settings, out), ctrl_c_after(after))
    assert (summary["status"], summary["rounds"]) == ("interrupted", after)


def go_on(out: Path, rounds: int | None = None, allow_other_environment: bool = False) -> Metrics:
    """Resume a run and finish it; its metrics apart from seconds."""
    simulation.run(simulation.resume(out, rounds, allow_other_environment), ignore)
    return metrics_without_seconds(out)


def metrics_without_seconds(out: Path) -> Metrics:
    """What the same seed must reproduce (P11)."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    for line in lines:
        del line["seconds"]
    return lines


def environment(**more: str) -> dict[str, str]:
    """The environment of a `bfl` process: this one's without settings, and the packages importable from anywhere."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BFL_")}
    return inherited | {"PYTHONPATH": str(ROOT)} | more


def bfl(*arguments: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """`bfl ...` as a process of its own, in a folder of its own, with pipes for a terminal."""
    command = [sys.executable, "-m", "bfl", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment(**variables), capture_output=True, text=True, check=False, timeout=300
    )


def png_size(path: Path) -> tuple[int, int]:
    """Width and height from a PNG's header."""
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n", f"{path} is no PNG"
    width, height = struct.unpack(">II", head[16:24])
    return width, height
