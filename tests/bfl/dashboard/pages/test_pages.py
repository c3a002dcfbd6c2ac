"""Every page, of runs of all kinds: they are there, their links lead somewhere, and nothing in them is a script."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from bfl.dashboard.index.dashboard import Dashboard
from tests.bfl.dashboard.made import HOSTILE, attacked_run, lied, line, opened, write_run
from tests.bfl.dashboard.pages.browsing import Page, client_of

TABS = (
    "/",
    "/rounds",
    "/network",
    "/blocks",
    "/participants",
    "/offences",
    "/audit",
    "/compare",
    "/report",
    "/search?q=1",
)
MOST_TRANSACTIONS = 8


@pytest.fixture(scope="module")
def attacked() -> Dashboard:
    """A run on a chain in whose second round server 1 lies."""
    return opened(attacked_run())


def made(tmp_path: Path, name: str, count: int, **changes: object) -> Dashboard:
    return opened(write_run(tmp_path / name, [line(k) for k in range(1, count + 1)], **changes))


def crawled(client: TestClient, begin: str) -> Iterator[tuple[str, Page]]:
    """Every page that links lead to, once; of the transactions only some."""
    wanted, seen, transactions = [begin], set(), 0
    while wanted:
        place = wanted.pop()
        bare = place.partition("#")[0]
        if bare in seen or not bare:
            continue
        seen.add(bare)
        transactions += bare.startswith("/tx/")
        if (bare.startswith("/tx/") and transactions > MOST_TRANSACTIONS) or "/models/" in bare:
            continue
        answer = client.get(bare)
        assert answer.status_code == 200, (bare, answer.text[-300:])
        if answer.headers["content-type"].startswith("text/html"):
            page = Page(answer.text)
            yield bare, page
            wanted += page.links


def test_every_link_of_a_run_leads_to_a_page_that_its_policy_allows(attacked: Dashboard) -> None:
    found = dict(crawled(client_of(attacked), "/"))
    assert {place: page.refused for place, page in found.items() if page.refused and "file=1" not in place} == {}
    kinds = {place.split("/")[1].partition("?")[0] for place in found}
    assert kinds >= {
        "", "rounds", "round", "network", "blocks", "block", "tx", "participants", "device", "server", "offences",
        "offence", "audit", "compare", "report",
    }  # fmt: skip
    outside = {
        each for page in found.values() for each in (*page.links, *page.loads) if not each.startswith(("/", "#"))
    }
    assert outside == set()


def test_what_pages_load_is_there(attacked: Dashboard) -> None:
    client = client_of(attacked)
    loads = {each for tab in TABS for each in Page(client.get(tab).text).loads}
    assert {each: client.get(each).status_code for each in loads} == dict.fromkeys(loads, 200)
    assert client.get("/static/js/charts.js").headers["content-type"].startswith("text/javascript")


@pytest.mark.parametrize("count", [0, 1])
def test_a_run_that_has_hardly_begun_has_all_pages(tmp_path: Path, count: int) -> None:
    client = client_of(made(tmp_path, "young", count))
    for tab in TABS:
        answer = client.get(tab)
        assert answer.status_code == 200, (tab, answer.text[-300:])
        assert Page(answer.text).refused == [], tab


def test_a_run_without_a_chain_says_so(tmp_path: Path) -> None:
    client = client_of(made(tmp_path, "chainless", 3))
    assert "no chain" in Page(client.get("/").text).text
    assert "There is nothing to audit" in Page(client.get("/audit").text).text
    assert dict(crawled(client, "/"))["/round/2"].refused == []


def test_a_hostile_text_is_shown_and_does_nothing(tmp_path: Path) -> None:
    lie = lied(detail=HOSTILE) | {"offender": HOSTILE, "kind": HOSTILE}
    refused = [{"node": HOSTILE, "reason": HOSTILE, "detail": HOSTILE}]
    seconds = {HOSTILE: 1.0}
    lines = [line(1, offences=[lie], refused=refused, absent=[HOSTILE], seconds=seconds), line(2)]
    dashboard = opened(write_run(tmp_path / "<img src=x onerror=alert(1)>", lines))
    client = client_of(dashboard)
    for place, page in crawled(client, "/"):
        text = client.get(place).text
        assert page.refused == [] or "file=1" in place, place
        assert "<script>alert" not in text, place
        assert "<img" not in text, place
        assert not [each for each in text if ord(each) < 32 and each not in "\n\r\t"], place
        assert "\u202e" not in text, place
    assert "<script>alert(1)</script>" in Page(client.get("/round/1").text).text


def test_of_several_runs_every_link_keeps_the_one_that_is_looked_at(tmp_path: Path) -> None:
    first = write_run(tmp_path / "first", [line(1)])
    second = write_run(tmp_path / "second", [line(k, offences=[lied()]) for k in (1, 2)])
    client = client_of(opened(first, second))
    page = Page(client.get("/?run=second").text)
    inside = [each for each in page.links if each.startswith("/")]
    assert [each for each in inside if "run=second" not in each] == []
    assert client.get("/round/2?run=second").status_code == 200
    assert client.get("/round/2").status_code == 404
    compared = client.get("/compare?run=first&run=second").text
    assert compared.count(" checked>") == 2


def test_pages_of_a_table_lead_to_each_other(tmp_path: Path) -> None:
    client = client_of(made(tmp_path, "long", 60, rounds=60))
    first, second = client.get("/rounds").text, client.get("/rounds?page=2").text
    assert "1 to 50 of 60" in first
    assert "/rounds?page=2" in Page(first).links
    assert "51 to 60 of 60" in second
    assert "/rounds?page=1" in Page(second).links
    assert client.get("/rounds?page=999").text.count("51 to 60 of 60") == 1


@pytest.mark.parametrize(
    ("place", "status", "told"),
    [
        ("/round/99", 404, "found round 99, expected 1 to 3"),
        ("/round/-1", 404, "expected a whole number"),
        ("/round/1e3", 404, "expected a whole number"),
        ("/device/99", 404, "expected device 0 to 3"),
        ("/block/0", 404, "there is no chain here"),
        ("/tx/0x12", 404, "64 hexadecimal digits"),
        ("/offence/nope", 404, "expected the id of one"),
        ("/rounds?page=x", 400, "expected a whole number"),
        ("/rounds?page=٣", 400, "expected a whole number"),
        ("/network?round=0", 404, "found round 0"),
        ("/?run=nobody", 404, "expected one of"),
        (f"/search?q={'x' * 201}", 400, "expected at most 200"),
        ("/nowhere", 404, "begin at /"),
    ],
)
def test_a_wrong_request_is_refused_in_a_page(tmp_path: Path, place: str, status: int, told: str) -> None:
    answer = client_of(made(tmp_path, "short", 3)).get(place)
    page = Page(answer.text)
    assert (answer.status_code, page.refused) == (status, [])
    assert told in page.text
    assert "/" in page.links


def test_a_search_for_one_place_leads_there(attacked: Dashboard) -> None:
    client = client_of(attacked)
    answer = client.get("/search?q=round 2")
    assert (answer.status_code, answer.headers["location"]) == (303, "/round/2")
    assert {"/round/2", "/block/2", "/device/2"} <= set(Page(client.get("/search?q=2").text).links)
    assert "Nothing here is called so" in client.get("/search?q=zebra").text


def test_what_is_new_is_the_same_in_an_update_as_in_the_page(attacked: Dashboard) -> None:
    client = client_of(attacked)
    for tab in ("/", "/rounds", "/network", "/blocks", "/participants", "/offences", "/audit"):
        whole, update = client.get(tab).text, client.get(f"{tab}?live=1").text
        live = [each for each in Page(whole).ids if each.startswith("live-")]
        assert live == [each for each in Page(update).ids if each.startswith("live-")], tab
        assert len(update) <= len(whole)


def test_an_audit_begins_by_our_button_alone(attacked: Dashboard) -> None:
    client = client_of(attacked)
    answer = client.get("/audit?start=1")
    assert (answer.status_code, attacked.audit.version) == (200, 0)
    assert "Not checked yet" in Page(answer.text).text
    try:
        answer = client.get("/audit?start=1", headers={"sec-fetch-site": "same-origin"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/audit")
        assert attacked.audit.state.status == "running"
        assert "Checking" in Page(client.get("/audit").text).text
    finally:
        attacked.audit.stop()


def test_the_evidence_of_a_lie_is_told_in_words(attacked: Dashboard) -> None:
    client = client_of(attacked)
    offence = attacked.snapshot.offences[0]
    page = Page(client.get(f"/offence/{offence.id}").text)
    for words in ("server 1", "wrong iterate", "posted", "expected", "flagged by", "server 0", "might not post"):
        assert words in page.text, words
    assert [each for each in page.links if each.startswith("/tx/0x")]
    assert "/block/3" in page.links


def test_a_transaction_is_told_by_names_and_units(attacked: Dashboard) -> None:
    client = client_of(attacked)
    links = [each for each in Page(client.get("/block/3").text).links if each.startswith("/tx/")]
    pages = [Page(client.get(each).text).text for each in dict.fromkeys(links)]
    gradients = [text for text in pages if "gradient of device" in text]
    assert gradients
    assert all("samples" in text and " B " in text for text in gradients)


def test_the_report_of_the_page_has_no_style_of_its_own_and_the_file_has(attacked: Dashboard) -> None:
    client = client_of(attacked)
    served, file = client.get("/report"), client.get("/report?file=1")
    assert Page(served.text).refused == []
    assert "<style>" in file.text
    assert "attachment" in file.headers["content-disposition"]
    assert client.get("/report.css").headers["content-type"].startswith("text/css")
