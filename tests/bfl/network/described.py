"""A small network as somebody would describe it."""

import socket
from contextlib import ExitStack
from pathlib import Path

SMALL = """
name = "greenhouse"

[settings]
dataset = "synthetic"
planner = "all-local"
hidden = "8"

[chain]
difficulty = 1000

[[edges]]
name = "edge-a"
address = "10.0.0.1"
[[edges]]
name = "edge-b"
address = "edge-b.local"
[[edges]]
name = "edge-c"
address = "10.0.0.3"
node-port = 9545

[[devices]]
name = "pi-1"
home = "edge-b"
offload = "edge-a, edge-c"
[[devices]]
name = "pi-2"
home = "edge-b"
offload = "never"
hashes-per-s = 500
"""


def write(folder: Path, text: str = SMALL) -> Path:
    path = folder / "network.toml"
    path.write_text(text, encoding="utf-8")
    return path


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens at just now."""
    with ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in found:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in found]
