"""Pictures of a run."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from bfl.show.plots import plot_curves, plot_latency, plot_partition, pyplot
from tests.bfl.runs import png_size


def line(round_: int, accuracy: float | None, loss: float | None) -> dict[str, Any]:
    """What a curve needs of a line of metrics."""
    return {"round": round_, "accuracy": accuracy, "loss": loss}


def test_a_partition_of_few_or_many_devices_is_a_picture_that_fits_a_screen(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    cases: list[int] = [1, 3, 200]
    for devices in cases:
        with subtests.test(devices=devices):
            labels = np.arange(2_000) % 10
            shares = np.array_split(np.arange(2_000), devices)
            path = plot_partition(shares, labels, 10, tmp_path / "partition.png", "who holds what")
            width, height = png_size(path)
            assert 500 <= width <= 1_500
            assert 150 <= height <= 12 * 130
            assert imread(path).std() > 0.01


def test_the_picture_of_a_partition_shows_who_holds_what(tmp_path: Path) -> None:
    labels = np.repeat(np.arange(2), 50)
    even = [np.arange(0, 100, 2), np.arange(1, 100, 2)]
    uneven = [np.arange(50), np.arange(50, 100)]
    pictures = [
        imread(plot_partition(shares, labels, 2, tmp_path / f"{name}.png", "same title"))
        for name, shares in (("even", even), ("uneven", uneven))
    ]
    assert not np.array_equal(pictures[0], pictures[1])


@pytest.mark.parametrize("title", ["given data 5e390bdf, __main__:halves: who holds what", "a " * 60])
def test_the_title_of_a_narrow_partition_stays_on_the_picture(title: str, tmp_path: Path) -> None:
    shares = [np.arange(50), np.arange(50, 100)]
    pixels = imread(plot_partition(shares, np.repeat(np.arange(2), 50), 2, tmp_path / "narrow.png", title))[..., :3]
    assert pixels[:, :3].min() == 1
    assert pixels[:, -3:].min() == 1


def test_curves_are_two_pictures(tmp_path: Path) -> None:
    paths = plot_curves([line(1, 0.5, 2.0), line(2, 0.75, 1.0)], tmp_path, "a run")
    assert [path.name for path in paths] == ["accuracy.png", "loss.png"]
    assert {png_size(path) for path in paths} == {(910, 546)}  # 7 x 4.2 inches of 130 dots


def test_rounds_that_were_not_evaluated_leave_no_mark(tmp_path: Path) -> None:
    some, all_ = tmp_path / "some", tmp_path / "all"
    some.mkdir()
    all_.mkdir()
    evaluated = [line(2, 0.5, 2.0), line(4, 0.75, 1.0)]
    plot_curves([line(1, None, None), evaluated[0], line(3, None, None), evaluated[1]], some, "a run")
    plot_curves(evaluated, all_, "a run")
    assert np.array_equal(imread(some / "accuracy.png"), imread(all_ / "accuracy.png"))


def test_a_loss_that_was_no_number_leaves_a_gap_and_not_a_crash(tmp_path: Path) -> None:
    paths = plot_curves([line(1, 0.5, 2.0), line(2, 0.1, None), line(3, 0.1, None)], tmp_path, "a run")
    assert [png_size(path) for path in paths] == [(910, 546)] * 2


def test_a_loss_of_zero_is_a_point_of_the_curve(tmp_path: Path) -> None:
    falling, missing = tmp_path / "falling", tmp_path / "missing"
    for folder, loss in ((falling, 0.0), (missing, None)):
        folder.mkdir()
        plot_curves([line(1, 0.5, 2.0), line(2, 1.0, loss)], folder, "a run")
    assert not np.array_equal(imread(falling / "loss.png"), imread(missing / "loss.png"))


def test_a_run_without_any_round_still_has_its_pictures(tmp_path: Path) -> None:
    assert [png_size(path) for path in plot_curves([], tmp_path, "nothing yet")] == [(910, 546)] * 2


def test_latency_has_a_line_for_each_kind_and_term_and_no_picture_without_plans(tmp_path: Path) -> None:
    terms = {"paper": {"T": 9.0, "T_wall": 2.0}, "real": {"T": 7.0, "T_wall": 1.0}}
    path = plot_latency([{"round": 1, "latency": terms}, {"round": 2, "latency": terms}], tmp_path, "a run")
    assert path is not None
    assert png_size(path) == (1040, 832)
    assert plot_latency([{"round": 1, "latency": {}}], tmp_path, "a run") is None
    assert plot_latency([], tmp_path, "a run") is None


def test_what_went_wrong_is_on_every_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[str, float]] = []
    axes = pyplot().Axes
    for name in ("axvline", "axvspan"):

        def note(self: Any, at: float, *rest: Any, _name: str = name, **more: Any) -> None:
            drawn.append((_name, at))

        monkeypatch.setattr(axes, name, note)
    terms = {"paper": {"T": 9.0, "T_wall": 2.0}}
    lines = [
        line(k, 0.5, 1.0) | {"latency": terms, "offences": [{}] * (k == 2), "excluded": [1] * (k in (2, 3))}
        for k in range(1, 6)
    ]
    plot_curves(lines, tmp_path, "a run")
    assert drawn == [("axvline", 2), ("axvspan", 2.5), ("axvspan", 3.5)] * 2
    plot_latency(lines, tmp_path, "a run")
    assert drawn == [("axvline", 2), ("axvspan", 2.5), ("axvspan", 3.5)] * 4


def test_rounds_are_whole_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks: list[float] = []
    subplots = pyplot().subplots

    def kept(*sizes: Any, **more: Any) -> Any:
        figure, axes = subplots(*sizes, **more)
        monkeypatch.setattr(figure, "savefig", lambda *_, **__: ticks.extend(axes.get_xticks()))
        return figure, axes

    monkeypatch.setattr(pyplot(), "subplots", kept)
    plot_curves([line(k, 0.1 * k, 1.0) for k in range(1, 4)], tmp_path, "a run")
    assert ticks
    assert all(float(tick).is_integer() for tick in ticks)


def test_the_number_on_the_picture_is_that_of_the_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(pyplot().Axes, "annotate", lambda self, text, *rest, **more: told.append(text))
    accuracies = [0.1, 0.5, 0.6, 0.7, 0.8, 0.9]
    plot_curves([{"round": k, "accuracy": a, "loss": 1.0} for k, a in enumerate(accuracies, 1)], tmp_path, "a run")
    assert told[0] == "70 (mean of the last 5)"
