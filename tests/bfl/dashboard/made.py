"""Run folders for tests of the page: made up, or of a small run with a lie in it that was really made."""

import functools
import json
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bfl.config import write_toml
from bfl.dashboard.index.dashboard import Dashboard, together
from bfl.dashboard.index.opening import run_sources
from bfl.simulation import run as simulation
from tests.bfl.runs import small

LIAR = "iterate-noise@2:server=1,step=1,strength=0.5"
HOSTILE = "<script>alert(1)</script>\x1b[2J\u202e'\"&"


def line(round_: int, devices: int = 4, edges: int = 2, **changes: Any) -> dict[str, Any]:
    """A line of metrics.jsonl that a run could have written."""
    offloads = [(device + round_) % (edges + 1) - 1 for device in range(devices)]
    return {
        "round": round_, "accuracy": min(0.99, 0.1 + 0.01 * round_), "loss": 2.0 / round_, "leader": round_ % edges,
        "winner": round_ % devices, "phi": 5, "training-nodes": devices, "samples": 100 * devices, "divergence": 0.1,
        "consensus-error": 0.01, "refused": [], "offloaded": sum(each >= 0 for each in offloads),
        "assignment": offloads,
        "latency": {
            kind: {"T_learn": 1.0, "T_cons": 0.25, "T_mine": 2.0, "T": 3.25, "T_wall": 1.5, "n_off": 1}
            for kind in ("paper", "real")
        },
        "offences": [], "absent": [], "excluded": [], "failed-leaders": [], "block": f"{round_:064x}",
        "block-bytes": 1000, "seconds": {"plan": 0.1, "train": 0.5, "seal": 0.2},
        **{name.replace("_", "-"): value for name, value in changes.items()},
    }  # fmt: skip


def lied(server: int = 1, step: int | None = 3, detail: str = "") -> dict[str, Any]:
    """An offence in such a line."""
    told = detail or f"server {server}: iterate of step {step} is not what eq. 9 gives"
    return {"offender": f"server {server}", "kind": "iterate", "step": step, "detail": told}


def write_run(folder: Path, lines: Iterable[dict[str, Any]], **settings: object) -> Path:
    """A run folder without a chain."""
    folder.mkdir(parents=True, exist_ok=True)
    changes: dict[str, object] = {"devices": 4, "edges": 2, "rounds": 10} | settings
    write_toml(small(**changes), folder / "config.toml")
    with (folder / "metrics.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(each) + "\n" for each in lines)
    return folder


def opened(*folders: Path) -> Dashboard:
    """A dashboard of the first folder, which knows the others; everything is read, and no thread reads on."""
    found = list(together([Dashboard(each) for each in run_sources(folders)]).values())
    for each in found:
        read_all(each)
    return found[0]


def read_all(dashboard: Dashboard, within_s: float = 60.0) -> None:
    """What a tailer's thread would have read by now."""
    end = time.monotonic() + within_s
    while dashboard.tailer.look():
        assert time.monotonic() < end, "there is always more to read"


@functools.cache
def attacked_run() -> Path:
    """A run of four rounds on a chain, in the second of which server 1 lies; made once."""
    folder = Path(tempfile.mkdtemp(prefix="bfl-dashboard-")) / "attacked"
    settings = small(scheme="bfl", attack=LIAR, edges=3, hidden=2, difficulty=1, planner="fixed:0", phi=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulation, "can_plot", lambda: False)
        ready = simulation.start(settings, folder)
        simulation.run(ready, lambda report: None)
        ready.folder.release()
    return folder


def assignments_of(dashboard: Dashboard) -> list[list[int] | None]:
    """Of all rounds."""
    found = [each.assignment for each in dashboard.snapshot.rounds]
    return [None if each is None else np.asarray(each).tolist() for each in found]
