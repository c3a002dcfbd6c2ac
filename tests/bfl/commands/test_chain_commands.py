"""`bfl chain ...`: what a chain says, in tables a person can read, from a run folder, a file or a node."""

import io
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from bfl.show.chain_tables import pairs_table
from bfl.show.names import short_hex
from bfl.show.text import printable, size_text, utc_time
from chain.client.keys import address_of
from chain.node.node import Node
from chain.rpc.server import RpcServer, ServerParams
from chain.wire.sidecar import payload_digest
from tests.bfl.conftest import Command
from tests.bfl.runs import bfl
from tests.chain.network import Clock
from tests.chain.small_chain import NETWORK, NEW_DEVICE, NEW_SERVER, PARAMETERS, model_of, story

TOKEN = "a-token"  # noqa: S105


@pytest.fixture(params=["folder", "file", "rpc"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[str]]:
    """The arguments that name the small chain: a run folder, its database, or a running node that wants a token."""
    path = story().write(tmp_path)
    if request.param != "rpc":
        yield [str(tmp_path if request.param == "folder" else path)]
        return
    node = Node.open(path, now=Clock())
    monkeypatch.setenv("BFL_RPC_TOKEN", TOKEN)
    with RpcServer(node, ServerParams(port=0, token=TOKEN)) as url:
        yield ["--rpc", url]
    node.close()


@pytest.fixture
def run(tmp_path: Path) -> str:
    story().write(tmp_path)
    return str(tmp_path)


def rows(shown: str) -> list[list[str]]:
    """The cells of a table's rows."""
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines() if line.startswith("│")]


# --- show


def test_show_lists_the_blocks_with_leader_winner_and_contents(command: Command, place: list[str]) -> None:
    answer = command("chain", "show", *place)
    assert (answer.code, answer.err) == (0, "")
    assert f"chain 4242, 8 blocks, head 0x{story().headers[-1].hash.hex()}" in answer.out
    listed = rows(answer.out)
    assert [(row[0], row[1]) for row in listed] == [
        ("0", "-"), ("1", "-"), ("2", "1"), ("3", "2"), ("4", "3"), ("5", "4"), ("6", "5"), ("7", "6"),
    ]  # fmt: skip
    for row, header in zip(listed, story().headers, strict=True):
        assert row[2] == short_hex(header.hash)
        assert row[5] == (short_hex(header.winner) if header.winner else "-")
    assert listed[1][4] == f"founder {short_hex(story().headers[1].coinbase)}"
    assert [row[4] for row in listed[2:]] == [short_hex(header.coinbase) for header in story().headers[2:]]
    assert listed[0][6] == "genesis"
    assert listed[1][6] == "1 creation, 1 register, 1 found"
    assert listed[2][6] == "1 plan, 4 gradient, 1 close, 3 iterate, 1 model"
    assert listed[7][6] == "1 plan, 1 model (reverted)"
    assert listed[2][3] == "2023-11-14 22:13:20"


def test_show_takes_the_last_blocks(command: Command, run: str) -> None:
    assert [row[0] for row in rows(command("chain", "show", run, "--last", "2").out)] == ["6", "7"]
    assert len(rows(command("chain", "show", run, "--last", "99").out)) == 8


# --- block


def test_block_shows_the_header_and_every_transaction(command: Command, place: list[str]) -> None:
    answer = command("chain", "block", "4", *place)
    header = story().headers[4]
    assert answer.code == 0
    for value in (header.hash, header.parent_hash, header.coinbase, header.winner or b"", header.state_root):
        assert f"0x{value.hex()}" in answer.out
    listed = [row for row in rows(answer.out) if len(row) == 8]
    assert [row[2] for row in listed] == [
        "plan", *["gradient"] * 4, "close", *["iterate"] * 4, *["flag"] * 3, "model",
    ]  # fmt: skip
    assert [row[1] for row in listed] == [
        "plan", *["train"] * 4, "close", *["gossip"] * 4, *["verify"] * 3, "model",
    ]  # fmt: skip
    assert {row[6] for row in listed} == {"ok"}
    assert listed[1][4] == "samples 100, iterations 10, 32 B beside it"
    assert listed[-1][4] == "52 B beside it"
    assert listed[-2][4].startswith("offender 0x")
    assert listed[-2][4].endswith("about iterate 1")


def test_block_marks_what_was_reverted(command: Command, run: str) -> None:
    listed = [row for row in rows(command("chain", "block", "7", run).out) if len(row) == 8]
    assert [(row[2], row[6]) for row in listed] == [("plan", "ok"), ("model", "reverted")]


def test_the_genesis_is_a_block_without_leader_or_winner(command: Command, run: str) -> None:
    answer = command("chain", "block", "0", run)
    assert answer.code == 0
    assert f"0x{story().headers[0].hash.hex()}" in answer.out
    assert ["winner", "-"] in rows(answer.out)


# --- transaction


def test_transaction_shows_what_it_says_and_what_came_of_it(command: Command, place: list[str]) -> None:
    block = story().blocks[4]
    answer = command("chain", "transaction", f"0x{block.transactions[-1].hash.hex()}", *place)
    assert answer.code == 0
    shown = {row[0]: row[1] for row in rows(answer.out) if len(row) == 2}
    assert shown["block"] == f"4 (position {len(block.transactions) - 1})"
    assert (shown["what"], shown["status"], shown["payload size"]) == ("model", "accepted", "52")
    assert shown["size"] == size_text(len(block.transactions[-1].raw)), "of the transaction alone"
    assert shown["digest"] == f"0x{payload_digest(model_of(3)).hex()}"
    assert shown["sender"] == f"0x{block.header.coinbase.hex()}"
    assert shown["ModelPublished"].startswith("round 3, leader 0x")


def test_transaction_shows_the_digests_of_the_founding(command: Command, run: str) -> None:
    answer = command("chain", "transaction", story().blocks[1].transactions[2].hash.hex(), run)
    assert answer.code == 0
    shown = {row[0]: row[1] for row in rows(answer.out) if len(row) == 2}
    assert shown["parameters"] == f"0x{payload_digest(PARAMETERS).hex()}"
    assert shown["parameters_size"] == str(len(PARAMETERS))
    assert shown["model"] == f"0x{payload_digest(model_of(0)).hex()}"
    assert "Founded" in answer.out


def test_a_reverted_transaction_says_so_and_has_no_events(command: Command, run: str) -> None:
    answer = command("chain", "transaction", story().reverted.hex(), run)
    assert answer.code == 0
    assert ["status", "reverted"] in rows(answer.out)
    assert "ModelPublished" not in answer.out


# --- participants


def test_participants_lists_roles_homes_and_standing(command: Command, place: list[str]) -> None:
    answer = command("chain", "participants", *place)
    assert answer.code == 0
    assert "9 participants after 6 rounds" in answer.out
    listed = {row[0]: row[1:] for row in rows(answer.out)}
    assert listed[f"0x{address_of(NEW_DEVICE).hex()}"] == [
        "device", short_hex(address_of(NETWORK.servers[0])), "-", "1", "ok",
    ]  # fmt: skip
    assert listed[f"0x{address_of(NEW_SERVER).hex()}"][:2] == ["edge server", "-"]
    assert sum(int(row[2]) for row in listed.values() if row[2] != "-") == 6
    assert sum(int(row[3]) for row in listed.values() if row[3] != "-") == 6


def test_participants_says_who_is_excluded_while_that_lasts(command: Command, tmp_path: Path) -> None:
    path = story().write(tmp_path)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE meta SET value = ? WHERE name = 'head'", (story().headers[5].hash,))
    connection.close()
    listed = {row[0]: row[5] for row in rows(command("chain", "participants", str(path)).out)}
    assert listed[f"0x{story().liar.hex()}"] == "excluded through round 5"
    assert list(listed.values()).count("ok") == 8


# --- refusals


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show"], "name either a run folder (or its chain.db), or --rpc URL"),
        (["show", ".", "--rpc", "http://127.0.0.1:9"], "name either a run folder (or its chain.db), or --rpc URL"),
        (["show", "nowhere"], "nowhere does not exist; expected a run folder with a chain.db, or such a file"),
        (["show", "."], ". has no chain.db: expected a run of scheme bfl or bfl-no-consensus"),
        (["transaction", "0x12"], "found '0x12', expected a transaction hash: 0x and 64 hexadecimal digits"),
        (["transaction", "zz" * 32], f"found '{'zz' * 32}', expected a transaction hash: 0x and 64 hexadecimal digits"),
    ],
)
def test_a_refusal_is_one_line_and_exit_code_2(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = command("chain", *arguments)
    assert (answer.code, answer.out, answer.err) == (2, "", f"error: {message}\n")


def test_what_is_not_there_is_said_so(command: Command, place: list[str]) -> None:
    assert command("chain", "block", "8", *place).err == "error: there is no block 8; the head is 7\n"
    answer = command("chain", "transaction", "11" * 32, *place)
    assert (answer.code, answer.err) == (2, f"error: 0x{'11' * 32} is in no sealed block of this chain\n")


@pytest.mark.parametrize(
    "arguments",
    [["block"], ["block", "seven"], ["block", "-1"], ["block", "1.5"], ["show", "--last", "0"], ["show", "--last", "x"],
     ["transaction"], ["show", "a", "b"], ["unknown"]],
)  # fmt: skip
def test_a_wrong_argument_is_explained(command: Command, arguments: list[str]) -> None:
    answer = command("chain", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert re.fullmatch(r"error: .*; see: bfl chain.* --help\n", answer.err)


def test_a_file_that_is_no_database_is_said_so(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "chain.db"
    path.write_bytes(b"no database" * 500)
    for arguments in (["show"], ["participants"], ["block", "0"]):
        answer = command("chain", *arguments, str(path))
        assert (answer.code, answer.err.count("\n")) == (2, 1)
        assert answer.err.startswith(f"error: {path} is no chain database, or is damaged")


def test_a_node_that_is_away_or_wants_a_token_is_said_so(command: Command, tmp_path: Path) -> None:
    answer = command("chain", "show", "--rpc", "http://127.0.0.1:9")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert answer.err.startswith("error: no node answers")
    node = Node.open(story().write(tmp_path), now=Clock())
    with RpcServer(node, ServerParams(port=0, token=TOKEN)) as url:
        answer = command("chain", "show", "--rpc", url)
    node.close()
    assert answer.code == 2
    assert re.fullmatch(r"error: the node at .* refuses \(HTTP 401\): found no valid token, .*\n", answer.err)


def test_as_a_process_it_is_the_same(tmp_path: Path) -> None:
    story().write(tmp_path)
    done = bfl("chain", "show", ".", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert [row[0] for row in rows(done.stdout)] == [str(number) for number in range(8)]
    done = bfl("chain", "block", "99", ".", folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "error: there is no block 99; the head is 7\n")


# --- help


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (["chain", "show"], ["Run folder, or a chain.db.", "How many blocks, counted from the head."]),
        (["chain", "block"], ["Run folder, or a chain.db.", "Number of the block; round k is block k + 1."]),
        (["chain", "transaction"], ["Run folder, or a chain.db.", "Hash of the transaction.", "HASH"]),
        (["chain", "participants"], ["Run folder, or a chain.db.", "JSON-RPC address of a node", "BFL_RPC_TOKEN"]),
        (
            ["audit", "check"],
            ["Run folder, or a chain.db.", "Execute every block again", "Also explain the words in the tables."],
        ),
        (["audit", "model"], ["Run folder, or a chain.db.", "Round K; default: the last one."]),
        (["network", "key"], ["Key file to make (keystore v3)."]),
    ],
)
def test_help_explains_every_argument(
    command: Command, monkeypatch: pytest.MonkeyPatch, arguments: list[str], texts: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    answer = command(*arguments, "--help")
    assert answer.code == 0
    shown = " ".join(answer.out.split())
    for text in texts:
        assert text in shown


# --- what a chain says is not trusted


def test_markup_and_control_characters_of_a_chain_are_shown_not_obeyed() -> None:
    console = Console(file=io.StringIO(), width=200)
    console.print(pairs_table("", {"name": printable("[bold red]x[/] \x1b[2J\x07")}))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "[bold red]x[/] \ufffd[2J\ufffd" in shown
    assert "\x1b" not in shown


def test_values_for_people() -> None:
    assert (size_text(999), size_text(1000), size_text(2_500_000)) == ("999 B", "1.0 KB", "2.50 MB")
    assert (short_hex(b"\1\2\3\4\5\6\7"), short_hex(b"\1\2")) == ("0x01020304…", "0x0102")
    assert (utc_time(0), utc_time(2**62)) == ("1970-01-01 00:00:00", str(2**62))
    assert printable("a\tb\u202ec é") == "a\ufffdb\ufffdc é"
    assert pairs_table("t", {"a": "[x]"}).row_count == 1
