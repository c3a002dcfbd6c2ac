"""A model out of the chain: decoded, written as a .pt file, with the names of those who made it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from bfl.errors import BflError
from bfl.show.chain_tables import pairs_table
from bfl.show.names import Names, full_hex, names_in
from bfl.show.text import printable
from chain.audit.archive import Archive
from chain.audit.found import Inspection
from chain.audit.inspection import checked_block
from chain.audit.payloads import CheckedPayloads
from chain.errors import CodecError
from chain.protocol.contract import Call
from chain.protocol.genesis import Genesis
from chain.protocol.posts import PayloadSource, read_signed_call
from chain.wire.blocks import Block
from chain.wire.codec import PayloadKind, decode_floats, payload_header
from chain.wire.documents import ClosedList, read_canonical_json

Shapes = list[tuple[str, list[int]]]


@dataclass(frozen=True)
class _Post:
    """A post the registry accepted."""

    call: Call
    sender: bytes
    transaction_hash: bytes


def export_model(archive: Archive, found: Inspection, round_: int, path: Path) -> Table:
    """Write model k of an inspected chain to `path`; returns a table of who contributed."""
    block, founding = (checked_block(archive, number, found) for number in (round_ + 1, 1))
    content = model_content(archive, block, founding)
    _save(content, path)
    posts = list(_posts(block, archive.genesis))
    model, source = _model(posts, round_), CheckedPayloads(archive)
    return _contributors_table(block, posts, model, content, source, names_in(archive))


def model_content(archive: Archive, block: Block, founding: Block) -> dict[str, Any]:
    """The model of a block as its file has it: held against the digest in the block, which is not checked here."""
    round_ = block.header.block_number - 1
    model, source = _model(_posts(block, archive.genesis), round_), CheckedPayloads(archive)
    digest = bytes(model.call["model" if round_ == 0 else "digest"])
    payload = source.payload(digest)
    if payload is None:
        raise BflError(f"model {round_} was pruned here; `bfl chain fetch` brings it back from a node that has it")
    parameters = source.payload(bytes(_model(_posts(founding, archive.genesis), 0).call["parameters"]))
    return {
        "round": round_,
        "digest": full_hex(digest),
        "block": full_hex(block.header.hash),
        "state_dict": _state_dict(payload, parameters, round_),
    }


def _posts(block: Block, genesis: Genesis) -> Iterator[_Post]:
    """What the registry accepted in a block."""
    for transaction, receipt in zip(block.transactions, block.receipts, strict=True):
        call = read_signed_call(transaction, genesis).call
        if receipt.status == 1 and call is not None:
            yield _Post(call, transaction.sender, transaction.hash)


def _model(posts: Iterator[_Post] | list[_Post], round_: int) -> _Post:
    for post in posts:
        if post.call.name in ("model", "found"):
            return post
    raise BflError(f"block {round_ + 1} has no model: round {round_} was sealed without one")


def _save(content: dict[str, Any], path: Path) -> None:
    import torch

    try:
        with path.open("xb") as file:
            torch.save(content, file)
    except FileExistsError as error:
        raise BflError(f"{path} exists; choose another file with --out") from error


# --- tensors


def tensor_layout(parameters: bytes | None, sizes: Sequence[int]) -> Shapes:
    """Names and shapes of a model file: those of the founding parameters, numbered and flat where they do not fit."""
    shapes = _shapes(parameters)
    if [math.prod(shape) for _, shape in shapes] != list(sizes):
        return [(f"tensor {i}", [size]) for i, size in enumerate(sizes)]
    return shapes


def _shapes(parameters: bytes | None) -> Shapes:
    """Names and shapes of the tensors, where the founding parameters have them: "tensors": [[name, shape], ...]."""
    try:
        content = read_canonical_json(parameters or b"")
    except CodecError:
        return []
    tensors = content.get("tensors") if isinstance(content, dict) else None
    if not isinstance(tensors, list) or not all(_is_tensor(each) for each in tensors):
        return []
    names = {name for name, _ in tensors}
    return [(name, shape) for name, shape in tensors] if len(names) == len(tensors) else []


def _is_tensor(found: Any) -> bool:
    if not isinstance(found, list) or len(found) != 2:
        return False
    name, shape = found
    return isinstance(name, str) and isinstance(shape, list) and all(type(n) is int and n > 0 for n in shape)


def _state_dict(payload: bytes, parameters: bytes | None, round_: int) -> dict[str, Any]:
    """The payload as named tensors."""
    import torch

    try:
        sizes = list(payload_header(payload).sizes)
        values = decode_floats(payload, kind=PayloadKind.MODEL).astype(np.float32)
    except CodecError as error:
        raise BflError(f"the model of round {round_} is no array of numbers: {error}") from error
    layout, parts = tensor_layout(parameters, sizes), np.split(values, np.cumsum(sizes)[:-1])
    return {
        name: torch.from_numpy(part.copy()).reshape(shape) for (name, shape), part in zip(layout, parts, strict=True)
    }


# --- who made it


def _contributors_table(
    block: Block, posts: list[_Post], model: _Post, content: dict[str, Any], source: PayloadSource, names: Names
) -> Table:
    rows = {
        "digest": str(content["digest"]),
        "published by": names.full(model.sender),
        "sealed by": names.full(block.header.winner) if block.header.winner else "the founder",
        "planned by": _senders(posts, names, "plan"),
        "closed by": _senders(posts, names, "close"),
        "gradients of": _gradients(posts, source, names),
        "aggregated by": _senders(posts, names, "iterate"),
        "flags by": _senders(posts, names, "flag", "flag_equivocation", "flag_signatures"),
        "tensors": "\n".join(f"{printable(name)} {list(t.shape)}" for name, t in content["state_dict"].items()),
    }
    return pairs_table(f"model of round {content['round']}", rows)


def _senders(posts: list[_Post], names: Names, *kinds: str) -> str:
    return "\n".join(dict.fromkeys(names.full(post.sender) for post in posts if post.call.name in kinds)) or "-"


def _gradients(posts: list[_Post], source: PayloadSource, names: Names) -> str:
    """Who trained, with samples; those that the closed list leaves out are marked, with its reason if it has one."""
    closed = _closed_list(posts, source)
    reasons = {} if closed is None else {who.lower(): why for who, why in closed.refused}
    said = []
    for post in posts:
        if post.call.name == "gradient":
            notes = [f"{post.call['samples']} samples"]
            reason = reasons.pop(full_hex(post.sender), "")
            if closed is not None and post.transaction_hash not in closed.accepted:
                notes.append(printable(f"left out: {reason}" if reason else "left out"))
            said.append(f"{names.full(post.sender)} ({', '.join(notes)})")
    said += [printable(f"{who} (posted nothing that counts: {why})") for who, why in reasons.items()]
    if said and closed is None:
        said.append("the closed list cannot be read: nobody can say who of them counts")
    return "\n".join(said) or "-"


def _closed_list(posts: list[_Post], source: PayloadSource) -> ClosedList | None:
    for post in posts:
        if post.call.name == "close":
            try:
                return ClosedList.decode(source.payload(bytes(post.call["digest"])) or b"")
            except CodecError:
                return None
    return None
