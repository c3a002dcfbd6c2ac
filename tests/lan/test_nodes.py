"""Nodes of the chain on machines of their own."""

import secrets
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bfl.network.lan.commands import LanError
from tests.lan.asking import ask_rpc
from tests.lan.lan import Lan
from tests.lan.machine import Machine
from tests.lan.process import MachineProcess

pytestmark = pytest.mark.slow

BFL = [sys.executable, "-m", "bfl", "network"]
EDGES = ["edge-0", "edge-1", "edge-2"]
FOUNDER = "0x" + "f0" * 20
_STARTS_S = 90.0
_NOTICES_S = 30.0


def url(machine: Machine) -> str:
    return f"http://{machine.address}:8545"


def make_genesis(lan: Lan) -> Path:
    """`bfl network genesis`, on a machine like everything else."""
    machine = lan["device-0"]
    made = machine.start("genesis", [*BFL, "genesis", "--founder", FOUNDER])
    assert made.wait(_STARTS_S) == 0, made.tail
    return machine.folder / "genesis.json"


def start_node(lan: Lan, name: str, genesis: Path, **env: str) -> MachineProcess:
    """`bfl network node` with all others as peers."""
    machine = lan[name]
    peers = [word for other in EDGES if other != name for word in ("--peer", url(lan[other]))]
    return machine.start(
        "node", [*BFL, "node", "--genesis", str(genesis), "--host", machine.address, "--allow-plain", *peers], env
    )


@pytest.fixture
def lan(tmp_path: Path) -> Iterator[Lan]:
    with Lan.open([*EDGES, "device-0"], folder=tmp_path) as opened:
        yield opened


def test_three_nodes_answer_a_device_and_notice_when_one_is_killed_and_comes_back(lan: Lan) -> None:
    genesis = make_genesis(lan)
    secret = secrets.token_hex(8)
    others = [start_node(lan, "edge-1", genesis, BFL_RPC_TOKEN=secret), start_node(lan, "edge-2", genesis)]
    for node in others:
        node.wait_for("Ctrl-C stops it", _STARTS_S)
    watching, killed = start_node(lan, "edge-0", genesis), others[1]  # the last to start: it misses nobody
    watching.wait_for("Ctrl-C stops it", _STARTS_S)

    device, (first, second, third) = lan["device-0"], (lan[name] for name in EDGES)
    blocks = [ask_rpc(device, url(each), "eth_getBlockByNumber", "latest", False) for each in (first, third)]
    assert blocks[0] == blocks[1]
    with pytest.raises(LanError, match="HTTP 401"):
        ask_rpc(device, url(second), "eth_chainId")
    assert ask_rpc(device, url(second), "eth_chainId", token=secret) == ask_rpc(device, url(first), "eth_chainId")
    watching.wait_for(f"peer {url(second)}", _NOTICES_S)  # it has no token for that one
    assert f"peer {url(third)}" not in watching.said

    killed.kill()
    watching.wait_for(f"peer {url(third)}", _NOTICES_S)
    killed.restart()
    watching.wait_for(f"peer {url(third)} answers again", _STARTS_S)
    assert ask_rpc(device, url(third), "eth_getBlockByNumber", "latest", False) == blocks[0]
    assert watching.terminate(_NOTICES_S) == 0
