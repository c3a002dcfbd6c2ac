"""`bfl.simulate`, `bfl.open_run`, and what a `Run` shows."""

import gc
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bfl
from bfl.api.flat import flat_row, same_keys
from clients.data import load_dataset
from clients.evaluation import evaluate_model
from clients.models import to_vector
from tests.bfl.api.small_runs import ON_CHAIN, QUICK
from tests.bfl.runs import ROOT, flags_of, metrics_without_seconds
from tests.bfl.runs import bfl as command_line


@pytest.fixture(scope="module")
def run() -> bfl.Run:
    """Three rounds on a chain, in a temporary folder; server 1 lies in round 2."""
    return bfl.simulate(**ON_CHAIN, attack="iterate-noise@2:server=1,step=1")


def test_importing_bfl_loads_nothing_that_takes_seconds() -> None:
    code = "import sys, bfl; print(sorted({'torch', 'numpy', 'flwr', 'rich', 'typer', 'pandas'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_first_line_is_there_before_torch_is_loaded() -> None:
    code = (
        "import sys, bfl\n"
        "class Watched:\n"
        "    def write(self, text): sys.__stdout__.write(f\"{'torch' in sys.modules} {text}\")\n"
        "    def flush(self): sys.__stdout__.flush()\n"
        "sys.stdout = Watched()\n"
        "bfl.simulate(dataset='nowhere:load', rounds=7)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("False simulating 7 rounds of bfl: 10 devices, 3 edge servers")
    assert "cannot import nowhere" in done.stderr


def test_every_name_of_the_package_is_there() -> None:
    assert set(bfl._LAZY) <= set(dir(bfl))
    for name in bfl._LAZY:
        assert getattr(bfl, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'simulat'"):
        _ = bfl.simulat  # type: ignore[attr-defined]


def test_the_same_settings_give_the_same_run_from_python_and_from_the_command_line(tmp_path: Path) -> None:
    settings = {name: value for name, value in QUICK.items() if name != "progress"} | {"rounds": 2}
    bfl.simulate(out=tmp_path / "python", **settings, progress=False)
    flags = flags_of({name.replace("_", "-"): value for name, value in settings.items()})
    done = command_line("simulate", *flags, "--out", "shell", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert metrics_without_seconds(tmp_path / "shell") == metrics_without_seconds(tmp_path / "python")
    for name in ("model.pt", "config.toml"):
        assert (tmp_path / "shell" / name).read_bytes() == (tmp_path / "python" / name).read_bytes()


def test_a_configuration_file_and_the_environment_count_less_than_what_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.toml").write_text("rounds = 9\nseed = 9\nphi = 2\n")
    monkeypatch.setenv("BFL_SEED", "4")
    settings = {name: value for name, value in QUICK.items() if name != "seed"} | {"rounds": 1}
    run = bfl.simulate(config=tmp_path / "mine.toml", **settings)
    assert (run.settings["rounds"], run.settings["seed"], run.settings["phi"]) == (1, 4, "2")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"round": 3}, r'unknown setting "round" \(did you mean "rounds"\?\)'),
        ({"learning-rate": 0.1}, r'unknown setting "learning-rate" \(did you mean "learning_rate"\?\)'),
        ({"rounds": 0}, "rounds: found 0, expected at least 1"),
        ({"codec": "fp8"}, "codec: found .*expected one of fp16, fp32, int8"),
        ({"on_round": [print, 3]}, "on_round: found 3, expected a callable of one argument"),
    ],
)
def test_what_cannot_work_is_an_error_that_names_it(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(bfl.BflError, match=message):
        bfl.simulate(progress=False, **settings)


def test_metrics_are_flat_rows_for_tables(run: bfl.Run) -> None:
    rows = run.metrics
    assert [row["round"] for row in rows] == [1, 2, 3]
    assert all(list(row) == list(rows[0]) for row in rows)
    assert all(value is None or isinstance(value, (int, float, str)) for row in rows for value in row.values())
    assert [row["offences"] for row in rows] == [0, 2, 0]
    assert rows[0]["accuracy"] == run.rounds[0]["accuracy"]
    assert rows[0]["latency_paper_T"] == run.rounds[0]["latency"]["paper"]["T"]
    assert rows[0]["seconds"] == pytest.approx(sum(run.rounds[0]["seconds"].values()))
    frame = run.frame()
    assert frame.loc[2, "offences"] == 2
    assert list(frame.columns) == list(rows[0])


def test_no_row_has_a_nan_and_rows_of_other_phases_get_the_same_columns() -> None:
    rows = same_keys([
        flat_row({"round": 1, "divergence": float("nan"), "seconds": {"plan": 0.5}}),
        flat_row({"round": 2, "divergence": 0.5, "seconds": {}, "absent": ["server 1"]}),
    ])  # fmt: skip
    assert rows[0] == {"round": 1, "divergence": None, "seconds_plan": 0.5, "seconds": 0.5, "absent": None}
    assert rows[1] == {"round": 2, "divergence": 0.5, "seconds_plan": None, "seconds": 0, "absent": 1}


def test_settings_summary_and_environment_are_those_of_the_folder(run: bfl.Run) -> None:
    assert (run.settings["scheme"], run.settings["hidden"], run.settings["learning_rate"]) == ("bfl", "4", 0.1)
    assert (run.summary["status"], run.status, run.problem) == ("finished", "finished", "")
    assert run.environment["torch"] == torch.__version__


def test_the_settings_of_a_run_repeat_it(run: bfl.Run) -> None:
    again = bfl.simulate(**run.settings, progress=False)
    assert again.chain.head == run.chain.head


def test_the_model_has_the_recorded_accuracy(run: bfl.Run) -> None:
    dataset = load_dataset("synthetic", "", 0)
    network = bfl.open_run(run.folder).model()
    assert evaluate_model(network, to_vector(network), dataset.test).accuracy == run.metrics[-1]["accuracy"]
    assert not network.training
    assert np.array_equal(to_vector(run.model()), to_vector(network))
    with pytest.raises(bfl.BflError, match=r"has no model-server-1\.pt"):
        run.model(server=1)


def test_the_chain_is_there_to_look_at(run: bfl.Run) -> None:
    assert run.chain.head == run.summary["head"]
    blocks = run.chain.blocks
    assert [block["round"] for block in blocks] == [None, 0, 1, 2, 3]
    assert blocks[-1]["hash"] == run.chain.head
    assert blocks[2]["posts_gradient"] == 4
    assert "5 blocks" in repr(run.chain)
    with run.chain.open() as archive:
        assert archive.head().hash.hex() == run.chain.head


def test_the_audit_names_who_lied(run: bfl.Run) -> None:
    audit = run.audit()
    assert audit.verdict == "fits, but 1 participant misbehaved"
    assert audit.misbehaved == ["server 1"]
    assert not audit.is_clean
    assert [(each["round"], each["who"], each["step"]) for each in audit.findings] == [
        (2, "server 1", 1),
        (2, "server 1", 2),
    ]
    assert "fits, but 1 participant misbehaved" in str(audit)
    assert "fits, but 1 participant misbehaved" in audit._repr_html_()


def test_an_audit_of_a_model_that_was_swapped_says_so(run: bfl.Run, tmp_path: Path) -> None:
    copy = run.save(tmp_path / "copy")
    weights = torch.load(copy.folder / "model.pt", weights_only=True)
    next(iter(weights.values())).flatten()[0] += 1
    torch.save(weights, copy.folder / "model.pt")
    with pytest.raises(bfl.BflError, match=r"does not fit: model\.pt is another model"):
        copy.audit()


def test_a_scheme_without_a_chain_says_so() -> None:
    run = bfl.simulate(**QUICK | {"rounds": 1})
    with pytest.raises(bfl.BflError, match="scheme consensus-no-chain has no chain"):
        _ = run.chain
    with pytest.raises(bfl.BflError, match="has no chain"):
        run.audit()


def test_plots_are_pictures_by_name(run: bfl.Run) -> None:
    assert list(run.plots) == ["accuracy", "latency", "loss", "partition"]
    assert run.plots["accuracy"]._repr_png_().startswith(b"\x89PNG")
    assert run.plots._repr_html_().count("data:image/png;base64,") == len(run.plots)
    with pytest.raises(KeyError, match="found accuracy, latency, loss, partition"):
        _ = run.plots["acuracy"]


def test_a_run_shows_itself(run: bfl.Run) -> None:
    assert repr(run).startswith("<run finished, bfl on synthetic: 3 of 3 rounds, accuracy ")
    html = run._repr_html_()
    assert "data:image/png;base64," in html
    assert "<th style='text-align:left'>status</th><td style='text-align:left'>finished</td>" in html


def test_a_run_goes_on_to_what_it_would_have_been(run: bfl.Run, tmp_path: Path) -> None:
    copy = bfl.open_run(run.save(tmp_path / "copy").folder)
    assert copy.resume(5, progress=False) is copy
    whole = bfl.simulate(**ON_CHAIN | {"rounds": 5}, attack="iterate-noise@2:server=1,step=1")
    assert copy.chain.head == whole.chain.head
    with pytest.raises(bfl.BflError, match="has finished 5 rounds, 5 are asked for"):
        copy.resume(progress=False)
    copy.resume(6, progress=False)  # the refusal did not keep the folder locked


def test_a_temporary_folder_goes_with_the_run_and_a_copy_stays(tmp_path: Path) -> None:
    run = bfl.simulate(**QUICK | {"rounds": 1})
    folder, kept = run.folder, run.save(tmp_path / "kept")
    assert run.is_temporary
    assert not kept.is_temporary
    assert kept.metrics == run.metrics
    with pytest.raises(bfl.BflError, match="exists; choose another path"):
        run.save(tmp_path / "kept")
    del run
    gc.collect()
    assert not folder.exists()
    assert kept.folder.exists()


def test_what_is_no_run_folder_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(bfl.BflError, match=r"is not a run folder: it has no config\.toml"):
        bfl.open_run(tmp_path)


def test_a_run_in_which_nothing_is_learned_warns_and_says_why() -> None:
    with pytest.warns(bfl.NothingLearnedWarning, match="nothing was learned: no gradient counted in any of 2 rounds"):
        run = bfl.simulate(**ON_CHAIN | {"rounds": 2, "iterations": 2, "learning_rate": 1e9})
    assert run.problem == run.summary["problem"] != ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bfl.simulate(**QUICK | {"rounds": 1}).problem == ""


def test_progress_says_what_happens(capsys: pytest.CaptureFixture[str]) -> None:
    bfl.simulate(**ON_CHAIN | {"rounds": 1, "progress": True})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "simulating 1 rounds of bfl: 4 devices, 3 edge servers, synthetic, iid; loading ..."
    assert lines[1].startswith("data: synthetic, 6,000 samples")
    assert lines[2].startswith("chain: about ")
    assert lines[3].startswith("run folder: ")
    assert lines[3].endswith("(temporary: run.save(path) keeps it)")
    assert lines[4].startswith("round 1/1  accuracy ")
