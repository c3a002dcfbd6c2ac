"""What the benchmark of an unattended network measures, and when it calls that flat."""

import os
from pathlib import Path

import pytest

from benchmarks.processes import ONE, Taken, folder_mb, growth, taken_by
from benchmarks.unattended import DEPLOYMENT, Watched, accuracy_line, cpu_table, faults_in, growth_table
from benchmarks.unattended import Simulated as Rounds
from edge_servers.parameters import RoundParams

ROUNDS = [float(round_) for round_ in range(1, 31)]


def test_a_session_takes_memory_files_threads_and_time() -> None:
    here = os.getsid(0)

    found = taken_by([here, 2**22 + 1])

    assert found[2**22 + 1] == Taken()
    assert found[here].resident_mb > 1
    assert found[here].files >= 3
    assert found[here].threads >= 1
    assert found[here].cpu_s > 0


def test_a_folder_takes_what_its_files_do(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    before = folder_mb(tmp_path)
    (tmp_path / "inner" / "file").write_bytes(bytes(500_000))

    assert folder_mb(tmp_path) - before == pytest.approx(0.5, abs=0.01)


def test_what_grows_at_first_only_is_flat() -> None:
    found = growth(ROUNDS, [min(round_, 10.0) + 100 for round_ in ROUNDS])

    assert [found.first, found.last] == pytest.approx([1, 0])
    assert found.is_flat


def test_what_grows_all_the_time_is_steady_and_not_flat() -> None:
    found = growth(ROUNDS, [5 + 2 * round_ for round_ in ROUNDS])

    assert [found.first, found.last] == pytest.approx([2, 2])
    assert not found.is_flat
    assert found.is_steady


def test_what_shrinks_is_flat_and_so_is_a_file_that_comes_and_goes() -> None:
    assert growth(ROUNDS, [500 - 2 * round_ for round_ in ROUNDS]).is_flat
    files = [5.0 + (round_ > 25) * 0.2 for round_ in ROUNDS]
    assert not growth(ROUNDS, files).is_flat
    assert growth(ROUNDS, files, ONE).is_flat
    assert not growth(ROUNDS, [5 + round_ for round_ in ROUNDS], ONE).is_flat


def test_what_grows_faster_and_faster_is_neither() -> None:
    found = growth(ROUNDS, [round_**2 for round_ in ROUNDS])

    assert not found.is_flat
    assert not found.is_steady


def watched(leak_mb: float) -> Watched:
    made = Watched(rounds=ROUNDS, seconds=[4 * round_ for round_ in ROUNDS])
    for round_ in ROUNDS:
        node = Taken(100 + leak_mb * round_, 20, 5, 0.5 * round_)
        made.processes.append({"edge-0 node": node, "edge-1 node": node, "device-0 miner": Taken(50, 9, 3, 2 * round_)})
        made.folders.append({"edge-0": 1 + 0.2 * round_, "edge-1": 1 + 0.2 * round_, "device-0": 1.0})
    return made


def test_a_leak_is_named_with_its_process() -> None:
    table, wrong = growth_table(watched(leak_mb=1))

    assert wrong == ["node: resident_mb grows"]
    assert "| node | resident_mb | 125.5 | +1.0000 | +1.0000 | GROWS |" in table
    assert "| miner | files | 9.0 | +0.0000 | +0.0000 | flat |" in table
    assert "| folder, edge | MB | 7.0 | +0.2000 | +0.2000 | steady |" in table
    assert growth_table(watched(leak_mb=0))[1] == []


def test_time_is_per_round_and_of_all_processes_of_a_kind() -> None:
    assert watched(0).round_s == 4
    assert cpu_table(watched(0)) == "CPU seconds of a round: 3.00 (miner 2.00, node 1.00)"


def test_accuracy_stands_beside_that_of_the_simulation() -> None:
    told = accuracy_line([0.5, 0.5], [Rounds(0.5, 0.1), Rounds(0.75, 0.1)])

    assert "network 50.00 % (its own seed is the first); simulation 50.00 %, 75.00 %" in told


def test_a_round_in_which_somebody_was_missing_or_accused_is_told() -> None:
    calm = {"round": 4, "offences": [], "absent": {}, "excluded": [], "failed-leaders": [], "refused": []}

    assert faults_in({**calm, "training-nodes": 6}) == []
    assert faults_in({**calm, "training-nodes": 5}) == ["round 4: 5 gradients"]
    assert faults_in({**calm, "training-nodes": 6, "failed-leaders": [1]}) == ["round 4: failed-leaders [1]"]


def test_deadlines_are_those_of_a_deployment() -> None:
    rounds = RoundParams(**DEPLOYMENT)

    assert (rounds.plan_s, rounds.deadline_s, rounds.close_s, rounds.gossip_s) == (10, 60, 10, 3)
    assert (rounds.verify_s, rounds.model_s, rounds.seal_s, rounds.sign_s) == (5, 5, 30, 5)
