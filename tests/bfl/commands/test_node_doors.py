"""`bfl network node` and its doors, as a process of its own."""

from pathlib import Path

import pytest

from chain.client.asking import request, web3_over_http
from chain.client.tls import TlsClient
from chain.errors import DoorError, NodeUnreachableError
from chain.wire.address import Address
from chain.wire.identity import Identity
from tests.bfl.conftest import Command
from tests.bfl.node_process import running_node
from tests.chain.certificates import Authority
from tests.chain.network import genesis
from tests.chain.small_chain import NETWORK, story

LEADER = NETWORK.servers[0].address


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_a_node_has_a_door_for_members_one_for_its_owner_and_one_for_auditors(folder: Path) -> None:
    story().write(folder)
    with running_node(folder, "--auditor-port", "0") as node:
        door = next(line for line in node.said if line.startswith("auditors' door: "))
        auditors = web3_over_http(door.removeprefix("auditors' door: "))
        members, owner = web3_over_http(node.url), web3_over_http(node.owner_url)
        for web3 in (members, auditors):
            with pytest.raises(DoorError):
                request(web3, "bfl_holdEvidence", "0x" + "00" * 32)
        with pytest.raises(DoorError):
            request(auditors, "bfl_getWork", LEADER)
        heads = [request(web3, "bfl_getBlockSummary", "latest") for web3 in (members, auditors, owner)]
        assert heads[0] == heads[1] == heads[2]
        assert request(owner, "bfl_holdEvidence", "0x" + "00" * 32) is False
        assert node.owner_url.startswith("http://127.0.0.1:")


@pytest.mark.slow
def test_with_certificates_members_show_theirs(folder: Path, tmp_path: Path) -> None:
    story().write(folder)
    authority = Authority(tmp_path / "ca")
    name = Identity(genesis().chain_id, Address(bytes.fromhex(LEADER[2:]))).uri
    files = authority.issue("server", name)
    options = ("--tls-cert", files.certificate, "--tls-key", files.key, "--tls-ca", files.authority)
    with running_node(folder, "--host", "0.0.0.0", *map(str, options)) as node:  # noqa: S104
        url = node.url.replace("0.0.0.0", "127.0.0.1")  # noqa: S104
        assert url.startswith("https://")
        assert request(web3_over_http(url, tls=TlsClient(files)), "eth_blockNumber") != "0x0"
        with pytest.raises(NodeUnreachableError):
            request(web3_over_http(url), "eth_blockNumber")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "0.0.0.0"], "found --host 0.0.0.0 without certificates"),  # noqa: S104
        (["--tls-cert", "a"], "found some of --tls-cert, --tls-key and --tls-ca, expected all three or none"),
        (["--tls-cert", "a", "--tls-key", "a", "--tls-ca", "a"], "a, a, a: cannot be used for TLS"),
    ],
)
def test_doors_that_cannot_be_kept_are_refused(
    command: Command, folder: Path, arguments: list[str], message: str
) -> None:
    story().write(folder)
    answer = command("network", "node", "--port", "0", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"error: {message}")
