"""Where a run without a chain stands, in one file: an .npz of a note in JSON and of every server's model."""

import io
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from bfl.errors import RunFolderError
from chain.errors import CodecError
from chain.wire.address import Address
from edge_servers.founding.standing import Standing, Tenure
from edge_servers.learning.reputation import reputation_of
from policy.errors import StoredFileError
from policy.files import read_bounded, replacing
from policy.stored_zip import stored_members

MOST_BYTES = 4 << 30
_MOST_NOTE_BYTES = 1 << 20
_NOTE, _MODELS = "about.npy", "models.npy"
_DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, CodecError, StoredFileError)


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stands: every server's standing, the metrics that belong to it, and the time it took."""

    standings: tuple[Standing, ...]
    """One per server, or one for all where they share a model."""
    metrics_bytes: int
    wall_s: float

    @property
    def round(self) -> int:
        """The last finished round."""
        return self.standings[0].round


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint in one step: a reader sees the old one or the new one, never half of one."""
    about = {
        "metrics-bytes": checkpoint.metrics_bytes,
        "wall-s": checkpoint.wall_s,
        "standings": [_standing_to_json(standing) for standing in checkpoint.standings],
    }
    note, models = json.dumps(about).encode(), np.stack([standing.model for standing in checkpoint.standings])
    with replacing(path) as part, part.open("wb") as file:
        np.savez(file, about=np.frombuffer(note, np.uint8), models=models)


def read_checkpoint(path: Path) -> Checkpoint:
    """What is in a checkpoint; numbers only, and no more of them than the file has bytes for."""
    try:
        members = stored_members(read_bounded(path, MOST_BYTES))
        if members.keys() != {_NOTE, _MODELS}:
            raise ValueError(f"found the members {', '.join(members):.200}, expected {_NOTE} and {_MODELS}")
        note = array_in(members[_NOTE], np.dtype(np.uint8), 1)
        models = array_in(members[_MODELS], np.dtype(np.float32), 2)
        if note.nbytes > _MOST_NOTE_BYTES:
            raise ValueError(f"found a note of {note.nbytes:,} bytes, expected at most {_MOST_NOTE_BYTES:,}")
        about = json.loads(note.tobytes())
        standings = tuple(_standing_from_json(s, m) for s, m in zip(about["standings"], models, strict=True))
        return Checkpoint(standings, int(about["metrics-bytes"]), float(about["wall-s"]))
    except _DAMAGED as error:
        raise RunFolderError(f"{path}: damaged ({error!s:.300}); start the run anew") from error


def array_in(member: memoryview, dtype: "np.dtype[Any]", dimensions: int) -> NDArray[Any]:
    """The array in a member; its header is held against its size before numpy makes room for it."""
    header = io.BytesIO(member[:1024])
    if npy.read_magic(header) != (1, 0):
        raise ValueError("found an array of another version, expected 1.0")
    shape, is_fortran, found = npy.read_array_header_1_0(header)
    count = math.prod(shape)
    if found != dtype or len(shape) != dimensions or is_fortran or min(shape) < 1:
        raise ValueError(f"found {found} of shape {shape!s:.80}, expected {dtype} in {dimensions} dimensions")
    if len(member) - header.tell() != count * dtype.itemsize:
        raise ValueError(f"found {len(member) - header.tell()} bytes of numbers, expected {count * dtype.itemsize}")
    return np.frombuffer(member, dtype, count, header.tell()).reshape(shape)


def _standing_to_json(standing: Standing) -> dict[str, Any]:
    return {
        "round": standing.round,
        "block-hash": standing.block_hash.hex(),
        "winner": standing.winner,
        "leader": str(standing.tenure.leader or ""),
        "terms": standing.tenure.terms,
        "divergence": standing.divergence,
        **({"reputation": standing.reputation.rows} if standing.reputation.rows else {}),
    }


def _standing_from_json(stored: dict[str, Any], model: Any) -> Standing:
    return Standing(
        round=int(stored["round"]),
        model=np.array(model, dtype=np.float32),
        block_hash=bytes.fromhex(stored["block-hash"]),
        winner=None if stored["winner"] is None else int(stored["winner"]),
        tenure=Tenure(Address(stored["leader"]) if stored["leader"] else None, int(stored["terms"])),
        divergence=float(stored["divergence"]),
        reputation=reputation_of(stored.get("reputation", [])),
    )
