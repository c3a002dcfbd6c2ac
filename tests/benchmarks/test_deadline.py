"""The table of a deadline's cost: means over seeds, and a time only where every run got there."""

from benchmarks.deadline import Outcome, grouped, table


def run(deadline_s: float, seed: int, accuracy: float, until_s: float, planner: str = "a2c") -> Outcome:
    return Outcome(planner, deadline_s, seed, accuracy, late=1.5, wall_s=2.0, until_target_s=until_s)


def test_runs_are_grouped_by_planner_and_deadline_whatever_their_order() -> None:
    found = [run(2, 0, 0.5, 1), run(600, 0, 0.5, 1), run(2, 1, 0.7, 1), run(2, 0, 0.5, 1, "all-local")]
    assert [(planner, deadline_s, len(group)) for planner, deadline_s, group in grouped(found)] == [
        ("a2c", 2, 2), ("a2c", 600, 1), ("all-local", 2, 1),
    ]  # fmt: skip


def test_the_table_has_means_with_their_spread_and_says_who_never_got_there() -> None:
    lines = table([run(2, 0, 0.5, 10), run(2, 1, 0.7, float("inf")), run(600, 0, 0.6, 20), run(600, 1, 0.6, 30)])
    assert [line.split(" | ")[1:] for line in lines.splitlines()[2:]] == [
        ["2", "1.5", "60.0 ± 14.1", "2.00", "in 1 of 2 |"],
        ["600", "1.5", "60.0 ± 0.0", "2.00", "25.0 |"],
    ]
