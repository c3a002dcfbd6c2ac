"""An edge goes off until it is dormant: its device comes to its standby, counts, and goes home when home is back."""

import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from chain.protocol.contract import decode_result, encode_call
from tests.lan.lan import Lan
from tests.lan.network import DEVICES_PORT, LanNetwork
from tests.lan.process import MachineProcess

pytestmark = [pytest.mark.slow, pytest.mark.kills]
MACHINES = [*(f"edge-{m}" for m in range(3)), *(f"device-{n}" for n in range(3))]
HOME, STANDBY, DEVICE = "edge-2", "edge-0", "device-2"
LEFT = ["edge-0", "edge-1"]
_STARTS_S, _ROUND_S = 240.0, 180.0
_HASTE: dict[str, Any] = {"plan_s": 3.0, "deadline_s": 6.0, "close_s": 3.0, "gossip_s": 1.0}


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LanNetwork]:
    with Lan.open(MACHINES, folder=tmp_path_factory.mktemp("lan")) as lan:
        founded = LanNetwork.found(lan, edges=3, devices=3, **_HASTE)
        founded.start_all()
        founded.wait_for_round(1, _STARTS_S)
        yield founded


def parts_of(network: LanNetwork, edge: str) -> list[MachineProcess]:
    return [network.processes[f"{edge} {part}"] for part in ("node", "edge-server")]


def stub(network: LanNetwork) -> MachineProcess:
    return network.processes[f"{DEVICE} device-stub"]


def place_of(network: LanNetwork, edge: str) -> str:
    return f"from now on at http://{network.lan[edge].address}:{DEVICES_PORT}"


def is_dormant(network: LanNetwork, edge: str) -> bool:
    data = "0x" + encode_call("is_dormant", network.addresses[edge]).hex()
    answer = network.ask("edge-1", "eth_call", {"to": str(network.genesis.registry), "data": data}, "pending")
    return bool(decode_result("is_dormant", bytes.fromhex(answer.removeprefix("0x"))))


def gradients_in(network: LanNetwork, round_: int) -> int:
    posts = network.ask("edge-1", "bfl_getBlockSummary", hex(round_ + 1))["posts"]
    return int(posts.get("gradient", "0x0"), 16)


def wait_for_all_gradients(network: LanNetwork, edges: list[str]) -> int:
    """The next round that has them all."""
    round_, last = network.final("edge-1"), network.final("edge-1") + 4
    while round_ <= last:
        network.wait_for_round(round_, _ROUND_S, edges)
        if gradients_in(network, round_) == 3:
            return round_
        round_ += 1
    raise AssertionError(f"rounds up to {last} have fewer than 3 gradients: {stub(network).tail}")


def test_a_home_that_is_slow_keeps_its_device(network: LanNetwork) -> None:
    first = network.final("edge-1")
    for process in parts_of(network, HOME):
        process.stop()
    network.wait_for_round(first + 1, _ROUND_S, LEFT)
    for process in parts_of(network, HOME):
        process.go_on()
    wait_for_all_gradients(network, network.edge_names)
    assert not is_dormant(network, HOME)
    assert "from now on" not in stub(network).said
    assert "home is dormant" not in network.processes[f"{STANDBY} edge-server"].said


def test_when_home_is_dormant_its_device_comes_to_its_standby_and_counts(network: LanNetwork) -> None:
    for process in parts_of(network, HOME):
        process.kill()
    round_ = network.final("edge-1")
    while not is_dormant(network, HOME):
        network.wait_for_round(round_, _ROUND_S, LEFT)
        round_ += 1
    stub(network).wait_for(place_of(network, STANDBY), 60.0)
    counted = wait_for_all_gradients(network, LEFT)
    assert "this is the standby of device 2" in network.processes[f"{STANDBY} edge-server"].said
    network.wait_for_round(counted + 1, _ROUND_S, LEFT)
    assert gradients_in(network, counted + 1) == 3


def test_when_the_standby_is_off_as_well_the_device_waits(network: LanNetwork) -> None:
    """Two of three are off, so the network pauses; the device is where it was when the standby is back."""
    off = parts_of(network, STANDBY)
    for process in off:
        process.kill()
    time.sleep(10.0)
    for process in off:
        process.restart()
    wait_for_all_gradients(network, LEFT)
    assert stub(network).said.count("from now on") == 1


def test_when_home_is_back_its_device_is_too(network: LanNetwork) -> None:
    for process in parts_of(network, HOME):
        process.restart()
    stub(network).wait_for(place_of(network, HOME), 240.0)
    assert not is_dormant(network, HOME)
    last = wait_for_all_gradients(network, network.edge_names)
    assert stub(network).said.count("from now on") == 2
    assert all(len({network.hash_of(edge, n) for edge in network.edge_names}) == 1 for n in range(2, last + 2))
    assert network.count_events("Flagged") == 0


def test_every_chain_fits_and_nobody_is_accused(network: LanNetwork) -> None:
    for edge in network.edge_names:
        asked = [sys.executable, "-m", "bfl", "audit", "check", str(network.lan[edge].folder / "chain.db")]
        checked = subprocess.run(asked, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        assert "nobody misbehaved" in checked.stdout
