"""`bfl chain ...` calls participants by name where the founding parameters tell, with the address beside it."""

from pathlib import Path

import pytest

from bfl.show.names import Names, _names, names_in, short_hex
from chain.errors import NodeUnreachableError
from tests.bfl.conftest import Command
from tests.chain.small_chain import StoredChain, story
from tests.edge_servers.audited_chain import LIES, chain


def rows(shown: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines() if line.startswith("│")]


def test_the_founding_parameters_name_servers_and_devices() -> None:
    names, network = names_in(chain().archive), chain().founding.network
    assert [names.find(server) for server in network.servers] == [f"server {m}" for m in range(4)]
    assert [names.find(device.address) for device in network.devices] == [f"device {n}" for n in range(4)]
    assert names.short(network.servers[1]) == f"server 1 {short_hex(network.servers[1])}"
    assert names.full(network.servers[1]) == f"server 1 {network.servers[1]}"
    assert names.full(b"\1" * 20) == "0x" + "01" * 20


def test_the_tables_of_a_chain_have_names_beside_the_addresses(command: Command, tmp_path: Path) -> None:
    run, found = str(chain(LIES).written(tmp_path)), chain(LIES)
    header = found.blocks[2].header
    leader, winner = (found.founding.network.name(who) for who in (header.coinbase, header.winner or b""))
    listed = {row[0]: row for row in rows(command("chain", "show", run).out)}
    assert listed["2"][4:6] == [f"{leader} {short_hex(header.coinbase)}", f"{winner} {short_hex(header.winner or b'')}"]
    shown = command("chain", "block", "2", run).out
    assert f"{leader} 0x{header.coinbase.hex()}" in shown
    assert f"offender server 1 {short_hex(found.founding.network.servers[1])}" in shown
    sent = found.posts(2)[0].transaction
    told = rows(command("chain", "transaction", sent.hash.hex(), run).out)
    assert ["sender", f"{leader} 0x{sent.sender.hex()}"] in told
    assert any(f"leader {leader} 0x" in row[-1] for row in told)
    people = rows(command("chain", "participants", run).out)
    assert {row[0] for row in people} == {f"{role} {i}" for role in ("server", "device") for i in range(4)}
    assert all(row[1].startswith("0x") and len(row[1]) == 42 for row in people)


@pytest.mark.parametrize(
    "content",
    [
        {"servers": [5], "devices": []},
        {"servers": ["0x12"], "devices": []},
        {"servers": "all", "devices": {}},
        {"devices": [[]]},
        {},
    ],
)
def test_parameters_that_name_nobody_are_no_names(content: dict[str, object]) -> None:
    assert _names(content) == {}


def test_parameters_with_another_digest_are_not_believed() -> None:
    found = chain()
    digest = next(post.commitments[0].digest for post in found.posts(1) if post.commitments)
    assert names_in(found.archive)
    assert not names_in(StoredChain(found.blocks, found.genesis, payloads={digest: found.payloads[digest] + b" "}))


def test_a_chain_of_another_kind_or_without_founding_has_none() -> None:
    assert not names_in(StoredChain(story().blocks))
    assert not names_in(StoredChain(story().blocks[:1]))
    assert Names().short(b"\1" * 20) == "0x01010101…"


def test_a_node_that_does_not_answer_is_said_so() -> None:
    class Silent(StoredChain):
        def payload(self, digest: bytes) -> bytes | None:
            raise NodeUnreachableError("no node answers")

    with pytest.raises(NodeUnreachableError):
        names_in(Silent(chain().blocks, chain().genesis))
