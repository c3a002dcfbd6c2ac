"""A network of processes: nodes, edge servers, devices and miners that share nothing but the LAN."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.lan.lan import Lan
from tests.lan.network import LanNetwork
from tests.lan.watching import PHASES, RoundWatcher

pytestmark = [pytest.mark.slow, pytest.mark.kills]
_STARTS_S = 240.0
_ROUND_S = 120.0
MACHINES = [*(f"edge-{m}" for m in range(3)), *(f"device-{n}" for n in range(6))]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LanNetwork]:
    with Lan.open(MACHINES, folder=tmp_path_factory.mktemp("lan")) as lan:
        founded = LanNetwork.found(lan)
        founded.start_all()
        founded.wait_for_round(1, _STARTS_S)
        yield founded


def same_blocks(network: LanNetwork, last: int) -> bool:
    return all(len({network.hash_of(edge, n) for edge in network.edge_names}) == 1 for n in range(2, last + 1))


def test_rounds_become_final_everywhere_with_the_same_blocks(network: LanNetwork) -> None:
    first = network.final("edge-0")

    network.wait_for_round(first + 2, _ROUND_S)

    assert same_blocks(network, first + 2)
    assert network.count_events("Flagged") == 0


def test_a_node_tells_who_leads_the_running_attempt_before_its_block_does(network: LanNetwork) -> None:
    watcher = RoundWatcher(network)
    begun = watcher.wait_for_new_round("edge-0", _ROUND_S)
    assert begun is not None
    sight = begun[0]

    network.wait_for_round(sight.round, _ROUND_S)

    summary = network.ask("edge-0", "bfl_getBlockSummary", hex(sight.round + 1))
    passed_over = watcher.ended_in("edge-0", sight.round + 1) - sight.attempt
    assert passed_over > 0 or summary["leader"] == network.addresses[sight.leader]
    assert sight.phase in PHASES


@pytest.mark.parametrize("parts", [("edge-server",), ("node",), ("node", "edge-server")], ids=" and ".join)
def test_a_machine_whose_parts_are_killed_costs_time_and_accuses_nobody(
    network: LanNetwork, parts: tuple[str, ...]
) -> None:
    first = network.final("edge-0")
    killed = [network.processes[f"edge-1 {part}"] for part in parts]

    for process in killed:
        process.kill()
    for process in killed:
        process.restart()

    network.wait_for_round(first + 1, _ROUND_S)
    assert same_blocks(network, first + 1)
    assert network.count_events("Flagged") == 0


def test_the_chain_of_every_node_fits(network: LanNetwork) -> None:
    for edge in network.edge_names:
        database = network.lan[edge].folder / "chain.db"
        checked = subprocess.run(
            [sys.executable, "-m", "bfl", "audit", "check", str(database)], capture_output=True, text=True, check=False
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr
        assert "fits" in checked.stdout
        assert "nobody misbehaved" in checked.stdout
