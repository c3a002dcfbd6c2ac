"""Writers with the real packages: what they wrote is read back with the package's own reader."""

import csv
import sys
from pathlib import Path
from typing import Any

import pytest

import bfl
from bfl.errors import BflError, ConfigError
from bfl.writers.named import WRITERS, names_in, writers_named
from tests.bfl.runs import SMALL
from tests.bfl.runs import bfl as bfl_command

pytestmark = pytest.mark.usefixtures("without_plots")
SETTINGS: dict[str, Any] = {key.replace("-", "_"): value for key, value in SMALL.items()} | {"rounds": 2}


def run_in_two_calls(folder: Path, make: Any) -> bfl.Run:
    """Two rounds, then a third in another call, each with a new writer."""
    bfl.simulate(**SETTINGS, out=folder, on_round=make(), progress=False)
    return bfl.open_run(folder).resume(3, on_round=make(), progress=False)


def test_csv_has_a_row_per_round_in_the_columns_of_the_metrics(tmp_path: Path) -> None:
    run = run_in_two_calls(tmp_path / "run", bfl.CsvWriter)
    rows = list(csv.DictReader((tmp_path / "run" / "metrics.csv").open()))
    assert [row["round"] for row in rows] == ["1", "2", "3"]
    assert list(rows[0]) == list(run.metrics[0])
    assert [float(row["accuracy"]) for row in rows] == [row["accuracy"] for row in run.metrics]


def test_csv_is_whole_after_every_round(tmp_path: Path) -> None:
    seen = []

    def look(done: bfl.RoundDone) -> None:
        seen.append(len(list(csv.DictReader((tmp_path / "own.csv").open()))))

    bfl.simulate(**SETTINGS, on_round=[bfl.CsvWriter(tmp_path / "own.csv"), look], progress=False)
    assert seen == [1, 2]


def test_tensorboard_reads_the_numbers_back(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed: pip install '.[tensorboard]'")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = run_in_two_calls(tmp_path / "run", bfl.TensorBoardWriter)
    found = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    told = [(event.step, event.value) for event in found.Scalars("accuracy")]
    assert told == [(row["round"], pytest.approx(row["accuracy"])) for row in run.metrics]
    assert {"latency/paper_T", "seconds/train", "loss"} <= set(found.Tags()["scalars"])


def test_mlflow_has_one_run_with_settings_and_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow", reason="mlflow is not installed: pip install '.[mlflow]'")
    from mlflow.tracking import MlflowClient

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    run = run_in_two_calls(tmp_path / "run", bfl.MlflowWriter)
    client = MlflowClient(tracking_uri="sqlite:///mlflow.db")
    experiment = client.get_experiment_by_name("bfl")
    (known,) = client.search_runs([experiment.experiment_id])
    assert (known.info.status, known.data.params["scheme"]) == ("FINISHED", "consensus-no-chain")
    history = client.get_metric_history(known.info.run_id, "accuracy")
    assert [(each.step, each.value) for each in history] == [(row["round"], row["accuracy"]) for row in run.metrics]


def test_wandb_offline_has_settings_and_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed: pip install '.[wandb]'")
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = bfl.simulate(**SETTINGS, out=tmp_path / "run", on_round=bfl.WandbWriter(), progress=False)
    rows = _offline_history(tmp_path / "run" / "wandb")
    assert [float(row["accuracy"]) for row in rows] == [pytest.approx(row["accuracy"]) for row in run.metrics]
    assert run.resume(3, on_round=bfl.WandbWriter(), progress=False).status == "finished"
    folders = list((tmp_path / "run" / "wandb").glob("offline-run-*"))
    known = (tmp_path / "run" / "wandb-run.txt").read_text().strip()
    assert {folder.name.rpartition("-")[2] for folder in folders} == {known}, "one id, so that wandb sync joins them"


def _offline_history(folder: Path) -> list[dict[str, str]]:
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore

    (path,) = folder.glob("offline-run-*/*.wandb")
    store, rows = DataStore(), []
    store.open_for_scan(str(path))
    while data := store.scan_data():
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "history":
            rows.append({"/".join(item.nested_key) or item.key: item.value_json for item in record.history.item})
    return rows


@pytest.mark.parametrize("name", ["tensorboard", "mlflow", "wandb"])
def test_a_package_that_is_missing_is_told_before_anything_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(BflError, match=rf"{name} is not installed; get it with: pip install '\.\[{name}\]'"):
        names_in(f"csv,{name}")
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    monkeypatch.setitem(sys.modules, f"{name}.entities", None)
    with pytest.raises(bfl.CallbackError, match="is not installed; get it with"):
        bfl.simulate(**SETTINGS, out=tmp_path / "run", on_round=writers_named((name,)), progress=False)


def test_names_on_the_command_line() -> None:
    assert names_in("") == ()
    assert names_in(" csv, csv ") == ("csv",)
    with pytest.raises(ConfigError, match=r'--log: found "cvs", expected csv, .* \(did you mean "csv"\?\)'):
        names_in("cvs")
    assert list(WRITERS) == ["csv", "tensorboard", "mlflow", "wandb"]


def test_the_command_line_writes_too(tmp_path: Path) -> None:
    flags = [word for key, value in (SMALL | {"rounds": 1}).items() for word in (f"--{key}", str(value))]
    told = bfl_command("simulate", "--log", "csv", "--out", "run", *flags, folder=tmp_path)
    assert told.returncode in (0, 3), told.stderr
    assert len((tmp_path / "run" / "metrics.csv").read_text().splitlines()) == 2
