"""A network that is founded where another one stood: its model 0 is the last one there that a majority signed."""

import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from bfl.errors import BflError
from bfl.network import founding as founding_module
from bfl.network.making import make_kits
from chain.audit.archive import Archive, FileArchive
from chain.audit.inspection import inspect_chain, inspected
from clients.models import Vector
from edge_servers.errors import FederationError
from edge_servers.founding.origin import Origin, read_origin
from edge_servers.founding.parameters import FoundingParameters, Tensors, read_founding_parameters
from edge_servers.replay.audit import AuditError, Auditor
from edge_servers.replay.continued import check_origin, last_model
from edge_servers.replay.record import model_in, parameters_in
from tests.bfl.auditing.tables_shown import rows
from tests.bfl.conftest import Command
from tests.bfl.network.described import SMALL, write
from tests.bfl.runs import run_through, small

PASSWORD = "of a test"  # noqa: S105
NOW = 1_800_000_000.0
ROUNDS = 3


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chain of a network whose models have the form of the described one's."""
    folder = tmp_path_factory.mktemp("old") / "run"
    run_through(small(scheme="bfl", rounds=ROUNDS, hidden="8", edges=3), folder)
    return folder / "chain.db"


@pytest.fixture(scope="module")
def new(old: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kits of the network that takes its place."""
    folder = tmp_path_factory.mktemp("new")
    told = make_kits(write(folder), folder / "kits", PASSWORD, NOW, work=2, before=old)
    assert told[0].startswith(f"model 0 is the model of round {ROUNDS} of chain ")
    return folder / "kits"


def founded(database: Path) -> tuple[FoundingParameters, Vector]:
    archive = FileArchive(database)
    block = archive.block(1)
    founding = read_founding_parameters(parameters_in(block, archive))
    return founding, model_in(block, founding, archive)


def origin_of(database: Path) -> Origin:
    founding, _ = founded(database)
    assert founding.origin is not None
    return founding.origin


def test_model_0_is_the_last_final_model_of_the_old_chain_bit_for_bit(old: Path, new: Path) -> None:
    archive = FileArchive(old)
    found = inspect_chain(archive)
    origin, (founding, model) = origin_of(new / "edge-a" / "chain.db"), founded(new / "edge-a" / "chain.db")
    assert (origin.chain_id, origin.round) == (archive.genesis.chain_id, found.final - 1)
    assert origin.block_hash == found.hashes[found.final]
    last = model_in(archive.block(found.final), founded(old)[0], archive)
    assert model.tobytes() == last.tobytes()
    assert founding.encode() == read_founding_parameters(founding.encode()).encode()
    assert founded(old)[0].origin is None, "a network that began by itself says nothing of it"


def test_an_auditor_is_told_where_a_chain_began_and_can_look(
    old: Path, new: Path, tmp_path: Path, command: Command
) -> None:
    chain = str(new / "edge-a" / "chain.db")
    told = rows(command("audit", "check", chain).out)["began with"]
    assert told.startswith(f"the model of round {ROUNDS} of chain ")
    assert told.endswith("not checked here: --before CHAIN does")
    assert "it is final there (3 rounds are), and has that model" in command(
        "audit", "check", chain, "--before", str(old)
    ).out.replace("\n", " ")
    make_kits(write(tmp_path), tmp_path / "kits", PASSWORD, NOW, work=2)
    other = str(tmp_path / "kits" / "edge-a" / "chain.db")
    answer = command("audit", "check", chain, "--before", other)
    assert (answer.code, "does not fit: --before" in answer.out) == (1, True)
    assert command("audit", "check", other, "--before", str(old)).code == 2
    assert "began with" not in rows(command("audit", "check", other).out)


def test_a_chain_that_has_another_block_or_model_there_is_refused(old: Path, new: Path) -> None:
    origin, archive = origin_of(new / "edge-a" / "chain.db"), FileArchive(old)
    assert check_origin(origin, archive).startswith("it is final there")
    for wrong, told in (
        (replace(origin, chain_id=1), "expected 1: model 0 is of that"),
        (replace(origin, block_hash=bytes(32)), "in that chain, expected 0x00"),
        (replace(origin, round=2), "in that chain, expected 0x"),
        (replace(origin, round=99), "found block 100 none in that chain"),
        (replace(origin, model_digest=bytes(32)), "has another model than this one began with"),
    ):
        with pytest.raises(FederationError, match=told):
            check_origin(wrong, archive)


def test_who_names_an_origin_must_have_taken_that_model(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A founder who names a model of the old chain and takes another one."""

    def lying(archive: Archive, tensors: Tensors) -> tuple[Origin, Vector]:
        origin, model = last_model(archive, tensors)
        return origin, model + 1

    monkeypatch.setattr(founding_module, "last_model", lying)
    make_kits(write(tmp_path), tmp_path / "kits", PASSWORD, NOW, work=2, before=old)
    archive = FileArchive(tmp_path / "kits" / "edge-a" / "chain.db")
    with pytest.raises(AuditError, match=r"found model 0 with digest 0x.*, expected 0x.*: the model of round 3"):
        list(Auditor(archive.genesis).derived(inspected(archive)))


def test_a_model_of_another_form_and_a_chain_without_final_rounds_are_refused(old: Path, tmp_path: Path) -> None:
    other = write(tmp_path, SMALL.replace('hidden = "8"', 'hidden = "9"'))
    with pytest.raises(BflError, match=r"cannot be continued: its model has .* expected the same: data set, model"):
        make_kits(other, tmp_path / "kits", PASSWORD, NOW, work=2, before=old)
    assert not (tmp_path / "kits").exists(), "nothing is half made"
    fresh = write(tmp_path)
    make_kits(fresh, tmp_path / "kits", PASSWORD, NOW, work=2)
    with pytest.raises(BflError, match=r"found no round of chain .* that a majority of its servers has signed"):
        make_kits(fresh, tmp_path / "more", PASSWORD, NOW, work=2, before=tmp_path / "kits" / "edge-a" / "chain.db")
    with pytest.raises(BflError, match=r"cannot be continued: .* does not exist"):
        make_kits(fresh, tmp_path / "more", PASSWORD, NOW, work=2, before=tmp_path / "no-chain.db")


def test_a_round_that_no_majority_signed_is_not_taken(old: Path, tmp_path: Path) -> None:
    """Signatures are in the next block and beside the chain: without the latter the last round is not final."""
    copy = Path(shutil.copy(old, tmp_path / "chain.db"))
    connection = sqlite3.connect(copy)
    with connection:
        connection.execute("delete from endorsement")
    connection.close()
    origin, _ = last_model(FileArchive(copy), founded(old)[0].tensors)
    assert origin.round == ROUNDS - 1


@pytest.mark.parametrize(
    "content",
    [
        {},
        "text",
        {"chain": 1, "round": 0, "block": "0x" + "00" * 32, "model": "0x" + "00" * 32},
        {"chain": 1, "round": 1, "block": "0x00", "model": "0x" + "00" * 32},
        {"chain": 1, "round": 1, "block": 7, "model": "0x" + "00" * 32},
    ],
)
def test_an_origin_of_another_form_is_refused(content: object) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        read_origin(content)
