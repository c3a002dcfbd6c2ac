"""What the benchmark beside stock Flower counts: processes, their time, the rounds after the first."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.flower_network.stock import write_app, write_task
from benchmarks.flower_network.tables import process_table, ratio_table
from benchmarks.flower_network.trees import Memory, Stat, Tree, below, kind_of, read_stat, read_stats
from benchmarks.flower_network.watching import UNSEEN, Mark, Measured, measured
from edge_servers.parameters import Settings

TICKS = os.sysconf("SC_CLK_TCK")


def stat(pid: int, parent: int) -> Stat:
    return Stat(pid, parent, 0.0, 0.0)


def test_the_fields_behind_a_name_with_brackets_are_read() -> None:
    line = f"42 (a) b (c) S 7 42 42 0 -1 0 0 0 0 0 {3 * TICKS} {TICKS} {5 * TICKS} {2 * TICKS} 20 0 1 0 100 0 0"
    assert read_stat(line) == Stat(pid=42, parent=7, cpu_s=4.0, children_s=7.0)


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("/venv/bin/python /venv/bin/flower-superlink --insecure", "flower-superlink"),
        ("/venv/bin/python /venv/bin/flwr-clientapp --token x", "flwr-clientapp"),
        ("python -m bfl network edge /kits/edge-1", "supervisor"),
        ("python -m bfl network edge-server .", "edge-server"),
        ("python -m bfl network device-executor .", "device"),
        ("/venv/bin/python /venv/bin/bfl network miner --key k", "miner"),
        ("sleep 3", "other"),
        ("", "other"),
    ],
)
def test_a_process_is_what_its_command_says(command: str, kind: str) -> None:
    assert kind_of(command.split(" ")) == kind


def test_descendants_come_after_their_parents_and_strangers_not_at_all() -> None:
    stats = {each.pid: each for each in (stat(2, 1), stat(3, 2), stat(4, 3), stat(5, 9))}
    assert [each.pid for each in below(2, stats)] == [3, 4]


def burn(seconds: float) -> str:
    return f"import time\nwhile time.process_time() < {seconds}: pass\n"


@contextmanager
def parent_of_one_that_has_ended() -> Iterator[int]:
    code = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn(0.3)!r}])\nprint('ended', flush=True)"
    command = [sys.executable, "-c", f"{code}\nsys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ended\n"
        yield parent.pid
        parent.communicate()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_the_time_of_an_ended_grandchild_is_counted() -> None:
    with parent_of_one_that_has_ended() as pid:
        total, by_kind = Tree(os.getpid()).cpu_s()
        found = read_stats()[pid]
    assert found.children_s >= 0.25
    assert total - sum(by_kind.values()) >= 0.25  # nobody has looked while it ran


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs /proc/PID/smaps_rollup")
def test_memory_is_kept_by_kind() -> None:
    tree = Tree(os.getpid())
    command = [sys.executable, "-c", "import sys; sys.stdin.read()", "bfl"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        end = time.monotonic() + 20
        while not tree.memory.get("other") and time.monotonic() < end:
            tree.cpu_s()
            tree.look_at_memory()
        child.communicate()
    memory = tree.memory["other"]
    assert memory.most >= 1
    assert 0 < memory.shares_mb[0] <= memory.peak_mb


def marks(*rows: tuple[float, float, dict[str, float]]) -> list[Mark]:
    return [Mark(*row) for row in rows]


def tree_with(**memory: Memory) -> Tree:
    return Tree(1, memory=memory, sums_mb=[100.0, 300.0, 200.0])


def test_the_first_round_is_apart_and_the_rest_a_mean() -> None:
    found = measured(
        marks((20.0, 50.0, {"node": 40.0}), (24.0, 60.0, {"node": 42.0}), (30.0, 66.0, {"node": 44.0, "miner": 1.0})),
        tree_with(),
    )
    assert (found.first_s, found.first_cpu_s) == (20.0, 50.0)
    assert found.rounds_s == [4.0, 6.0]
    assert found.round_s == 5.0
    assert found.cpu_s == 8.0
    assert found.by_kind == {"node": 2.0, "miner": 0.5, UNSEEN: 5.5}
    assert found.sum_mb == 300.0


def taken(round_s: float, cpu_s: float) -> Measured:
    memory = {"node": Memory([80.0, 100.0], 120.0, 3)}
    return Measured(30.0, 90.0, [round_s, round_s], cpu_s, {"node": cpu_s - 1, UNSEEN: 1.0}, memory, 900.0, (1, 1, 1))


def test_goals_are_told_as_they_come_out() -> None:
    rows = ratio_table(taken(6.0, 8.0), taken(10.0, 40.0)).splitlines()
    assert rows[2] == "| seconds per round | 6.00 | 10.00 | 0.60 | 0.5 | MISSED |"
    assert rows[3] == "| CPU seconds per round | 8.00 | 40.00 | 0.20 | 0.25 | met |"


def test_every_kind_has_a_row_and_what_nobody_saw_its_own() -> None:
    rows = process_table("ours", taken(6.0, 8.0)).splitlines()
    assert rows[2:] == ["| node | 3 | 90 | 120 | 7.00 |", "| ended between looks | | | | 1.00 |"]
    assert all(above.count("|") == below.count("|") for above, below in pairwise(rows))


def test_the_peer_gets_the_same_data_and_an_app_that_flower_bundles(tmp_path: Path) -> None:
    from flwr.cli.build import build_fab_from_disk

    settings = Settings.read({"dataset": "synthetic", "devices": 6, "data-per-round": "all"})
    write_task(tmp_path, settings, 3)
    assert sorted(path.name for path in tmp_path.glob("share-*.npz")) == [f"share-{n}.npz" for n in range(6)]
    write_app(tmp_path / "app")
    assert b"fedavg_app.py" in build_fab_from_disk(tmp_path / "app")
