"""A file is data: code that it names runs only where a person says so (Q4)."""

import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bfl.config import read_settings
from bfl.errors import ConfigError
from bfl.experiments.context import Budget, ExperimentContext
from bfl.experiments.learning import trials
from bfl.show.task_display import TaskDisplay
from bfl.simulation import run as simulation
from bfl.simulation.run_folder import RunFolder
from tests.bfl.conftest import Command
from tests.bfl.runs import SMALL, flags_of, ignore, interrupt, small

pytestmark = pytest.mark.usefixtures("without_plots")
PLUGIN = """
from pathlib import Path
from typing import Any
Path("ran").touch()

def load(folder, seed):
    from clients.data import synthetic
    return synthetic(folder, seed)

def make(sample_shape, classes, hidden):
    from clients.models import fashion_mnist_cnn
    return fashion_mnist_cnn(sample_shape, classes, hidden)
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with a module that leaves a trace when it is imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "stranger", raising=False)
    (tmp_path / "stranger.py").write_text(PLUGIN)
    return tmp_path


def test_a_run_folder_that_names_a_program_does_not_run_it(command: Command, here: Path) -> None:
    """It ran `subprocess:Popen` with the folder in `data-dir` as its program."""
    program = here / "program"
    program.write_text("#!/bin/sh\ntouch ran\n")
    program.chmod(0o755)
    interrupt(small(), here / "run", after=1)
    config = here / "run" / "config.toml"
    text = config.read_text().replace('dataset = "synthetic"', 'dataset = "subprocess:Popen"')
    config.write_text(text.replace('data-dir = ""', f'data-dir = "{program}"'))
    answer = command("simulate", "--resume", "run")
    assert (answer.code, answer.out) == (2, "resuming run; loading ...\n")
    assert answer.err == (
        "error: run/config.toml: found dataset = 'subprocess:Popen', which is code to run, in a file; expected "
        "fashion-mnist, svhn, synthetic. If you know that code, say so with --allow-plugins "
        "(in a kit: allow-plugins = true)\n"
    )
    assert not (here / "ran").exists()


@pytest.mark.parametrize(("key", "name"), [("dataset", "stranger:load"), ("model", "stranger:make")])
def test_a_plug_in_in_a_configuration_needs_a_persons_word(command: Command, here: Path, key: str, name: str) -> None:
    (here / "mine.toml").write_text(f'{key} = "{name}"\n')
    settings = {setting: value for setting, value in SMALL.items() if setting != key} | {"rounds": 1}
    refused = command("simulate", "--config", "mine.toml", *flags_of(settings))
    assert refused.code == 2
    assert f"mine.toml: found {key} = '{name}', which is code to run, in a file" in refused.err
    assert not (here / "ran").exists()
    allowed = command("simulate", "--config", "mine.toml", "--allow-plugins", "--out", "run", *flags_of(settings))
    assert (allowed.code, allowed.err) == (0, "")
    assert (here / "ran").exists()


def test_what_a_person_types_is_that_persons_word_and_overrides_the_file(command: Command, here: Path) -> None:
    (here / "mine.toml").write_text('dataset = "subprocess:Popen"\n')
    typed = flags_of(SMALL | {"dataset": "stranger:load", "rounds": 1})
    assert command("simulate", "--config", "mine.toml", "--out", "run", *typed).code == 0
    assert (here / "ran").exists()


def test_a_variable_of_the_environment_is_a_persons_word(here: Path) -> None:
    assert read_settings(environment={"BFL_DATASET": "stranger:load"}).data.dataset == "stranger:load"
    (here / "mine.toml").write_text('dataset = "subprocess:Popen"\n')
    assert read_settings(here / "mine.toml", {"BFL_DATASET": "synthetic"}).data.dataset == "synthetic"


def test_a_run_of_ones_own_plug_in_goes_on_with_the_word_and_says_so(
    command: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = simulation.run

    def pressed(ready: simulation.Simulation, _: object, **more: Any) -> object:
        def press(report: object) -> None:
            raise KeyboardInterrupt

        return rounds(ready, press)

    monkeypatch.setattr(simulation, "run", pressed)
    told = command("simulate", "--out", "run", *flags_of(SMALL | {"dataset": "stranger:load"}))
    assert told.code == 130
    assert told.out.endswith("Go on with: bfl simulate --resume run --allow-plugins\n")
    monkeypatch.setattr(simulation, "run", rounds)
    assert command("simulate", "--resume", "run").code == 2
    assert command("simulate", "--resume", "run", "--allow-plugins").code == 0


@pytest.mark.parametrize(
    "text",
    [
        'dataset = "clients.data:synthetic"\nmodel = "clients.models:svhn_cnn"',
        'dataset = "synthetic"\nmodel = "auto"',
        'model = "fashion-mnist-cnn"',
        'planner = "random:0.3"\nphi = "auto:7"',
    ],
)
def test_plug_ins_of_our_own_need_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.toml").write_text(text)
    read_settings(tmp_path / "mine.toml")


@pytest.mark.parametrize(
    "name",
    [
        "clients.sources:_run",
        "clients.plugins:load_plugin",
        "bfl.experiments.catalogue:import_module",
        "clients.data :synthetic",
        "clients.data:synthetic:more",
        "CLIENTS.data:synthetic",
        "synthetic:",
        ":",
    ],
)
def test_other_functions_of_our_modules_are_no_plug_ins(tmp_path: Path, name: str) -> None:
    """Whoever may choose among all our functions, and give them a path, chooses one that runs something."""
    for key in ("dataset", "model"):
        (tmp_path / "mine.toml").write_text(f'{key} = "{name}"')
        with pytest.raises(ConfigError, match=f"found {key} = .* which is code to run, in a file"):
            read_settings(tmp_path / "mine.toml")


def test_a_name_with_control_characters_is_shown_not_obeyed(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(r'dataset = "\u001b[2J:x"')
    with pytest.raises(ConfigError) as caught:
        read_settings(tmp_path / "mine.toml")
    assert "\x1b" not in str(caught.value)


def test_reproduce_goes_on_with_the_data_set_that_was_typed_and_with_no_other(here: Path) -> None:
    trial = trials.Trial("consensus-no-chain", "iid", 0, 2, dataset="stranger:load", evaluate_every=0)
    context = ExperimentContext(here, Budget(), TaskDisplay(Console()))
    path = context.folder / "runs" / trial.key
    ready = simulation.start(read_settings(flags=trial.flags | {"devices": 4, "iterations": 1}), path)
    ready.folder.release()
    resumed = trials._start_or_resume(trial, path)
    assert resumed.settings.data.dataset == "stranger:load"
    resumed.folder.release()
    config = path / "config.toml"
    config.write_text(config.read_text().replace('model = "auto"', 'model = "subprocess:Popen"'))
    with pytest.raises(ConfigError, match="found model = 'subprocess:Popen'"):
        trials._start_or_resume(trial, path)


def test_settings_are_checked_before_anything_of_a_run_is_made(here: Path) -> None:
    made = RunFolder.create(here / "run", small(dataset="stranger:load"), {})
    made.release()
    with pytest.raises(ConfigError):
        simulation.resume(here / "run", None, False)
    assert not (here / "ran").exists()
    simulation.run(simulation.resume(here / "run", 1, True, allow_plugins=True), ignore)
    assert (here / "ran").exists()
