"""A few faults in a network of processes that is as small as it can be; `benchmarks/faults` has all, many times.

The leader's machine dies in the middle of a round and comes back, an edge is cut off from the others and joined again:
the others go on, and nobody is accused.
"""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lan.lan import Lan
from tests.lan.network import LanNetwork
from tests.lan.watching import RoundWatcher

pytestmark = [pytest.mark.slow, pytest.mark.kills]
MACHINES = [*(f"edge-{m}" for m in range(3)), *(f"device-{n}" for n in range(3))]
_STARTS_S, _ROUND_S = 240.0, 180.0
_HASTE: dict[str, Any] = {"plan_s": 3.0, "deadline_s": 6.0, "close_s": 3.0, "gossip_s": 1.0}


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LanNetwork]:
    with Lan.open(MACHINES, folder=tmp_path_factory.mktemp("lan")) as lan:
        founded = LanNetwork.found(lan, edges=3, devices=3, **_HASTE)
        founded.start_all()
        founded.wait_for_round(1, _STARTS_S)
        yield founded


def check_nobody_accused(network: LanNetwork, last: int) -> None:
    assert all(len({network.hash_of(edge, n) for edge in network.edge_names}) == 1 for n in range(2, last + 2))
    assert network.count_events("Flagged") == 0
    assert all(network.ask(edge, "bfl_contradictions", 1) == [] for edge in network.edge_names)


def test_a_leader_that_dies_in_a_round_is_passed_over_and_comes_back(network: LanNetwork) -> None:
    found = RoundWatcher(network).wait_for_new_round("edge-0", _ROUND_S)
    assert found is not None
    leader, round_ = found[0].leader, found[0].round
    killed = [network.processes[f"{leader} {part}"] for part in ("node", "edge-server")]
    for process in killed:
        process.kill()
    others = [edge for edge in network.edge_names if edge != leader]
    network.wait_for_round(round_, _ROUND_S, others)
    for process in killed:
        process.restart()
    network.wait_for_round(round_ + 2, _ROUND_S)
    check_nobody_accused(network, round_ + 2)


def test_an_edge_that_was_cut_off_takes_over_what_the_others_have_sealed(network: LanNetwork) -> None:
    first = network.final("edge-0")
    network.lan.partition({"edge-2"}, {"edge-0", "edge-1"})
    network.wait_for_round(first, _ROUND_S, ["edge-0", "edge-1"])
    network.lan.heal()
    network.wait_for_round(first + 1, _ROUND_S)
    check_nobody_accused(network, first + 1)


def test_the_chain_of_the_edge_that_was_cut_off_fits(network: LanNetwork) -> None:
    asked = [sys.executable, "-m", "bfl", "audit", "check", str(network.lan["edge-2"].folder / "chain.db")]
    checked = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "nobody misbehaved" in checked.stdout
