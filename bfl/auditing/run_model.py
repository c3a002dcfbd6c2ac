"""The model file of a run folder, held against the models of its chain: number by number, whoever wrote the file."""

import math
from pathlib import Path

import numpy as np

from bfl.auditing.findings import Audit
from bfl.auditing.proof_files import read_file
from chain.errors import ProofError
from chain.wire.codec import PayloadKind, encode_floats
from chain.wire.sidecar import payload_digest
from clients.vectors import Vector
from edge_servers.founding.parameters import FoundingParameters
from policy.errors import StoredFileError
from policy.torch_files import StoredTensor, TorchFile, read_torch_file

MODEL_FILE = "model.pt"
_SLACK_BYTES = 16 << 20
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
    raw = read_file(path, 4 * sum(audit.founding.sizes) + _SLACK_BYTES)
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
