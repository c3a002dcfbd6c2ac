"""`python -m tests.chain.light_device WHAT ...`: what a device does on a machine where py-evm cannot be imported."""

import importlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

LIGHT = (
    "audit.archive", "audit.checked_state", "audit.events", "audit.inspection", "audit.light", "audit.misfit",
    "client.connection", "client.founding", "client.keys",
    "client.ledger", "client.posts", "mining.miner", "protocol.consensus", "protocol.contract", "protocol.proof",
    "protocol.slots", "protocol.turns", "store.store", "wire.address", "wire.codec", "wire.documents", "wire.headers",
    "wire.receipts", "wire.seal", "wire.sidecar", "wire.transactions", "protocol.availability", "client.payloads",
)  # fmt: skip


class Missing:
    """A machine without some packages: `eth` is missing, say, while `eth_account` and its kin are there."""

    def __init__(self, *packages: str) -> None:
        self._packages = packages

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> None:
        if name.partition(".")[0] in self._packages:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def imports() -> Any:
    """Import everything a device has, then what only a node has."""
    for name in LIGHT:
        importlib.import_module(f"chain.{name}")
    try:
        importlib.import_module("chain.node.node")
    except ModuleNotFoundError as error:
        return {"missing": error.name, "eth": "eth" in sys.modules, "recursion": sys.getrecursionlimit()}
    return {}


def read(database: str) -> Any:
    """Open a database and audit it."""
    from chain.audit.archive import FileArchive
    from chain.audit.inspection import inspect_chain

    archive = FileArchive(Path(database))
    return {"head": archive.head().hash.hex(), "transactions": inspect_chain(archive).transactions}


def train(url: str, registry: str) -> Any:
    """Sign a gradient and post it."""
    import numpy as np

    from chain.wire.codec import encode_floats

    ledger = _ledger(url, registry)
    payload = encode_floats(np.arange(16, dtype=np.float32), (16,), "int8")
    sent = ledger.submit_gradient(ledger.round(), ledger.model_digest(), ledger.plan_digest(), 100, 10, payload)
    return {"sent": sent.hex(), "payload": payload.hex()}


def mine(url: str, registry: str) -> Any:
    """Seal the round by real work."""
    from chain.mining.miner import Miner
    from chain.mining.miner import mine as mined

    ledger = _ledger(url, registry)
    task = ledger.mining_task()
    with Miner() as miner:
        assert task.header is not None
        header = mined(task.header, miner, deadline_s=60)
    assert header is not None
    return {"block": ledger.submit_nonce(task, header.nonce).hex(), "round": task.round}


def prove(url: str, registry: str, genesis: str, round_: str, *servers: str) -> Any:
    """Fetch the proof of a final round's model, and check it against the servers of the founding."""
    from chain.protocol.genesis import read_genesis
    from chain.protocol.proof import check_model

    known = [bytes.fromhex(server) for server in servers]
    proven = check_model(_ledger(url, registry).model_proof(int(round_)), read_genesis(genesis), known)
    return {"block": proven.header.hash.hex(), "round": proven.round, "digest": proven.digest.hex()}


def _ledger(url: str, registry: str) -> Any:
    from chain.client.keys import simulated_account
    from chain.client.ledger import Ledger

    return Ledger.connect(url, bytes.fromhex(registry), account=simulated_account(b"tests", "device 0"))


if __name__ == "__main__":
    sys.meta_path.insert(0, Missing("eth"))
    tasks: dict[str, Callable[..., Any]] = {
        "imports": imports,
        "read": read,
        "train": train,
        "mine": mine,
        "prove": prove,
    }
    print(json.dumps(tasks[sys.argv[1]](*sys.argv[2:])))
