"""A last block whose receipts call honest gradients reverted: it fits for who believes them, and blames the honest."""

import functools
from pathlib import Path

import pytest

from bfl.auditing.findings import audit_rounds
from bfl.auditing.one_round import audit_round
from bfl.auditing.verdict import misbehaving
from chain.errors import InspectionError
from tests.bfl.conftest import Command
from tests.edge_servers.audited_chain import Chain, chain
from tests.edge_servers.forged_receipts import REVERTED, with_reverted_gradients, written_with_state

PLACE = r"block 4, executed here: transaction \d \(0x[0-9a-f]{64}\): it has status 1 and gas \d+ with 1 events, its "


@functools.cache
def attacked() -> Chain:
    return with_reverted_gradients(chain())


def test_it_fits_where_receipts_are_believed_and_honest_servers_seem_absent() -> None:
    """What an audit said before it executed, and says still where it may not; but now it says what it believed."""
    audit = audit_rounds(attacked().archive, execute=False)
    servers = {f"server {m}" for m in range(4)}
    assert [each.round for each in audit.rounds] == [1, 2, 3]
    assert audit.found.reverted == REVERTED
    assert misbehaving(audit.findings) == set()
    assert {each.name for round_ in audit.rounds for each in round_.absences} == servers - {attacked().leader}
    assert audit.believed[0] == "receipts of 4 blocks: nothing was executed (--no-execute)"


def test_it_does_not_fit_where_blocks_are_executed() -> None:
    with pytest.raises(InspectionError, match=f"^{PLACE}receipt says status 0 and gas"):
        audit_rounds(attacked().archive)


@pytest.mark.parametrize("arguments", [["check"], ["why", "server 0"], ["model"], ["proof", "--out", "proof"]])
def test_no_command_takes_it_for_a_chain(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = attacked().written(tmp_path / "run")
    name, *more = arguments
    answer = command("audit", name, *more[:1] if name == "why" else [], str(run), *more if name == "proof" else [])
    assert (answer.code, answer.err) == (1, "")
    assert answer.out.startswith("does not fit: block 4, executed here: transaction ")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_nor_does_an_audit_of_that_round_alone_with_the_state_in_the_file(command: Command, tmp_path: Path) -> None:
    run = written_with_state(attacked(), tmp_path)
    answer = command("audit", "check", str(run), "--round", "3")
    assert answer.code == 1
    assert answer.out.startswith("does not fit: block 4, executed here: transaction ")


def test_an_audit_of_that_round_alone_that_cannot_execute_says_so() -> None:
    audit = audit_round(attacked().archive, 3)
    assert "not executed: the state is in a node's database" in audit.left_out
    assert audit.believed[0] == "receipts of blocks 1 to 4, as they are sealed"
