"""A memory that moves to another machine, by a JSON file."""

import json
from pathlib import Path
from typing import Any

import pytest

from chain.errors import FreshMemoryError, SignedMemoryError, SigningRefusedError
from chain.signer.memory import SignedMemory
from chain.wire.address import Address
from chain.wire.documents import canonical_json
from tests.chain.signer.scene import CHAIN, KEY, block, endorsement, founded, never, opened, post, signing, to_pass


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    with founded(tmp_path / "signed.db") as memory:
        memory.sign(post(3), signing("plan"))
        memory.sign(endorsement(3), signing("for X"))
        memory.sign(to_pass(3, 1, (0, "X")), signing("pass"))
        memory.export_to(tmp_path / "signed.json")
    return tmp_path / "signed.json"


def test_it_is_written_for_its_owner_alone(exported: Path) -> None:
    assert exported.stat().st_mode & 0o777 == 0o600
    found = json.loads(exported.read_text())
    assert (found["address"], found["chain_id"], found["lowest_round"]) == (str(KEY), str(CHAIN), 3)
    assert found["signed"][1] == [3, 0, "endorse", block("X").hex(), b"for X".hex()]


def test_what_is_imported_says_what_was_signed_and_waits_for_a_new_round(exported: Path, tmp_path: Path) -> None:
    path = tmp_path / "moved.db"
    SignedMemory.import_from(exported, path, KEY, CHAIN)
    with opened(path) as memory:
        assert memory.fresh_because == f"was imported from {exported}"
        assert [each.raw for each in memory.pending(3, 0)] == [b"plan", b"for X"]
        assert memory.sign(to_pass(3, 1, (0, "X")), never) == b"pass"
        with pytest.raises(FreshMemoryError, match="was imported from"):
            memory.sign(post(4), never)
        memory.round_began(4, memory._clock() + 1)
        with pytest.raises(SigningRefusedError, match="two would convict it"):
            memory.sign(post(3, says="that"), never)
        assert memory.sign(post(4), signing("on")) == b"on"


def test_nothing_is_overwritten(exported: Path, tmp_path: Path) -> None:
    with pytest.raises(SignedMemoryError, match="expected neither: a memory is never overwritten"):
        SignedMemory.import_from(exported, tmp_path / "signed.db", KEY, CHAIN)
    (tmp_path / "signed.db").unlink()
    with pytest.raises(SignedMemoryError, match="expected neither"):  # of its mark
        SignedMemory.import_from(exported, tmp_path / "signed.db", KEY, CHAIN)
    assert not (tmp_path / "signed.db").exists()
    with (
        opened(tmp_path / "other.db") as memory,
        pytest.raises(SignedMemoryError, match="exists, expected no file there"),
    ):
        memory.export_to(exported)


def test_it_is_exported_only_by_who_has_the_key_alone(tmp_path: Path) -> None:
    with founded(tmp_path / "signed.db"), pytest.raises(SignedMemoryError, match="is in use by another process"):
        opened(tmp_path / "signed.db").export_to(tmp_path / "signed.json")


ROW = [3, 0, "plan", "ab" * 32, "00"]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"address": str(Address(b"o" * 20))}, "found the key 0x6f6f"),
        ({"chain_id": "78"}, "on chain 78, expected"),
        ({"form": 2}, "found form = 2"),
        ({"lowest_round": 2}, "found a signature of round 3, expected none above 2"),
        ({"lowest_round": -1}, "found lowest_round = -1"),
        ({"signed": [ROW, ROW]}, "named twice"),
        ({"signed": [[3, 0, "flag", *ROW[3:]]]}, "or is none"),
        ({"signed": [[*ROW[:3], "ab", "00"]]}, "found signed = "),
        ({"signed": [[*ROW[:4], "0"]]}, "found signed = "),
        ({"more": 1}, "found something more in it"),
    ],
)
def test_another_document_is_refused_and_makes_nothing(
    exported: Path, tmp_path: Path, changed: dict[str, Any], reason: str
) -> None:
    exported.write_bytes(canonical_json(json.loads(exported.read_text()) | changed))
    with pytest.raises(SignedMemoryError, match=f"is no exported memory of this key: .*{reason}"):
        SignedMemory.import_from(exported, tmp_path / "moved.db", KEY, CHAIN)
    assert not (tmp_path / "moved.db").exists()


def test_no_document_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SignedMemoryError, match="No such file"):
        SignedMemory.import_from(tmp_path / "none.json", tmp_path / "moved.db", KEY, CHAIN)
