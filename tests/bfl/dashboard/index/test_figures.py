"""Numbers that several pages show, worked by hand."""

from pathlib import Path

import pytest

from bfl.dashboard.index.figures import Band, Credit, bands, credits_of, key_figures, marks
from tests.bfl.dashboard.made import lied, line, opened, write_run


def test_the_key_figures_are_those_of_the_last_round(tmp_path: Path) -> None:
    lines = [line(each) for each in range(1, 11)]
    lines[9] |= {"accuracy": None, "refused": [{"node": "device 1", "reason": "late", "detail": ""}]}
    found = key_figures(opened(write_run(tmp_path / "run", lines)).snapshot)
    assert found.accuracy == pytest.approx(0.19), "round 10 was not evaluated"
    assert found.accuracy_change5 == pytest.approx(0.19 - 0.14)
    assert found.accuracy_summary == pytest.approx((0.15 + 0.16 + 0.17 + 0.18 + 0.19) / 5)
    assert (found.latency_paper, found.latency_real, found.train_s) == (3.25, 3.25, 0.5)
    assert found.round_s == pytest.approx(0.8)
    assert (found.leader, found.winner, found.refused, found.offences) == (0, 2, 1, 0)
    assert (found.block_number, found.block_bytes, found.total_bytes) == (None, None, 0)


def test_before_the_first_round_there_are_none(tmp_path: Path) -> None:
    found = key_figures(opened(write_run(tmp_path / "run", [])).snapshot)
    assert (found.accuracy, found.accuracy_change5, found.round_s, found.offloading, found.leader) == (None,) * 5


def test_exclusions_are_bands_and_offences_marks(tmp_path: Path) -> None:
    lines = [line(each) for each in range(1, 9)]
    lines[1] |= {"offences": [lied(1)], "excluded": [1]}
    lines[2] |= {"excluded": [1]}
    lines[6] |= {"offences": [lied(0)], "excluded": [0]}
    lines[7] |= {"excluded": [0]}
    rounds = opened(write_run(tmp_path / "run", lines, exclusion_rounds=10)).snapshot.rounds
    assert bands(rounds) == [Band(3, 4, "server 1"), Band(8, 17, "server 0")]
    assert [(each.round, each.id, each.who) for each in marks(rounds)] == [
        (2, "2-server-1-3", "server 1"), (7, "7-server-0-3", "server 0"),
    ]  # fmt: skip


def test_credit_is_counted_over_all_rounds(tmp_path: Path) -> None:
    lines = [line(1), line(2, absent=["server 0"]), line(3, refused=[{"node": "device 2", "reason": "late"}])]
    found = credits_of(opened(write_run(tmp_path / "run", lines)).snapshot)
    # line(): device n offloads in round k to (n + k) mod 3 - 1, where -1 is itself
    assert found["device 2"] == Credit(sealed=1, trained=1, offloaded=2, offloaded_share=2 / 3, refused=1)
    assert found["server 1"] == Credit(led=2)
    assert found["server 0"] == Credit(led=1, absent=1)


def test_nobody_knows_who_offloaded_in_an_older_run_without_a_chain(tmp_path: Path) -> None:
    lines = [line(1), line(2)]
    for each in lines:
        del each["assignment"]
    found = credits_of(opened(write_run(tmp_path / "run", lines)).snapshot)["device 1"]
    assert (found.trained, found.offloaded, found.offloaded_share, found.sealed) == (None, None, None, 1)
