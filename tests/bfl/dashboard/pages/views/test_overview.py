"""The six key figures and the legends, by hand."""

from dataclasses import replace

from bfl.dashboard.pages.views.links import Links
from bfl.dashboard.pages.views.overview import drawn, latency_kinds, overview, phase_entries, thinned
from tests.bfl.dashboard.pages.browsing import block, fact, lie, snapshot


def told(**changes: object) -> list[tuple[str, str, str, str]]:
    rounds = [fact(k, accuracy=0.5 + 0.01 * k) for k in range(1, 8)]
    rounds[-1] = replace(rounds[-1], **changes)  # type: ignore[arg-type]
    view = overview(snapshot(rounds, [block(n) for n in range(9)]), Links())
    return [(each.value, each.unit, each.note, each.tone) for each in view.figures]


def test_key_figures_of_a_calm_run() -> None:
    assert told() == [
        ("57.00", "%", "▲ 5.00 points over 5 rounds", ""),
        ("3.25", "s", "real model 2.75 s", ""),
        ("0.875", "s", "train 0.500 s", ""),
        ("3", "of 4", "S0 leads, device 1 sealed", ""),
        ("1.00", "MB", "9.00 MB in all", ""),
        ("0", "", "nobody accused or refused", "good"),
    ]


def test_key_figures_of_a_lie() -> None:
    figures = told(offences=(lie(7),))
    assert figures[5] == ("1", "", "see the evidence", "bad")


def test_key_figures_of_a_network_of_machines() -> None:
    figures = told(measured={"learn": 1.0, "consensus": 0.5, "mine": 0.5, "T": 2.0, "T_wall": 2.0})
    assert figures[1] == ("2.00", "s", "predicted 3.25 s", "")


def test_of_nothing_nothing_is_claimed() -> None:
    view = overview(snapshot(), Links())
    assert [each.value for each in view.figures] == ["–", "–", "–", "–", "–", "0"]
    assert (view.latency, view.phases, view.bands) == ((), (), "")
    assert drawn(snapshot()).learning == ()


def test_terms_have_values_meanings_and_the_colours_of_the_chart() -> None:
    paper, real = latency_kinds(fact(1))
    assert [each.name for each in latency_kinds(fact(1, measured={"T": 1.0}))] == ["measured", "paper", "real"]
    assert [(each.label, each.value, each.colour) for each in paper.entries] == [
        ("mine", "2.00 s", 0), ("consensus", "0.250 s", 3), ("learn", "1.00 s", 2), ("total", "3.25 s", None),
        ("wall clock", "0.800 s", None),
    ]  # fmt: skip
    assert all(each.title for each in paper.entries)
    assert real.name == "real"
    assert "constants of the paper" in paper.meaning
    assert [(each.name, each.value) for each in phase_entries(fact(1))] == [
        ("train", "0.500 s"), ("seal", "0.250 s"), ("plan", "0.125 s"), ("total", "0.875 s"),
    ]  # fmt: skip


def test_many_rounds_are_thinned_out_and_lies_are_not() -> None:
    rounds = [fact(k, None, offences=(lie(k),) if k == 2 else ()) for k in range(1, 1001)]
    kept = thinned(rounds)
    assert (len(kept), kept[0].round, kept[1].round, kept[-1].round) == (251, 1, 5, 1000)
    charts = drawn(snapshot(rounds))
    assert [event.at for event in charts.learning[0].events] == [2]
    assert len(charts.phases[0].lines) == 3


def test_a_simulation_says_that_it_is_one() -> None:
    known = snapshot([fact(1)])
    assert "simulated" in overview(known, Links()).simulated
    real = replace(known, about=replace(known.about, is_simulated=False))
    assert overview(real, Links()).simulated == ""
    assert dict(overview(known, Links()).facts)["planner"] == "a2c"
