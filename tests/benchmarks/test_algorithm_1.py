"""The table of a lab run: what the chain says is found there, what a log says is quoted, and nothing is made up."""

import shutil
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from benchmarks.algorithm_1 import MISSING, Run, table
from bfl.errors import BflError
from bfl.network.lab.params import LabParams, describe
from bfl.network.making import make_kits
from chain.audit.archive import open_archive
from edge_servers.planning.proposal import LOCAL
from tests.edge_servers.audited_chain import chain

LINES = {
    "1", "2", "3, 41", "4, 5", "6, 7", "7", "8-13", "14-16", "17-20", "21, 22", "23, 24", "25-29", "30-33", "34, 35",
    "36", "37", "38", "39", "40", "42",
}  # fmt: skip


@contextmanager
def lab(tmp_path: Path, planner: str = "random:0.5") -> Iterator[Run]:
    """A chain of a simulation in the folder of a lab; machine m of the one is machine m of the other."""
    params = LabParams(tmp_path, edges=4, devices=4)
    (tmp_path / "network.toml").write_text(describe(params))
    make_kits(tmp_path / "network.toml", params.kits, "of a test", time.time(), work=2)
    written = chain("", planner=planner, rounds=5).written(tmp_path / "run")
    shutil.copy(written / "chain.db", params.kits / "edge-1" / "chain.db")
    for name in (*params.edge_names, *params.device_names):
        (params.kits / name / "log").write_text("")
    with closing(open_archive(params.kits / "edge-1")) as archive:
        yield Run(tmp_path, archive)


def write_logs(run: Run, tmp_path: Path, round_: int) -> None:
    """What machines of that round say."""
    device, own = run.foreign(round_)[0], run.trained(round_)[0]
    home, target = run.founding.network.devices[device].home, run.plan(round_).assignment[device]
    header = run.block(round_).header
    number, hash_ = header.block_number, f"0x{header.hash.hex()}"
    winner, rounds = run.name(header.winner or b""), f"round {round_}:"
    said = [
        (run.devices[device], f"device       {rounds} the founding's model; handed over 9 samples for server 1"),
        (run.servers[home], f"edge-server  {rounds} handed 9 samples of device {device}, sealed, to server 1"),
        (run.servers[target], f"edge-server  {rounds} trained 2 iterations on 9 samples, offloaded by device 1"),
        (run.devices[own], f"device       {rounds} the founding's model; trained on 9 samples, 1 iterations"),
        (winner, f"miner        mining block {number} of 0xaa, difficulty 1"),
        (winner, f"miner        sealed block {hash_} after 3"),
        (
            "device-1",
            f"device       round {round_ + 1}: model {round_} is proven by block {number} {hash_}; trained on",
        ),
        *((server, f"node         block {number} {hash_}, sealed") for server in run.servers.values()),
    ]
    logs = dict.fromkeys(tmp_path.glob("kits/*/log"), "")
    for name, line in said:
        logs[tmp_path / "kits" / name / "log"] += f"2026-01-02 03:04:05 {line}\n"
    for path, text in logs.items():
        path.write_text(text)


def test_every_line_of_the_algorithm_was_done_by_something(tmp_path: Path) -> None:
    with lab(tmp_path) as run:
        round_ = run.choose()
        write_logs(run, tmp_path, round_)
        rows = table(Run(tmp_path, run.archive), round_)
        (plan,) = run.posts(round_, "plan")
        did = {numbers: did for numbers, _, did in rows}
        assert did.keys() == LINES
        assert [each for each in did.values() if MISSING in each] == []
        assert (
            f"`0x{plan.transaction.hash.hex()[:8]}…` plan of {run.name(plan.sender)}, block {round_ + 1}" in did["4, 5"]
        )
        assert did["25-29"].startswith("8 transactions in 2 steps")
        assert "signed by 4 of 4 edges" in did["39"]
        assert run.plan(round_).assignment[run.foreign(round_)[0]] != LOCAL


def test_what_no_log_says_is_told_as_missing(tmp_path: Path) -> None:
    with lab(tmp_path) as run:
        did = {numbers: did for numbers, _, did in table(run, run.choose())}
    assert {numbers for numbers, each in did.items() if MISSING in each} == {
        "6, 7", "7", "8-13", "17-20", "36", "38", "39", "40",
    }  # fmt: skip


def test_a_run_without_an_offload_to_a_foreign_edge_is_refused(tmp_path: Path) -> None:
    with lab(tmp_path, "all-local") as run, pytest.raises(BflError, match="no round in which one device offloaded"):
        run.choose()
