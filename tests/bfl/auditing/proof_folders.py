"""Proof folders, and what a forger does to them."""

import hashlib
import json
from pathlib import Path
from typing import Any

from bfl.auditing.portable_proof import MANIFEST, write_proof
from chain.audit.inspection import inspect_chain
from chain.wire.documents import canonical_json
from tests.edge_servers.audited_chain import chain

ROUND = 2
MODEL = f"model-{ROUND}.pt"


def proof_in(folder: Path) -> Path:
    """A proof of round 2 of an honest chain."""
    write_proof(chain().archive, inspect_chain(chain().archive), ROUND, folder)
    return folder


def rehash(folder: Path, **changes: Any) -> None:
    """A manifest that fits the files, where they can be read."""
    manifest = json.loads((folder / MANIFEST).read_bytes()) | changes
    paths = [path for path in folder.iterdir() if path.name != MANIFEST]
    found = {path.name: path.read_bytes() if path.is_file() else b"" for path in paths}
    manifest["files"] = {name: hashlib.sha256(content).hexdigest() for name, content in found.items()}
    (folder / MANIFEST).write_bytes(canonical_json(manifest))
