"""A model out of the chain: decoded, written as a .pt file, with the names of those who made it."""

from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from bfl.chain_tables import full, pairs_table, short
from bfl.errors import BflError
from chain.archive import Archive
from chain.codec import decode_floats, payload_header
from chain.consensus import read_post
from chain.contract import Call
from chain.documents import ClosedList, read_canonical_json
from chain.errors import CodecError
from chain.inspection import contributors
from chain.store import Block


def export_model(archive: Archive, round_: int, path: Path) -> Table:
    """Write model k to `path`; returns a table of who contributed."""
    block = archive.block(round_ + 1)
    payload, call, leader = _model_post(block, archive, round_)
    try:
        header, values = payload_header(payload), decode_floats(payload)
    except CodecError as error:
        raise BflError(f"the model of round {round_} is no array of numbers: {error}") from error
    content = {
        "round": round_,
        "digest": full(bytes(call["digest"])),
        "block": full(block.header.hash),
        "state_dict": _state_dict(values.astype(np.float32), list(header.sizes), _shapes(archive)),
    }
    if path.exists():
        raise BflError(f"{path} exists; choose another file with --out")
    import torch

    torch.save(content, path)
    return _contributors_table(block, archive, round_, leader, content)


def _model_post(block: Block, archive: Archive, round_: int) -> tuple[bytes, Call, bytes]:
    """Payload, call and sender of the model's transaction."""
    chunks: dict[bytes, list[bytes]] = {}
    for transaction, receipt in zip(block.transactions, block.receipts, strict=True):
        post = read_post(transaction, archive.genesis)
        if receipt.status != 1 or post.call is None:
            continue
        if post.call.name == "chunk":
            chunks.setdefault(post.sender, []).append(bytes(post.call["data"]))
        elif post.call.name in ("model", "found"):
            count = int(post.call["chunks"])
            sent = b"".join(chunks.get(post.sender, [])[-count:]) if count else bytes(post.call["payload"])
            return sent, post.call, post.sender
    raise BflError(f"block {round_ + 1} has no model: round {round_} was sealed without one")


def _shapes(archive: Archive) -> list[tuple[str, list[int]]]:
    """Names and shapes of the tensors, where the founding parameters have them."""
    _, founding, _ = _model_post(archive.block(1), archive, 0)
    try:
        content = read_canonical_json(bytes(founding["parameters"]))
    except CodecError:
        return []
    tensors = content.get("tensors", []) if isinstance(content, dict) else []
    return [(str(name), [int(n) for n in shape]) for name, shape in tensors]


def _state_dict(values: Any, sizes: list[int], shapes: list[tuple[str, list[int]]]) -> dict[str, Any]:
    """The vector as named tensors; numbered and flat where the chain has no names for them."""
    import torch

    if [int(np.prod(shape)) for _, shape in shapes] != sizes:
        shapes = [(f"tensor {i}", [size]) for i, size in enumerate(sizes)]
    parts = np.split(values, np.cumsum(sizes)[:-1])
    return {
        name: torch.from_numpy(part.copy()).reshape(shape) for (name, shape), part in zip(shapes, parts, strict=True)
    }


def _contributors_table(block: Block, archive: Archive, round_: int, leader: bytes, content: dict[str, Any]) -> Table:
    made = contributors(block, archive.genesis)
    listed = {name: ", ".join(short(who) for who in dict.fromkeys(senders)) for name, senders in made.items()}
    rows = {
        "digest": str(content["digest"]),
        "published by": full(leader),
        "sealed by": full(block.header.winner) if block.header.winner else "the founder",
        "planned by": listed.get("plan", "-"),
        "gradients of": _gradients(block, archive),
        "aggregated by": listed.get("iterate", "-"),
        "flags by": listed.get("flag", "-"),
        "tensors": ", ".join(f"{name} {list(t.shape)}" for name, t in content["state_dict"].items()),
    }
    return pairs_table(f"model of round {round_}", rows)


def _gradients(block: Block, archive: Archive) -> str:
    """Who trained, with samples; those that the closed list leaves out are marked."""
    posts = [read_post(transaction, archive.genesis) for transaction in block.transactions]
    accepted = None
    for post in posts:
        if post.call is not None and post.call.name == "close":
            accepted = _accepted(bytes(post.call["payload"]))
    said = []
    for post, receipt in zip(posts, block.receipts, strict=True):
        if receipt.status == 1 and post.call is not None and post.call.name == "gradient":
            out = accepted is not None and post.transaction.hash not in accepted
            said.append(f"{short(post.sender)} ({post.call['samples']} samples{', left out' if out else ''})")
    return ", ".join(said) or "-"


def _accepted(payload: bytes) -> tuple[bytes, ...] | None:
    try:
        return ClosedList.decode(payload).accepted
    except CodecError:
        return None
