"""A proof folder is somebody else's: `audit verify` reads its own files, bounded ones, and no others (Q4)."""

import os
import socket
import time
import zlib
from pathlib import Path

import pytest
import rlp

from bfl.auditing import proof_files
from bfl.auditing.portable_proof import MANIFEST, verify_proof
from bfl.auditing.proof_files import most_bytes, read_file
from chain.errors import ProofError
from tests.bfl.auditing.proof_folders import MODEL, ROUND, proof_in, rehash
from tests.bfl.conftest import Command

NAMES = ("README.txt", "genesis.json", "headers.rlp", "receipts.z", "block-1.rlp", "payloads-1.rlp", MODEL, MANIFEST)


@pytest.fixture
def proof(tmp_path: Path) -> Path:
    return proof_in(tmp_path / "proof")


@pytest.mark.parametrize("name", NAMES)
def test_a_link_is_refused_whatever_it_leads_to(proof: Path, name: str) -> None:
    (proof / name).rename(proof.parent / "elsewhere")
    (proof / name).symlink_to(proof.parent / "elsewhere")
    with pytest.raises(ProofError, match=f"^{name}: found a link, expected an ordinary file in the folder itself$"):
        verify_proof(proof)


@pytest.mark.parametrize("name", NAMES)
def test_a_pipe_is_refused_and_not_waited_for(proof: Path, name: str) -> None:
    (proof / name).unlink()
    os.mkfifo(proof / name)
    with pytest.raises(ProofError, match=f"^{name}: found a pipe, expected an ordinary file"):
        verify_proof(proof)


def test_folders_sockets_and_devices_are_refused(proof: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (proof / "README.txt").unlink()
    (proof / "README.txt").mkdir()
    with pytest.raises(ProofError, match=r"^README\.txt: found a folder, expected an ordinary file"):
        verify_proof(proof)
    (proof / "README.txt").rmdir()
    monkeypatch.chdir(proof)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("README.txt")
        with pytest.raises(ProofError, match=r"^README\.txt: found a socket, expected an ordinary file"):
            verify_proof(proof)
    with pytest.raises(ProofError, match=r"^zero: found a device, expected an ordinary file"):
        read_file(Path("/dev/zero"), 10)


def test_the_folder_itself_may_be_a_link_of_the_person(proof: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(proof)
    assert verify_proof(tmp_path / "link").round.round == ROUND


@pytest.mark.parametrize("name", NAMES)
def test_a_file_with_a_hole_of_a_terabyte_is_refused_at_once(proof: Path, name: str) -> None:
    os.truncate(proof / name, 1 << 40)
    began = time.monotonic()
    with pytest.raises(ProofError, match=f"^{name}: found 1,099,511,627,776 bytes, expected at most"):
        verify_proof(proof)
    assert time.monotonic() - began < 5


def test_payloads_may_not_be_larger_than_the_posts_say(proof: Path) -> None:
    payloads = rlp.decode((proof / "payloads-3.rlp").read_bytes())
    (proof / "payloads-3.rlp").write_bytes(rlp.encode([*payloads, bytes(1 << 21)]))
    rehash(proof)
    with pytest.raises(ProofError, match=r"^payloads-3\.rlp: found [0-9,]+ bytes, expected at most"):
        verify_proof(proof)


def test_a_folder_of_many_files_is_not_listed(proof: Path) -> None:
    for number in range(proof_files.MOST_FILES):
        (proof / f"{number}.txt").touch()
    with pytest.raises(ProofError, match="found more than 64 files, expected those of one proof"):
        verify_proof(proof)


def test_receipts_that_unpack_to_anything_are_refused(proof: Path) -> None:
    (proof / "receipts.z").write_bytes(zlib.compress(bytes(64 << 20), 9))
    assert (proof / "receipts.z").stat().st_size < 70_000
    rehash(proof)
    with pytest.raises(ProofError, match=r"^receipts\.z: found more than 4194304 bytes when unpacked"):
        verify_proof(proof)


@pytest.mark.parametrize("name", ["block-1.rlp", "payloads-3.rlp", "headers.rlp"])
def test_a_million_items_are_read_in_linear_time_or_refused(proof: Path, name: str) -> None:
    """`rlp.decode` copies a list once per item: 4 MB of one-byte items take it minutes."""
    size = most_bytes("headers.rlp", ROUND) - 100 if name == "headers.rlp" else 1_000_000
    body = b"\x01" * size
    (proof / name).write_bytes(rlp.codec.length_prefix(len(body), 192) + body)
    rehash(proof)
    began = time.monotonic()
    with pytest.raises(ProofError, match=f"^{name}: "):
        verify_proof(proof)
    assert time.monotonic() - began < 20


def test_a_round_that_no_folder_can_hold_is_refused(proof: Path) -> None:
    rehash(proof, round=10**18)
    with pytest.raises(ProofError, match=r"is missing|does not belong here"):
        verify_proof(proof)


def test_a_refusal_is_one_line_and_exit_code_1(command: Command, proof: Path) -> None:
    (proof / MODEL).unlink()
    (proof / MODEL).symlink_to("/etc/hostname")
    answer = command("audit", "verify", str(proof))
    assert (answer.code, answer.err) == (1, "")
    assert answer.out == f"does not fit: {MODEL}: found a link, expected an ordinary file in the folder itself\n"
