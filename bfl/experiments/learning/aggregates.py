"""Real partial aggregates of a round, which the convergence figure mixes again on other graphs."""

import shutil

import numpy as np

from bfl.config import read_settings
from bfl.experiments.context import ExperimentContext
from bfl.experiments.images import ImageSource
from bfl.experiments.learning.trials import Trial, dataset_trial
from bfl.simulation import run as simulation
from bfl.simulation.checkpoint import MOST_BYTES, array_in
from edge_servers.learning.aggregation import FixedPoint
from policy.errors import StoredFileError
from policy.files import read_bounded, replacing
from policy.stored_zip import stored_members

_WAIT_S = 1.0


def real_aggregates(context: ExperimentContext, images: ImageSource, partition: str, servers: int) -> list[FixedPoint]:
    """x_m(0) of all servers in the last round of a short run of seed 0, kept in FOLDER/points."""
    rounds = context.budget.defence_rounds
    trial = dataset_trial(images, "consensus-no-chain", partition, 0, rounds, edges=servers, evaluate_every=0)
    path = context.folder / "points" / f"{trial.key}-aggregates.npz"
    try:
        stored = stored_members(read_bounded(path, MOST_BYTES))["x.npy"]
        return [np.array(row) for row in array_in(stored, np.dtype(np.int32), 2)]
    except (OSError, ValueError, KeyError, StoredFileError):  # not there, or damaged
        pass
    found = _run_trial(context, trial)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part, part.open("wb") as file:
        np.savez(file, x=np.stack(found))
    return found


def _run_trial(context: ExperimentContext, trial: Trial) -> list[FixedPoint]:
    folder = context.folder / "runs" / f"{trial.key}-aggregates"
    shutil.rmtree(folder, ignore_errors=True)  # of a run that was cut short
    ready = simulation.start(read_settings(flags=trial.flags), folder)
    with context.display.task(f"aggregates of {trial.edges} servers, {trial.partition}") as show_progress:
        for report in ready.federation.rounds():
            show_progress(report.round / trial.rounds, f"round {report.round} of {trial.rounds}")
    oversight = ready.federation.servers[0].oversight
    found = [oversight.iterate(m, 0, _WAIT_S) for m in range(trial.edges)]
    ready.folder.release()
    shutil.rmtree(folder)
    return found
