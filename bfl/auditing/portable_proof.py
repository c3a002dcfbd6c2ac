"""A folder that proves one model without the chain: whoever knows the genesis hash derives the model from it again.

Whole blocks with their payloads, not single proofs, of the founding, of the round before and of the round: so nothing
of the round can be missing (B8). Of all other blocks it has header and receipts: they tell who took part and who was
excluded. Nothing of it is believed but what a strict majority of the servers has signed (Q2); who they are is signed by
the founder, whom the genesis hash names.
"""

import hashlib
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import rlp
from rlp.exceptions import RLPException

from bfl.auditing.beside_blocks import endorsed_blocks, most_payload_bytes, read_endorsements, read_payloads
from bfl.auditing.findings import AuditedRound, audited_round
from bfl.auditing.model_export import export_model, tensor_layout
from bfl.auditing.model_file import ProvenModel, check_model_file
from bfl.auditing.proof_files import file_names, file_sha256, most_bytes, read_file
from bfl.errors import BflError
from chain.audit.archive import Archive
from chain.audit.found import Inspection
from chain.audit.inspection import checked_block
from chain.audit.light import LightInspector
from chain.audit.payloads import CheckedPayloads
from chain.client.payloads import MemoryShelf
from chain.errors import ChainError, ProofError
from chain.protocol.availability import kept_payloads
from chain.protocol.genesis import Genesis, read_genesis
from chain.protocol.posts import read_signed_call
from chain.wire.blocks import Block, decode_block, encode_block
from chain.wire.bounded import unpack
from chain.wire.documents import canonical_json, read_canonical_json
from chain.wire.headers import Header
from chain.wire.lists import decode_list
from chain.wire.receipts import Receipt, decode_receipt
from chain.wire.sidecar import Sidecar
from chain.wire.transactions import Transaction
from clients.models import Vector
from edge_servers.founding.network import Network
from edge_servers.founding.simulated import what_is_simulated
from edge_servers.replay.audit import Auditor, DerivedRound

FORMAT = "bfl model proof 3"
MANIFEST, README, GENESIS = "manifest.json", "README.txt", "genesis.json"
HEADERS, RECEIPTS, ENDORSEMENTS = "headers.rlp", "receipts.z", "endorsements.json"
_RECEIPTS_BYTES, _MOST_RECEIPTS_BYTES = 1 << 20, 1 << 30  # of a block on average, of all
_MOST_ITEMS = 1 << 24
_MALFORMED = (RLPException, ChainError, TypeError, ValueError)


@dataclass(frozen=True)
class VerifiedProof:
    """What a folder proves."""

    genesis: Genesis
    network: Network
    round: AuditedRound
    block: Header
    model_digest: bytes
    simulated: str
    """That keys or clock are simulated, where the founding shows it (P3)."""


# --- writing


def write_proof(archive: Archive, found: Inspection, round_: int, folder: Path) -> Mapping[str, str]:
    """Prove model k of a chain that was audited; returns the sha256 of every file."""
    if round_ < 1:
        raise BflError("model 0 is in the founding block and follows from nothing; choose --round 1 or later")
    whole = {1, round_, round_ + 1}
    pruned = sorted(whole & set(found.pruned))
    if pruned:
        raise BflError(
            f"payloads of block {pruned[0]} were pruned here, so nothing can be proven with them; `bfl chain fetch` "
            "brings them back from a node that has them"
        )
    if found.final <= round_:
        raise BflError(
            f"round {round_} is not final: {found.signed[0]} of {found.signed[1]} servers signed the last block, more "
            "than half of them must; choose an earlier --round"
        )
    _make_empty(folder)
    headers, receipts = [archive.genesis.header], [()]  # type: list[Header], list[tuple[Receipt, ...]]
    for number in range(1, round_ + 2):
        block = checked_block(archive, number, found)
        headers.append(block.header)
        receipts.append(block.receipts)
        if number in whole:
            (folder / _block(number)).write_bytes(encode_block(block.header, block.transactions))
            (folder / _payloads(number)).write_bytes(_kept(block, archive))
    encoded = [[receipt.encoded for receipt in each] for each in receipts]
    (folder / HEADERS).write_bytes(rlp.encode([header.to_bytes() for header in headers]))
    (folder / RECEIPTS).write_bytes(zlib.compress(rlp.encode(encoded, infer_serializer=False), 9))
    signed = [
        each for number in endorsed_blocks(round_, receipts) for each in archive.endorsements(headers[number].hash)
    ]
    (folder / ENDORSEMENTS).write_bytes(canonical_json(["0x" + each.encode().hex() for each in signed]))
    (folder / GENESIS).write_text(archive.genesis.canonical_json(), encoding="utf-8")
    (folder / README).write_text(_readme(round_, archive.genesis), encoding="utf-8")
    export_model(archive, found, round_, folder / _model(round_))
    files = {path.name: _sha256(path) for path in sorted(folder.iterdir())}
    content = _manifest(archive.genesis, round_, headers[-1].hash, found.models[round_]) | {"files": files}
    (folder / MANIFEST).write_bytes(canonical_json(content))
    return files


def _kept(block: Block, archive: Archive) -> bytes:
    """The payloads that a block keeps, as an RLP list in the order of its posts."""
    source = CheckedPayloads(archive)
    posts = [read_signed_call(transaction, archive.genesis) for transaction in block.transactions]
    found = [source.payload(each.digest) for each in kept_payloads(posts, block.header.coinbase, source)]
    if None in found:
        raise BflError(f"payloads of block {block.header.block_number} are not there any more; try again")
    return bytes(rlp.encode(found, infer_serializer=False))


def _make_empty(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BflError(f"{folder} cannot be made: {error.strerror}") from error
    if any(folder.iterdir()):
        raise BflError(f"{folder} is not empty; choose another folder with --out")


def _manifest(genesis: Genesis, round_: int, block_hash: bytes, model: bytes) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "round": round_,
        "chain": genesis.chain_id,
        "genesis": genesis.header.hash.hex(),
        "block": block_hash.hex(),
        "model": model.hex(),
    }


def _readme(round_: int, genesis: Genesis) -> str:
    return (
        f"Proof of the model of round {round_} on chain {genesis.chain_id}, without the chain.\n"
        f"Check it with: bfl audit verify THIS_FOLDER --genesis 0x{genesis.header.hash.hex()}\n"
        "Take the genesis hash from somebody you trust: all else hangs on it.\n"
        f"{_model(round_)} is the model; {_block(round_ + 1)} has every post that made it, "
        f"{_payloads(round_ + 1)} what the posts say, headers.rlp its chain.\n"
        "Made by bfl audit proof; see docs/audit.md.\n"
    )


def _block(number: int) -> str:
    return f"block-{number}.rlp"


def _payloads(number: int) -> str:
    return f"payloads-{number}.rlp"


def _model(round_: int) -> str:
    return f"model-{round_}.pt"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- verifying


def verify_proof(folder: Path, trusted: bytes | None = None) -> VerifiedProof:
    """Derive the model again from the folder; `ProofError`, `InspectionError` or `AuditError` name what does not fit.

    Whose chain it is, only the genesis hash can tell: `trusted`, or the one in the answer.
    """
    manifest = _read_manifest(folder)
    round_ = int(manifest["round"])
    genesis = _parsed(folder, GENESIS, _read_genesis)
    if trusted is not None and trusted != genesis.header.hash:
        raise ProofError(f"found genesis 0x{genesis.header.hash.hex()}, expected 0x{trusted.hex()}")
    headers = _parsed(folder, HEADERS, _read_headers)
    receipts = _parsed(folder, RECEIPTS, partial(_read_receipts, blocks=len(headers)))
    if len(headers) != round_ + 2 or len(receipts) != len(headers):
        raise ProofError(
            f"found {len(headers)} headers and receipts of {len(receipts)} blocks, expected {round_ + 2} of each"
        )
    derived, model = _derived(folder, genesis, headers, receipts)
    audited = audited_round(derived)
    digest = audited.digests["model"]
    expected = _manifest(genesis, round_, headers[-1].hash, digest) | {"files": manifest["files"]}
    wrong = [key for key in expected if manifest[key] != expected[key]]
    if wrong:
        raise ProofError(f"{MANIFEST}: found {wrong[0]} = {manifest[wrong[0]]!r}, expected {expected[wrong[0]]!r}")
    layout = tensor_layout(derived.founding.encode(), derived.founding.sizes)
    proven = ProvenModel(round_, digest, headers[-1].hash, layout, model)
    check_model_file(read_file(folder / _model(round_), proven.most_bytes), proven, _model(round_))
    simulated = what_is_simulated(derived.founding, genesis)
    return VerifiedProof(genesis, derived.founding.network, audited, headers[-1], digest, simulated)


def _read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest, once every file has the digest it names and no other file is there."""
    if not folder.is_dir():
        raise BflError(f"there is no folder {folder}; expected one that `bfl audit proof` made")
    present = file_names(folder)
    if MANIFEST not in present:
        raise ProofError(f"{MANIFEST} is missing in {folder}; expected a folder that `bfl audit proof` made")
    present -= {MANIFEST}
    content = _parsed(folder, MANIFEST, read_canonical_json, most_bytes(MANIFEST, 0))
    keys = {"format", "round", "chain", "genesis", "block", "model", "files"}
    if not isinstance(content, dict) or content.keys() != keys or content["format"] != FORMAT:
        raise ProofError(f"{MANIFEST}: expected a {FORMAT!r} with the keys {', '.join(sorted(keys))}")
    round_, files = content["round"], content["files"]
    if type(round_) is not int or round_ < 1 or not isinstance(files, dict):
        raise ProofError(f"{MANIFEST}: found round {round_!r:.40}, expected a whole number from 1 on, and files")
    needed = {GENESIS, HEADERS, RECEIPTS, ENDORSEMENTS, README, _model(round_)}
    needed |= {name(number) for name in (_block, _payloads) for number in (1, round_, round_ + 1)}
    for name in sorted(needed | present | files.keys()):
        if name not in needed or name not in files or name not in present:
            where = "is missing" if name in needed else "does not belong here"
            raise ProofError(f"{name} {where}; expected the files {', '.join(sorted(needed))} and {MANIFEST}")
        found = file_sha256(folder / name, most_bytes(name, round_))
        if found != files[name]:
            raise ProofError(f"{name}: found sha256 {found}, the manifest says {files[name]!r:.80}")
    return content


def _parsed(folder: Path, name: str, read: Callable[[bytes], Any], most: int = 1 << 30) -> Any:
    raw = read_file(folder / name, most)
    try:
        return read(raw)
    except _MALFORMED as error:
        raise ProofError(f"{name}: {error}") from error


def _read_genesis(raw: bytes) -> Genesis:
    genesis = read_genesis(raw.decode())
    if genesis.canonical_json().encode() != raw:
        raise ProofError("found JSON that is not in canonical form")
    return genesis


def _read_headers(raw: bytes) -> list[Header]:
    return [Header.from_bytes(each) for each in decode_list(raw, _MOST_ITEMS)]


def _read_receipts(raw: bytes, blocks: int) -> list[tuple[Receipt, ...]]:
    encoded = unpack(raw, min(_MOST_RECEIPTS_BYTES, _RECEIPTS_BYTES * blocks))
    return [tuple(decode_receipt(each) for each in block) for block in decode_list(encoded, _MOST_ITEMS, depth=2)]


def _read_block(raw: bytes, genesis: Genesis) -> tuple[Header, tuple[Transaction, ...], int]:
    """A block, and how many bytes of payloads its posts name at most."""
    header, transactions = decode_block(raw)
    return header, transactions, most_payload_bytes([read_signed_call(each, genesis) for each in transactions])


def _derived(
    folder: Path, genesis: Genesis, headers: list[Header], receipts: list[tuple[Receipt, ...]]
) -> tuple[DerivedRound, Vector]:
    """Follow the headers from the genesis block, and derive the last round from the model before it."""
    source, signed = MemoryShelf(), _parsed(folder, ENDORSEMENTS, lambda raw: read_endorsements(raw, genesis))
    inspector, auditor = LightInspector(genesis, source), Auditor(genesis)
    inspector.check(Block(headers[0], (), receipts[0], 0))
    last, derived = len(headers) - 1, None
    for number in range(1, last + 1):
        if number not in (1, last - 1, last):
            inspector.follow(headers[number], receipts[number])
            if inspector.has_joined():
                inspector.check_final(headers[number], signed)
            continue
        header, transactions, most = _parsed(folder, _block(number), partial(_read_block, genesis=genesis))
        if header != headers[number]:
            raise ProofError(f"{_block(number)}: its header is not number {number} of {HEADERS}")
        for payload in _parsed(folder, _payloads(number), read_payloads, most):
            source.put(Sidecar(payload))
        block = Block(header, transactions, receipts[number], 0)
        checked = inspector.check(block)
        inspector.check_final(header, signed)
        if checked.is_pruned:
            raise ProofError(f"{_payloads(number)}: payloads of block {number} are missing")
        if 1 < number < last:
            auditor.stand_on(checked)  # the model before it is not here: a majority signed this one
        else:
            derived = auditor.take(checked)
    if auditor.founding is None:
        raise auditor.refusal
    if derived is None or auditor.model is None:
        raise ProofError("the model cannot be derived: the last block is no round of a network")
    return derived, auditor.model
