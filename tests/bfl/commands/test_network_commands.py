"""`bfl network ...`: keys, a genesis, and a node as it runs on a real machine."""

import functools
import getpass
import json
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bfl.commands.node import _peer_tokens
from chain.client.asking import web3_over_http
from chain.client.empty_network import EmptyNetwork
from chain.client.founding import Founding, found_network
from chain.client.keys import address_of, load_key, save_key
from chain.client.ledger import Ledger
from chain.errors import NodeUnreachableError
from chain.mining.miner import Miner, mine
from chain.node.node import Node
from chain.protocol.contract import RegistryTerms
from chain.protocol.genesis import Genesis, block_gas, read_genesis
from chain.protocol.slots import Slot
from tests.bfl.conftest import Command
from tests.bfl.node_process import running_node
from tests.bfl.runs import environment
from tests.chain.network import MODEL_0, SIZES, Clock, Network, account, sized
from tests.chain.network import genesis as small_genesis
from tests.chain.small_chain import story

NETWORK = Network()
MODEL_1 = sized(b"model 1", SIZES.model)
TOKEN = "a-token"  # noqa: S105
PASSWORD = "correct horse"  # noqa: S105


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def is_refusal(code: int, out: str, err: str, message: str) -> bool:
    """Whether this is one line, exit code 2, and no traceback."""
    assert (code, out, err.count("\n")) == (2, "", 1), err
    return re.fullmatch(f"error: .*{message}.*\n", err) is not None


# --- key


def test_a_key_is_made_that_its_password_opens(command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BFL_KEY_PASSWORD", PASSWORD)
    answer = command("network", "key", "mine.json")
    assert (answer.code, answer.err) == (0, "")
    made = load_key(folder / "mine.json", PASSWORD)
    assert answer.out.splitlines()[0] == f"address: {made.address}"
    assert stat.S_IMODE((folder / "mine.json").stat().st_mode) == 0o600
    answer = command("network", "key", "mine.json")
    assert is_refusal(answer.code, answer.out, answer.err, "mine.json exists; a key file is never overwritten")


def test_the_password_is_asked_for_twice(command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter([PASSWORD, PASSWORD, PASSWORD, "typo", "", ""])
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(getpass, "getpass", lambda _: next(typed))
    monkeypatch.setattr(
        "chain.client.keys.save_key", functools.partial(save_key, work=2)
    )  # scrypt takes a second otherwise
    assert command("network", "key", "mine.json").code == 0
    assert load_key(folder / "mine.json", PASSWORD)
    for message in ("the two passwords differ", "the password is empty"):
        answer = command("network", "key", "other.json")
        assert is_refusal(answer.code, answer.out, answer.err, message)
    assert not (folder / "other.json").exists()


def test_without_a_terminal_and_a_password_no_key_is_made(folder: Path) -> None:
    command = [sys.executable, "-m", "bfl", "network", "key", "mine.json"]
    nobody = {"stdin": subprocess.DEVNULL, "start_new_session": True}  # or it would ask whoever runs the tests
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, **nobody)  # type: ignore[call-overload]
    assert is_refusal(
        done.returncode, done.stdout, done.stderr, "found no terminal .*; set BFL_KEY_PASSWORD, or run it"
    )
    assert list(folder.iterdir()) == []


# --- genesis


def test_a_genesis_is_written_that_nodes_read(command: Command, folder: Path) -> None:
    founder = account("founder").address
    answer = command("network", "genesis", "--founder", founder, "--difficulty", "1000", "--retarget", "--block-s", "9")
    assert (answer.code, answer.err) == (0, "")
    made = read_genesis((folder / "genesis.json").read_text())
    assert (made.founder, made.difficulty, made.difficulty_rule, made.block_s) == (
        founder.lower(), 1000, "retarget", 9,
    )  # fmt: skip
    assert abs(made.timestamp - time.time()) < 60
    assert f"chain id {made.chain_id}, genesis hash 0x{made.header.hash.hex()}" in answer.out
    assert f"registry 0x{made.registry.hex()}" in answer.out


def test_the_gas_limit_follows_from_who_takes_part(command: Command, folder: Path) -> None:
    sizes = ("--devices", "20", "--edges", "4", "--phi", "6")
    command("network", "genesis", "--founder", account("founder").address, *sizes, "--out", "g.json")
    assert read_genesis((folder / "g.json").read_text()).gas_limit == block_gas(2 * 20 + 4 * (6 + 4) + 4)


def test_two_networks_have_two_chain_ids(command: Command, folder: Path) -> None:
    for name in ("a.json", "b.json"):
        command("network", "genesis", "--founder", account("founder").address, "--out", name)
    assert len({json.loads((folder / name).read_text())["chain_id"] for name in ("a.json", "b.json")}) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--founder", "nobody"], "found --founder 'nobody', expected an address: 0x and 40 hexadecimal digits"),
        (["--founder", "0x" + "g" * 40], "expected an address"),
        (["--founder", "0x" + "1" * 40, "--out", "there.json"], "there.json exists; a genesis is never overwritten"),
        (["--founder", "0x" + "1" * 40, "--out", "no/g.json"], "no does not exist; make it, or choose another --out"),
        (
            ["--founder", "0x" + "1" * 40, "--out", "there.json/g"],
            r"cannot be written \(Not a dir.*; choose another --out",
        ),
    ],
)
def test_an_impossible_genesis_is_refused(command: Command, folder: Path, arguments: list[str], message: str) -> None:
    (folder / "there.json").write_text("mine")
    answer = command("network", "genesis", *arguments)
    assert is_refusal(answer.code, answer.out, answer.err, message)
    assert (folder / "there.json").read_text() == "mine"
    assert not (folder / "genesis.json").exists()


@pytest.mark.parametrize("arguments", [[], ["--founder", "0x1", "--devices", "0"], ["--founder", "0x1", "--phi", "x"]])
def test_a_wrong_option_of_genesis_is_explained(command: Command, folder: Path, arguments: list[str]) -> None:
    answer = command("network", "genesis", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")


# --- node


def _written(path: Path, rules: Genesis) -> str:
    path.write_text(rules.canonical_json())
    return str(path)


def _new_rules() -> Genesis:
    return small_genesis(timestamp=int(time.time()), difficulty=2000)


def _found_and_run_a_round(url: str) -> Ledger:
    """Found over HTTP, post a round, and let a device mine it."""
    charter = Founding(NETWORK.homes, b"{}", MODEL_0, SIZES, RegistryTerms())
    ledger = Ledger(found_network(EmptyNetwork(web3_over_http(url, TOKEN)), NETWORK.founder, charter))
    leader = next(server for server in NETWORK.servers if address_of(server) == ledger.leader())
    device = ledger.signed_by(NETWORK.devices[0])
    ledger.signed_by(leader).post(Slot.PLAN, 1, b"plan")
    device.submit_gradient(1, ledger.model_digest(), ledger.plan_digest(), 100, 10, sized(b"gradient", SIZES.gradient))
    ledger.signed_by(leader).post(Slot.CLOSE, 1, b"closed")
    ledger.signed_by(leader).post(Slot.MODEL, 1, MODEL_1)
    ledger.signed_by(leader).propose()
    task = device.mining_task()
    assert task.header is not None
    with Miner() as miner:
        sealed = mine(task.header, miner, deadline_s=60)
    assert sealed is not None
    device.submit_nonce(task, sealed.nonce)
    return ledger


@pytest.mark.slow
def test_a_node_is_founded_mined_stopped_and_goes_on_where_it_was(folder: Path) -> None:
    rules = _new_rules()
    with running_node(folder, "--genesis", _written(folder / "genesis.json", rules), BFL_RPC_TOKEN=TOKEN) as node:
        assert f"head: block 0 0x{rules.header.hash.hex()}" in node.said
        charter = Founding(NETWORK.homes, b"{}", MODEL_0, SIZES)
        with pytest.raises(NodeUnreachableError, match=r"refuses \(HTTP 401\)"):
            found_network(EmptyNetwork(web3_over_http(node.url, "wrong")), NETWORK.founder, charter)
        ledger = _found_and_run_a_round(node.owner_url)
        sealed = node.wait_for("block 2")
        assert sealed.endswith(f", sealed by 0x{address_of(NETWORK.devices[0]).hex()}")
        code, said, errors = node.stop(signal.SIGTERM)
        assert (code, said[-1], errors) == (0, "stopped", "")
        with pytest.raises(NodeUnreachableError):
            ledger.round()
    head = sealed.split()[2].rstrip(",")
    with running_node(folder) as node:
        assert f"head: block 2 {head}" in node.said
        ledger = Ledger.connect(node.url, rules.registry)
        model = ledger.model(1)
        assert model is not None
        assert (model.payload, ledger.round()) == (MODEL_1, 2)
        code, said, errors = node.stop(signal.SIGINT)
        assert (code, said[-1], errors) == (0, "stopped", "")


@pytest.mark.slow
def test_a_node_that_runs_keeps_its_database_and_is_audited_meanwhile(folder: Path, command: Command) -> None:
    story().write(folder)
    with running_node(folder) as node:
        answer = command("network", "node", "--port", "0")
        assert is_refusal(answer.code, answer.out, answer.err, "chain.db is in use by another process: stop that one")
        port = node.url.rpartition(":")[2]
        answer = command("network", "node", "--db", "other.db", "--genesis", _other(folder), "--port", port)
        assert is_refusal(answer.code, answer.out, answer.err, f"port {port} of 127.0.0.1 is taken; stop what uses it")
        assert not list(folder.glob("other.db*"))
        for where in (["."], ["--rpc", node.url]):
            assert command("audit", "check", *where).code == 2  # it fits, but its models are none of ours
        assert node.stop()[0] == 0
    assert command("audit", "check", ".").code == 2


def _other(folder: Path) -> str:
    return _written(folder / "other.json", small_genesis(chain_id=7))


def test_another_genesis_than_the_databases_is_refused(command: Command, folder: Path) -> None:
    story().write(folder)
    answer = command("network", "node", "--genesis", _other(folder), "--port", "0")
    message = "chain.db is of chain 4242, .*other.json of chain 7; leave out --genesis, or choose another --db"
    assert is_refusal(answer.code, answer.out, answer.err, message)
    Node.open(folder / "chain.db", now=Clock()).close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "chain.db does not exist; a new chain needs --genesis FILE"),
        (["--genesis", "missing.json"], "missing.json is no file; make a genesis with: bfl network genesis"),
        (["--genesis", "."], r"\. is no file"),
        (["--genesis", "binary"], "binary: 'utf-8' codec .*; make one with `bfl network genesis`"),
        (["--genesis", "text"], "text: found no JSON: .*; make one with `bfl network genesis`"),
        (["--genesis", "good.json", "--db", "no/folder/chain.db"], "no/folder/chain.db"),
        (["--db", "text"], "text is no chain database, or is damaged"),
        (["--db", "."], "is no chain database"),
    ],
)
def test_a_node_that_cannot_start_says_why(command: Command, folder: Path, arguments: list[str], message: str) -> None:
    (folder / "binary").write_bytes(b"\xff\xfe")
    (folder / "text").write_text("text" * 100)
    _written(folder / "good.json", small_genesis())
    answer = command("network", "node", "--port", "0", *arguments)
    assert is_refusal(answer.code, answer.out, answer.err, message)


def test_a_token_with_spaces_is_refused_before_a_database_is_made(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BFL_RPC_TOKEN", "two words")
    answer = command("network", "node", "--genesis", _written(folder / "good.json", small_genesis()))
    assert is_refusal(answer.code, answer.out, answer.err, "token: found spaces")
    assert not (folder / "chain.db").exists()


@pytest.mark.parametrize("arguments", [["--port", "99999"], ["--port", "x"], ["--requests-per-s", "0"], ["extra"]])
def test_a_wrong_option_of_node_is_explained(command: Command, folder: Path, arguments: list[str]) -> None:
    answer = command("network", "node", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")


def test_a_node_that_was_stopped_has_given_its_port_back(folder: Path) -> None:
    """And a supervisor may change its mind as soon as it sees the address."""
    story().write(folder)
    with running_node(folder) as node:
        code, said, errors = node.stop(signal.SIGTERM)
    assert (code, said[-1], errors) == (0, "stopped", "")
    socket.create_server(("127.0.0.1", int(node.url.rpartition(":")[2]))).close()


# --- peers


PEER = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--peer-token", f"{PEER}=A"], "found --peer-token for no --peer, expected URL=VARIABLE"),
        (["--peer", PEER, "--peer-token", "A"], "found --peer-token for no --peer"),
        (["--peer", PEER, "--peer-token", PEER], "found --peer-token for no --peer"),
        (["--peer", PEER, "--peer-token", f"{PEER}=s3cret"], f"found no token for {PEER}; set the variable"),
        (["--peer", PEER, "--peer-token", f"{PEER}=SPACED"], f"found no token for {PEER}"),
        (
            ["--peer", "http://other:8545", "--peer-token", "http://other:8545=A"],
            "found a token for other over plain http: .*; use https://, or a tunnel",
        ),
    ],
)
def test_a_token_of_a_peer_that_cannot_be_meant_is_refused(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.setenv("A", TOKEN)
    monkeypatch.setenv("SPACED", "two words")
    good = _written(folder / "good.json", small_genesis())
    answer = command("network", "node", "--genesis", good, "--port", "0", *arguments)
    assert is_refusal(answer.code, answer.out, answer.err, message)
    assert TOKEN not in answer.err
    assert "s3cret" not in answer.err
    assert not (folder / "chain.db").exists()


def test_every_peer_has_its_own_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BFL_RPC_TOKEN", "our-own")
    monkeypatch.setenv("FIRST", "of-the-first")
    peers = [PEER, "https://second:8545/?a=b", "http://third:8545"]
    monkeypatch.setenv("SECOND", "of-the-second")
    given = [f"{PEER}=FIRST", "https://second:8545/?a=b=SECOND"]
    found = _peer_tokens(peers, given)
    assert found == {PEER: "of-the-first", "https://second:8545/?a=b": "of-the-second"}


@pytest.mark.slow
def test_a_node_sends_a_peer_its_token_and_nobody_its_own(folder: Path) -> None:
    rules = _new_rules()
    _written(folder / "genesis.json", rules)
    (folder / "a").mkdir()
    (folder / "b").mkdir()
    start = ("--genesis", "../genesis.json")
    with socket.create_server(("127.0.0.1", 0)) as spy:
        spy.settimeout(20)
        theirs = f"http://127.0.0.1:{spy.getsockname()[1]}"
        with running_node(folder / "a", *start, BFL_RPC_TOKEN=TOKEN) as first:
            peers = ("--peer", first.url, "--peer", theirs, "--peer-token", f"{first.url}=OF_FIRST")
            with running_node(folder / "b", *start, *peers, OF_FIRST=TOKEN, BFL_RPC_TOKEN=TOKEN[::-1]) as second:
                heard = spy.accept()[0].recv(10_000)
                charter = Founding(NETWORK.homes, b"{}", MODEL_0, SIZES, RegistryTerms())
                found_network(EmptyNetwork(web3_over_http(first.owner_url, TOKEN)), NETWORK.founder, charter)
                second.wait_for("block 1")
    assert heard.startswith(b"GET /changes")
    assert b"uthorization" not in heard
