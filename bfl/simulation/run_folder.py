"""A run on disk: config.toml, metrics.jsonl, chain.db or checkpoint.npz, summary.json, model.pt, plots/.

After every round the folder is complete: whatever kills the process, `--resume` goes on from the last finished round.
"""

import json
import math
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from bfl.config import RunSettings, read_settings, write_toml
from bfl.errors import RunFolderError, RunInUseError
from bfl.simulation.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from edge_servers.founding.standing import Standing
from edge_servers.report import DeviceStanding, RoundReport
from policy.files import read_bounded_text, replacing

MOST_FILES = 10_000
MOST_JSON_BYTES = 1 << 20
MOST_LINE_BYTES, MOST_LINES = 1 << 20, 1_000_000
"""Of metrics.jsonl"""


class RunFolder:
    """The folder of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metrics_path = path / "metrics.jsonl"
        self.plots = path / "plots"
        self._checkpoint_path = path / "checkpoint.npz"
        self._lock = FileLock(path / ".lock", timeout=0)

    def _lock_for_writing(self) -> None:
        """Only one process at a time may write a run; the lock goes with the process, however it ends."""
        try:
            self._lock.acquire()
        except Timeout as error:
            raise RunInUseError(f"{self.path} is in use by another process; wait for it, or stop it") from error

    def release(self) -> None:
        """Let others write the run."""
        self._lock.release()

    @classmethod
    def create(cls, path: Path, settings: RunSettings, environment: dict[str, Any]) -> "RunFolder":
        """A new, empty run; a folder that already holds something is never touched. Its settings come last: with them
        it is a run that can be resumed, and before them it is nothing yet.
        """
        if path.exists() and not path.is_dir():
            raise RunFolderError(f"{path} is a file, expected a folder or nothing there; choose another --out")
        if path.exists() and not _is_empty(path):
            raise RunFolderError(f"{path} exists and is not empty; choose another --out, or go on with --resume {path}")
        folder = cls(path)
        try:
            folder.plots.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunFolderError(f"{path}: cannot be made ({error.strerror})") from error
        folder._lock_for_writing()
        folder.write_json("environment.json", environment)
        folder.metrics_path.touch()
        folder.write_settings(settings)
        return folder

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """An existing run."""
        for name in ("config.toml", "metrics.jsonl"):
            if not (path / name).is_file():
                raise RunFolderError(f"{path} is not a run folder: it has no {name}")
        _check_ordinary(path)
        folder = cls(path)
        folder.plots.mkdir(exist_ok=True)
        folder._lock_for_writing()
        return folder

    def settings(self, flags: Mapping[str, object] | None = None, allow_plugins: bool = False) -> RunSettings:
        """What the run was started with, but for what a person says now. Code that the file names needs a word (Q4)."""
        return read_settings(self.path / "config.toml", flags=flags, allow_plugins=allow_plugins)

    def write_settings(self, settings: RunSettings) -> None:
        """Replace config.toml in one step."""
        with replacing(self.path / "config.toml") as part:
            write_toml(settings, part)

    def append_round(self, report: RoundReport, wall_s: float, standings: Sequence[Standing]) -> None:
        """Record a finished round: its metrics line first, then the checkpoint that makes it count."""
        size = self.append_metrics(report)
        self.save_checkpoint(Checkpoint(tuple(standings), size, wall_s))

    def append_metrics(self, report: RoundReport) -> int:
        """Record a round's numbers alone; on a chain the block is what makes it count. Returns the file's size."""
        with self.metrics_path.open("ab") as file:
            file.write(json.dumps(metrics_of(report)).encode() + b"\n")
            return file.tell()

    def cut_metrics(self, rounds: int) -> int:
        """Keep the whole lines of the first `rounds` rounds; returns how many there are."""
        lines = self._whole_lines()[:rounds]
        os.truncate(self.metrics_path, sum(map(len, lines)))
        return len(lines)

    def _whole_lines(self) -> list[bytes]:
        """The lines of rounds 1, 2, ... up to the first that is cut off or of another round."""
        lines: list[bytes] = []
        for line in self._lines():
            if not _is_round(line, len(lines) + 1):
                break
            lines.append(line)
        return lines

    def _lines(self) -> Iterator[bytes]:
        """The lines of metrics.jsonl, one at a time: neither one that never ends nor so many that nobody wrote them."""
        with self.metrics_path.open("rb") as file:
            for _ in range(MOST_LINES + 1):
                line = file.readline(MOST_LINE_BYTES + 1)
                if not line:
                    return
                if len(line) > MOST_LINE_BYTES:
                    break
                yield line
        raise RunFolderError(
            f"{self.metrics_path}: found more than {MOST_LINES:,} lines, or one of more than {MOST_LINE_BYTES:,} bytes"
        )

    def check_not_lost(self, name: str, at_most: int) -> None:
        """Raise if more than `at_most` rounds are recorded though `name`, which made them count, has none."""
        recorded = len(self._whole_lines())
        if recorded > at_most:
            raise RunFolderError(
                f"{self.path} has metrics of {recorded} rounds, but {name} is missing or empty: put it back, "
                "or start a new run"
            )

    def metrics(self) -> list[dict[str, Any]]:
        """All recorded rounds."""
        try:
            found = [json.loads(line) for line in self._lines()]
            if not all(isinstance(line, dict) for line in found):
                raise ValueError("found a line that is no object")
            return found
        except (ValueError, RecursionError) as error:
            raise RunFolderError(f"{self.metrics_path}: damaged ({error})") from error

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Replace the checkpoint in one step."""
        write_checkpoint(self._checkpoint_path, checkpoint)

    def load_checkpoint(self) -> Checkpoint | None:
        """Where the run stands, or None before its first round. Metrics of an unfinished round are cut off."""
        if not self._checkpoint_path.exists():
            self.check_not_lost(self._checkpoint_path.name, at_most=1)  # a kill may come between metrics and checkpoint
            os.truncate(self.metrics_path, 0)
            return None
        checkpoint = read_checkpoint(self._checkpoint_path)
        if self.metrics_path.stat().st_size < checkpoint.metrics_bytes:
            raise RunFolderError(
                f"{self.metrics_path}: found {self.metrics_path.stat().st_size} bytes, expected at least "
                f"{checkpoint.metrics_bytes} for {checkpoint.round} rounds; lines are missing"
            )
        os.truncate(self.metrics_path, checkpoint.metrics_bytes)
        return checkpoint

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """One of the folder's JSON files, for people and programs."""
        with replacing(self.path / name) as part:
            part.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    def read_json(self, name: str) -> dict[str, Any]:
        """The content of one of them; empty where it does not exist."""
        path = self.path / name
        if not path.exists():
            return {}
        try:
            content = json.loads(read_bounded_text(path, MOST_JSON_BYTES))
            if not isinstance(content, dict):
                raise ValueError(f"found a {type(content).__name__}, expected an object")
        except (OSError, ValueError, RecursionError) as error:
            raise RunFolderError(f"{path}: damaged ({error})") from error
        return content


def _is_empty(path: Path) -> bool:
    """Whether a folder holds nothing but what a run that was killed while it was made may have left."""
    if not path.is_dir() or path.is_symlink():
        return path.is_dir() and not any(path.iterdir())
    return all(
        (name.name in (".lock", "environment.json") and name.is_file())
        or (name.name == "metrics.jsonl" and name.is_file() and not name.stat().st_size)
        or (name.name == "plots" and name.is_dir() and not any(name.iterdir()))
        for name in path.iterdir()
    )


def _is_round(line: bytes, round_: int) -> bool:
    """Whether a line of metrics is whole, and of this round."""
    try:
        return line.endswith(b"\n") and json.loads(line)["round"] == round_
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _check_ordinary(path: Path) -> None:
    """Raise where a run folder has links, pipes or devices: writing the run would write what they lead to (Q4)."""
    entries = [entry for folder in (path, path / "plots") if folder.is_dir() for entry in _entries(folder)]
    for entry in entries:
        mode = entry.lstat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise RunFolderError(f"{entry}: found a link, pipe or device, expected ordinary files only; remove it")


def _entries(folder: Path) -> list[Path]:
    with os.scandir(folder) as found:
        names = [entry.name for entry in islice(found, MOST_FILES + 1)]
    if len(names) > MOST_FILES:
        raise RunFolderError(f"{folder}: found more than {MOST_FILES:,} files, expected those of one run")
    return [folder / name for name in names]


def _standing(standing: DeviceStanding) -> dict[str, Any]:
    """Whom the filters took out, and who was set aside from which round through which."""
    return {"filtered": list(standing.filtered), "set-aside": [asdict(each) for each in standing.aside]}


def metrics_of(report: RoundReport) -> dict[str, Any]:
    """One line of metrics.jsonl. Apart from `seconds`, the same seed gives the same line (P11)."""
    return {
        "round": report.round,
        "accuracy": report.scores.accuracy if report.scores else None,
        "loss": report.scores.loss if report.scores and math.isfinite(report.scores.loss) else None,  # JSON has no NaN
        "leader": report.leader,
        "winner": report.winner,
        "phi": report.phi,
        "training-nodes": report.training_nodes,
        "samples": report.samples,
        "divergence": report.divergence,
        "consensus-error": report.consensus_error,
        "refused": [asdict(refusal) for refusal in report.refused],
        "offloaded": report.offloaded,
        "assignment": list(report.assignment),
        "latency": {kind: dict(terms) for kind, terms in report.latency.items()},
        "offences": [
            {"offender": offence.name, "kind": offence.kind, "step": offence.step, "detail": offence.detail}
            for offence in report.offences
            if not offence.is_absence
        ],
        "absent": report.absent,
        "excluded": list(report.excluded),
        "failed-leaders": list(report.failed_leaders),
        **({} if report.standing is None else _standing(report.standing)),
        "block": report.block,
        "block-bytes": report.block_bytes,
        "seconds": {phase: round(seconds, 6) for phase, seconds in report.seconds.items()},
    }
