"""What an audit comes to: three words, what was believed, what could not be checked, and one exit code for each."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bfl.auditing.findings import Audit, audit_rounds
from bfl.auditing.glossary import WORDS, glossary_table
from bfl.auditing.verdict import believed_in, believed_of_the_last_blocks, deeds, gaps_in, misbehaving, verdict
from chain.audit.found import Inspection
from chain.errors import NodeUnreachableError
from chain.wire.address import Address
from edge_servers.founding.simulated import START_S, what_is_simulated
from edge_servers.replay.offences import DERIVED, FALSE_FLAG, WORD, Offence
from tests.bfl.conftest import Command
from tests.bfl.runs import environment
from tests.chain.small_chain import StoredChain, story
from tests.edge_servers.audited_chain import LIES, chain


def offence(name: str, told: str, *accusers: str) -> Offence:
    found = Offence(Address(bytes(20)), name, "iterate", 17, bytes(32), bytes(32), "", verdict=told)
    return replace(found, flagged_by=accusers)


# --- three words


def test_a_chain_fits_and_those_who_misbehaved_are_counted_once() -> None:
    lies = [offence("server 1", DERIVED, "server 0"), offence("server 1", DERIVED), offence("server 2", DERIVED)]
    assert verdict([]) == "fits"
    assert verdict(lies[:1]) == "fits, but 1 participant misbehaved"
    assert verdict(lies) == "fits, but 2 participants misbehaved"
    assert verdict([], ["5 blocks are pruned"]) == "fits, as far as it could be checked"
    assert verdict(lies, ["pruned"]) == "fits, but 2 participants misbehaved, as far as it could be checked"


def test_a_false_flag_is_its_accusers_deed_and_a_word_convicts_nobody() -> None:
    assert misbehaving([offence("server 1", FALSE_FLAG, "server 0", "server 3")]) == {"server 0", "server 3"}
    assert misbehaving([offence("server 1", WORD, "server 0", "server 3")]) == set()


def test_beside_the_verdict_stands_who_did_what_and_what_came_of_it() -> None:
    lie = replace(offence("server 1", DERIVED, "server 0"), round=5, excluded_through=15)
    again = replace(lie, round=3, excluded_through=None)
    twice = replace(again, kind="equivocation")
    false = replace(offence("server 1", FALSE_FLAG, "server 0"), round=7)
    absent = replace(offence("server 2", DERIVED), kind="absent")
    assert deeds([lie, again, twice, absent]) == [
        "server 1 in rounds 3, 5: a wrong iterate, two posts for one slot; excluded through round 15"
    ]
    assert deeds([false]) == ["server 0 in round 7; accused somebody of what is right"]
    assert deeds([offence("server 1", WORD, "server 0"), absent]) == []


def test_nobody_reads_that_a_chain_fits_without_reading_who_lied(command: Command, tmp_path: Path) -> None:
    run = str(chain(LIES).written(tmp_path))
    whole, alone = (command("audit", "check", run, *more).out for more in ([], ["--round", "3"]))
    assert "│ misbehaved     │ server 1 in round 1: a wrong iterate; excluded through round" in whole
    assert "server 2 in round 2: two posts for one slot" in whole
    assert "│ excluded       │ server 1, for what it did before: bfl audit why 'server 1'" in alone
    assert whole.rstrip().endswith("What the words mean: the same command with --explain")


def test_what_was_believed_is_said_line_by_line() -> None:
    audit = audit_rounds(chain("wrong-model@1:server=leader").archive, execute=False)
    assert (
        believed_in(audit)
        == audit.believed
        == [
            "receipts of 4 blocks: nothing was executed (--no-execute)",
            "of them a majority of the servers endorsed those up to block 4",
            "servers, about 1 posts that are not on the chain",
        ]
    )
    assert audit_rounds(chain().archive).believed == []


def test_what_rests_on_few_servers_is_said() -> None:
    final, open_, alone = (
        Inspection(blocks=5, final=last, signed=signed) for last, signed in ((4, (2, 3)), (2, (1, 3)), (4, (1, 1)))
    )
    assert believed_of_the_last_blocks(final) == []
    assert believed_of_the_last_blocks(open_) == [
        "blocks 3 to 4, not final: 1 of 3 servers signed the last one, no majority"
    ]
    assert believed_of_the_last_blocks(alone) == ["the only server: its key alone makes a block final"]


def test_a_founded_chain_without_rounds_has_no_model_to_derive(command: Command, tmp_path: Path) -> None:
    run = replace(chain(), blocks=chain().blocks[:2]).written(tmp_path)
    answer = command("audit", "check", str(run))
    assert (answer.code, answer.err) == (2, "error: no round is sealed yet: there is no model to derive again\n")


def test_a_chain_whose_founding_is_pruned_is_not_judged(command: Command, tmp_path: Path) -> None:
    gone = {each.digest for post in chain().posts(1) for each in post.commitments}
    left = {digest: payload for digest, payload in chain().payloads.items() if digest not in gone}
    answer = command("audit", "check", str(replace(chain(), payloads=left).written(tmp_path)))
    assert answer.code == 2
    assert "cannot be derived again: the founding parameters or model 0 are not here" in answer.out


def test_gaps_are_told_with_what_helps() -> None:
    audit = Audit()
    audit.found.pruned, audit.found.blocks, audit.obstacle = [3], 5, "because"
    first, second = gaps_in(audit)
    assert first.startswith("1 of 5 blocks are pruned: their models could not be derived again; `bfl chain fetch`")
    assert second == "no model could be derived again: because"


def test_a_node_that_falls_silent_while_payloads_are_read_is_no_verdict(command: Command) -> None:
    class Silent(StoredChain):
        def payload(self, digest: bytes) -> bytes | None:
            raise NodeUnreachableError("no node answers")

    with pytest.raises(NodeUnreachableError):
        audit_rounds(Silent(chain().blocks, chain().genesis))


def test_without_py_evm_the_verdict_says_that_receipts_were_believed(tmp_path: Path) -> None:
    chain().written(tmp_path)
    code = (
        "import sys; from tests.chain.light_device import Missing; sys.meta_path.insert(0, Missing('eth'));"
        "sys.argv = ['bfl', 'audit', 'check', '.']; from bfl.cli import main; main()"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "receipts of 4 blocks: nothing was executed (py-evm is not installed)" in done.stdout


# --- simulated keys and clock


def test_simulated_keys_and_a_simulated_clock_are_told_by_anybody() -> None:
    founding, genesis = chain().founding, chain().genesis
    assert genesis.timestamp == START_S
    assert what_is_simulated(founding, genesis) == "simulated keys and clock"
    assert what_is_simulated(founding, replace(genesis, timestamp=START_S + 1)) == "simulated keys"
    servers = (Address(b"\1" * 20), *founding.network.servers[1:])
    one_real = replace(founding, network=replace(founding.network, servers=servers))
    assert what_is_simulated(one_real, genesis) == "simulated keys (8 of 9) and clock"
    devices = tuple(
        replace(device, address=Address(bytes([device.index + 9] * 20))) for device in founding.network.devices
    )
    real = replace(founding.network, servers=tuple(Address(bytes([m + 1] * 20)) for m in range(4)), devices=devices)
    founded = replace(genesis, timestamp=START_S + 1, founder="0x" + "22" * 20)
    assert what_is_simulated(replace(founding, network=real), founded) == ""


def test_an_audit_says_that_keys_and_clock_are_simulated(command: Command, tmp_path: Path) -> None:
    answer = command("audit", "check", str(chain().written(tmp_path)))
    assert "simulated keys and clock: they follow from the settings, so anybody could have signed this" in answer.out


# --- words


def test_explain_adds_the_words_that_were_used(command: Command, tmp_path: Path) -> None:
    run = str(chain(LIES).written(tmp_path))
    plain, explained = (command("audit", "check", run, *more) for more in ([], ["--explain"]))
    assert (plain.code, explained.code) == (0, 0)
    assert "\nwords" not in plain.out
    told = explained.out.split("\nwords")[1]
    for word in ("seal", "link", "digest", "receipt", "state root", "believed", "flag", "excluded", "repaired"):
        assert re.search(rf"│ {word} +│ {re.escape(WORDS[word][:20])}", told), word
    assert "pruned" not in told.split("│")[1::3]


def test_explain_goes_with_the_evidence_too(command: Command, tmp_path: Path) -> None:
    answer = command("audit", "why", "server 1", str(chain(LIES).written(tmp_path)), "--explain")
    assert "│ iterate " in answer.out.split("\nwords")[1]


def test_every_word_of_the_tables_is_known_and_explained_in_one_line() -> None:
    asked = [
        "seal",
        "link",
        "digest",
        "receipt",
        "endorsed",
        "believed",
        "virtual",
        "pruned",
        "flag",
        "excluded",
        "final",
    ]
    assert set(asked) | {"state root"} <= WORDS.keys()
    assert all(len(told) < 110 and "\n" not in told for told in WORDS.values())
    assert glossary_table("nothing of that kind") is None
    found = glossary_table("two seals, flagged")
    assert found is not None
    assert found.row_count == 1


def test_another_kind_of_chain_is_not_called_simulated(command: Command, tmp_path: Path) -> None:
    story().write(tmp_path)
    assert "simulated" not in command("audit", "check", str(tmp_path)).out
