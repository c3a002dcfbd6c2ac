"""What stands around every page."""

from dataclasses import replace

from bfl.dashboard.pages.views.frame import frame
from bfl.dashboard.pages.views.links import Links
from tests.bfl.dashboard.pages.browsing import fact, lie, snapshot


def test_the_bar_says_how_the_run_stands() -> None:
    known = snapshot([fact(1), fact(2, offences=(lie(2),))], told="slow disk", reorganised=2)
    made = frame(known, ["mine"], Links(), "rounds", "Rounds")
    assert (made.status, made.tone, made.progress, made.round, made.planned) == ("running", "good", "2 / 10", 2, 10)
    assert [(tab.name, tab.count) for tab in made.tabs if tab.is_here or tab.count] == [
        ("rounds", None),
        ("offences", 1),
    ]
    assert made.status_meaning == "Rounds are being added."
    assert made.told == "slow disk"
    assert made.reorganised == "Blocks that were shown here were replaced by others 2 times: they were not final yet."
    assert made.runs == ()
    assert made.tables[0] == ("rounds", "/rounds.csv")


def test_of_several_runs_one_can_be_chosen() -> None:
    known = snapshot()
    open_ended = replace(known, about=replace(known.about, rounds_planned=None))
    made = frame(open_ended, ["mine", "other"], Links("mine"), "", "")
    assert [(each.name, each.is_here) for each in made.runs] == [("mine", True), ("other", False)]
    assert (made.run, made.progress) == ("mine", "0 rounds")
