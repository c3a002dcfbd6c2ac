"""The model file of a proof, held against the model that was derived: name by name, then bit by bit (Q4).

Nothing of the file becomes a tensor before names, order, shapes, types and everything else in it are the proven ones.
Then torch reads the same bytes, because that is what their receiver will do.
"""

import io
import math
import pickle
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bfl.auditing.findings import Audit
from bfl.auditing.model_export import Shapes
from bfl.auditing.proof_files import read_file
from bfl.show.names import full_hex
from chain.errors import ProofError
from chain.wire.codec import PayloadKind, encode_floats
from chain.wire.sidecar import payload_digest
from clients.models import Vector
from edge_servers.founding.parameters import FoundingParameters
from policy.errors import StoredFileError
from policy.torch_files import StoredTensor, TorchFile, read_torch_file

_SLACK_BYTES, _TENSOR_BYTES = 16 << 10, 1 << 10
"""Of a file beside its numbers: in all, and per tensor beside its name"""
_NO_MODEL = (
    RuntimeError, ValueError, EOFError, LookupError, TypeError, AttributeError, AssertionError, ArithmeticError,
    MemoryError, OSError, struct.error, pickle.UnpicklingError,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class ProvenModel:
    """What the model file of a round must hold, and nothing else."""

    round: int
    digest: bytes
    block: bytes
    tensors: Shapes
    values: Vector

    @property
    def about(self) -> dict[str, Any]:
        """What `export_model` writes beside the tensors."""
        return {"round": self.round, "digest": full_hex(self.digest), "block": full_hex(self.block)}

    @property
    def most_bytes(self) -> int:
        """How large a file of it may be."""
        names = sum(len(name.encode()) for name, _ in self.tensors)
        return self.values.nbytes + _SLACK_BYTES + _TENSOR_BYTES * len(self.tensors) + 4 * names

    @cached_property
    def parts(self) -> dict[str, bytes]:
        """The bytes of each tensor, by name and in order."""
        ends = np.cumsum([math.prod(shape) for _, shape in self.tensors])
        parts = np.split(np.asarray(self.values, "<f4"), ends[:-1])
        return {name: part.tobytes() for (name, _), part in zip(self.tensors, parts, strict=True)}


def check_model_file(raw: bytes, proven: ProvenModel, name: str) -> None:
    """Raise `ProofError` unless these bytes are a file of exactly this model."""
    try:
        found = read_torch_file(raw)
    except StoredFileError as error:
        raise ProofError(f"{name} is no model: {error}") from error
    _check_description(found, proven, name)
    _check_as_torch_reads_it(raw, proven, name)


def _check_description(found: TorchFile, proven: ProvenModel, name: str) -> None:
    content, about = found.content, proven.about
    if found.has_notes:
        raise ProofError(f"{name}: found notes beside its dictionaries, expected the model and nothing else")
    _check_keys(content, [*about, "state_dict"], name, "it")
    for key, expected in about.items():
        if type(content[key]) is not type(expected) or content[key] != expected:
            raise ProofError(f"{name}: found {key} = {_shown(content[key])}, expected {expected!r}")
    tensors = content["state_dict"]
    _check_keys(tensors, [tensor for tensor, _ in proven.tensors], name, "state_dict")
    for tensor, shape in proven.tensors:
        _check_tensor(tensors[tensor], tuple(shape), f"{name}, {tensor!r:.80}")
    if len({stored.storage for stored in tensors.values()}) != len(tensors):
        raise ProofError(f"{name}: found tensors that share their numbers, expected each to have its own")
    for tensor, expected in proven.parts.items():
        if found.storages[tensors[tensor].storage] != expected:
            raise _other_model(name, proven)


def _check_keys(found: Any, expected: list[str], name: str, what: str) -> None:
    if type(found) is not dict:
        raise ProofError(f"{name}: found {type(found).__name__} as {what}, expected a plain dictionary")
    if list(found) != expected:
        shown = ", ".join(_shown(key) for key in list(found)[: len(expected) + 1])
        raise ProofError(f"{name}: found the names {shown:.300} in {what}, expected {', '.join(expected):.300}")


def _check_tensor(found: Any, shape: tuple[int, ...], where: str) -> None:
    if not isinstance(found, StoredTensor):
        raise ProofError(f"{where}: found {type(found).__name__}, expected a tensor")
    if (found.kind, found.shape) != ("Float", shape):
        raise ProofError(
            f"{where}: found {found.kind.lower()} numbers of shape {list(found.shape)}, expected float, {list(shape)}"
        )
    if (found.offset, found.stored) != (0, math.prod(shape)):
        raise ProofError(
            f"{where}: found it in {found.stored} numbers, expected its own {math.prod(shape)} and no others"
        )


def _check_as_torch_reads_it(raw: bytes, proven: ProvenModel, name: str) -> None:
    """Torch reads zip files and pickles with code of its own: what it makes of them must be the same."""
    import torch

    try:
        content = torch.load(io.BytesIO(raw), weights_only=True, map_location="cpu")
        tensors: Mapping[str, Any] = content["state_dict"]
        said = {key: content[key] for key in content if key != "state_dict"} == proven.about
        shapes = [(tensor, list(values.shape)) for tensor, values in tensors.items()] == proven.tensors
        fits = all(
            values.dtype is torch.float32 and values.numpy().astype("<f4").tobytes() == proven.parts[tensor]
            for tensor, values in tensors.items()
        )
    except _NO_MODEL as error:
        raise ProofError(f"{name} is no model: {error!s:.200}") from error
    if not (said and shapes and fits):
        raise _other_model(name, proven)


def _other_model(name: str, proven: ProvenModel) -> ProofError:
    return ProofError(f"{name} holds another model than the derived one with digest {full_hex(proven.digest)}")


def _shown(found: Any) -> str:
    """A value of the file, for people: whatever is neither text nor number is named by its type."""
    return f"{found!r:.80}" if isinstance(found, (str, int, float)) else type(found).__name__


# --- the model file of a run folder

MODEL_FILE = "model.pt"
_RUN_SLACK_BYTES = 16 << 20
"""Of a file beside its numbers: names, and what a network keeps that is not trained"""


def run_model(run: Path | None) -> Path | None:
    """The model file beside a chain; None where there is no such folder or file."""
    if run is None:
        return None
    path = (run if run.is_dir() else run.parent) / MODEL_FILE
    return path if path.is_symlink() or path.exists() else None


def checked_run_model(path: Path, audit: Audit) -> str:
    """Of which round a model file is, in words; `ProofError` where it is the model of none."""
    if audit.founding is None:
        return f"not checked: {audit.obstacle}"
    raw = read_file(path, 4 * sum(audit.founding.sizes) + _RUN_SLACK_BYTES)
    values = _values(raw, audit.founding, path.name)
    digest = payload_digest(encode_floats(values, audit.founding.sizes, "fp32", PayloadKind.MODEL))
    last = max(audit.found.models)
    found = [round_ for round_, model in audit.found.models.items() if model == digest]
    if not found:
        raise ProofError(
            f"{path.name} is another model than the last one of the chain: its numbers have digest "
            f"0x{digest.hex()}, those of round {last} 0x{audit.found.models[last].hex()}"
        )
    told = f"the model of round {max(found)}, bit for bit"
    return told if max(found) == last else f"{told}; the chain goes on to round {last}"


def _values(raw: bytes, founding: FoundingParameters, name: str) -> Vector:
    """The numbers that are trained, in the order of the chain; what else a network keeps is on no chain."""
    try:
        found = read_torch_file(raw)
    except StoredFileError as error:
        raise ProofError(f"{name} is no model: {error}") from error
    if not isinstance(found.content, dict):
        raise ProofError(f"{name} is no model: found {type(found.content).__name__}, expected named tensors")
    return np.concatenate([_tensor(found, tensor, tuple(shape), name) for tensor, shape in founding.tensors])


def _tensor(found: TorchFile, tensor: str, shape: tuple[int, ...], name: str) -> Vector:
    stored = found.content.get(tensor)
    if not isinstance(stored, StoredTensor) or (stored.kind, stored.shape) != ("Float", shape):
        told = f"{stored.kind.lower()} {list(stored.shape)}" if isinstance(stored, StoredTensor) else "none"
        raise ProofError(f"{name} is no model of this chain: {tensor!r:.80} is {told}, expected float {list(shape)}")
    numbers = np.frombuffer(found.storages[stored.storage], "<f4", math.prod(shape), 4 * stored.offset)
    return numbers.astype(np.float32)
