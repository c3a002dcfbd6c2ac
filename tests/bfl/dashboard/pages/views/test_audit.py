"""The audit in words, in each of its states."""

from dataclasses import replace

import pytest

from bfl.dashboard.decoded import AuditState, FindingDetail, Said
from bfl.dashboard.pages.views.audit import audit_view
from bfl.dashboard.pages.views.links import Links
from tests.bfl.dashboard.pages.browsing import block, fact, lie, snapshot

KNOWN = snapshot([fact(1), fact(2, offences=(lie(2),))], [block(n) for n in range(4)])


@pytest.mark.parametrize(
    ("state", "headline", "tone", "can_start"),
    [
        (AuditState("impossible", "no chain"), "There is nothing to audit", "calm", False),
        (AuditState("not started", "nobody"), "Not checked yet", "calm", True),
        (AuditState("running", "checked through block 3 of 9", 4, 10), "Checking", "calm", False),
        (AuditState("failed", "broken"), "The audit could not be made", "warn", True),
        (AuditState("finished", "", verdict="fits", exit_code=0), "fits", "good", True),
        (AuditState("finished", "", verdict="does not fit", exit_code=1), "does not fit", "bad", True),
        (AuditState("finished", "", verdict="fits, as far as it", exit_code=2), "fits, as far as it", "warn", True),
    ],
)
def test_each_state_has_its_words(state: AuditState, headline: str, tone: str, can_start: bool) -> None:
    view = audit_view(state, KNOWN, Links())
    assert (view.headline, view.tone, view.can_start) == (headline, tone, can_start)
    assert bool(view.meaning) == (state.status == "finished")


def test_findings_lead_to_their_evidence_and_to_nothing_where_there_is_none() -> None:
    found = FindingDetail(
        "2-server-1-3", 2, "server 1", "wrong", "derived again", ("server 0",), 0.5, 1.0, "", "0xcd", 4
    )
    state = AuditState(
        "finished", "", verdict="fits, but 1 participant misbehaved", exit_code=0,
        findings=(found, replace(found, id="9-x", verdict="false flag", off_by=None)), rows=(Said("blocks", "4"),),
        seconds=1.5, head=block(2).hash,
    )  # fmt: skip
    view = audit_view(state, KNOWN, Links())
    assert [(row[2].href, row[3].tone, row[4].text) for row in view.findings.rows] == [
        ("/offence/2-server-1-3", "bad", "0.500"), ("", "warn", ""),
    ]  # fmt: skip
    assert (view.took, view.is_stale) == ("1.50 s", True)
    assert not audit_view(replace(state, head=block(3).hash), KNOWN, Links()).is_stale


def test_the_same_can_be_had_by_hand() -> None:
    commands = dict(audit_view(AuditState("not started", ""), KNOWN, Links()).commands)
    assert commands["the same, in a terminal"] == "bfl audit check runs/mine"
    node = replace(KNOWN, about=replace(KNOWN.about, kind="node", place="http://127.0.0.1:8545"))
    told = dict(audit_view(AuditState("not started", ""), node, Links()).commands)
    assert told["the same, in a terminal"] == "bfl audit check --rpc http://127.0.0.1:8545"
