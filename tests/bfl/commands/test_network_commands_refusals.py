"""`bfl network node` refuses in one line what it cannot use, before it makes a database; and tells of its peers."""

import json
import socket
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.bfl.conftest import Command
from tests.bfl.node_process import running_node
from tests.chain.network import genesis
from tests.chain.small_chain import story

RULES = asdict(genesis())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bfl.commands.node._watch", lambda *_: None)  # or one that starts would run for ever
    (tmp_path / "good.json").write_text(genesis().canonical_json())
    return tmp_path


def refusal_of(command: Command, folder: Path, *arguments: str) -> str:
    """The one line of a node that does not start and leaves nothing behind."""
    before = sorted(folder.iterdir())
    answer = command("network", "node", *arguments)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1), answer.err
    assert sorted(folder.iterdir()) == before
    return answer.err.removeprefix("error: ").removesuffix("\n")


@pytest.mark.parametrize(
    "peer",
    [
        "foo", "", "other:8545", "//other", "ftp://other", "http://", "http:other", "http://:8545", "http://other:x",
        "http://other:0", "http://other:99999", "http://[::1", "http://two words", "http://other\n",
    ],
)  # fmt: skip
def test_a_peer_without_an_address_is_refused(command: Command, folder: Path, peer: str) -> None:
    arguments = ("--genesis", "good.json", "--port", "0", "--peer", "http://127.0.0.1:9", "--peer", peer)
    assert refusal_of(command, folder, *arguments) == (
        f"found --peer {peer!r}, expected http:// or https:// and a host, such as http://other:8545"
    )


@pytest.mark.parametrize("host", ["300.1.1.1", "no.such.host.invalid", "192.0.2.1", "fe80::zz", "\u00fc" * 70])
def test_a_host_that_is_not_this_machine_is_told_from_a_port_that_is_taken(
    command: Command, folder: Path, host: str
) -> None:
    assert refusal_of(command, folder, "--genesis", "good.json", "--port", "0", "--host", host) == (
        f"found --host {host!r}, expected an address of this machine: choose 127.0.0.1, or 0.0.0.0 for all"
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert refusal_of(command, folder, "--genesis", "good.json", "--port", str(port)) == (
            f"port {port} of 127.0.0.1 is taken; stop what uses it, or choose another --port (0 takes a free one)"
        )


def test_a_port_that_needs_a_right_is_said_so(command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    assert refusal_of(command, folder, "--genesis", "good.json", "--port", "80") == (
        "cannot listen on 127.0.0.1, port 80 (Permission denied); choose another --host or --port"
    )


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ({}, "found no chain_id, founder, timestamp, gas_limit"),
        ({"chain_id": 7, "founder": RULES["founder"]}, "found no timestamp, gas_limit"),
        (RULES | {"colour": 1}, f"found unknown keys 'colour', expected only {', '.join(RULES)}"),
        ({"a\nb": 1}, "found no chain_id, founder, timestamp, gas_limit and unknown keys 'a\\nb', expected only "
         + ", ".join(RULES)),
        ([1], f"found [1], expected an object with the keys {', '.join(RULES)}"),
        (RULES | {"chain_id": "7"}, "found chain_id = '7', expected int"),
        (RULES | {"chain_id": 0}, "chain_id = 0 is impossible"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_genesis_is_named_with_what_it_lacks(
    command: Command, folder: Path, content: Any, found: str
) -> None:
    (folder / "badg.json").write_text(json.dumps(content))
    assert refusal_of(command, folder, "--genesis", "badg.json", "--port", "0") == (
        f"badg.json: {found}; make one with `bfl network genesis`"
    )


@pytest.mark.slow
def test_a_running_node_tells_of_a_peer_that_is_away(folder: Path) -> None:
    story().write(folder)
    with running_node(folder, "--peer", "http://127.0.0.1:9") as node, running_node(folder, "--db", "b.db",
        "--genesis", "good.json", "--peer", node.url) as other:  # fmt: skip
        other.wait_for("block")
        code, _, errors = node.stop()
        assert other.stop()[0] == 0
    told = (
        "WARNING: peer http://127.0.0.1:9: no node answers at http://127.0.0.1:9 (connection refused); "
        "start the node, or correct the address"
    )
    assert (code, errors) == (0, f"{told}\n")
