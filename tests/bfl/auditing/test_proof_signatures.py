"""A proof folder is believed as far as a strict majority of the servers has signed its blocks (Q2), and no further."""

import functools
import hashlib
import json
import shutil
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import rlp
import torch
from eth_account.signers.local import LocalAccount
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bfl.auditing.portable_proof import ENDORSEMENTS, HEADERS, MANIFEST, RECEIPTS, verify_proof, write_proof
from chain.audit.found import Inspection
from chain.audit.inspection import inspect_chain
from chain.errors import InspectionError, ProofError
from chain.protocol.contract import decode_call, events
from chain.protocol.endorsements import Domain, Endorsement, endorse, quorum
from chain.wire.blocks import Block, encode_block
from chain.wire.documents import canonical_json
from chain.wire.receipts import Log
from chain.wire.transactions import Transaction
from edge_servers.replay.audit import AuditError
from tests.chain.network import account, addresses, endorsements_of
from tests.chain.small_chain import forged
from tests.edge_servers.audited_chain import Chain, chain, with_other_model

REFUSALS = (ProofError, InspectionError, AuditError)
SYBILS = [account(f"sybil {i}") for i in range(9)]
ROUND = 3


def servers_of(found: Chain) -> list[LocalAccount]:
    return [found.accounts[server] for server in found.founding.network.servers]


@functools.cache
def folder_of(edges: int) -> Path:
    """The proof of the last round, with the signatures of everybody; copied before it is changed."""
    honest = chain(edges=edges)
    archive = honest.archive
    archive.signed = [each for block in honest.blocks[2:] for each in under(honest, block, servers_of(honest))]
    folder = Path(tempfile.mkdtemp()) / "proof"
    write_proof(archive, inspect_chain(archive), ROUND, folder)
    return folder


def under(found: Chain, block: Block, signers: Sequence[LocalAccount]) -> list[Endorsement]:
    return endorsements_of(block.header, signers, found.genesis)


@pytest.fixture(params=[3, 4, 5, 7])
def edges(request: pytest.FixtureRequest) -> int:
    """How many servers there are."""
    return int(request.param)


@pytest.fixture
def folder(edges: int, tmp_path: Path) -> Path:
    """A copy of the proof of their last round."""
    return Path(shutil.copytree(folder_of(edges), tmp_path / "proof"))


def rehash(folder: Path, **changes: Any) -> None:
    """What a forger does: a manifest that fits the files."""
    manifest = json.loads((folder / MANIFEST).read_bytes()) | changes
    names = [path.name for path in folder.iterdir() if path.name != MANIFEST]
    manifest["files"] = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}
    (folder / MANIFEST).write_bytes(canonical_json(manifest))


def sign(folder: Path, endorsements: Sequence[Endorsement]) -> None:
    """Put other signatures into a folder."""
    (folder / ENDORSEMENTS).write_bytes(canonical_json(["0x" + each.encode().hex() for each in endorsements]))
    rehash(folder)


# --- signatures


def test_a_strict_majority_is_enough_and_one_less_is_not(edges: int, folder: Path) -> None:
    honest = chain(edges=edges)
    servers, enough = servers_of(honest), quorum(edges)
    for count, blocks in ((enough, (3, 4)), (enough - 1, (4,)), (0, (4,))):
        signed = [each for n in (3, 4) for each in under(honest, honest.blocks[n], servers[-count:] if count else [])]
        signed += [] if 3 in blocks else under(honest, honest.blocks[3], servers)
        sign(folder, signed)
        if count == enough:
            assert verify_proof(folder, honest.genesis.header.hash).round.round == ROUND
        else:
            with pytest.raises(InspectionError, match=f"block 4 is signed by {count} of {edges} servers"):
                verify_proof(folder, honest.genesis.header.hash)


def test_a_folder_without_signatures_proves_nothing(edges: int, folder: Path) -> None:
    """But what a block carries in `endorse` calls counts as well: only the last one is unsigned."""
    sign(folder, [])
    with pytest.raises(InspectionError, match=f"block [34] is signed by 0 of {edges} servers"):
        verify_proof(folder)


def test_signatures_of_another_block_of_the_chain_or_of_none_do_not_count(edges: int, folder: Path) -> None:
    honest = chain(edges=edges)
    servers, (second, third, last) = servers_of(honest), honest.blocks[2:5]
    own, domain = under(honest, third, servers), Domain.of(honest.genesis)
    for others in (
        under(honest, second, servers),
        [replace(each, block_hash=last.header.hash) for each in under(honest, third, servers)],
        under(honest, forged(last, timestamp=last.header.timestamp + 1), servers),
        [endorse(each, domain, ROUND - 1, 0, last.header.hash, 5) for each in servers],
        [replace(each, attempt=1) for each in under(honest, last, servers)],
        [replace(each, time_ms=0) for each in under(honest, last, servers)],
        endorsements_of(last.header, servers, replace(honest.genesis, chain_id=1)),
        under(honest, last, SYBILS),
    ):
        sign(folder, [*own, *others])
        with pytest.raises(REFUSALS):
            verify_proof(folder)


# --- a minority's own chain


def forged_folder(found: Chain, endorsements: Sequence[Endorsement], folder: Path) -> Path:
    """A folder that says of itself that all its blocks are final, whoever signed them."""
    archive = found.archive
    archive.signed = list(endorsements)
    told: Inspection = replace(inspect_chain(archive), final=ROUND + 1)
    write_proof(archive, told, ROUND, folder)
    return folder


@functools.cache
def other_model(edges: int) -> Chain:
    """A chain whose last block publishes another model; every seal, signature, receipt and state root fits."""
    return with_other_model(chain(edges=edges))


@pytest.mark.parametrize("edges", [3, 5])
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_minority_proves_another_last_block(edges: int, data: st.DataObject) -> None:
    found = other_model(edges)
    servers, last = servers_of(found), found.blocks[-1]
    keys = data.draw(st.sampled_from(list(combinations(servers, quorum(edges) - 1))))
    many = [endorse(k, Domain.of(found.genesis), ROUND, 0, last.header.hash, t) for k in keys for t in range(3)]
    before = under(found, found.blocks[ROUND], servers)
    with tempfile.TemporaryDirectory() as place:
        folder = forged_folder(found, data.draw(st.permutations([*before, *many])), Path(place) / "proof")
        with pytest.raises(InspectionError, match=f"block 4 is signed by {len(keys)} of {edges} servers"):
            verify_proof(folder, found.genesis.header.hash)


def test_what_a_majority_has_signed_is_derived_again_all_the_same(tmp_path: Path) -> None:
    found = other_model(3)
    signed = [each for block in found.blocks[2:] for each in under(found, block, servers_of(found))]
    folder = forged_folder(found, signed, tmp_path / "proof")
    with pytest.raises(AuditError, match="round 3: the model of"):
        verify_proof(folder)


def registering(block: Block, found: Chain) -> Block:
    """The block, one of its receipts telling that the sybils are servers."""
    topic, receipt = events()["Registered"].topic, block.receipts[1]
    words = [bytes(12) + who for who in addresses(SYBILS)]
    logs = (*receipt.logs, *(Log(found.genesis.registry, (topic, word, word), b"") for word in words))
    return replace(block, receipts=(block.receipts[0], replace(receipt, logs=logs), *block.receipts[2:]))


def branch(found: Chain, number: int) -> list[Block]:
    """The chain from a block on, which registers the sybils, mined again without what servers signed in it.

    Each block waits until everybody might lead: nothing but signatures is against it.
    """
    blocks = list(found.blocks)
    for n in range(number, len(blocks)):
        block = registering(blocks[n], found) if n == number else blocks[n]
        parent, posts = blocks[n - 1].header, zip(block.transactions, block.receipts, strict=True)
        kept = [(post, receipt) for post, receipt in posts if not _endorses(post)]
        changes = {"parent_hash": parent.hash, "timestamp": parent.timestamp + 10_000}
        transactions, receipts = [post for post, _ in kept], [receipt for _, receipt in kept]
        blocks[n] = forged(block, transactions, receipts, **changes)
    return blocks


def _endorses(post: Transaction) -> bool:
    return bool(post.to) and decode_call(post.data).name == "endorse"


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (1, "register was accepted with other events than the registry emits"),
        (2, "block 2 is signed by 1 of 3 servers"),
        (3, "plan was accepted with other events than the registry emits"),  # blocks that are here whole
        (4, "plan was accepted with other events than the registry emits"),
    ],
)
def test_receipts_that_make_servers_of_the_forgers_keys_are_not_believed(
    number: int, message: str, tmp_path: Path
) -> None:
    """One server's key is his as well; with the sybils he has ten of twelve signatures under every later block."""
    found = chain(edges=3)
    blocks, servers = branch(found, number), servers_of(found)
    folder = Path(shutil.copytree(folder_of(3), tmp_path / "proof"))
    rewrite(folder, blocks)
    signers = {n: servers if n < number else servers[:1] + (SYBILS if n > number else []) for n in (2, 3, 4)}
    sign(folder, [each for n, signing in signers.items() for each in under(found, blocks[n], signing)])
    rehash(folder, block=blocks[-1].header.hash.hex())
    with pytest.raises(REFUSALS, match=message):
        verify_proof(folder, found.genesis.header.hash)


def test_the_same_branch_is_believed_once_a_majority_has_signed_where_it_registers_servers(tmp_path: Path) -> None:
    """Or the refusals above were of something else."""
    found = chain(edges=3)
    blocks = branch(found, 2)
    folder = Path(shutil.copytree(folder_of(3), tmp_path / "proof"))
    rewrite(folder, blocks)
    signed = under(found, blocks[2], servers_of(found)[:2])
    sign(folder, [*signed, *(each for block in blocks[3:] for each in under(found, block, SYBILS))])
    name = blocks[-1].header.hash.hex()
    content = torch.load(folder / "model-3.pt", weights_only=True)
    torch.save(content | {"block": f"0x{name}"}, folder / "model-3.pt")
    rehash(folder, block=name)
    assert verify_proof(folder, found.genesis.header.hash).block == blocks[-1].header


def rewrite(folder: Path, blocks: Sequence[Block]) -> None:
    """Other blocks of the same numbers."""
    (folder / HEADERS).write_bytes(rlp.encode([block.header.to_bytes() for block in blocks]))
    encoded = [[receipt.encoded for receipt in block.receipts] for block in blocks]
    (folder / RECEIPTS).write_bytes(zlib.compress(rlp.encode(encoded, infer_serializer=False)))
    for path in folder.glob("block-*.rlp"):
        block = blocks[int(path.stem.partition("-")[2])]
        path.write_bytes(encode_block(block.header, block.transactions))


def test_a_model_file_of_the_forgers_is_refused_with_it(tmp_path: Path) -> None:
    """The honest blocks and signatures, and another model beside them."""
    folder = Path(shutil.copytree(folder_of(3), tmp_path / "proof"))
    content = torch.load(folder / f"model-{ROUND}.pt", weights_only=True)
    next(iter(content["state_dict"].values())).view(-1)[0] += 1
    torch.save(content, folder / f"model-{ROUND}.pt")
    rehash(folder)
    with pytest.raises(ProofError, match="holds another model"):
        verify_proof(folder)
