"""`bfl chain prune` and `fetch` (B6): payloads of settled rounds go, what was there stays named, and they come back."""

import functools
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bfl.auditing.payload_fetch import fetch_payloads
from chain.audit.archive import FileArchive
from chain.audit.inspection import inspect_chain
from chain.client.keys import address_of
from chain.errors import ChainError, SidecarDigestError, SidecarSizeError
from chain.node.node import Node
from chain.protocol.contract import RegistryTerms
from chain.rpc.server import RpcServer, ServerParams
from chain.store.store import Store
from tests.bfl.conftest import Command
from tests.chain.answers import saying
from tests.chain.network import SIZES, Clock, Network, genesis, seal

ROUNDS = 5
GRADIENT = 20_000
NETWORK = Network(terms=RegistryTerms(flag_window=1), sizes=SIZES._replace(gradient=GRADIENT))
PRUNED = [2, 3, 4]
"""Blocks of rounds 1 to 3, where the last two rounds are kept; model 3, of block 4, stays"""
GONE = 3 * len(NETWORK.devices) + 2
"""Gradients of three rounds, and two models"""


def run_round(node: Node) -> None:
    """A round with gradients of its own."""
    round_, leader = node.ask("round"), NETWORK.leader(node)
    NETWORK.post_plan(node, leader)
    for device in NETWORK.devices:
        NETWORK.post_gradient(node, device, b"%d of " % round_ + address_of(device))
    NETWORK.post_close(node, leader)
    NETWORK.post_model(node, leader)
    node.propose(address_of(leader))
    seal(node, address_of(NETWORK.devices[0]))
    NETWORK.endorse(node)


@functools.cache
def database() -> bytes:
    """A chain whose every block is final; a flag is about the round before at most."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chain.db"
        with closing(Node.create(path, genesis(), now=Clock())) as node:
            NETWORK.found(node)
            for _ in range(ROUNDS):
                run_round(node)
        return path.read_bytes()


def written(folder: Path) -> Path:
    """A run folder with the whole chain."""
    folder.mkdir(exist_ok=True)
    (folder / "chain.db").write_bytes(database())
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return written(tmp_path / "run")


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """A node on a run folder."""
    with closing(Node.open(folder / "chain.db", now=Clock())) as node, RpcServer(node, ServerParams(port=0)) as url:
        yield url


def missing_in(run: Path) -> list[int]:
    """Blocks whose payloads are not all there, as an auditor finds them."""
    with closing(FileArchive(run)) as archive:
        return inspect_chain(archive).pruned


def test_pruned_rounds_lose_gradients_and_models_and_the_file_gets_smaller(command: Command, run: Path) -> None:
    before = (run / "chain.db").stat().st_size
    answer = command("chain", "prune", str(run), "--keep", "2")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == "240.1 KB deleted; 3 blocks are pruned now\n"
    assert before - (run / "chain.db").stat().st_size > 200_000
    assert missing_in(run) == PRUNED


def test_whatever_is_not_settled_yet_is_kept(command: Command, run: Path) -> None:
    """A flag may be about the round before: the last round alone is not all that is needed."""
    assert command("chain", "prune", str(run), "--keep", "1").code == 0
    assert missing_in(run) == PRUNED


def test_a_chain_that_keeps_as_many_rounds_as_it_has_loses_nothing(command: Command, run: Path) -> None:
    answer = command("chain", "prune", str(run / "chain.db"), "--keep", "99")
    assert (answer.code, answer.out) == (0, "0 B deleted; 0 blocks are pruned now\n")
    assert missing_in(run) == []


def test_a_pruned_chain_goes_on(command: Command, run: Path) -> None:
    command("chain", "prune", str(run), "--keep", "2")
    with closing(Node.open(run / "chain.db", now=Clock())) as node:
        run_round(node)
        assert node.pruned() == PRUNED
    assert missing_in(run) == PRUNED


def test_what_was_pruned_comes_back_from_a_node_that_has_it(command: Command, run: Path, tmp_path: Path) -> None:
    command("chain", "prune", str(run), "--keep", "2")
    with served(written(tmp_path / "archive")) as url:
        answer = command("chain", "fetch", str(run), "--rpc", url)
        assert (answer.code, answer.out, answer.err) == (0, f"{GONE} payloads fetched\n", "")
        assert missing_in(run) == []
        assert command("chain", "fetch", str(run), "--rpc", url).out == "0 payloads fetched\n"


def test_a_node_that_has_pruned_them_too_is_no_help(command: Command, run: Path, tmp_path: Path) -> None:
    other = written(tmp_path / "other")
    for each in (run, other):
        command("chain", "prune", str(each), "--keep", "2")
    with served(other) as url:
        answer = command("chain", "fetch", str(run), "--rpc", url)
    assert (answer.code, answer.out) == (2, "0 payloads fetched\n")
    assert answer.err.startswith(f"error: {GONE} payloads are missing still: the node at {url} does not have them")
    assert missing_in(run) == PRUNED


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (lambda *_: {"size": GRADIENT, "data": "0x" + "00" * GRADIENT}, (SidecarDigestError, SidecarSizeError)),
        (lambda *_: {"size": 1, "data": "0x00"}, SidecarSizeError),
    ],
)
def test_another_payload_is_not_put_into_the_chain(
    command: Command, run: Path, said: Any, error: type[ChainError]
) -> None:
    command("chain", "prune", str(run), "--keep", "2")
    with closing(Store.open(run / "chain.db")) as store, pytest.raises(error):
        fetch_payloads(store, saying(bfl_getSidecar=said), Console())
    assert missing_in(run) == PRUNED


def test_a_chain_that_a_node_is_running_on_is_left_alone(command: Command, run: Path) -> None:
    with served(run) as url:
        for arguments in (["prune", str(run), "--keep", "2"], ["fetch", str(run), "--rpc", url]):
            answer = command("chain", *arguments)
            assert answer.code == 2
            assert "chain.db is in use by another process" in answer.err
    assert missing_in(run) == []


@pytest.mark.parametrize("arguments", [["prune", "."], ["prune", ".", "--keep", "0"], ["fetch", "."], ["prune"]])
def test_a_wrong_argument_is_explained(command: Command, arguments: list[str]) -> None:
    answer = command("chain", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")
