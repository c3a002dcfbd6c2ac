"""`python -m tests.bfl.chain_kills N FOLDER [SEED [NODES]]`: kill -9 `bfl simulate` N times, resume it, compare.

One process imports everything once; each run is a fork of it, so that kills fall into founding and rounds rather than
into imports. It is killed in the middle of many rounds and at last asked for two more; a run that nobody kills says
what it has to have come to.
"""

import json
import os
import random
import signal
import sqlite3
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from bfl.cli import main as bfl
from bfl.simulation import run as simulation
from chain.audit.archive import FileArchive
from tests.bfl.runs import Metrics, flags_of

_ROUNDS_PER_KILL = 6
_DEFAULTS = ("7", "1")
_ENDLESS = 100_000
_LATE_IMPORTS = (
    "edge_servers.chain_hosting",
    "edge_servers.recovery",
    "bfl.show.progress",
    "datasets",
    "flwr_datasets",
)
RUN: dict[str, object] = {
    "dataset": "synthetic", "devices": 6, "edges": 3, "iterations": 1, "batch": 5, "threads": 1, "hidden": 2, "phi": 2,
    "planner": "fixed:0", "difficulty": 1, "filter": "krum", "reputation": 2, "reputation-rounds": 2,
    "attack": "iterate-noise@3:server=1,step=1; sign-flip@all:device=3,strength=20",
}  # fmt: skip


def simulate(*arguments: str) -> NoReturn:
    """`bfl simulate ...`, as the whole life of this process."""
    sys.argv = ["bfl", "simulate", *arguments]
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    code = 1
    try:
        bfl()
        code = 0
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else 1
    finally:
        if code == 1:
            sys.excepthook(*sys.exc_info())
        os._exit(code)


def run_for(seconds: float | None, *arguments: str) -> int | None:
    """A fork that simulates: its exit code, or None if it was killed after `seconds`."""
    child = os.fork()
    if child == 0:
        simulate(*arguments)
    end = None if seconds is None else time.monotonic() + seconds
    while end is None or time.monotonic() < end:
        ended, status = os.waitpid(child, 0 if end is None else os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return None if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)


def is_begun(folder: Path) -> bool:
    """Whether there is something to resume; before that nothing was promised."""
    return all((folder / name).is_file() for name in ("config.toml", "metrics.jsonl", "environment.json"))


def sealed(folder: Path) -> list[str]:
    """Hashes of all blocks in a folder; its database is whole."""
    path = folder / "chain.db"
    if not path.exists():
        return []
    with sqlite3.connect(path) as connection:
        verdict = connection.execute("PRAGMA integrity_check").fetchone()[0]
    connection.close()
    if verdict != "ok":
        raise RuntimeError(f"{path}: {verdict}")
    archive = FileArchive(folder)
    try:
        return [archive.block(number).header.hash.hex() for number in range(archive.head().block_number + 1)]
    finally:
        archive.close()


def metrics(folder: Path) -> Metrics:
    """The lines of a run without what a recovered one cannot have: seconds, and details of refusals."""
    lines: Metrics = []
    for text in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        del line["seconds"]
        line["refused"] = [(refusal["node"], refusal["reason"]) for refusal in line["refused"]]
        lines.append(line)
    return lines


def clear(folder: Path) -> None:
    """Take away what a run left that was killed before it could be resumed."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def killed(folder: Path, kills: int, rng: random.Random, longest_s: float, flags: list[str]) -> dict[str, Any]:
    """Kill and resume `kills` times, then let it end; what was seen on the way."""
    blocks: list[str] = []
    heads: list[int] = []
    restarts = 0
    for _ in range(kills):
        if is_begun(folder):
            code = run_for(rng.uniform(0.0, longest_s), "--resume", str(folder))
        else:
            clear(folder)
            restarts += 1
            code = run_for(rng.uniform(0.0, longest_s), *flags, "--out", str(folder))
        if code is not None:
            raise RuntimeError(f"the run ended by itself with code {code} after blocks {heads}")
        found = sealed(folder)
        if found[: len(blocks)] != blocks:
            raise RuntimeError(f"blocks were lost: {len(blocks)} before, {len(found)} now, not the same ones")
        blocks = found
        heads.append(max(0, len(blocks) - 1))
    rounds = max(0, len(blocks) - 2) + 2  # two more than there are
    last = ["--resume", str(folder)] if is_begun(folder) else [*flags, "--out", str(folder)]
    code = run_for(None, *last, "--rounds", str(rounds))  # the last one given holds
    if code != 0:
        raise RuntimeError(f"the last resume ended with code {code}")
    return {"kills": kills, "heads": heads, "starts": restarts, "rounds": rounds}


def _run_whole(folder: Path, rounds: int, flags: list[str]) -> None:
    if run_for(None, *flags, "--rounds", str(rounds), "--out", str(folder)) != 0:
        raise RuntimeError("the run that nobody kills did not end well")


def main() -> None:
    """The whole run, the killed run, the comparison."""
    kills, folder = int(sys.argv[1]), Path(sys.argv[2])
    seed, nodes = (int(given) for given in [*sys.argv[3:], *_DEFAULTS[len(sys.argv) - 3 :]])
    simulation.can_plot = lambda: False  # type: ignore[attr-defined]
    for name in _LATE_IMPORTS:
        import_module(name)
    flags = flags_of(RUN | {"seed": seed, "nodes": nodes})
    began = time.monotonic()
    _run_whole(folder / "pace", _ROUNDS_PER_KILL, flags)  # from its first breath to its sixth round
    longest_s = time.monotonic() - began
    told = killed(folder / "killed", kills, random.Random(seed), longest_s, [*flags, "--rounds", str(_ENDLESS)])
    _run_whole(folder / "whole", told["rounds"], flags)
    whole, again = sealed(folder / "whole"), sealed(folder / "killed")
    if whole != again:
        raise RuntimeError(f"the killed run has head {again[-1]}, the other {whole[-1]}")
    differing = [
        a["round"] for a, b in zip(metrics(folder / "whole"), metrics(folder / "killed"), strict=True) if a != b
    ]
    if differing:
        raise RuntimeError(f"the metrics of rounds {differing} differ")
    print(json.dumps({**told, "blocks": len(again), "head": again[-1]}))


if __name__ == "__main__":
    main()
