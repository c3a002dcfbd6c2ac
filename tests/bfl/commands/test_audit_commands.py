"""`bfl audit check`: exit code 0 and what was checked, or 1 and the first place that does not fit."""

import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bfl.auditing import findings
from bfl.show.text import size_text
from chain.audit.archive import FileArchive
from chain.audit.inspection import inspect_chain
from chain.client.keys import address_of
from chain.errors import InspectionError
from chain.node.node import Node
from chain.rpc.server import RpcServer, ServerParams
from chain.store.store import Store
from chain.wire.blocks import Block
from tests.bfl.conftest import Command
from tests.bfl.runs import bfl, environment
from tests.chain.network import Clock, Network, genesis
from tests.chain.small_chain import NETWORK, forged, story

TOKEN = "a-token"  # noqa: S105


@pytest.fixture
def run(tmp_path: Path) -> Path:
    story().write(tmp_path)
    return tmp_path


@pytest.fixture
def url(run: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A running node of the small chain; it wants the token that is set."""
    node = Node.open(run / "chain.db", now=Clock())
    monkeypatch.setenv("BFL_RPC_TOKEN", TOKEN)
    with RpcServer(node, ServerParams(port=0, token=TOKEN)) as url:
        yield url
    node.close()


def verdict(shown: str) -> dict[str, str]:
    """The rows of the verdict."""
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines() if line.startswith("│")]
    return dict(cells)


def edited(run: Path, statement: str, *values: object) -> str:
    """The run, after somebody has edited its database."""
    connection = sqlite3.connect(run / "chain.db")
    with connection:
        connection.execute(statement, values)
    connection.close()
    return str(run)


# --- a chain that fits


def test_a_chain_none_of_whose_models_can_be_checked_gives_exit_code_2_and_says_what_was(
    command: Command, run: Path
) -> None:
    answer = command("audit", "check", str(run))
    assert answer.code == 2
    assert answer.err.startswith("error: no model could be derived again: the founding parameters name no such network")
    found = verdict(answer.out)
    assert found["verdict"] == "fits, as far as it could be checked"
    assert found["believed"] == "blocks 3 to 7, not final: 0 of 4 servers signed the last one, no majority"
    assert found["not checked"].startswith("no model could be derived again: ")
    assert found["checked"] == "seals, links, signatures, roles, turns, digests, events, receipts, state roots"
    assert found["models"].startswith("cannot be derived again: the founding parameters name no such network")
    assert found["network"] == f"chain 4242, genesis 0x{story().headers[0].hash.hex()}"
    assert found["head"] == f"0x{story().headers[-1].hash.hex()}"
    assert found["blocks"] == "8 (5 models after model 0)"
    assert found["transactions"].startswith("59 (1 creation, 1 register, 1 found, 6 plan, ")
    assert found["reverted"] == "1"
    assert found["payloads"] == f"{size_text(sum(_kept_bytes()))} beside the blocks"


def _kept_bytes() -> list[int]:
    """What each block of the small chain keeps beside itself."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(story().write(Path(folder)), read_only=True)
        found = [sum(each.size for each in store.kept_by(header.hash)) for header in story().headers]
        store.close()
    return found


def test_a_pruned_chain_is_no_chain_that_fits(command: Command, run: Path) -> None:
    edited(run, "DELETE FROM part WHERE length(value) = 32")
    answer = command("audit", "check", str(run))
    assert answer.code == 2
    assert answer.err.startswith("error: 5 of 8 blocks are pruned: their models could not be derived again; `")
    assert " chain fetch` brings their payloads back from a node that has them\n" in answer.err


def test_a_payload_that_somebody_changed_is_named_with_its_block(command: Command, run: Path) -> None:
    digest = story().blocks[3].transactions[-1].data[-64:-32].hex()
    edited(run, "UPDATE part SET value = zeroblob(52) WHERE digest = ?", bytes.fromhex(digest))
    answer = command("audit", "check", str(run))
    assert (answer.code, answer.err) == (1, "")
    assert answer.out.startswith(f"does not fit: block 3: the payload 0x{digest} has another digest: 0x")


def test_without_execution_the_verdict_says_that_receipts_were_believed(command: Command, run: Path) -> None:
    answer = command("audit", "check", str(run), "--no-execute")
    found = verdict(answer.out)
    assert found["believed"] == "receipts of 7 blocks: nothing was executed (--no-execute)"
    assert found["checked"] == "seals, links, signatures, roles, turns, digests, events"


def test_a_running_node_is_checked_over_rpc(command: Command, url: str) -> None:
    for more in ([], ["--no-execute"]):
        answer = command("audit", "check", "--rpc", url, *more)
        assert answer.code == 2
        assert ("state roots" in verdict(answer.out)["checked"]) == (not more)
        assert verdict(answer.out)["head"] == f"0x{story().headers[-1].hash.hex()}"


def test_a_chain_from_the_future_is_executed_all_the_same(command: Command, tmp_path: Path) -> None:
    """A simulation has a clock of its own."""
    later = 2**40
    node = Node.create(tmp_path / "chain.db", genesis(timestamp=later), now=Clock(later))
    Network().found(node)
    node.close()
    assert "state roots" in verdict(command("audit", "check", str(tmp_path), "--execute").out)["checked"]


# --- a chain that does not


@pytest.mark.parametrize(
    ("statement", "place"),
    [
        ("UPDATE block SET body = (SELECT body FROM block WHERE number = 2) WHERE number = 3", "block 3: "),
        ("UPDATE block SET receipts = (SELECT receipts FROM block WHERE number = 0) WHERE number = 4", "block 4: "),
        ("UPDATE block SET number = 9 WHERE number = 5", "block 5: there is no block 5; the head is 7"),
        ("DELETE FROM block WHERE number = 2", "block 2: there is no block 2; the head is 7"),
    ],
)
def test_a_tampered_copy_gives_exit_code_1_and_the_first_place(
    command: Command, run: Path, statement: str, place: str
) -> None:
    answer = command("audit", "check", edited(run, statement))
    assert (answer.code, answer.err) == (1, "")
    assert answer.out.startswith(f"does not fit: {place}")
    assert answer.out.count("\n") == 1


def test_the_transaction_that_does_not_fit_is_named(command: Command, run: Path) -> None:
    """A block that repeats a transaction of round 1."""
    block = _on_top(run)
    raw = story().blocks[2].transactions[1]  # a gradient of round 1
    _add(run, forged(block, [raw], [replace(story().blocks[2].receipts[1], gas_used=21_000)]))
    answer = command("audit", "check", str(run))
    assert answer.code == 1
    assert re.match(
        rf"does not fit: block 8: transaction 0 \(0x{raw.hash.hex()}\): found nonce 0, expected", answer.out
    )


def _on_top(run: Path) -> Block:
    """An empty block after the last one, by a server that has waited long enough."""
    head = story().headers[-1]
    changes = {
        "parent_hash": head.hash,
        "block_number": 8,
        "timestamp": head.timestamp + 1000,
        "coinbase": address_of(NETWORK.servers[0]),
    }
    return forged(story().blocks[-1], (), (), **changes)


def _add(run: Path, block: Block) -> None:
    store = Store.open(run / "chain.db")
    with store.transaction():
        store.add_block(block)
        store.make_canonical(block.header)
    store.close()


def test_a_made_up_state_fits_until_it_is_executed(command: Command, run: Path) -> None:
    _add(run, forged(_on_top(run), state_root=b"\1" * 32))
    assert verdict(command("audit", "check", str(run), "--no-execute").out)["verdict"].startswith("fits")
    answer = command("audit", "check", str(run))
    assert answer.code == 1
    assert answer.out.startswith("does not fit: block 8, executed here: ")
    assert "state root" in answer.out


def test_what_does_not_fit_is_told_in_its_own_words(
    command: Command, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brackets in a message are no markup."""

    def refuse(*_: object) -> None:
        raise InspectionError("expected [who, reason] [/red] [bold]")

    monkeypatch.setattr(findings, "inspected", refuse)
    assert command("audit", "check", str(run)).out == "does not fit: expected [who, reason] [/red] [bold]\n"


# --- no verdict


@pytest.mark.slow
def test_what_cannot_be_checked_gives_exit_code_2(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for arguments, message in (
        ([], "no folder under runs/ has a chain.db: name a run folder (or its chain.db), or --rpc URL"),
        ([str(tmp_path), "--rpc", "http://127.0.0.1:9"], "name either a run folder"),
        (["nowhere"], "nowhere does not exist"),
        ([str(tmp_path / "empty")], "has no chain.db: expected a run of scheme bfl or bfl-no-consensus"),
        (["--rpc", "http://127.0.0.1:9"], "no node answers"),
        (["--rpc", "nonsense"], "no node answers"),
    ):
        answer = command("audit", "check", *arguments)
        assert (answer.code, answer.out) == (2, "")
        assert message in answer.err
        assert (answer.err[:7], answer.err.count("\n")) == ("error: ", 1)


@pytest.mark.slow
def test_as_a_process_it_is_the_same(run: Path) -> None:
    done = bfl("audit", "check", ".", folder=run)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert verdict(done.stdout)["verdict"] == "fits, as far as it could be checked"
    edited(run, "DELETE FROM block WHERE number = 6")
    done = bfl("audit", "check", ".", folder=run)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == "does not fit: block 6: there is no block 6; the head is 7\n"


@pytest.mark.slow
def test_a_reader_that_leaves_gets_no_verdict(run: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    called = [sys.executable, "-m", "bfl", "audit", "check", "."]
    done = subprocess.run(called, cwd=run, env=environment(), stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("missing", "arguments", "extra"),
    [
        ("eth", ["audit", "check", ".", "--execute"], "node"),
        ("web3", ["chain", "show", "."], "chain"),
        ("rlp", ["audit", "model", "."], "chain"),
        ("uvicorn", ["network", "node", "--db", "chain.db"], "node"),
    ],
)
def test_a_part_that_is_not_installed_is_told_in_one_line(
    run: Path, missing: str, arguments: list[str], extra: str
) -> None:
    code = (
        "import sys; from tests.chain.light_device import Missing;"
        f"sys.meta_path.insert(0, Missing({missing!r})); sys.argv = ['bfl', *{arguments!r}];"
        "from bfl.cli import main; main()"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=run, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert re.fullmatch(
        rf"error: {missing}[\w.]* is not installed; get it with: .* -m pip install .*\[{extra}\]'\n", done.stderr
    )


def test_an_audit_leaves_the_copy_as_it_was(command: Command, run: Path) -> None:
    command("audit", "check", str(run), "--execute")
    assert (run / "chain.db").read_bytes() == story().database
    archive = FileArchive(run)
    assert inspect_chain(archive).blocks == 8
    archive.close()
