"""`bfl audit model`: a .pt file with the right numbers under the right names, and who made them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak

from bfl.errors import BflError
from bfl.model_export import export_model
from chain.contract import CLOSE
from chain.documents import ClosedList
from chain.founding import Charter, found_network
from chain.inspection import inspect_chain
from chain.keys import address_of
from chain.node import Node
from chain.provider import web3_in_process
from chain.server import RpcServer, ServerParams
from chain.store import Block
from tests.bfl.conftest import Command
from tests.bfl.runs import bfl
from tests.chain.network import Clock, Network, founded_node, genesis, seal
from tests.chain.small_chain import NETWORK, TENSORS, Shelf, executed, model_of, signed, story, values_of


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    story().write(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def loaded(path: Path) -> Any:
    """What a program that trusts nobody reads."""
    return torch.load(path, weights_only=True)


def table(shown: str) -> dict[str, list[str]]:
    """Rows of the table, each with its lines."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in shown.splitlines():
        if line.startswith("│"):
            left, right = (cell.strip() for cell in line.split("│")[1:-1])
            name = left or name
            found.setdefault(name, []).append(right)
    return found


def full(address: bytes) -> str:
    return f"0x{address.hex()}"


# --- the file


@pytest.mark.parametrize("round_", range(6))
def test_the_model_of_a_round_has_its_numbers_names_and_shapes(command: Command, run: Path, round_: int) -> None:
    answer = command("audit", "model", ".", "--round", str(round_))
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.endswith(f"model: model-{round_}.pt\n")
    content = loaded(run / f"model-{round_}.pt")
    assert content["round"] == round_
    assert content["digest"] == full(keccak(model_of(round_)))
    assert content["block"] == full(story().headers[round_ + 1].hash)
    tensors = content["state_dict"]
    assert [(name, tuple(tensor.shape)) for name, tensor in tensors.items()] == TENSORS
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
    flat = np.concatenate([tensor.numpy().ravel() for tensor in tensors.values()])
    np.testing.assert_array_equal(flat, values_of(round_))


def test_the_model_fits_a_network_with_these_layers(command: Command, run: Path) -> None:
    command("audit", "model", ".", "--round", "2", "--out", "mine.pt")
    network = torch.nn.Sequential()
    network.layer = torch.nn.Linear(3, 2)
    tensors = loaded(run / "mine.pt")["state_dict"]
    assert network.layer.weight.shape == tensors["layer.weight"].shape


def test_a_model_is_exported_from_a_running_node(command: Command, run: Path) -> None:
    node = Node.open(run / "chain.db", now=Clock())
    with RpcServer(node, ServerParams(port=0)) as url:
        assert command("audit", "model", "--rpc", url, "--round", "5", "--out", "remote.pt").code == 0
    node.close()
    np.testing.assert_array_equal(loaded(run / "remote.pt")["state_dict"]["layer.bias"].numpy(), values_of(5)[6:])


def test_as_a_process_it_is_the_same(run: Path) -> None:
    done = bfl("audit", "model", ".", "--round", "3", folder=run)
    assert (done.returncode, done.stderr) == (0, "")
    assert loaded(run / "model-3.pt")["round"] == 3


# --- who contributed


def test_it_says_who_contributed_and_whom_the_closed_list_leaves_out(command: Command, run: Path) -> None:
    shown = table(command("audit", "model", ".", "--round", "1").out)
    leader = story().headers[2].coinbase
    assert shown["published by"] == shown["planned by"] == shown["closed by"] == [full(leader)]
    assert shown["sealed by"] == [full(address_of(NETWORK.devices[0]))]
    assert shown["aggregated by"] == sorted(full(address_of(server)) for server in NETWORK.servers)
    assert shown["flags by"] == ["-"]
    assert shown["gradients of"] == [
        f"{full(who)} (100 samples{', left out: norm' if who == story().left_out else ''})"
        for who in sorted(map(address_of, NETWORK.devices))
    ]


def test_it_says_who_flagged(command: Command, run: Path) -> None:
    shown = table(command("audit", "model", ".", "--round", "3").out)
    assert len(shown["flags by"]) == 3
    assert full(story().liar) not in shown["flags by"]


def test_a_gradient_whose_chunks_are_broken_is_marked(command: Command, run: Path) -> None:
    shown = table(command("audit", "model", ".", "--round", "5").out)
    device = full(address_of(NETWORK.devices[0]))
    assert shown["gradients of"] == [f"{device} (100 samples, left out, its chunks do not have its digest)"]


def test_the_founding_model_is_the_founders(command: Command, run: Path) -> None:
    shown = table(command("audit", "model", ".", "--round", "0").out)
    assert shown["published by"] == [full(address_of(NETWORK.founder))]
    assert (shown["sealed by"], shown["gradients of"]) == (["the founder"], ["-"])


def exported(blocks: Sequence[Block], path: Path, round_: int = 1) -> str:
    """The table of a made-up chain's model, as text."""
    from rich.console import Console

    archive = Shelf(blocks, blocks and genesis() or None)
    console = Console(width=200, record=True, quiet=False, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(export_model(archive, inspect_chain(archive), round_, path))
    return console.export_text()
