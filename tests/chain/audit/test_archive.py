"""Archives: the same blocks from a file, a node in this process and a node over HTTP; lies of either are refused."""

import socket
import sqlite3
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rlp
from web3 import Web3

from chain.audit.archive import Archive, FileArchive, RemoteArchive, open_archive
from chain.audit.inspection import inspect_chain
from chain.client.asking import web3_over_http
from chain.errors import (
    ChainError,
    MalformedBlockError,
    NodeUnreachableError,
    SidecarDigestError,
    SidecarSizeError,
    StoreError,
)
from chain.node.node import Node
from chain.rpc.in_process import web3_in_process
from chain.rpc.server import RpcServer, ServerParams
from tests.chain.answers import saying
from tests.chain.network import Clock, Network, genesis
from tests.chain.small_chain import story

TOKEN = "secret"  # noqa: S105
KINDS = ("file", "in-process", "http")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node.open(story().write(tmp_path), now=Clock())
    yield node
    node.close()


@pytest.fixture(params=KINDS)
def archive(request: pytest.FixtureRequest, node: Node, tmp_path: Path) -> Iterator[Archive]:
    """The small chain, while its node is running."""
    if request.param == "file":
        archive = FileArchive(tmp_path / "chain.db")
        yield archive
        archive.close()
    elif request.param == "in-process":
        yield RemoteArchive(web3_in_process(node))
    else:
        with RpcServer(node, ServerParams(port=0, token=TOKEN)) as url:
            yield open_archive(None, url, TOKEN)


# --- reading


def test_every_block_is_read_as_it_was_sealed(archive: Archive) -> None:
    assert archive.genesis == story().genesis
    assert archive.head() == story().headers[-1]
    for number, block in enumerate(story().blocks):
        found = archive.block(number)
        assert (found.header, found.transactions, found.receipts) == (block.header, block.transactions, block.receipts)


def test_every_transaction_is_found_where_it_is(archive: Archive) -> None:
    for block in story().blocks[1:3]:
        for index, transaction in enumerate(block.transactions):
            found = archive.find_transaction(transaction.hash)
            assert found is not None
            assert (found[0].header, found[1]) == (block.header, index)
    assert archive.find_transaction(b"\1" * 32) is None


def test_a_block_beyond_the_head_is_said_so(archive: Archive) -> None:
    for number in (8, 2**64):
        with pytest.raises(StoreError, match=f"there is no block {number}; the head is 7"):
            archive.block(number)


def test_a_chain_is_inspected_from_any_archive(archive: Archive) -> None:
    assert inspect_chain(archive).transactions == 59


def test_payloads_are_read_by_their_digests_from_any_archive(archive: Archive) -> None:
    assert len(story().payloads) > 10
    for digest, payload in story().payloads.items():
        assert (archive.payload(digest), archive.has_payload(digest)) == (payload, True)
    assert (archive.payload(b"\1" * 32), archive.has_payload(b"\1" * 32)) == (None, False)


def test_a_chain_whose_payloads_were_pruned_is_inspected_and_says_which_blocks(archive: Archive, node: Node) -> None:
    """The gradients and models of final rounds are gone, but for the model that the first kept round starts from."""
    assert inspect_chain(archive).pruned == []
    node._store.prune(first_kept=8)
    found = inspect_chain(archive)
    assert (found.blocks, found.pruned) == (8, [2, 3, 4, 5, 6])
    assert found.hashes == [header.hash for header in story().headers]
    archive.close()


def test_a_file_shows_what_a_running_node_adds(tmp_path: Path) -> None:
    network, path = Network(), tmp_path / "chain.db"
    node = Node.create(path, genesis(), now=Clock())
    archive = FileArchive(path)
    assert archive.head().block_number == 0
    network.found(node)
    network.run_round(node)
    assert archive.head() == node.head
    assert archive.block(2).header == node.head
    archive.close()
    node.close()


def test_reading_a_file_changes_nothing(tmp_path: Path) -> None:
    path = story().write(tmp_path)
    archive = FileArchive(path)
    inspect_chain(archive)
    archive.close()
    assert path.read_bytes() == story().database


# --- opening


def test_a_run_folder_and_its_database_are_the_same_archive(tmp_path: Path) -> None:
    path = story().write(tmp_path)
    for which in (tmp_path, path):
        archive = open_archive(which)
        assert archive.head() == story().headers[-1]
        archive.close()


def test_what_cannot_be_opened_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database " * 100)
    (tmp_path / "empty").touch()
    for run, rpc, message in (
        (None, "", "name either a run folder"),
        (tmp_path, "http://127.0.0.1:9", "name either a run folder"),
        (tmp_path / "missing", "", "missing does not exist; expected a run folder with a chain.db"),
        (tmp_path, "", "has no chain.db: expected a run of scheme bfl or bfl-no-consensus"),
        (tmp_path / "text", "", "text is no chain database, or is damaged"),
        (tmp_path / "empty", "", "empty is no chain database, or is damaged"),
    ):
        with pytest.raises(StoreError, match=message):
            open_archive(run, rpc)


def test_a_node_that_is_not_there_or_wants_a_token_is_said_so(node: Node) -> None:
    for url, cause in (
        ("http://127.0.0.1:9", "connection refused"),
        ("http://no.such.host.invalid:8545", "name or service not known|temporary failure in name resolution"),
    ):
        message = rf"^no node answers at {url} \(({cause})\); start the node, or correct the address$"
        with pytest.raises(NodeUnreachableError, match=message):
            open_archive(None, url)
    with pytest.raises(
        NodeUnreachableError, match=r"^no node answers \(Invalid URL 'nonsense'.*\); start the node, or "
    ):
        open_archive(None, "nonsense")
    with (
        RpcServer(node, ServerParams(port=0, token=TOKEN)) as url,
        pytest.raises(NodeUnreachableError, match=r"refuses \(HTTP 401\): found no valid token, .*; set BFL_RPC_TOKEN"),
    ):
        open_archive(None, url, "wrong")


def _hang_up(server: socket.socket, times: int) -> None:
    for _ in range(times):
        server.accept()[0].close()


def test_a_node_that_hangs_up_or_keeps_silent_is_said_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(NodeUnreachableError, match=rf"^no node answers at {url} \(timed out\); start"):
            RemoteArchive(web3_over_http(url, timeout_s=0.2))
        hanging_up = threading.Thread(target=_hang_up, args=(server, 2))
        hanging_up.start()
        with pytest.raises(
            NodeUnreachableError, match=rf"^no node answers at {url} \((remote end closed|connection reset)"
        ):
            RemoteArchive(web3_over_http(url))
        hanging_up.join()


# --- lies of a file


def _tampered(tmp_path: Path, statement: str, *values: Any) -> FileArchive:
    path = story().write(tmp_path)
    with sqlite3.connect(path) as connection:
        connection.execute(statement, values)
    connection.close()
    return FileArchive(path)


def test_a_wrong_place_of_a_transaction_is_said_so(tmp_path: Path) -> None:
    wanted = story().blocks[2].transactions[1].hash
    for block, position in ((2, 0), (3, 1), (2, 999), (2, -1)):
        archive = _tampered(
            tmp_path, "UPDATE place SET block = ?, position = ? WHERE hash = ?", block, position, wanted
        )
        with pytest.raises(StoreError, match=f"is not at position {position} of block {block}, where the archive says"):
            archive.find_transaction(wanted)
        archive.close()


def test_a_header_under_another_hash_is_said_so(tmp_path: Path) -> None:
    other = story().headers[7].with_nonce(b"\1" * 8)  # at difficulty 1, any nonce seals
    archive = _tampered(tmp_path, "UPDATE block SET header = ? WHERE number = 7", other.to_bytes())
    with pytest.raises(StoreError, match=f"its header has hash 0x{other.hash.hex()}, the database says"):
        archive.block(7)
    with pytest.raises(StoreError, match="which the database does not know"):
        archive.head()
    archive.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE block SET total_difficulty = 'many' WHERE number = 7",
        "UPDATE block SET total_difficulty = CAST(x'ff' AS TEXT) WHERE number = 7",
        "UPDATE block SET hash = 'text' WHERE number = 7",
        "UPDATE block SET header = 5 WHERE number = 7",
        "UPDATE block SET body = 'text' WHERE number = 7",
        "UPDATE block SET receipts = '' WHERE number = 7",
        "UPDATE meta SET value = CAST(x'ff' AS TEXT) WHERE name = 'genesis'",
        "UPDATE meta SET value = 5 WHERE name = 'genesis'",
        "DELETE FROM meta",
        "DROP TABLE block",
    ],
)
def test_a_database_with_the_wrong_types_is_damaged(tmp_path: Path, statement: str) -> None:
    with pytest.raises(StoreError):
        _tampered(tmp_path, statement).block(7)


# --- lies of a node


def _receipts(*encoded: bytes) -> str:
    return "0x" + zlib.compress(rlp.encode(list(encoded), infer_serializer=False)).hex()


def _bomb() -> str:
    return "0x" + zlib.compress(bytes(100 << 20)).hex()


@pytest.mark.parametrize(
    ("answers", "error", "message"),
    [
        ({"bfl_getRawBlock": None}, StoreError, "there is no block 2"),
        ({"bfl_getRawBlock": "zz"}, NodeUnreachableError, "found 'zz' where the node should answer with bytes"),
        ({"bfl_getRawBlock": 7}, NodeUnreachableError, "found 7 where the node should answer with bytes"),
        ({"bfl_getRawBlock": "0x"}, MalformedBlockError, "the block's RLP does not decode"),
        ({"bfl_getRawBlock": "0xc0"}, MalformedBlockError, "found no block"),
        ({"bfl_getRawReceipts": None}, NodeUnreachableError, "where the node should answer with bytes"),
        ({"bfl_getRawReceipts": "0xffff"}, MalformedBlockError, "the receipts of block 2 do not decode"),
        ({"bfl_getRawReceipts": _receipts()}, MalformedBlockError, "and 0 receipts, expected as many"),
        ({"bfl_getRawReceipts": _receipts(b"x")}, MalformedBlockError, "the receipts of block 2 do not decode"),
        ({"bfl_getRawReceipts": _bomb()}, MalformedBlockError, "receipts of block 2 .*: they are cut off, or too many"),
    ],
)
def test_what_a_node_makes_up_is_refused(
    node: Node, answers: dict[str, Any], error: type[ChainError], message: str
) -> None:
    with pytest.raises(error, match=message):
        RemoteArchive(saying(web3_in_process(node), **answers)).block(2)


@pytest.mark.parametrize(
    ("receipt", "error"),
    [
        ({}, NodeUnreachableError),
        ("0x", NodeUnreachableError),
        (5, NodeUnreachableError),
        ({"blockNumber": 2, "transactionIndex": 1}, NodeUnreachableError),
        ({"blockNumber": "0x2", "transactionIndex": "-0x1"}, StoreError),
        ({"blockNumber": "0x2", "transactionIndex": "0xff"}, StoreError),
        ({"blockNumber": "0x3", "transactionIndex": "0x1"}, StoreError),
        ({"blockNumber": "0xff", "transactionIndex": "0x1"}, StoreError),
    ],
)
def test_a_place_that_a_node_makes_up_is_refused(node: Node, receipt: Any, error: type[ChainError]) -> None:
    archive = RemoteArchive(saying(web3_in_process(node), eth_getTransactionReceipt=receipt))
    with pytest.raises(error):
        archive.find_transaction(story().blocks[2].transactions[1].hash)


@pytest.mark.parametrize("found", [None, 5, "", "{}", "[]", '{"chain_id": 1}'])
def test_a_node_without_a_genesis_is_none_of_ours(found: Any) -> None:
    expected = StoreError if isinstance(found, str) else NodeUnreachableError
    with pytest.raises(expected, match="genesis"):
        RemoteArchive(saying(bfl_genesis=found))


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ({"size": 3, "data": "0x010203"}, SidecarDigestError, "found another payload than the one with digest 0x"),
        ({"size": 9, "data": "0x"}, SidecarSizeError, "found 0 bytes from 0 on of a payload of 9"),
        ({"size": 1, "data": "0x0102"}, SidecarSizeError, "found 2 bytes from 0 on of a payload of 1"),
        (
            {"size": 10**12, "data": "0x"},
            SidecarSizeError,
            "found a payload of 1000000000000 bytes, expected at most 4096$",
        ),
        ("0x0102", NodeUnreachableError, "where the node should answer with a payload"),
    ],
)
def test_a_payload_that_a_node_makes_up_is_refused(
    node: Node, answer: Any, error: type[ChainError], message: str
) -> None:
    archive = RemoteArchive(saying(web3_in_process(node), bfl_getSidecar=answer))
    with pytest.raises(error, match=message):
        archive.payload(bytes(32))


def test_a_head_that_is_no_header_is_refused(node: Node) -> None:
    lying: Web3 = saying(web3_in_process(node), bfl_getRawHeader="0x1234")
    with pytest.raises(MalformedBlockError):
        RemoteArchive(lying).head()
