"""Who was away is told as absent, never as misbehaving (D3.6); and which attempt a round needed (D3.1)."""

from dataclasses import replace
from pathlib import Path

import pytest

from bfl.auditing.findings import Audit, audit_rounds, findings_of
from bfl.auditing.verdict import misbehaving, verdict
from chain.audit.archive import FileArchive
from chain.client.posts import Flag
from chain.protocol.endorsements import Domain, endorse
from chain.protocol.passes import Named, Signed, sign_pass
from chain.protocol.slots import iterate_slot
from chain.wire.address import Address
from edge_servers.replay.offences import ABSENT, DERIVED, WORD
from tests.bfl.auditing.tables_shown import rows
from tests.bfl.conftest import Command
from tests.bfl.runs import HINT
from tests.edge_servers.audited_chain import Chain, chain, derived

AWAY = "withheld-iterate@2-3:server=1,step=1"
SLOW = "slow-leader@2:server=leader"
SIGNERS = "double-signing@2:server=leader"


def audit_of(found: Chain) -> Audit:
    return audit_rounds(found.archive)


def test_a_server_that_posts_no_iterates_was_absent_and_did_nothing_wrong() -> None:
    audit = audit_of(chain(AWAY))
    assert audit.findings == []
    assert audit.absent_in == {"server 1": [2, 3]}
    assert verdict(audit.findings) == "fits"
    (first, *_) = audit.rounds[1].absences
    assert (first.kind, first.round, first.flagged_by, first.excluded_through) == (ABSENT, 2, (), None)
    assert misbehaving(audit.rounds[1].absences) == set()
    assert "server 1" not in audit.rounds[1].aggregated


def test_check_tells_absences_in_a_row_of_their_own(command: Command, tmp_path: Path) -> None:
    answer = command("audit", "check", str(chain(AWAY).written(tmp_path)), "--explain")
    found = rows(answer.out)
    assert answer.code == 0
    assert found["verdict"] == "fits"
    assert found["absent"].startswith(("server 1 was absent in 2 rounds", "posted nothing in its time"))
    assert "server 1 was absent in 2 rounds" in answer.out
    assert "a crash is no lie" in answer.out
    assert found["models"].endswith("nobody misbehaved")
    assert "offences and flags" not in answer.out


def test_one_round_tells_who_was_absent_in_it(command: Command, tmp_path: Path) -> None:
    run = str(chain(AWAY).written(tmp_path))
    found = rows(command("audit", "check", run, "--round", "2").out)
    assert (found["verdict"], found["absent"]) == ("fits", "server 1: computed by the others")
    assert "absent" not in rows(command("audit", "check", run, "--round", "1").out)


def test_why_tells_absences_as_absences(command: Command, tmp_path: Path) -> None:
    answer = command("audit", "why", "server 1", str(chain(AWAY).written(tmp_path)))
    assert (answer.code, answer.err) == (0, "")
    assert "server 1 was absent: no offence" in answer.out
    assert "iterates of step 1, 2; the others computed them" in answer.out
    assert answer.out.endswith("nobody has accused server 1; it was absent in round 2, 3, which is no offence\n" + HINT)


def test_a_flag_about_an_iterate_that_is_not_there_is_its_accusers_word() -> None:
    """A flag names some transaction; where none is on the chain nobody can say what it was."""
    round_ = derived(chain(AWAY))[1]
    away, accuser = (chain(AWAY).founding.network.servers[m] for m in (1, 2))
    flag = Flag(2, away, accuser, iterate_slot(1), b"\7" * 32, b"\1" * 32)
    (finding,) = findings_of(replace(round_, record=replace(round_.record, flags=(flag,))))
    assert (finding.verdict, finding.kind, finding.flagged_by) == (WORD, "iterate", ("server 2",))
    assert misbehaving([finding]) == set()


# --- attempts


def test_a_leader_that_is_too_late_is_passed_over_and_accused_of_nothing(command: Command, tmp_path: Path) -> None:
    audit = audit_of(chain(SLOW))
    (late,) = audit.rounds[1].passed_over
    assert [each.attempt for each in audit.rounds] == [0, 1, 0]
    assert (audit.findings, audit.absent_in) == ([], {})
    assert audit.rounds[1].led_by != late
    run = str(chain(SLOW).written(tmp_path))
    told = f"round 2 needed attempt 1: {late} was passed over"
    assert rows(command("audit", "check", run).out)["attempts"] == told
    assert rows(command("audit", "check", run, "--round", "2").out)["attempt"] == told
    why = command("audit", "why", late, run).out
    assert why == f"nobody has accused {late}; it was passed over as leader in round 2\n" + HINT


def test_where_every_round_ended_with_its_first_attempt_nothing_is_said(command: Command, tmp_path: Path) -> None:
    found = rows(command("audit", "check", str(chain().written(tmp_path))).out)
    assert not {"absent", "attempts"} & found.keys()


# --- two signatures


@pytest.mark.parametrize(
    ("attack", "kind"),
    [(SIGNERS, "double_endorsement"), ("broken-pass@2:server=1", "broken_pass")],
    ids=["double-signing", "broken-pass"],
)
def test_who_signs_what_no_honest_server_does_is_convicted_by_it(
    attack: str, kind: str, command: Command, tmp_path: Path
) -> None:
    (finding,) = audit_of(chain(attack)).findings
    assert (finding.kind, finding.verdict, finding.round, finding.signed_round) == (kind, DERIVED, 3, 2)
    assert (len(finding.flagged_by), finding.excluded_through) == (3, 13)
    answer = command("audit", "check", str(chain(attack).written(tmp_path)))
    assert rows(answer.out)["verdict"] == "fits, but 1 participant misbehaved"
    why = command("audit", "why", finding.name, str(tmp_path)).out
    assert "first digest" in why
    assert why.endswith(f"{finding.name} was accused in round 3 and excluded through round 13\n" + HINT)


@pytest.mark.parametrize("part", ["first_signature", "second", "second_signature"])
@pytest.mark.parametrize("attack", [SIGNERS, "broken-pass@2:server=1"])
def test_evidence_of_two_signatures_that_somebody_has_touched_convicts_nobody(attack: str, part: str) -> None:
    round_ = derived(chain(attack))[2]
    posts = []
    for post in round_.posts:
        if post.call is not None and post.call.name == "flag_signatures":
            touched = bytearray(post.call[part])
            touched[40] ^= 1
            arguments = {**post.call.arguments, part: bytes(touched)}
            posts.append(replace(post, call=replace(post.call, arguments=arguments)))
        else:
            posts.append(post)
    (finding,) = findings_of(replace(round_, posts=posts))
    assert finding.verdict != DERIVED


class _Beside:
    """An archive with signatures of its own beside the chain."""

    def __init__(self, found: Chain, *pairs: tuple[Signed, Signed]) -> None:
        self._archive, self._pairs = found.archive, list(pairs)

    def __getattr__(self, name: str) -> object:
        return getattr(self._archive, name)

    def contradictions(self) -> list[tuple[Signed, Signed]]:
        return self._pairs


def two_blocks(found: Chain, server: Address, round_: int) -> tuple[Signed, Signed]:
    key, rules = found.accounts[server], Domain.of(found.genesis)
    first, second = (endorse(key, rules, round_, 0, bytes([n]) * 32, 0) for n in (1, 2))
    return first, second


def test_a_pair_beside_the_chain_counts_unless_that_very_round_was_flagged() -> None:
    """Who was flagged for round 2 may have signed twice in round 3 too."""
    found = chain(SIGNERS)
    (flagged,) = audit_of(found).findings
    same, other = (two_blocks(found, flagged.offender, round_) for round_ in (2, 3))
    audit = audit_rounds(_Beside(found, same, other))  # type: ignore[arg-type]
    assert [(each.round, each.signed_round) for each in audit.findings] == [(3, 2), (3, 3)]
    assert audit.findings[1].detail.endswith("(round 3; the signatures lie beside the chain)")
    assert verdict(audit.findings) == "fits, but 1 participant misbehaved"


def test_a_pass_beside_the_chain_that_hides_a_signature_is_found() -> None:
    found = chain()
    server = found.founding.network.servers[2]
    key, rules = found.accounts[server], Domain.of(found.genesis)
    block = endorse(key, rules, 2, 0, b"\1" * 32, 0)
    hiding, telling = sign_pass(key, rules, 2, 1, None, 0), sign_pass(key, rules, 2, 1, Named(0, b"\1" * 32), 0)
    audit = audit_rounds(_Beside(found, (block, hiding), (block, telling)))  # type: ignore[arg-type]
    assert [(each.name, each.kind, each.round) for each in audit.findings] == [("server 2", "broken_pass", 2)]


def test_a_run_folder_is_read_as_the_chain_is(tmp_path: Path) -> None:
    archive = FileArchive(chain(AWAY).written(tmp_path))
    assert audit_rounds(archive).absent_in == audit_of(chain(AWAY)).absent_in
    archive.close()
