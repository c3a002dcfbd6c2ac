"""What an audit tells of a chain: who did what, what was wrong, what came of every flag; `audit check` and `why`."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from bfl.auditing.findings import Audit, audit_rounds, findings_of
from chain.errors import RevertedError
from chain.protocol.contract import encode_call
from chain.protocol.slots import Slot, iterate_slot
from chain.wire.address import Address
from chain.wire.transactions import Envelope, Transaction, decode_transaction, sign_transaction
from edge_servers.replay.audit import AuditError, DerivedRound
from edge_servers.replay.offences import DERIVED, FALSE_FLAG, WORD, Offence
from tests.bfl.auditing.tables_shown import rows
from tests.bfl.conftest import Command
from tests.bfl.runs import HINT
from tests.chain.small_chain import story
from tests.edge_servers.audited_chain import (
    LIES,
    Chain,
    Extra,
    chain,
    derived,
    rewritten,
    with_other_iterate,
    with_other_model,
)

LEADERS = "wrong-model@1:server=leader; silent-leader@2:server=leader,phase=model"
OMISSION = "omitted-gradient@2:server=leader"


def audit_of(found: Chain) -> Audit:
    return audit_rounds(found.archive)


def named(finding: Offence) -> tuple[int, str, str, int | None, str]:
    return finding.round, finding.name, finding.kind, finding.step, finding.verdict


def followers(of: Chain) -> list[Address]:
    """The servers that did not lead the last round."""
    return [server for server in of.founding.network.servers if server != of.blocks[-1].header.coinbase]


# --- rounds


def test_a_round_says_who_planned_trained_offloaded_aggregated_led_and_sealed() -> None:
    each = audit_of(chain()).rounds[2]
    assert {each.planned_by, each.closed_by, each.led_by} == {chain().leader}
    assert each.sealed_by.startswith("device ")
    assert {trained.name for trained in each.trained} == {"server 0", "device 1", "device 2", "device 3"}
    assert all(trained.is_counted and trained.iterations == 1 for trained in each.trained)
    assert each.plan.assignment == (0, -1, -1, -1)
    assert each.aggregated == ("server 0", "server 1", "server 2", "server 3")
    assert (each.virtual, each.refused, each.findings) == ((), (), ())
    assert set(each.digests) == {"plan", "close", "model"}


def test_a_leader_that_leaves_out_a_gradient_is_excluded_and_the_next_attempt_counts_it() -> None:
    each = audit_of(chain(OMISSION)).rounds[1]
    assert all(trained.is_counted for trained in each.trained)
    (finding,) = each.findings
    assert named(finding)[2:] == ("close", None, WORD)
    assert len(finding.flagged_by) == 3
    assert finding.excluded_through == 12
    assert (each.attempt, each.passed_over) == (1, (finding.name,))
    assert finding.name not in (each.planned_by, each.closed_by, each.led_by)


def test_an_audit_tells_how_far_it_is() -> None:
    seen: list[tuple[int, int]] = []
    audit = audit_rounds(chain().archive, lambda done, total: seen.append((done, total)))
    assert [each.round for each in audit.rounds] == [1, 2, 3]
    assert (audit.obstacle, audit.found.blocks, seen) == ("", 5, [(n, 5) for n in range(1, 6)])


# --- findings


def test_a_wrong_iterate_is_flagged_justly_and_its_distance_is_measured() -> None:
    first = audit_of(chain(LIES)).findings[0]
    assert named(first) == (1, "server 1", "iterate", 1, DERIVED)
    assert sorted(first.flagged_by) == ["server 0", "server 2", "server 3"]
    assert first.excluded_through == 11
    assert first.off_by is not None
    assert 0 < first.off_by[0] < first.off_by[1]
    assert first.found != first.expected


def test_an_iterate_that_is_three_units_off_is_off_by_three_times_2_to_the_minus_24() -> None:
    forged, liar = with_other_iterate(chain(), step=2, by=3)
    (finding,) = audit_of(forged).findings
    assert (finding.offender, finding.step, finding.flagged_by) == (liar, 2, ())
    assert finding.off_by == (3 / 2**24, 3 / 2**24)


def test_two_signed_posts_for_one_slot_are_recovered_from_the_flag() -> None:
    found = [f for f in audit_of(chain(LIES)).findings if f.round == 2]
    assert [named(each) for each in found] == [(2, "server 2", "equivocation", None, DERIVED)]
    assert found[0].detail == "server 2 signed two different posts for one slot (step 1 of round 2)"
    assert found[0].found != found[0].expected


@pytest.mark.parametrize("part", ["first_signature", "second_signature", "first", "second"])
def test_evidence_of_equivocation_that_somebody_has_touched_is_a_false_flag(part: str) -> None:
    round_ = derived(chain(LIES))[1]
    (finding,) = findings_of(_with_touched(round_, part))
    assert finding.verdict == FALSE_FLAG


def _with_touched(round_: DerivedRound, part: str) -> DerivedRound:
    posts = []
    for post in round_.posts:
        if post.call is not None and post.call.name == "flag_equivocation":
            touched = bytearray(post.call[part])
            touched[40] ^= 1
            arguments = dict(post.call.arguments) | {part: bytes(touched)}
            posts.append(replace(post, call=replace(post.call, arguments=arguments)))
        else:
            posts.append(post)
    return replace(round_, posts=posts)


def test_a_model_that_was_dropped_is_the_word_of_those_who_saw_it() -> None:
    (found,) = audit_of(chain(LEADERS)).findings
    assert (found.round, found.kind, found.verdict) == (1, "model", WORD)
    assert found.detail.endswith("is on the chain: the word of 3 of 4 servers")


def test_a_leader_that_posts_no_model_is_passed_over_and_accused_of_nothing() -> None:
    liar, silent, _ = audit_of(chain(LEADERS)).rounds
    assert [(each.attempt, len(each.passed_over)) for each in (liar, silent)] == [(1, 1), (1, 1)]
    assert silent.findings == ()
    assert silent.passed_over[0] not in (silent.planned_by, silent.led_by)


def flagged(slot: int, sent: bytes = b"") -> tuple[Chain, Offence]:
    """One follower flags another one in the last round of an honest chain."""
    accuser, victim, *_ = followers(chain())
    posts = [p for p in chain().posts(4) if p.sender == victim and p.call is not None]
    hashes = {Slot.ITERATE + p.call["step"]: p.transaction.hash for p in posts if p.call and p.call.name == "iterate"}
    evidence = sent or hashes.get(slot, b"\7" * 32)
    flag: Extra = (accuser, "flag", (3, victim, slot, evidence, b"\1" * 32))
    forged = rewritten(chain(), {}, extra=[flag])
    (finding,) = audit_of(forged).findings
    assert finding.offender == victim
    assert finding.flagged_by == (chain().founding.network.name(accuser),)
    assert finding.excluded_through is None
    return forged, finding


def test_a_flag_against_an_iterate_that_is_right_is_a_false_flag() -> None:
    _, finding = flagged(iterate_slot(1))
    assert finding.verdict == FALSE_FLAG
    assert finding.detail.endswith("is what the replay gives")


def test_a_flag_for_a_step_that_nobody_owes_is_a_false_flag() -> None:
    _, finding = flagged(iterate_slot(9))
    assert finding.verdict == FALSE_FLAG
    assert finding.detail.endswith("owed no iterate of step 9")


def test_a_flag_for_an_iterate_that_is_not_there_needs_a_post_that_it_is_about() -> None:
    with pytest.raises(RevertedError, match="a flag needs the post it is about"):
        flagged(iterate_slot(1), sent=bytes(32))


def test_a_flag_about_another_transaction_than_the_sealed_one_is_the_accusers_word() -> None:
    _, finding = flagged(iterate_slot(1), sent=b"\5" * 32)
    assert finding.verdict == WORD


def test_a_flag_about_a_model_of_somebody_who_has_none_is_the_accusers_word() -> None:
    _, finding = flagged(Slot.MODEL)
    assert (finding.verdict, finding.found) == (WORD, b"")


def test_two_posts_that_name_the_same_payload_and_differ_otherwise_are_an_equivocation() -> None:
    """The same iterate for two closes, as the registry sees it too."""
    accuser, liar, *_ = followers(chain())
    pair = [_signed_iterate(liar, close) for close in (b"\1" * 32, b"\2" * 32)]
    evidence = [part for each in pair for part in (each.unsigned, each.signature)]
    forged = rewritten(chain(), {}, extra=[(accuser, "flag_equivocation", (3, liar, *evidence))])
    (finding,) = audit_of(forged).findings
    assert (finding.offender, finding.verdict) == (liar, DERIVED)
    assert finding.detail.endswith("signed two different posts for one slot (step 1 of round 3)")


def _signed_iterate(server: Address, close: bytes) -> Transaction:
    envelope = Envelope(chain().genesis.chain_id, 99, 3_000_000, chain().genesis.registry)
    data = encode_call("iterate", 3, 0, 1, close, bytes(32), 1)
    return decode_transaction(sign_transaction(chain().accounts[server], envelope, data))


# --- pruned rounds


def without_payloads(of: Chain, number: int, *kinds: str) -> Chain:
    """The chain as somebody has it who has pruned payloads of a block."""
    gone = {
        each.digest
        for post in of.posts(number)
        if post.call is not None and post.call.name in kinds
        for each in post.commitments
    }
    return replace(of, payloads={digest: payload for digest, payload in of.payloads.items() if digest not in gone})


def test_a_round_without_its_gradients_is_not_derived_and_the_next_one_stands_on_its_model() -> None:
    audit = audit_of(without_payloads(chain(), 3, "gradient"))
    assert audit.found.pruned == [3]
    assert [each.round for each in audit.rounds] == [1, 3]
    assert audit.rounds[1].digests == audit_of(chain()).rounds[2].digests


def test_a_round_whose_model_before_it_was_pruned_cannot_be_derived() -> None:
    with pytest.raises(AuditError, match=r"block 4, .*: the model before it was pruned: `bfl chain fetch` brings it"):
        audit_of(without_payloads(chain(), 3, "gradient", "model"))


def test_an_iterate_that_nobody_kept_is_wrong_all_the_same_and_its_distance_unknown(
    command: Command, tmp_path: Path
) -> None:
    """It is judged by its digest alone (B3)."""
    forgotten = without_payloads(chain(LIES), 2, "iterate")
    first, kept = audit_of(forgotten).findings[0], audit_of(chain(LIES)).findings[0]
    assert first.off_by is None
    assert replace(first, off_by=kept.off_by) == kept
    answer = command("audit", "why", "server 1", str(forgotten.written(tmp_path)))
    assert rows(answer.out)["off by"] == "distance unknown: nobody kept the iterate"


# --- audit check


def test_check_says_how_many_rounds_follow(command: Command, tmp_path: Path) -> None:
    answer = command("audit", "check", str(chain().written(tmp_path)))
    assert (answer.code, answer.err) == (0, "")
    assert rows(answer.out)["verdict"] == "fits"
    assert rows(answer.out)["believed"] == "nothing that a chain can show"
    assert rows(answer.out)["checked"].endswith("digests, events, receipts, state roots, plans, models")
    assert rows(answer.out)["models"] == "3 of 3 rounds give their model again, bit for bit; nobody misbehaved"


def test_check_never_says_that_a_pruned_chain_fits(command: Command, tmp_path: Path) -> None:
    run = without_payloads(chain(), 3, "gradient").written(tmp_path)
    answer = command("audit", "check", str(run))
    assert answer.code == 2
    assert rows(answer.out)["verdict"] == "fits, as far as it could be checked"
    assert rows(answer.out)["not checked"].startswith("1 of 5 blocks are pruned: their models could not be derived")
    assert "1 rounds are pruned: digests and signatures only" in answer.out
    assert answer.err.startswith("error: 1 of 5 blocks are pruned: their models could not be derived again; `")
    refused = command("audit", "check", str(run), "--round", "2")
    assert "round 2 is pruned: of it digests and signatures were checked, no more" in refused.err
    assert "state roots" in rows(command("audit", "check", str(run), "--execute").out)["checked"], "payloads not needed"


def test_check_lists_who_lied_and_what_came_of_it(command: Command, tmp_path: Path) -> None:
    answer = command("audit", "check", str(chain(LIES).written(tmp_path)))
    assert answer.code == 0
    assert rows(answer.out)["verdict"] == "fits, but 2 participants misbehaved"
    assert "offences and flags" in answer.out
    for told in ("a wrong iterate", "two posts for one slot", "repaired, flagged by server", "excluded through round"):
        assert told in answer.out


def test_check_shows_one_round_by_itself(command: Command, tmp_path: Path) -> None:
    run = chain().written(tmp_path)
    found = rows(command("audit", "check", str(run), "--round", "2").out)
    assert found["offloaded"] == "device 0 to server 0"
    assert found["planned by"] == found["led by"]
    assert found["aggregated"] == "server 0, server 1, server 2, server 3 (2 steps)"
    assert found["model digest"] == "0x" + audit_of(chain()).rounds[1].digests["model"].hex()
    assert found["latency by the plan"].startswith("T ")
    answer = command("audit", "check", str(run), "--round", "4")
    assert (answer.code, answer.err) == (2, "error: found --round 4, the last sealed round is 3\n")


def test_a_forged_model_gives_exit_code_1_though_it_can_be_executed(command: Command, tmp_path: Path) -> None:
    with_other_model(chain(), tmp_path / "chain.db")
    answer = command("audit", "check", str(tmp_path), "--execute")
    assert (answer.code, answer.err) == (1, "")
    assert answer.out.startswith(f"does not fit: block 4, built by {chain().leader}: round 3: the model of ")
    assert answer.out.count("\n") == 1


def test_without_a_run_the_newest_one_with_a_chain_is_taken_and_named(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for age_s, name in enumerate(("newest", "old")):
        run = chain().written(tmp_path / "runs" / name)
        os.utime(run / "chain.db", (10_000 - age_s, 10_000 - age_s))
    (tmp_path / "runs" / "without-a-chain").mkdir()
    for arguments in (["check"], ["why", "server 1"], ["model"]):
        assert command("audit", *arguments).out.splitlines()[0] == "run: runs/newest"


def test_a_chain_of_another_kind_says_why_its_models_are_not_derived(command: Command, tmp_path: Path) -> None:
    story().write(tmp_path)
    found = rows(command("audit", "check", str(tmp_path)).out)
    told = "cannot be derived again: the founding parameters name no such network (found no kind, settings, servers, "
    assert found["models"].startswith(told)
    for arguments in (["check", str(tmp_path), "--round", "1"], ["why", "server 1", str(tmp_path)]):
        answer = command("audit", *arguments)
        assert answer.code == 2
        assert "cannot be derived again: the founding parameters name no such network" in answer.err


# --- audit why


@pytest.mark.slow
def test_why_shows_the_evidence_of_an_exclusion(command: Command, tmp_path: Path) -> None:
    run = chain(LIES).written(tmp_path)
    first = audit_of(chain(LIES)).findings[0]
    address = str(chain(LIES).founding.network.servers[1])
    for name in ("server 1", "server-1", "Server1", address, address[:12], address[2:14]):
        answer = command("audit", "why", name, str(run))
        assert (answer.code, answer.err) == (0, "")
        for told in (first.transaction_hash, first.found, first.expected):
            assert "0x" + told.hex() in answer.out
        assert "(3 of 4 servers)" in answer.out
        assert "from the flags of round 1 through round 11" in answer.out
        assert "largest |difference| " in answer.out
        assert answer.out.endswith("server 1 was accused in round 1 and excluded through round 11\n" + HINT)


def test_why_says_that_nobody_has_accused_an_honest_server(command: Command, tmp_path: Path) -> None:
    run = chain(LIES).written(tmp_path)
    answer = command("audit", "why", "server 0", str(run))
    assert (answer.code, answer.out) == (0, "nobody has accused server 0\n" + HINT)


def test_why_tells_a_device_in_which_rounds_it_did_not_count(command: Command, tmp_path: Path) -> None:
    run = chain("inflated-samples@2:device=1").written(tmp_path)
    answer = command("audit", "why", "device 1", str(run))
    assert answer.code == 0
    assert "wrong-weight" in answer.out
    assert answer.out.endswith("nobody has accused device 1; its gradient did not count in round 2\n" + HINT)


def test_why_shows_an_equivocation_and_a_word(command: Command, tmp_path: Path) -> None:
    answer = command("audit", "why", "server 2", str(chain(LIES).written(tmp_path / "lies")))
    assert "second digest" in answer.out
    forged, finding = flagged(Slot.MODEL)
    answer = command("audit", "why", str(finding.offender), str(forged.written(tmp_path / "word")))
    assert "the word of 1 of 4 servers" in answer.out
    assert answer.out.endswith("was accused in round 3, never excluded\n" + HINT)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("server 9", "nobody is called 'server 9'"),
        ("mallory", "nobody is called 'mallory'"),
        ("0x", "8 participants are meant by '0x'"),
    ],
)
def test_a_name_that_means_nobody_or_several_is_refused(
    command: Command, tmp_path: Path, name: str, message: str
) -> None:
    answer = command("audit", "why", name, str(chain().written(tmp_path)))
    assert answer.code == 2
    assert answer.err.startswith(f"error: {message}; expected server 0 to 3, device 0 to 3, or the beginning of one")
