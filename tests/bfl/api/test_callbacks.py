"""Callbacks: what they are told, how they stop a run, and what becomes of it where they fail."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bfl
from clients.models import to_vector
from tests.bfl.api.small_runs import ON_CHAIN, QUICK

pytestmark = pytest.mark.usefixtures("without_plots")


@dataclass
class Writer:
    """Keeps what it was told, as a file would."""

    told: list[Any] = field(default_factory=list)
    stops_at: int = 0
    fails_at: int | str = 0

    def begin(self, run: bfl.Run) -> None:
        self.told.append(("begin", len(run.metrics)))
        self._fail("begin")

    def __call__(self, done: bfl.RoundDone) -> bool:
        self.told.append(done.round)
        self._fail(done.round)
        if done.round == self.stops_at:
            raise bfl.StopRun("good enough")
        return False

    def end(self, run: bfl.Run) -> None:
        self.told.append(("end", run.status))
        self._fail("end")

    def _fail(self, when: int | str) -> None:
        if when == self.fails_at:
            raise ZeroDivisionError("of a user")


def test_a_callback_hears_of_every_round_with_its_row_its_report_and_its_model() -> None:
    heard: list[bfl.RoundDone] = []
    models: list[Any] = []
    run = bfl.simulate(**QUICK, on_round=[heard.append, lambda done: models.append(to_vector(done.model()))])
    assert [(done.round, done.rounds) for done in heard] == [(1, 3), (2, 3), (3, 3)]
    assert [done.metrics for done in heard] == run.metrics
    assert [done.report.round for done in heard] == [1, 2, 3]
    assert heard[0].run.folder == run.folder
    assert np.array_equal(models[-1], to_vector(run.model()))
    assert not np.array_equal(models[0], models[1])


def test_a_round_is_on_disk_before_anybody_hears_of_it() -> None:
    recorded: list[int] = []
    bfl.simulate(**QUICK, on_round=lambda done: recorded.append(len(done.run.rounds)))
    assert recorded == [1, 2, 3]


def test_an_object_hears_of_beginning_and_end_also_of_a_run_that_goes_on() -> None:
    first, second = Writer(), Writer()
    run = bfl.simulate(**QUICK | {"rounds": 2}, on_round=first)
    run.resume(3, on_round=[second], progress=False)
    assert first.told == [("begin", 0), 1, 2, ("end", "finished")]
    assert second.told == [("begin", 2), 3, ("end", "finished")]


def test_a_callback_may_stop_the_run_which_goes_on_later_to_the_same_end(tmp_path: Path) -> None:
    writer = Writer(stops_at=2)
    run = bfl.simulate(**ON_CHAIN | {"rounds": 4}, on_round=writer, out=tmp_path / "run")
    assert writer.told == [("begin", 0), 1, 2, ("end", "stopped")]
    assert (run.status, run.summary["stopped-by"], run.summary["rounds"]) == ("stopped", "good enough", 2)
    assert run.audit().verdict == "fits"
    run.resume(progress=False)
    assert (run.status, run.chain.head) == ("finished", bfl.simulate(**ON_CHAIN | {"rounds": 4}).chain.head)


def test_a_callback_that_fails_ends_the_run_with_its_name_and_a_folder_to_go_on_with() -> None:
    other = Writer()
    with pytest.raises(bfl.CallbackError, match="callback Writer, round 2: ZeroDivisionError: of a user") as caught:
        bfl.simulate(**QUICK, on_round=[other, Writer(fails_at=2)])
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert other.told == [("begin", 0), 1, 2, ("end", "failed")]
    run = caught.value.run
    assert (run.status, len(run.rounds), run.is_temporary) == ("failed", 2, False)
    assert run.resume(progress=False).metrics[-1]["accuracy"] == bfl.simulate(**QUICK).metrics[-1]["accuracy"]


@pytest.mark.parametrize(("when", "rounds"), [("begin", 0), ("end", 3)])
def test_one_that_fails_at_the_beginning_or_the_end_is_named_too(when: str, rounds: int) -> None:
    with pytest.raises(bfl.CallbackError, match=f"callback Writer, {when}: ZeroDivisionError") as caught:
        bfl.simulate(**QUICK, on_round=Writer(fails_at=when))
    assert len(caught.value.run.rounds) == rounds
    assert caught.value.run.resume(4, progress=False).status == "finished"


def test_ctrl_c_raises_with_the_run_and_callbacks_hear_of_the_end() -> None:
    writer = Writer()

    def press(done: bfl.RoundDone) -> None:
        if done.round == 2:
            raise KeyboardInterrupt

    with pytest.raises(bfl.RunInterrupted, match=r"interrupted after round 2; go on with bfl\.open_run\(") as caught:
        bfl.simulate(**QUICK, on_round=[writer, press])
    assert writer.told == [("begin", 0), 1, 2, ("end", "interrupted")]
    run = caught.value.run
    assert (run.status, run.is_temporary) == ("interrupted", False)
    assert bfl.open_run(run.folder).resume(progress=False).status == "finished"
