"""`python -m tests.chain.kills N FOLDER`: kill -9 a busy node N times, reopen it each time, and say what was found.

One process imports everything once; each busy node is a fork of it.
"""

import json
import os
import random
import signal
import sqlite3
import sys
import time
from pathlib import Path

from chain.audit.archive import FileArchive
from chain.audit.inspection import inspect_chain
from chain.node.node import Node
from tests.chain.network import Network, genesis


def run_rounds(path: Path, acknowledge: int) -> None:
    """Run rounds until killed; every sealed block is acknowledged through the pipe."""
    network, node = Network(), Node.open(path)
    while True:
        header = network.run_round(node)
        os.write(acknowledge, f"{header.block_number} {header.hash.hex()}\n".encode())


def busy_node(path: Path, seconds: float) -> list[tuple[int, str]]:
    """Fork a busy node, kill it after `seconds`, and return what it had acknowledged."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            run_rounds(path, writing)
        finally:
            os._exit(1)
    os.close(writing)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        lines = pipe.read().splitlines()
    if not os.WIFSIGNALED(status):
        raise RuntimeError("the busy node ended by itself")
    return [(int(number), block_hash) for number, block_hash in (line.split() for line in lines)]


def check(path: Path, acknowledged: list[tuple[int, str]]) -> int:
    """Reopen: the head is whole, and every acknowledged block is there. Returns the head's number."""
    with sqlite3.connect(path) as connection:
        verdict = connection.execute("PRAGMA integrity_check").fetchone()[0]
    connection.close()
    node = Node.open(path)
    try:
        head = node.head
        lost = [n for n, h in acknowledged if (block := node.block(n)) is None or block.header.hash.hex() != h]
        if verdict != "ok" or lost:
            raise RuntimeError(f"integrity {verdict}, lost blocks {lost}")
        if acknowledged and head.block_number < acknowledged[-1][0]:
            raise RuntimeError(f"head {head.block_number} is behind {acknowledged[-1]}")
        return head.block_number
    finally:
        node.close()


def main() -> None:
    """Kill, reopen, check; then audit the whole chain."""
    kills, path = int(sys.argv[1]), Path(sys.argv[2]) / "chain.db"
    node = Node.create(path, genesis(timestamp=int(time.time()) - 60))
    Network().found(node)
    node.close()
    rng, acknowledged = random.Random(7), 0
    for _ in range(kills):
        found = busy_node(path, rng.uniform(0.0, 0.5))
        acknowledged += len(found)
        head = check(path, found)
    audited = inspect_chain(FileArchive(path)).blocks
    print(json.dumps({"kills": kills, "acknowledged": acknowledged, "head": head, "audited": audited}))


if __name__ == "__main__":
    main()
