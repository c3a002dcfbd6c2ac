"""The evidence of an offence, in words."""

from dataclasses import replace
from pathlib import Path

from bfl.dashboard.decoded import Evidence, FlagDetail, Said
from bfl.dashboard.pages.views.links import Links
from bfl.dashboard.pages.views.offences import offence_table, offence_view, offences_page, place_in_shell
from bfl.dashboard.reading.run_files import about_run
from tests.bfl.dashboard.pages.browsing import fact, lie, snapshot

HASH = "0x" + "ab" * 32


def evidence(**changes: object) -> Evidence:
    given: dict[str, object] = {
        "block": 3, "transaction": HASH, "posted": HASH, "expected": "0x" + "cd" * 32,
        "flags": (FlagDetail("server 0", HASH, ""),), "flagged_by": ("server 0", "server 2"), "excluded_from": 3,
        "excluded_through": 12, "steps": (Said("sealed", "in block 3", "/block/3"), Said("x", "y", "//evil")),
    }  # fmt: skip
    return Evidence(lie(2), "told", "chain", **(given | changes))  # type: ignore[arg-type]


def test_a_command_takes_nobodys_name_for_an_order() -> None:
    named = replace(lie(2), offender='server 1"; rm -rf "')
    assert (
        offence_view(replace(evidence(), offence=named), Links(), "x").proof
        == "bfl audit why 'server 1\"; rm -rf \"' x"
    )
    shown = about_run("run", Path("a folder; ls"), {})
    assert place_in_shell(shown) == "'a folder; ls'"
    assert place_in_shell(replace(shown, kind="node", place="http://a?b&c")) == "--rpc 'http://a?b&c'"


def test_evidence_says_what_who_how_far_and_how_long() -> None:
    view = offence_view(evidence(), Links(), "runs/mine")
    facts = {name: value for name, value, _ in view.facts}
    assert facts["posted"].title == HASH
    assert facts["posted"].href == f"/tx/{HASH}"
    assert facts["off by"].href == "/audit"
    assert [each.text for each in facts["flagged by"].rest] == ["server 0", "server 2"]
    assert facts["block"].href == "/block/3"
    assert view.what == "wrong iterate"
    assert view.exclusion.startswith("It might not post from round 3 through round 12.")
    assert view.steps == (("sealed", "in block 3", "/block/3"), ("x", "y", ""))
    assert view.proof == "bfl audit why 'server 1' runs/mine"
    assert view.round_href == "/round/2"
    assert view.flags.rows[0][2].text == "another post, not named"


def test_an_audit_tells_how_far_off_it_was() -> None:
    found = Evidence(lie(2), "told", "audit", off_by=0.25, off_by_norm=1.5, verdict="derived again")
    view = offence_view(found, Links(), "runs/mine")
    facts = {name: value.text for name, value, _ in view.facts}
    assert (facts["off by"], facts["off by, in all"], view.is_audited) == ("0.250", "1.500", True)
    assert view.exclusion.startswith("It was not excluded")


def test_an_unknown_kind_is_shown_by_its_name() -> None:
    row = offence_table([lie(2, kind="new_thing", step=None, excluded_through=None)], Links()).rows[0]
    assert [each.text for each in row] == [
        "2",
        "server 1",
        "new thing",
        "–",
        "wrong iterate of step 3",
        "",
        "evidence ›",
    ]


def test_offences_come_in_pages() -> None:
    known = snapshot([fact(k, offences=(lie(k, id=f"{k}-x"),)) for k in range(1, 6)])
    table = offences_page(known, Links(), 2, 2)
    assert [row[0].text for row in table.rows] == ["3", "4"]
    assert table.pager is not None
    assert table.pager.told == "3 to 4 of 5"
