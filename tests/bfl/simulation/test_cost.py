"""What a run on the chain costs is told before round 1, and a disk that is too small is refused."""

import re
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from bfl.errors import BflError
from bfl.simulation import run as simulation
from bfl.simulation.cost import RunCost, check_disk, memory_told, run_cost
from clients.models import build_network
from tests.bfl.runs import ignore, small

SHAPE = (1, 28, 28)


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def cost(rounds: int = 10, **changes: object) -> RunCost:
    settings = small(scheme="bfl", **changes)
    return run_cost(settings, build_network("fashion-mnist-cnn", SHAPE, 10, (), 0), rounds)


def test_the_disk_of_a_run_is_at_most_what_was_told_and_not_far_below(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulation, "can_plot", lambda: False)
        ready = simulation.start(small(scheme="bfl", rounds=6, planner="fixed:0"), tmp_path / "run")
        simulation.run(ready, ignore)
    assert ready.cost is not None
    found = (tmp_path / "run" / "chain.db").stat().st_size
    assert 0.5 * ready.cost.total < found < 1.2 * ready.cost.total + 300_000  # the founding comes on top


def test_every_node_rounds_and_codec_count() -> None:
    assert cost(20).total == 2 * cost(10).total
    assert cost(nodes=3).total == 3 * cost().total
    assert cost(codec="int8").total < cost(codec="fp16").total < cost(codec="fp32").total
    assert cost(1000, keep_payloads="5").total < 0.2 * cost(1000).total


def test_a_large_run_says_how_to_need_less_and_a_small_one_does_not() -> None:
    assert cost().advice == ""
    large = cost(10_000)
    assert large.advice.startswith("a smaller chain: keep-payloads 10")
    assert large.advice.endswith("; smaller posts: codec int8")
    assert "memory" not in large.advice
    assert "less memory: fewer devices" in cost(devices=10_000).advice


def test_memory_is_told_without_a_chain_too_where_it_is_much() -> None:
    network = build_network("fashion-mnist-cnn", SHAPE, 10, (), 0)
    assert memory_told(small(), network) == ""
    assert re.fullmatch(r"about [\d.]+ MB", memory_told(small(devices=6_000), network))
    assert re.fullmatch(r"about [\d.]+ MB; this machine has [\d.]+ MB", memory_told(small(devices=9_999_999), network))


def test_a_disk_that_is_too_small_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(100, 99, 1))
    with pytest.raises(BflError, match=r"has 1 B free; choose fewer --rounds, --codec int8, --keep-payloads 10"):
        simulation.start(small(scheme="bfl"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_without_a_chain_is_not_asked_for_its_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "can_plot", lambda: False)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(100, 99, 1))
    assert simulation.start(small(), tmp_path / "run").cost is None


def test_the_disk_of_a_folder_that_is_not_there_yet_is_that_of_its_parents(tmp_path: Path) -> None:
    check_disk(RunCost(1, 1, 1), tmp_path / "a" / "b" / "c")
    with pytest.raises(BflError, match="this run writes"):
        check_disk(RunCost(1, 2**70, 1), tmp_path / "a" / "b")
