"""A small network as somebody would describe it."""

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
