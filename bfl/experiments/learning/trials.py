"""The federated runs that figures are made of: ordinary simulations, several at a time, kept once they are finished."""

import hashlib
import json
import shutil
import signal
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bfl.config import read_settings
from bfl.errors import BflError, RunFolderError
from bfl.experiments.context import MOST_BYTES, ExperimentContext
from bfl.experiments.images import ImageSource
from bfl.simulation import run as simulation
from bfl.simulation.run_folder import RunFolder
from clients.evaluation import Scores
from clients.parameters import key_of
from edge_servers.report import RoundReport
from policy.files import read_bounded_text, replacing

SAME: dict[str, object] = {"data-per-round": "all", "planner": "fixed", "codec": "fp32", "threads": 1}
"""Of all runs. Whole shares, devices 0, 4, 5 of ten offload: no scheme has an easier round than another. Gradients on
the chain are not rounded, as they are not without one. One thread: the same bits whatever else the machine does."""
KEPT = (
    "round", "accuracy", "loss", "leader", "divergence", "consensus-error", "refused", "offences", "absent", "excluded",
    "failed-leaders",
)  # fmt: skip
RoundRecord = dict[str, Any]
"""What is kept of a round: those of `metrics.jsonl`"""


@dataclass(frozen=True)
class Trial:
    """The settings of one federated run in which it may differ from the others of a figure."""

    scheme: str
    partition: str
    seed: int
    rounds: int
    attack: str = ""
    filter: str = "none"
    phi: str = "5"
    weights: str = "optimal"
    edges: int = 3
    graph: str = "line"
    evaluate_every: int = 1
    evaluate_last: int = 0
    """Rounds at the end that are evaluated, where not all are: trying a model costs more than a round"""
    dataset: str = "fashion-mnist"
    data_dir: str = ""

    @property
    def flags(self) -> dict[str, object]:
        """The settings of `bfl simulate`."""
        own = {key_of(name): value for name, value in asdict(self).items() if name != "evaluate_last"}
        return SAME | own

    @property
    def key(self) -> str:
        """Its name among the kept ones: another setting makes another run, another folder of the data does not."""
        flags = {name: value for name, value in self.flags.items() if name != "data-dir"}
        flags |= {"evaluate-last": self.evaluate_last} if self.evaluate_last else {}
        digest = hashlib.sha256(json.dumps(flags, sort_keys=True).encode()).hexdigest()[:12]
        return f"{self.dataset.replace(':', '-')}-{self.scheme}-{self.partition}-seed{self.seed}-{digest}"


def dataset_trial(images: ImageSource, scheme: str, partition: str, seed: int, rounds: int, **more: Any) -> Trial:
    """A trial on the images of a figure."""
    return Trial(scheme, partition, seed, rounds, dataset=images.dataset, data_dir=images.folder, **more)


def run_trials(context: ExperimentContext, label: str, trials: Iterable[Trial]) -> dict[Trial, list[RoundRecord]]:
    """The rounds of every run, those that are not in FOLDER/points run now."""
    found = {trial: _read_records(context.folder, trial) for trial in trials}
    missing = [trial for trial, lines in found.items() if not lines]
    if missing:
        total = sum(trial.rounds for trial in missing)
        with context.display.task(f"{label}: {len(missing)} runs") as show_progress:

            def on_progress(rounds: int) -> None:
                show_progress(rounds / total, f"{rounds:,} of {total:,} rounds")

            run = _run_in_processes if min(context.jobs, len(missing)) > 1 else _run_in_turn
            run(missing, context, on_progress)
    return {trial: lines or _read_records(context.folder, trial) for trial, lines in found.items()}


def _run_in_turn(trials: Sequence[Trial], context: ExperimentContext, on_progress: Callable[[int], None]) -> None:
    done = 0

    def on_round(_: RoundReport) -> None:
        nonlocal done
        done += 1
        on_progress(done)

    for trial in trials:
        run_trial(trial, context.folder, on_round)


def run_trial(trial: Trial, folder: Path, on_round: Callable[[RoundReport], None]) -> None:
    """Run what is left of it in FOLDER/runs, keep its rounds in FOLDER/points, forget the rest: a chain is large."""
    path = folder / "runs" / trial.key
    scores: dict[int, Scores] = {}
    if trial.evaluate_last:
        shutil.rmtree(path, ignore_errors=True)  # what was evaluated before it was cut short is nowhere
    if read_json_or(path / "summary.json", {}).get("status") != "finished":
        ready = _start_or_resume(trial, path)

        def evaluated(report: RoundReport) -> None:
            if report.round > trial.rounds - trial.evaluate_last:
                scores[report.round] = report.scores or ready.federation.evaluate()
            on_round(report)

        if simulation.run(ready, evaluated)["status"] != "finished":
            raise KeyboardInterrupt
    lines = [line | _scored(scores.get(line["round"])) for line in RunFolder(path).metrics()]
    _write_records(folder, trial, [{name: line[name] for name in KEPT} for line in lines])
    shutil.rmtree(path)


def _scored(scores: Scores | None) -> RoundRecord:
    return {} if scores is None else {"accuracy": scores.accuracy, "loss": scores.loss}


def _start_or_resume(trial: Trial, path: Path) -> simulation.Simulation:
    if not all((path / name).is_file() for name in ("config.toml", "metrics.jsonl")):
        shutil.rmtree(path, ignore_errors=True)  # cut short before it was a run
        return simulation.start(read_settings(flags=trial.flags), path)
    try:
        return simulation.resume(path, None, allow_other_environment=False, data_named=trial.dataset)
    except RunFolderError as error:
        raise BflError(f"{error}\nIf nobody is using it, delete {path}: the run is then made anew.") from error


def read_json_or(path: Path, otherwise: Any) -> Any:
    """The content of a JSON file, or `otherwise` where there is none or it is damaged."""
    try:
        return json.loads(read_bounded_text(path, MOST_BYTES))
    except (FileNotFoundError, ValueError, RecursionError):
        return otherwise


def _read_records(folder: Path, trial: Trial) -> list[RoundRecord]:
    lines = read_json_or(folder / "points" / f"{trial.key}.json", [])
    is_whole = isinstance(lines, list) and len(lines) == trial.rounds and set(lines[-1]) == set(KEPT)
    return lines if is_whole else []


def _write_records(folder: Path, trial: Trial, lines: list[RoundRecord]) -> None:
    path = folder / "points" / f"{trial.key}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part:
        part.write_text(json.dumps(lines) + "\n", encoding="utf-8")


# --- several at a time

_shared: dict[str, Any] = {}
"""Of a worker: the counter of rounds, and the word to stop"""


def _run_in_processes(trials: Sequence[Trial], context: ExperimentContext, on_progress: Callable[[int], None]) -> None:
    """Two processes use two cores better than one with two threads does. Ctrl-C stops all after their round."""
    spawn = get_context("spawn")
    counter, stop = spawn.Value("q", 0), spawn.Event()
    workers = min(context.jobs, len(trials))
    with ProcessPoolExecutor(workers, spawn, _begin_worker, (counter, stop)) as pool:
        left = {pool.submit(_run_in_worker, trial, context.folder) for trial in trials}
        try:
            while left:
                done, left = wait(left, timeout=1.0, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
                on_progress(counter.value)
        finally:  # after the last run neither does anything
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)


def _begin_worker(counter: Any, stop: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process hears Ctrl-C, and says so
    _shared.update(counter=counter, stop=stop)


def _run_in_worker(trial: Trial, folder: Path) -> None:
    def on_round(_: RoundReport) -> None:
        with _shared["counter"].get_lock():
            _shared["counter"].value += 1
        if _shared["stop"].is_set():
            raise KeyboardInterrupt

    if not _shared["stop"].is_set():
        run_trial(trial, folder, on_round)
