"""What the benchmark of faults keeps of its runs, and tells of them."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.faults import records
from benchmarks.faults.__main__ import ROWS, Measurement
from benchmarks.faults.leaders import BY_PHASE, KILLED_IN
from benchmarks.faults.records import DeadLeader, Run
from chain.protocol.contract import Call
from tests.lan.watching import phase_of

LEADER = DeadLeader("gossip", "model", 28.5, into_s=4.0, cost_s=26.0)


def runs() -> list[Run]:
    return [
        Run("kill a node", calm_s=5.0, seconds=3.0),
        Run("kill a node", seconds=9.0, attempts=1, died=("edge-0 node",)),
        Run("kill a node", seconds=99.0, missed="the round was over"),
        Run("kill the leader in gossip", seconds=31.0, attempts=1, leader=LEADER, note={"taken by": 2}),
    ]


def test_runs_are_read_back_as_they_were_kept_also_behind_a_line_that_a_crash_cut_off(tmp_path: Path) -> None:
    files = [tmp_path / "first.jsonl", tmp_path / "second.jsonl"]
    for run, file in zip(runs(), [files[0], files[0], files[1], files[1]], strict=True):
        records.append(file, run)
    with files[0].open("a", encoding="utf-8") as cut_off:
        cut_off.write('{"row": "kill a')

    assert records.read([*files, tmp_path / "no such file"]) == runs()


def test_what_a_file_has_is_not_done_again_and_a_missed_run_is(tmp_path: Path) -> None:
    out = tmp_path / "runs.jsonl"
    for run in runs():
        records.append(out, run)

    assert Measurement(["kill a node"], 2, 0, out, None).next_row() is None
    assert Measurement(["kill a node"], 3, 0, out, None).next_row() == "kill a node"
    assert Measurement(["kill a node", "kill a miner"], 2, 0, out, None).next_row() == "kill a miner"


def test_the_table_leaves_out_what_missed_and_bounds_the_chance_of_an_accusation() -> None:
    table = records.fault_table([Run(records.CALM), *runs()], [records.CALM, *ROWS])

    assert f"| {records.CALM} | 1 |" in table
    assert "| kill a node | 2 | 1 | 6 (9) | 0 | 0 | 0 |" in table
    assert "4 faults and no accusation: the chance of one per fault is below 75.0 %" in table
    assert "1 processes ended by themselves" in table


def test_who_is_accused_or_lost_in_a_missed_run_is_told_all_the_same() -> None:
    missed = replace(runs()[2], accused=1, lost=2)

    table = records.fault_table([missed], list(ROWS))

    assert "| kill a node | 0 | 0 | - | 1 | 2 | 0 |" in table
    assert "1 accusations in 1 faults" in table


def test_a_network_that_is_stuck_has_no_seconds() -> None:
    stuck = Run("kill a node", stuck="StuckError: round 7 is not final")

    assert "| kill a node | 1 | 0 | - | 0 | 0 | 1 |" in records.fault_table([stuck], list(ROWS))


def test_a_dead_leader_costs_the_wait_for_a_deadline_and_what_comes_after() -> None:
    assert LEADER.late_s == 26.0 - (28.5 - 4.0)

    table = records.phase_table(runs(), KILLED_IN)

    assert "| gossip | 1 | model | 28.5 | 26.0 (26.0) | 30.5 | 1.5 (1.5) |" in table
    assert "| plan |" not in table


def test_there_is_a_row_for_the_leader_in_each_phase() -> None:
    assert set(BY_PHASE) <= set(ROWS)
    assert len(BY_PHASE) == 7


def calls(*names: str, attempt: int = 0, step: int = 0) -> list[Call]:
    return [Call(name, {"attempt": attempt, **({"step": step} if name == "iterate" else {})}) for name in names]


PLANNED = calls("plan")
COLLECTED = [*PLANNED, *calls("gradient", "gradient", "roll", "roll", "roll")]
CLOSED = [*COLLECTED, *calls("close"), *calls("iterate", "iterate", "iterate")]
MIXED = [*CLOSED, *calls("iterate", "iterate", "iterate", step=2)]


@pytest.mark.parametrize(
    ("pending", "phase"),
    [
        ([], "plan"),
        (PLANNED, "train"),
        (COLLECTED[:-1], "train"),
        (COLLECTED, "close"),
        (CLOSED, "gossip"),
        (MIXED[:-1], "gossip"),
        (MIXED, "verify"),
        ([*MIXED, *calls("model")], "seal"),
    ],
)
def test_a_phase_is_told_by_what_is_pending(pending: list[Call], phase: str) -> None:
    flags = [Call("flag", {"round": 3})]

    assert phase_of([*pending, *flags], attempt=0, servers=3, phi=2) == phase
    assert phase_of(pending, attempt=1, servers=3, phi=2) == "plan"
