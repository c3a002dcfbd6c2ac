"""Runs beside each other."""

from dataclasses import replace

from bfl.dashboard.facts import Snapshot
from bfl.dashboard.pages.views.compare import compare_view
from bfl.dashboard.pages.views.links import Links
from tests.bfl.dashboard.pages.browsing import fact, lie, snapshot


def run(name: str, seed: int, accuracy: float, **settings: str) -> Snapshot:
    known = snapshot([fact(1, accuracy=accuracy, offences=(lie(1),) if seed else ())])
    about = replace(known.about, name=name, seed=seed, settings={"seed": seed, "filter": "none", **settings})
    return replace(known, about=about)


def test_runs_that_differ_by_their_seed_are_a_group_with_mean_and_spread() -> None:
    runs = [run("a", 0, 0.5), run("b", 1, 0.7), run("c", 0, 0.9, filter="krum")]
    view = compare_view(runs, ["a", "b", "c", "d"], Links("a"))
    assert [[each.text for each in row][1:6] for row in view.groups.rows] == [
        ["2", "0, 1", "1", "60.00 %", "14.14"],
        ["1", "0", "1", "90.00 %", ""],
    ]
    assert view.groups.rows[0][7].tone == "bad"
    assert [(row[0].text, row[0].href, row[10].text) for row in view.runs.rows] == [
        ("a", "/?run=a", "50.00 %"), ("b", "/?run=b", "70.00 %"), ("c", "/?run=c", "90.00 %"),
    ]  # fmt: skip
    assert view.choices == (("a", True), ("b", True), ("c", True), ("d", False))
    assert [each.title for each in view.charts] == ["accuracy", "loss", "latency"]
