"""What a person sees of a run: plain lines in a pipe, a live line on a terminal, a table at the end."""

import io
from typing import Any

import pytest
from rich.console import Console

from bfl.show.progress import RunDisplay, summary_table
from clients.evaluation import Scores
from edge_servers.learning.gradients import Refusal
from edge_servers.report import RoundReport


def report(round_: int, scores: Scores | None = None, refused: tuple[Refusal, ...] = ()) -> RoundReport:
    """A round of two seconds, one of them for evaluation."""
    return RoundReport(
        round=round_, leader=0, phi=5, training_nodes=3, samples=30, divergence=0.1, consensus_error=0.0, winner=0,
        refused=refused, scores=scores, seconds={"train": 1.25, "seal": 0.25, "evaluate": 0.5},
    )  # fmt: skip


def in_a_pipe(capsys: pytest.CaptureFixture[str], *reports: RoundReport) -> str:
    """What the display prints where nobody watches live."""
    with RunDisplay(Console(width=200), rounds=9, done=0) as display:
        for one in reports:
            display.show(one)
    return capsys.readouterr().out


def test_in_a_pipe_an_evaluated_round_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    shown = in_a_pipe(capsys, report(3, Scores(0.8125, 0.5)))
    assert shown == "round 3/9  accuracy 81.25 %  loss 0.5000  1.50 s\n"


def test_in_a_pipe_a_round_without_evaluation_is_a_line_that_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert in_a_pipe(capsys, report(1), report(2, Scores(0.8125, 0.5)), report(3)).splitlines() == [
        "round 1/9  not evaluated  1.50 s",
        "round 2/9  accuracy 81.25 %  loss 0.5000  1.50 s",
        "round 3/9  not evaluated  1.50 s",
    ]


def test_whoever_is_out_is_named_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    late = Refusal("device 4", "late", "no answer within 600 s")
    assert in_a_pipe(capsys, report(2, refused=(late,))).splitlines() == [
        "round 2/9  not evaluated  1.50 s",
        "round 2: device 4 is out (late): no answer within 600 s",
    ]


def test_a_device_may_complain_in_any_words(subtests: pytest.Subtests, capsys: pytest.CaptureFixture[str]) -> None:
    cases: list[str] = ["found shape [a, b]", "bad file [/tmp/x]", "[bold]", "[/]"]
    for detail in cases:
        with subtests.test(detail=detail):
            refusal = Refusal("device 4", "failed", detail)
            told = in_a_pipe(capsys, report(2, refused=(refusal,))).splitlines()[1]
            assert told == f"round 2: device 4 is out (failed): {detail}"


def test_a_long_complaint_stays_one_line_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    refusal = Refusal("device 4", "failed", "very " * 100 + "long")
    with RunDisplay(Console(width=80), rounds=9, done=0) as display:
        display.show(report(2, refused=(refusal,)))
    assert capsys.readouterr().out.count("\n") == 2  # the round's own, and the complaint


def test_on_a_terminal_a_bar_shows_the_last_accuracy_and_no_line_per_round() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120, color_system=None)
    with RunDisplay(console, rounds=9, done=2) as display:
        display.show(report(3, Scores(0.8125, 0.5)))
        display.show(report(4))
    shown = screen.getvalue()
    assert "4/9" in shown
    assert "accuracy 81.25 %" in shown
    assert "round 3/9" not in shown


SUMMARY: dict[str, Any] = {
    "scheme": "fedavg", "dataset": "synthetic", "status": "finished", "rounds": 4, "rounds-planned": 9,
    "accuracy": 0.8125, "loss": 0.5, "edges": 3, "devices": 10, "partition": "iid", "parameters": 21840,
    "wall-seconds": 12.34, "seconds-per-round": 1.5, "refused": 2, "planner": "fixed:0", "offloaded": 1.25,
    "latency": {"paper": {"T": 3.456, "T_wall": 7.891}}, "offences": 0, "absent": 0, "blocks": 0, "head": "",
}  # fmt: skip


def shown_table(summary: dict[str, Any]) -> str:
    """The summary as text."""
    screen = io.StringIO()
    Console(file=screen, width=120).print(summary_table(summary))
    return screen.getvalue()


def test_the_table_at_the_end_tells_the_whole_run() -> None:
    table = shown_table(SUMMARY)
    for part in (
        "fedavg on synthetic",
        "finished, 4 of 9 rounds",
        "81.25 % (mean of the last five evaluations)",
        "0.5000",
        "3 edge servers, 10 devices, iid data",
        "21,840 parameters",
        "12.3 s in all, 1.500 s per round without evaluation",
        "2 gradients",
        "fixed:0, 1.2 devices offload in a round",
        "T 3.46 s summed over all devices, T_wall 7.89 s on a clock, per round (simulated)",
    ):
        assert part in table
    assert "offences" not in table
    assert "blocks" not in table


def test_the_table_of_a_run_on_a_chain_tells_its_head_and_how_many_lied() -> None:
    table = shown_table(SUMMARY | {"scheme": "bfl", "offences": 3, "blocks": 4, "head": "ab" * 32})
    assert "3 found" in table
    assert f"4 sealed rounds, head 0x{'ab' * 8}..." in table


def test_a_run_without_any_round_has_a_table_too() -> None:
    nothing = {"rounds": 0, "status": "interrupted", "accuracy": None, "loss": None, "seconds-per-round": None}
    nothing |= {"offloaded": None, "latency": {}}
    table = shown_table(SUMMARY | nothing)
    assert "interrupted, 0 of 9 rounds" in table
    assert "mean of the last five" not in table
