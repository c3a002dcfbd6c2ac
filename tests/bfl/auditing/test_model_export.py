"""`bfl audit model`: a .pt file with the right numbers under the right names, and who made them."""

import io
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from eth_account.signers.local import LocalAccount
from rich.console import Console

from bfl.auditing.model_export import export_model
from bfl.errors import BflError
from bfl.show.names import names_in
from chain.audit.inspection import inspect_chain
from chain.client.empty_network import EmptyNetwork
from chain.client.founding import Founding, found_network
from chain.client.keys import address_of
from chain.errors import InspectionError
from chain.node.node import Node
from chain.rpc.in_process import web3_in_process
from chain.rpc.server import RpcServer, ServerParams
from chain.wire.documents import ClosedList
from chain.wire.sidecar import payload_digest
from tests.bfl.conftest import Command
from tests.bfl.runs import bfl
from tests.chain.network import Clock, genesis, seal
from tests.chain.small_chain import NETWORK, TENSORS, StoredChain, forged, model_of, story, values_of
from tests.edge_servers.audited_chain import chain as audited_chain


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


@pytest.mark.parametrize("round_", [0, 1, 5])
def test_the_model_of_a_round_has_its_numbers_names_and_shapes(command: Command, run: Path, round_: int) -> None:
    answer = command("audit", "model", ".", "--round", str(round_))
    assert answer.code == 2, "it is exported as it is sealed"
    assert answer.err.startswith("error: no model could be derived again: the founding parameters name no such network")
    assert answer.out.endswith(f"model: model-{round_}.pt\n")
    content = loaded(run / f"model-{round_}.pt")
    assert content["round"] == round_
    assert content["digest"] == full(payload_digest(model_of(round_)))
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
        assert command("audit", "model", "--rpc", url, "--round", "5", "--out", "remote.pt").code == 2
    node.close()
    np.testing.assert_array_equal(loaded(run / "remote.pt")["state_dict"]["layer.bias"].numpy(), values_of(5)[6:])


def test_as_a_process_it_is_the_same(run: Path) -> None:
    done = bfl("audit", "model", ".", "--round", "3", folder=run)
    assert (done.returncode, done.stderr[:45]) == (2, "error: no model could be derived again: the f")
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


def test_a_gradient_that_the_leader_did_not_hold_is_marked(command: Command, run: Path) -> None:
    shown = table(command("audit", "model", ".", "--round", "5").out)
    withheld, counted = (full(address_of(device)) for device in NETWORK.devices[:2])
    told = [f"{withheld} (100 samples, left out: unavailable)", f"{counted} (100 samples)"]
    assert sorted(shown["gradients of"]) == sorted(told)


def test_the_founding_model_is_the_founders(command: Command, run: Path) -> None:
    shown = table(command("audit", "model", ".", "--round", "0").out)
    assert shown["published by"] == [full(address_of(NETWORK.founder))]
    assert (shown["sealed by"], shown["gradients of"]) == (["the founder"], ["-"])


# --- chains made for one question


def node_with(parameters: bytes = b"{}", model: bytes | None = None) -> Node:
    """A founded node with a model of numbers."""
    node = Node.in_memory(genesis(), now=Clock())
    payload = model_of(0) if model is None else model
    sizes = NETWORK.sizes._replace(model=len(payload))
    charter = Founding(NETWORK.homes, parameters, payload, sizes, NETWORK.terms)
    found_network(EmptyNetwork(web3_in_process(node)), NETWORK.founder, charter)
    return node


def exported(node: Node, path: Path, round_: int) -> dict[str, list[str]]:
    """The table of a model of the node's chain."""
    blocks = [block for number in range(node.head.block_number + 1) if (block := node.block(number)) is not None]
    kept = {each.digest for block in blocks for each in node._store.kept_by(block.header.hash)}
    payloads = {digest: payload for digest in kept if (payload := node.payload(digest)) is not None}
    archive, console = StoredChain(blocks, payloads=payloads), Console(width=200, file=io.StringIO())
    console.print(export_model(archive, inspect_chain(archive), round_, path / "model.pt"))
    return table(console.file.getvalue())  # type: ignore[attr-defined]


def finished(node: Node, leader: LocalAccount, model: bytes) -> Node:
    """The round with its model, sealed."""
    NETWORK.post_model(node, leader, model)
    node.propose(address_of(leader))
    seal(node, address_of(NETWORK.devices[0]))
    return node


def test_a_closed_list_says_who_counts_and_who_posted_nothing(tmp_path: Path) -> None:
    node = node_with()
    leader, (first, second) = NETWORK.leader(node), NETWORK.devices[:2]
    NETWORK.post_plan(node, leader)
    sent = [NETWORK.post_gradient(node, device) for device in (first, second)]
    NETWORK.post_close(node, leader, ClosedList(1, (sent[0],), (("0xdead", "late"),)).encode())
    shown = exported(finished(node, leader, model_of(1)), tmp_path, 1)["gradients of"]
    assert f"{full(address_of(first))} (100 samples)" in shown
    assert f"{full(address_of(second))} (100 samples, left out)" in shown
    assert shown[-1] == "0xdead (posted nothing that counts: late)"


def test_reasons_in_a_closed_list_are_shown_not_obeyed(tmp_path: Path) -> None:
    node = node_with()
    leader = NETWORK.leader(node)
    NETWORK.post_plan(node, leader)
    NETWORK.post_close(node, leader, ClosedList(1, (), (("0xdead", "[bold red]x[/] \x1b[2J"),)).encode())
    shown = exported(finished(node, leader, model_of(1)), tmp_path, 1)["gradients of"]
    assert shown == ["0xdead (posted nothing that counts: [bold red]x[/] \ufffd[2J)"]


def test_a_closed_list_that_nobody_can_read_is_said_so(tmp_path: Path) -> None:
    node = node_with()
    leader = NETWORK.leader(node)
    NETWORK.post_plan(node, leader)
    NETWORK.post_gradient(node, NETWORK.devices[0])
    NETWORK.post_close(node, leader, b"no list")
    shown = exported(finished(node, leader, model_of(1)), tmp_path, 1)["gradients of"]
    assert shown[1:] == ["the closed list cannot be read: nobody can say who of them counts"]


@pytest.mark.parametrize(
    "parameters",
    [
        b"{}",
        b"no JSON",
        b"[]",
        b'{"tensors":[5]}',
        b'{"tensors":[["a"],["b"]]}',
        b'{"tensors":[["a",[6]],["b",[4]]]}',
        b'{"tensors":[["a",[6]],["a",[3]]]}',
        b'{"tensors":[["a",[-2,-3]],["b",[3]]]}',
        b'{"tensors":[["a",[6.0]],["b",[3]]]}',
        b'{"tensors":[["a",6],["b",3]]}',
        b'{"tensors":[[5,[6]],["b",[3]]]}',
    ],
)
def test_where_the_chain_has_no_names_that_fit_tensors_are_numbered(tmp_path: Path, parameters: bytes) -> None:
    shown = exported(node_with(parameters), tmp_path, 0)
    assert shown["tensors"] == ["tensor 0 [6]", "tensor 1 [3]"]
    assert list(loaded(tmp_path / "model.pt")["state_dict"]) == ["tensor 0", "tensor 1"]


def test_names_of_tensors_are_shown_not_obeyed(tmp_path: Path) -> None:
    shown = exported(node_with(rb'{"tensors":[["[red]\u001b",[6]],["b",[3]]]}'), tmp_path, 0)
    assert shown["tensors"] == ["[red]\ufffd [6]", "b [3]"]
    assert "[red]\x1b" in loaded(tmp_path / "model.pt")["state_dict"], "the file has them as they are"


# --- refusals


def test_a_model_that_is_no_array_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(BflError, match="the model of round 0 is no array of numbers"):
        exported(node_with(model=b"words"), tmp_path, 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "block 7 has no model: round 6 was sealed without one"),
        (["--round", "6"], "block 7 has no model: round 6 was sealed without one"),
        (["--round", "7"], "found --round 7, the last sealed round is 6"),
        (["--round", "1", "--out", "chain.db"], "chain.db exists; choose another file with --out"),
        (
            ["--round", "1", "--out", "no/folder.pt"],
            "there is no folder no; make it, or choose another file with --out",
        ),
    ],
)
def test_a_refusal_is_one_line_and_leaves_no_file(
    command: Command, run: Path, arguments: list[str], message: str
) -> None:
    before = set(run.iterdir())
    answer = command("audit", "model", ".", *arguments)
    assert (answer.code, answer.out, answer.err) == (2, "", f"error: {message}\n")
    assert {path for path in run.iterdir() if path.suffix == ".pt"} <= before


@pytest.mark.parametrize("arguments", [["--round", "one"], ["--round", "-1"], ["--round"], ["a", "b"]])
def test_a_wrong_argument_is_explained(command: Command, run: Path, arguments: list[str]) -> None:
    answer = command("audit", "model", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")
    assert "Traceback" not in answer.err


def test_a_chain_that_is_not_founded_has_no_model(command: Command, tmp_path: Path) -> None:
    Node.create(tmp_path / "chain.db", genesis(), now=Clock()).close()
    answer = command("audit", "model", str(tmp_path))
    assert (answer.code, answer.err) == (2, "error: this chain is not founded: it has no model\n")
    answer = command("audit", "check", str(tmp_path))
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == "error: this chain is not founded: there is nothing to check yet\n"


def test_a_folder_that_is_not_there_is_told_before_the_audit(command: Command, run: Path) -> None:
    answer = command("audit", "model", str(run), "--out", "nowhere/model.pt")
    assert answer.code == 2
    assert answer.err == "error: there is no folder nowhere; make it, or choose another file with --out\n"


def test_nothing_is_exported_from_a_chain_that_does_not_fit(command: Command, run: Path) -> None:
    connection = sqlite3.connect(run / "chain.db")
    with connection:
        connection.execute("DELETE FROM block WHERE number = 6")
    connection.close()
    answer = command("audit", "model", ".", "--round", "1")
    assert (answer.code, answer.err) == (1, "")
    assert answer.out == "does not fit: block 6: there is no block 6; the head is 7\n"
    assert not (run / "model-1.pt").exists()


def test_a_model_that_was_pruned_is_said_so(tmp_path: Path) -> None:
    gone = payload_digest(model_of(2))
    left = {digest: payload for digest, payload in story().payloads.items() if digest != gone}
    archive = StoredChain(story().blocks, payloads=left)
    with pytest.raises(
        BflError, match="model 2 was pruned here; `bfl chain fetch` brings it back from a node that has"
    ):
        export_model(archive, inspect_chain(archive), 2, tmp_path / "model.pt")
    assert list(tmp_path.iterdir()) == []
    export_model(archive, inspect_chain(archive), 3, tmp_path / "model.pt")


def test_an_archive_that_shows_another_payload_the_second_time_is_refused(tmp_path: Path) -> None:
    found, digest = inspect_chain(StoredChain(story().blocks)), payload_digest(model_of(2))
    archive = StoredChain(story().blocks, payloads={**story().payloads, digest: model_of(3)})
    with pytest.raises(InspectionError, match=f"^the payload 0x{digest.hex()} has another digest: 0x"):
        export_model(archive, found, 2, tmp_path / "model.pt")
    assert list(tmp_path.iterdir()) == []


def test_an_archive_that_shows_another_block_the_second_time_is_refused(tmp_path: Path) -> None:
    found = inspect_chain(StoredChain(story().blocks))
    other = [*story().blocks[:2], forged(story().blocks[2], (), ()), *story().blocks[3:]]
    with pytest.raises(InspectionError, match=r"^block 2: now 0x"):
        export_model(StoredChain(other), found, 1, tmp_path / "model.pt")
    assert list(tmp_path.iterdir()) == []


def test_who_contributed_is_called_by_name_where_the_founding_tells(command: Command, tmp_path: Path) -> None:
    found = audited_chain()
    names = names_in(found.archive)
    answer = command("audit", "model", str(found.written(tmp_path)), "--round", "1", "--out", str(tmp_path / "1.pt"))
    shown, winner = table(answer.out), found.blocks[2].header.winner
    assert winner is not None
    assert shown["sealed by"] == [names.full(winner)]
    assert names.find(winner).startswith("device ")
    assert all(line.startswith("server ") for line in shown["published by"] + shown["aggregated by"])
    assert all(line.startswith(("server ", "device ")) for line in shown["gradients of"])
