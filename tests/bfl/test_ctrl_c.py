"""Ctrl-C at any moment of `bfl simulate`: exit code 130, how to go on, and a folder that does. Signals are real."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bfl.config import RunSettings
from bfl.simulation import run as simulation
from bfl.simulation import run_folder
from bfl.simulation.run_folder import RunFolder
from edge_servers import chain_hosting
from edge_servers.federation import Federation
from edge_servers.server import EdgeServer
from tests.bfl.chain_kills import RUN
from tests.bfl.conftest import Command
from tests.bfl.runs import environment, flags_of, metrics_without_seconds, without_details

CHAIN = {**RUN, "rounds": 3}
OFF_CHAIN = {**CHAIN, "scheme": "consensus-no-chain"}
Press = Callable[[pytest.MonkeyPatch, signal.Signals], None]


def pressed_in(where: Any, name: str, time: int = 1, presses: int = 1) -> Press:
    """Somebody who presses Ctrl-C when a function is called for the n-th time; it is not held up."""

    def prepare(monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> None:
        function, calls = getattr(where, name), []

        def disturbed(*arguments: Any, **more: Any) -> Any:
            calls.append(name)
            if time <= len(calls) < time + presses:
                os.kill(os.getpid(), number)
            return function(*arguments, **more)

        monkeypatch.setattr(where, name, disturbed)

    return prepare


@pytest.fixture(autouse=True)
def sigint_is_heard() -> Iterator[None]:
    """A suite that was started in the background has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


NOTHING = "Interrupted before the run began: nothing was written. Give the same command again."
AFTER = "Interrupted after round {}. Go on with: bfl simulate --resume run"
BEFORE = "Interrupted before round 1. Go on with: bfl simulate --resume run"
MOMENTS: dict[str, tuple[dict[str, object], Press, str]] = {
    "while data are loaded": (CHAIN, pressed_in(simulation, "dataset_of"), NOTHING),
    "while the folder is made": (CHAIN, pressed_in(RunFolder, "write_json"), BEFORE),
    "while its settings are written": (CHAIN, pressed_in(run_folder, "write_toml"), BEFORE),
    "while the chain is founded": (CHAIN, pressed_in(chain_hosting, "HostedChain"), BEFORE),
    "before round 1": (CHAIN, pressed_in(simulation, "recorded_standings"), BEFORE),
    "in round 1": (CHAIN, pressed_in(EdgeServer, "post_plan"), BEFORE),
    "in round 2": (CHAIN, pressed_in(EdgeServer, "post_plan", time=4), AFTER.format(1)),
    "after a block is sealed": (CHAIN, pressed_in(Federation, "evaluate", time=2), AFTER.format(1)),
    "while a round is written": (CHAIN, pressed_in(RunFolder, "append_metrics", time=2), AFTER.format(2)),
    "while a checkpoint is written": (
        OFF_CHAIN, pressed_in(RunFolder, "save_checkpoint", time=2), AFTER.format(2),
    ),
    "after the last round": (CHAIN, pressed_in(simulation, "finish"), AFTER.format(3)),
    "while the summary is written": (CHAIN, pressed_in(simulation, "summarise"), AFTER.format(3)),
    "twice": (OFF_CHAIN, pressed_in(simulation, "recorded_standings", time=2, presses=2), AFTER.format(1)),
}  # fmt: skip


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[dict[str, object]], Any]:
    """What a run comes to that nobody interrupts."""
    known: dict[str, Any] = {}

    def run(settings: dict[str, object]) -> Any:
        scheme = str(settings.get("scheme", "bfl"))
        if scheme not in known:
            out = tmp_path_factory.mktemp("whole") / "run"
            read = RunSettings.read(settings)
            simulation.run(simulation.start(read, out), lambda report: None)
            known[scheme] = without_details(metrics_without_seconds(out))
        return known[scheme]

    return run


@pytest.mark.slow
@pytest.mark.usefixtures("without_plots")
@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_at_any_moment_says_how_to_go_on_and_that_works(
    moment: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: Command,
    undisturbed: Callable[[dict[str, object]], Any],
) -> None:
    monkeypatch.chdir(tmp_path)
    settings, press, told = MOMENTS[moment]
    with monkeypatch.context() as patched:
        press(patched, signal.SIGTERM if moment == "in round 2" else signal.SIGINT)
        answer = command("simulate", *flags_of(settings), "--out", "run")
    assert (answer.code, answer.err) == (130, "")
    assert answer.out.splitlines()[-1].startswith(told)
    again = ["--resume", "run"] if told != NOTHING else [*flags_of(settings), "--out", "run"]
    resumed = command("simulate", *again)
    assert (resumed.code, resumed.err) == (0, "")
    assert without_details(metrics_without_seconds(tmp_path / "run")) == undisturbed(settings)


@pytest.mark.slow
def test_ctrl_c_while_torch_is_loaded_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bfl", "simulate", "--dataset", "synthetic", "--rounds", "2", "--out", "run"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline().startswith("simulating 2 rounds of bfl")
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (130, "")
    assert "Interrupted before" in rest
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_a_run_that_was_killed_while_it_was_made_is_taken_again(tmp_path: Path, command: Command) -> None:
    """`kill -9` between its first file and its settings: it is no run yet, and no work of anybody."""
    out = tmp_path / "run"
    (out / "plots").mkdir(parents=True)
    for name in ("environment.json", "metrics.jsonl", ".lock"):
        (out / name).touch()
    assert command("simulate", *flags_of({**OFF_CHAIN, "rounds": 1, "attack": ""}), "--out", str(out)).code == 0
    assert len(metrics_without_seconds(out)) == 1


def test_a_run_in_which_nothing_is_learned_ends_with_a_code_of_its_own(tmp_path: Path, command: Command) -> None:
    flags = flags_of(
        {**CHAIN, "attack": "", "filter": "none", "reputation": 0, "rounds": 2, "iterations": 2, "learning-rate": 1e9}
    )
    answer = command("simulate", *flags, "--out", str(tmp_path / "run"))
    assert answer.code == 3
    assert answer.err.startswith("error: nothing was learned: ")
    assert answer.err.endswith("; try a smaller learning-rate\n")


def test_ctrl_c_in_any_other_command_is_answered_too(monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    def pressed() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("bfl.doctor.examine", pressed)
    answer = command("doctor")
    assert (answer.code, answer.err) == (130, "Interrupted.\n")
