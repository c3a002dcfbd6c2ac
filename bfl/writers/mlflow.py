"""Runs in MLflow: on the server of MLFLOW_TRACKING_URI, or in mlflow.db of the current folder, as `mlflow ui` shows."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from bfl.writers.numbers import missing, name_of, numbers_of

if TYPE_CHECKING:
    from bfl.api.callbacks import RoundDone
    from bfl.api.run import Run

ID_FILE = "mlflow-run.txt"
"""In the run folder: a run that goes on goes on in MLflow too"""
_STATUS = {"finished": "FINISHED", "stopped": "FINISHED", "interrupted": "KILLED"}
_DATABASE = "sqlite:///mlflow.db"
_PATIENCE_S = 120.0


class MlflowWriter:
    """`on_round=bfl.MlflowWriter(experiment="bfl")`."""

    def __init__(self, experiment: str = "bfl") -> None:
        self._experiment = experiment
        self._client: Any = None
        self._id = ""

    def begin(self, run: "Run") -> None:
        """Make the run with its settings, or find the one that is to go on."""
        os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")  # mlflow asks for git
        try:
            from mlflow.entities import Param
            from mlflow.tracking import MlflowClient
        except ModuleNotFoundError as error:
            raise missing(str(error.name), "mlflow") from error
        with FileLock(Path("mlflow.db.lock"), timeout=_PATIENCE_S):  # two that make the same database would both fail
            self._client = MlflowClient(tracking_uri=os.environ.get("MLFLOW_TRACKING_URI") or _DATABASE)
            found = self._client.get_experiment_by_name(self._experiment)
            experiment = found.experiment_id if found else self._client.create_experiment(self._experiment)
        note = run.folder / ID_FILE
        if note.is_file():
            self._id = note.read_text(encoding="utf-8").strip()
            self._client.update_run(self._id, status="RUNNING")
            return
        self._id = self._client.create_run(experiment, run_name=name_of(run.folder)).info.run_id
        self._client.log_batch(self._id, params=[Param(key, str(value)) for key, value in run.settings.items()])
        note.write_text(f"{self._id}\n", encoding="utf-8")

    def __call__(self, done: "RoundDone") -> None:
        """The round's numbers, by its number."""
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        found = [Metric(name, value, now, done.round) for name, value in numbers_of(done.metrics).items()]
        self._client.log_batch(self._id, metrics=found)

    def end(self, run: "Run") -> None:
        """How it ended."""
        if self._client is not None and self._id:
            self._client.set_terminated(self._id, _STATUS.get(run.status, "FAILED"))
