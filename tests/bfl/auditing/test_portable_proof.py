"""`bfl audit proof` and `verify`: a folder proves one model to whoever knows the genesis hash, and nothing else."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rlp
import torch

from bfl.auditing.portable_proof import MANIFEST, verify_proof, write_proof
from chain.audit.inspection import inspect_chain
from chain.errors import InspectionError, ProofError
from chain.node.node import Node
from chain.rpc.server import RpcServer, ServerParams
from chain.wire.blocks import encode_block
from chain.wire.documents import canonical_json
from chain.wire.sidecar import payload_digest
from edge_servers.replay.audit import AuditError
from edge_servers.replay.record import model_in
from tests.bfl.conftest import Command
from tests.bfl.runs import HINT
from tests.chain.network import endorsements_of
from tests.chain.small_chain import NETWORK, StoredChain, story
from tests.edge_servers.audited_chain import LIES, Chain, chain, with_other_model

REFUSALS = (ProofError, InspectionError, AuditError)
FILES = (
    "endorsements.json",
    "README.txt", "block-1.rlp", "block-3.rlp", "block-4.rlp", "genesis.json", "headers.rlp", MANIFEST, "model-3.pt",
    "payloads-1.rlp", "payloads-3.rlp", "payloads-4.rlp", "receipts.z",
)  # fmt: skip


def proof_of(found: Chain, round_: int, folder: Path) -> Path:
    write_proof(found.archive, inspect_chain(found.archive), round_, folder)
    return folder


@pytest.fixture
def proof(tmp_path: Path) -> Path:
    """Of round 3 of a chain on which two servers are excluded by then."""
    return proof_of(chain(LIES), 3, tmp_path / "proof")


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def places(path: Path, count: int) -> list[int]:
    size = path.stat().st_size
    return sorted({size * i // count for i in range(count)} | {size - 1})


def rehash(folder: Path, **changes: Any) -> None:
    """What a forger does: a manifest that fits the files."""
    manifest = json.loads((folder / MANIFEST).read_bytes()) | changes
    names = [path.name for path in folder.iterdir() if path.name != MANIFEST]
    manifest["files"] = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}
    (folder / MANIFEST).write_bytes(canonical_json(manifest))


# --- what is proven


@pytest.mark.parametrize("round_", [1, 2, 3])
def test_every_round_is_proven_by_its_folder_alone(round_: int, tmp_path: Path) -> None:
    folder = proof_of(chain(), round_, tmp_path / "proof")
    proven = verify_proof(folder, chain().genesis.header.hash)
    assert (proven.round.round, proven.block) == (round_, chain().blocks[round_ + 1].header)
    tensors = torch.load(folder / f"model-{round_}.pt", weights_only=True)["state_dict"].values()
    flat = np.concatenate([tensor.numpy().ravel() for tensor in tensors])
    np.testing.assert_array_equal(flat, model_in(chain().blocks[round_ + 1], chain().founding, chain()))


def test_exclusions_are_read_from_the_receipts_of_blocks_that_are_not_in_the_folder(proof: Path) -> None:
    proven = verify_proof(proof)
    assert proven.round.virtual == ("server 1", "server 2")
    assert proven.round.aggregated == ("server 0", "server 3")
    assert sorted(path.name for path in proof.iterdir()) == sorted(FILES)


def test_the_manifest_names_every_file_and_the_readme_has_five_lines(proof: Path) -> None:
    manifest = json.loads((proof / MANIFEST).read_text())
    assert sorted([*manifest["files"], MANIFEST]) == sorted(FILES)
    assert (proof / "README.txt").read_text().count("\n") == 5


def test_proof_and_verify_as_commands(command: Command, tmp_path: Path) -> None:
    run = chain().written(tmp_path / "run")
    answer = command("audit", "proof", str(run), "--round", "2", "--out", str(tmp_path / "proof"))
    assert (answer.code, answer.err) == (0, "")
    genesis = "0x" + chain().genesis.header.hash.hex()
    assert answer.out.endswith(f"check it with: bfl audit verify {tmp_path / 'proof'} --genesis {genesis}\n" + HINT)
    shutil.rmtree(run)
    shown = command("audit", "verify", str(tmp_path / "proof"))
    assert (shown.code, shown.err) == (0, "")
    assert "the model of round 2 follows from the model before it, bit for bit" in shown.out
    assert f"{genesis}" in shown.out
    assert "compare the genesis hash with one you know" in shown.out
    assert "sealed by" in shown.out
    known = command("audit", "verify", str(tmp_path / "proof"), "--genesis", genesis)
    assert "the genesis hash is the one you gave" in known.out


def test_a_proof_says_that_keys_are_simulated_and_that_somebody_misbehaved(command: Command, tmp_path: Path) -> None:
    honest, lied = (proof_of(chain(*lies), 1, tmp_path / name) for lies, name in (((), "honest"), ((LIES,), "lied")))
    shown = [command("audit", "verify", str(folder), "--explain").out for folder in (honest, lied)]
    assert "│ fits: the model of round 1 follows" in shown[0]
    assert "│ fits, but 1 participant misbehaved: the model of round 1 follows" in shown[1]
    assert all("anybody could have signed this" in each for each in shown)
    assert all("│ latency " in each.split("\nwords")[1] for each in shown)


def test_a_running_node_is_audited_asked_and_proven_over_rpc(command: Command, tmp_path: Path) -> None:
    now = float(chain(LIES).blocks[-1].header.timestamp)
    node = Node.in_memory(chain(LIES).genesis, now=lambda: now)
    node.sources.append(chain(LIES))
    for block in chain(LIES).blocks[1:]:
        node.import_block(encode_block(block.header, block.transactions))
    for each in chain(LIES).signed():
        node.take_endorsement(each)
    with RpcServer(node, ServerParams(port=0)) as url:
        checked = command("audit", "check", "--rpc", url)
        asked = command("audit", "why", "server 2", "--rpc", url)
        proven = command("audit", "proof", "--rpc", url, "--out", str(tmp_path / "proof"))
    node.close()
    assert (checked.code, asked.code, proven.code) == (0, 0, 0)
    assert "3 of 3 rounds give their model again" in checked.out
    assert asked.out.endswith("server 2 was accused in round 2 and excluded through round 12\n" + HINT)
    assert verify_proof(tmp_path / "proof").round.round == 3


def test_another_genesis_than_the_trusted_one_is_refused(command: Command, proof: Path) -> None:
    answer = command("audit", "verify", str(proof), "--genesis", "0x" + "11" * 32)
    assert answer.code == 1
    assert answer.out.startswith("does not fit: found genesis 0x")
    assert answer.out.endswith(f"expected 0x{'11' * 32}\n")
    assert command("audit", "verify", str(proof), "--genesis", "abc").code == 2


# --- what is refused


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_byte_anywhere_is_refused_and_its_file_named(proof: Path, name: str) -> None:
    count = 60 if name == MANIFEST else 4
    for place in places(proof / name, count):
        flip(proof / name, place)
        with pytest.raises(REFUSALS, match=re.escape(name) if name != MANIFEST else "found|expected|cannot|missing"):
            verify_proof(proof)
        flip(proof / name, place)
    verify_proof(proof)


def test_a_flipped_byte_gives_exit_code_1_and_one_line(command: Command, proof: Path) -> None:
    flip(proof / "block-4.rlp", 1000)
    answer = command("audit", "verify", str(proof))
    assert (answer.code, answer.err) == (1, "")
    assert answer.out.startswith("does not fit: block-4.rlp: found sha256 ")
    assert answer.out.count("\n") == 1


@pytest.mark.parametrize(
    "name",
    [
        "block-1.rlp",
        "block-3.rlp",
        "block-4.rlp",
        "genesis.json",
        "headers.rlp",
        "payloads-1.rlp",
        "payloads-4.rlp",
        "receipts.z",
    ],
)
def test_a_flipped_byte_is_refused_also_with_a_manifest_that_fits_it(proof: Path, name: str) -> None:
    for place in places(proof / name, 10):
        flip(proof / name, place)
        rehash(proof)
        with pytest.raises(REFUSALS):
            verify_proof(proof)
        flip(proof / name, place)


def test_another_model_file_is_refused_also_with_a_manifest_that_fits_it(proof: Path) -> None:
    content = torch.load(proof / "model-3.pt", weights_only=True)
    first = next(iter(content["state_dict"].values()))
    first.view(-1)[0] += 1
    torch.save(content, proof / "model-3.pt")
    rehash(proof)
    with pytest.raises(ProofError, match=r"model-3\.pt holds another model than the derived one"):
        verify_proof(proof)
    (proof / "model-3.pt").write_bytes(b"no model")
    rehash(proof)
    with pytest.raises(ProofError, match=r"model-3\.pt is no model"):
        verify_proof(proof)


@pytest.mark.parametrize("name", ["block-4.rlp", "payloads-1.rlp", "payloads-4.rlp", "model-3.pt", MANIFEST])
def test_a_missing_file_is_named(proof: Path, name: str) -> None:
    (proof / name).unlink()
    with pytest.raises(ProofError, match=re.escape(name)):
        verify_proof(proof)


@pytest.mark.parametrize("number", [1, 3, 4])
def test_payloads_of_another_block_are_refused_also_with_a_manifest_that_fits_them(proof: Path, number: int) -> None:
    name, other = f"payloads-{number}.rlp", f"payloads-{ {1: 3, 3: 4, 4: 3}[number] }.rlp"
    shutil.copy(proof / other, proof / name)
    with pytest.raises(ProofError, match=rf"^{name}: found sha256 [0-9a-f]{{64}}, the manifest says"):
        verify_proof(proof)
    rehash(proof)
    with pytest.raises(ProofError, match=f"^{name}: payloads of block {number} are missing$"):
        verify_proof(proof)


def test_one_payload_too_few_is_refused_by_name(proof: Path) -> None:
    path = proof / "payloads-4.rlp"
    payloads = rlp.decode(path.read_bytes())
    for index in range(len(payloads)):
        path.write_bytes(rlp.encode(payloads[:index] + payloads[index + 1 :]))
        rehash(proof)
        with pytest.raises(ProofError, match=r"^payloads-4\.rlp: payloads of block 4 are missing$"):
            verify_proof(proof)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "payloads-4.rlp: "), (b"\x80", "found no RLP list"), (b"\xc1\xc0", "found lists more than 1 deep")],
)
def test_a_file_that_is_no_list_of_payloads_is_refused_by_name(proof: Path, content: bytes, message: str) -> None:
    (proof / "payloads-4.rlp").write_bytes(content)
    rehash(proof)
    with pytest.raises(ProofError, match=message):
        verify_proof(proof)


def test_the_folder_has_no_iterates_and_what_the_posts_say_beside_the_blocks(proof: Path) -> None:
    posts = chain(LIES).posts(4)
    named = {post.call.name: each.digest for post in posts if post.call for each in post.commitments}
    found = {payload_digest(each) for each in rlp.decode((proof / "payloads-4.rlp").read_bytes())}
    assert {named[kind] for kind in ("plan", "gradient", "close", "model")} <= found
    assert named["iterate"] not in found


def test_a_pruned_round_cannot_be_proven(command: Command, tmp_path: Path) -> None:
    gone = {
        each.digest
        for post in chain().posts(3)
        if post.call and post.call.name == "gradient"
        for each in post.commitments
    }
    left = {digest: payload for digest, payload in chain().payloads.items() if digest not in gone}
    run = replace(chain(), payloads=left).written(tmp_path / "run")
    answer = command("audit", "proof", str(run), "--round", "2", "--out", str(tmp_path / "proof"))
    assert (answer.code, answer.err) == (
        2,
        "error: round 2 is pruned: of it digests and signatures were checked, no more\n",
    )
    answer = command("audit", "proof", str(run), "--round", "3", "--out", str(tmp_path / "proof"))
    assert answer.code == 2
    assert answer.err.startswith("error: payloads of block 3 were pruned here, so nothing can be proven with them")


def test_a_file_that_does_not_belong_there_is_named(proof: Path) -> None:
    (proof / "more.txt").write_text("more")
    with pytest.raises(ProofError, match=r"more\.txt does not belong here"):
        verify_proof(proof)


@pytest.mark.parametrize("name", ["block-3.rlp", "headers.rlp", "receipts.z"])
@pytest.mark.parametrize("fits", [False, True])
def test_files_of_another_round_are_refused(tmp_path: Path, name: str, fits: bool) -> None:
    second, third = (proof_of(chain(), k, tmp_path / str(k)) for k in (2, 3))
    other = second / name
    if name == "block-3.rlp":  # the same block in both: take the one that is not
        other = second / "block-2.rlp"
    shutil.copy(other, third / name)
    if fits:
        rehash(third)
    with pytest.raises(REFUSALS):
        verify_proof(third)


@pytest.mark.parametrize("name", ["block-4.rlp", "block-3.rlp", "headers.rlp", "receipts.z"])
def test_files_of_another_branch_of_the_same_network_are_refused(tmp_path: Path, name: str) -> None:
    """Both have the same genesis hash: the one with attacks went another way."""
    honest = proof_of(chain(), 3, tmp_path / "honest")
    assert chain().genesis == chain(LIES).genesis
    shutil.copy(proof_of(chain(LIES), 3, tmp_path / "other") / name, honest / name)
    rehash(honest)
    with pytest.raises(REFUSALS):
        verify_proof(honest)


@pytest.mark.parametrize(
    "changes", [{"round": 2}, {"chain": 5}, {"block": "00"}, {"model": "00"}, {"genesis": "00"}, {"round": True}]
)
def test_a_manifest_that_says_something_else_is_refused(proof: Path, changes: dict[str, Any]) -> None:
    rehash(proof, **changes)
    with pytest.raises(ProofError):
        verify_proof(proof)


def test_a_model_that_does_not_follow_is_refused_though_every_seal_fits(tmp_path: Path) -> None:
    forged = with_other_model(chain())
    folder = proof_of(forged, 3, tmp_path / "proof")
    with pytest.raises(AuditError, match=f"block 4, built by {chain().leader}: round 3: the model of"):
        verify_proof(folder)


def test_a_chain_that_does_not_follow_gets_no_proof(command: Command, tmp_path: Path) -> None:
    with_other_model(chain(), tmp_path / "chain.db")
    answer = command("audit", "proof", str(tmp_path), "--round", "1", "--out", str(tmp_path / "proof"))
    assert answer.code == 1
    assert not (tmp_path / "proof").exists()


@pytest.mark.parametrize(
    ("prepare", "arguments", "message"),
    [
        (lambda folder: None, ["--round", "0"], "model 0 is in the founding block"),
        (lambda folder: None, ["--round", "9"], "the last sealed round is 3"),
        (lambda folder: chain().written(folder), [], "is not empty"),
    ],
)
def test_what_cannot_be_written_gives_exit_code_2(
    command: Command, tmp_path: Path, prepare: Callable[[Path], Any], arguments: list[str], message: str
) -> None:
    run = chain().written(tmp_path / "run")
    prepare(tmp_path / "proof")
    answer = command("audit", "proof", str(run), "--out", str(tmp_path / "proof"), *arguments)
    assert answer.code == 2
    assert message in answer.err


def test_a_chain_of_another_kind_cannot_be_proven(command: Command, tmp_path: Path) -> None:
    story().write(tmp_path)
    answer = command("audit", "proof", str(tmp_path), "--round", "1", "--out", str(tmp_path / "proof"))
    assert answer.code == 2
    assert "the founding parameters name no such network" in answer.err
    found = StoredChain(story().blocks)
    found.signed = [each for header in story().headers[2:] for each in endorsements_of(header, NETWORK.servers)]
    write_proof(found, inspect_chain(found), 2, tmp_path / "all the same")
    with pytest.raises(AuditError, match="the founding parameters name no such network"):
        verify_proof(tmp_path / "all the same")


def test_a_genesis_hash_that_is_none_is_told(command: Command, proof: Path) -> None:
    answer = command("audit", "verify", str(proof), "--genesis", "0x12")
    assert answer.code == 2
    assert "found '0x12', expected a genesis hash: 0x and 64 hexadecimal digits" in answer.err


def test_a_folder_that_is_no_proof_is_told_what_was_expected(command: Command, tmp_path: Path) -> None:
    answer = command("audit", "verify", str(tmp_path))
    assert answer.code == 1
    assert f"{MANIFEST} is missing in {tmp_path}; expected a folder that `bfl audit proof` made" in answer.out


def test_a_folder_that_is_not_there_gives_exit_code_2(command: Command, tmp_path: Path) -> None:
    answer = command("audit", "verify", str(tmp_path / "nowhere"))
    assert answer.code == 2
    assert "there is no folder" in answer.err
    assert "bfl audit proof" in answer.err
