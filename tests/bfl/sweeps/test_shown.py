"""Sweeps where runs are shown: compared, and on the page."""

from pathlib import Path
from typing import Any

import pytest

from bfl.commands.dashboard import _sources
from bfl.dashboard.report.compare_page import comparison_page
from bfl.dashboard.report.comparing import groups_of
from bfl.dashboard.report.making import read_runs
from bfl.errors import BflError
from bfl.show.plots import Banded, plot_banded
from bfl.sweeps.folder import runs_in
from tests.bfl.dashboard.made import line, write_run
from tests.bfl.runs import png_size


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Two cells of two seeds, one of which has not begun."""
    folder = tmp_path / "sweep"
    for scheme in ("bfl", "fedavg"):
        for seed in (0, 1):
            lines = [line(k, accuracy=0.1 * k) for k in range(1, 4)] if (scheme, seed) != ("fedavg", 1) else []
            (folder / f"scheme={scheme}").mkdir(parents=True, exist_ok=True)
            write_run(folder / f"scheme={scheme}" / f"seed={seed}", lines, seed=seed, scheme=scheme, planner=scheme)
    (folder / "sweep.toml").touch()
    return folder


def test_the_runs_of_a_sweep_are_those_that_have_begun(sweep: Path, tmp_path: Path) -> None:
    assert [str(run.relative_to(sweep)) for run in runs_in(sweep)] == [
        "scheme=bfl/seed=0", "scheme=bfl/seed=1", "scheme=fedavg/seed=0",
    ]  # fmt: skip
    assert runs_in(tmp_path) == [tmp_path]
    (tmp_path / "sweep.toml").touch()
    with pytest.raises(BflError, match="is a sweep without a finished round; go on with it: bfl sweep"):
        runs_in(tmp_path)


def test_the_page_shows_them_by_cell_and_seed(sweep: Path) -> None:
    names = [source.name for source in _sources([sweep], "", None)]
    assert names == ["scheme=bfl,seed=0", "scheme=bfl,seed=1", "scheme=fedavg,seed=0"]


def test_groups_are_named_by_what_differs_alone(sweep: Path) -> None:
    groups = groups_of([each.snapshot for each in read_runs(runs_in(sweep))])
    assert [(each.name, each.seeds) for each in groups] == [("bfl, bfl", (0, 1)), ("fedavg, fedavg", (0,))]
    page = comparison_page(groups)
    assert "3 runs in 2 groups" in page
    assert "<script" not in page


def test_lines_that_are_the_same_are_drawn_once_under_all_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.axes import Axes

    labels: list[str] = []
    draw = Axes.plot

    def drawn(self: Axes, *values: Any, **more: Any) -> Any:
        labels.append(more["label"])
        return draw(self, *values, **more)

    monkeypatch.setattr(Axes, "plot", drawn)
    points, long = [(1.0, 2.0), (2.0, 3.0)], "another with a name that is too long for a line"
    lines = [Banded("one", points), Banded(long, points), Banded("b", [(1.0, 9.0)])]
    width, height = png_size(plot_banded(lines, "round", "T", "", tmp_path / "lines.png"))
    assert labels == ["one\n= another with a name that is too long\n   for a line", "b"]
    assert width > height
