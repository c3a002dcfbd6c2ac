"""`keep-payloads`, `bfl chain prune` and `fetch`: old payloads go, what was there stays named, an audit says so."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from bfl.simulation import run as simulation
from chain.audit.archive import FileArchive
from chain.audit.inspection import inspect_chain
from tests.bfl.conftest import Command
from tests.bfl.runs import ignore, small

ROUNDS = 14


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a chain on which everything is kept."""
    out = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulation, "can_plot", lambda: False)
        settings = small(scheme="bfl", rounds=ROUNDS, hidden=4, phi=1, difficulty=1, iterations=1)
        simulation.run(simulation.start(settings, out), ignore)
    return out


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "run"))


def kinds_kept(run: Path, number: int) -> set[str]:
    """What is still there of a block."""
    with sqlite3.connect(run / "chain.db") as connection:
        rows = connection.execute(
            "SELECT kind FROM kept JOIN block ON kept.block = block.id WHERE number = ? "
            "AND EXISTS (SELECT 1 FROM part WHERE part.digest = kept.digest)",
            (number,),
        ).fetchall()
    connection.close()
    return {row[0] for row in rows}


def test_pruning_keeps_the_last_rounds_their_first_model_and_every_tenth(command: Command, run: Path) -> None:
    before = (run / "chain.db").stat().st_size
    answer = command("chain", "prune", str(run), "--keep", "4")
    assert answer.code == 0, answer.err
    assert "10 blocks are pruned now" in answer.out
    assert (run / "chain.db").stat().st_size < before
    head, everything = ROUNDS + 1, {"plan", "gradient", "roll", "close", "model"}
    first = head - 4 + 1
    assert [kinds_kept(run, number) for number in range(first, head + 1)] == [everything] * 4
    assert kinds_kept(run, first - 1) == {"plan", "roll", "close", "model"}  # what the first kept round starts from
    assert kinds_kept(run, 10) == {"plan", "roll", "close", "model"}
    assert kinds_kept(run, 9) == {"plan", "roll", "close"}
    assert kinds_kept(run, 1) == {"found"}


def test_what_a_flag_may_still_be_about_is_not_pruned(command: Command, run: Path) -> None:
    command("chain", "prune", str(run), "--keep", "1")
    assert "gradient" in kinds_kept(run, ROUNDS + 1 - 3)


def test_an_audit_of_a_pruned_chain_says_what_it_could_not_check(command: Command, run: Path) -> None:
    command("chain", "prune", str(run), "--keep", "4")
    answer = command("audit", "check", str(run))
    assert answer.code == 2
    assert "fits, as far as it could be checked" in answer.out
    assert "4 of 4 rounds give their model again" in answer.out
    assert "10 rounds are pruned: digests and signatures only" in answer.out
    assert "chain fetch" in answer.err


def test_a_pruned_round_is_neither_shown_nor_proven(command: Command, run: Path, tmp_path: Path) -> None:
    command("chain", "prune", str(run), "--keep", "4")
    for arguments, told in (
        (("check", str(run), "--round", "2"), "round 2 is pruned"),
        (("model", str(run), "--round", "2", "--out", str(tmp_path / "m.pt")), "model 2 was pruned here"),
        (("proof", str(run), "--round", "2", "--out", str(tmp_path / "p")), "pruned"),
    ):
        answer = command("audit", *arguments)
        assert answer.code == 2, arguments
        assert told in answer.err


def test_a_node_that_keeps_few_rounds_has_the_same_head(whole: Path, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulation, "can_plot", lambda: False)
        settings = small(scheme="bfl", rounds=ROUNDS, hidden=4, phi=1, difficulty=1, iterations=1, keep_payloads="2")
        summary = simulation.run(simulation.start(settings, tmp_path / "few"), ignore)
    archive, few = FileArchive(whole), FileArchive(tmp_path / "few")
    assert few.head() == archive.head()
    assert summary["rounds"] == ROUNDS
    assert inspect_chain(few).pruned == [2, 3, 4, 5, 6]  # at block 10, as far as no flag can be about them
    archive.close()
    few.close()
