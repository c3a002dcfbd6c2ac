"""A device or an auditor needs no py-evm: everything but the node works on a machine that cannot import it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from chain.client.keys import address_of
from chain.node.node import Node
from chain.protocol.posts import read_signed_call
from chain.rpc.server import RpcServer, ServerParams
from chain.wire.seal import is_sealed
from chain.wire.sidecar import payload_digest
from tests.chain.network import SIZES, Clock, Network, addresses, genesis, sized
from tests.chain.small_chain import story

ROOT = Path(__file__).parents[3]
DIFFICULTY = 20_000


def on_a_device(*arguments: str) -> Any:
    """What `tests.chain.light_device` says, in a process that has no `eth`."""
    command = [sys.executable, "-m", "tests.chain.light_device", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_everything_but_the_node_is_imported_without_py_evm() -> None:
    found = on_a_device("imports")
    assert found["missing"] in ("eth", "eth.abc"), "the node needs it"
    assert not found["eth"]
    assert found["recursion"] <= 2000, "hostile brackets must not overflow the C stack"


def test_a_database_is_read_and_audited_without_py_evm(tmp_path: Path) -> None:
    assert on_a_device("read", str(story().write(tmp_path))) == {
        "head": story().headers[-1].hash.hex(),
        "transactions": 59,
    }


def test_a_device_trains_mines_and_checks_a_model_without_py_evm() -> None:
    network, node = Network(), Node.in_memory(genesis(difficulty=DIFFICULTY), now=Clock())
    network.found(node)
    leader, registry = network.leader(node), node.genesis.registry.hex()
    network.post_plan(node, leader)
    with RpcServer(node, ServerParams(port=0)) as url:
        trained = on_a_device("train", url, registry)
        entry = node.find_pending(bytes.fromhex(trained["sent"]))
        assert entry is not None
        post = entry.post.post
        assert post is not None
        payload = node.payload(post.digest)
        assert payload is not None
        assert (post.sender, payload.hex()) == (address_of(network.devices[0]), trained["payload"])
        network.post_close(node, leader)
        network.post_model(node, leader, b"the model")
        node.propose(address_of(leader))
        mined = on_a_device("mine", url, registry)
        network.endorse(node)
        servers = [each.hex() for each in addresses(network.servers)]
        proven = on_a_device("prove", url, registry, node.genesis.canonical_json(), "1", *servers)
    assert mined == {"block": node.head.hash.hex(), "round": 1}
    assert proven == mined | {"digest": node.ask("model_digest").hex()}
    assert node.ask("model_digest") == payload_digest(sized(b"the model", SIZES.model))
    assert node.head.winner == address_of(network.devices[0])
    assert is_sealed(node.head.mining_hash, node.head.nonce, DIFFICULTY)
    block = node.block(2)
    assert block is not None
    assert read_signed_call(block.transactions[1], node.genesis).sender == address_of(network.devices[0])
    node.close()
