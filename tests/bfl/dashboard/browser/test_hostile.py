"""Texts of strangers stay texts: in every field of the chain, the metrics, the settings, a kit and a node."""

import dataclasses
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from bfl.dashboard import decoded, facts
from tests.bfl.dashboard.browser.chromium import Visitor, visitor
from tests.bfl.dashboard.browser.hostile import ATTACK, SHOWN, HostileDashboard
from tests.bfl.dashboard.browser.served import in_this_process, served
from tests.bfl.dashboard.made import lied, line, write_run

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PATHS = (
    "/", "/rounds", "/round/2", "/network", "/network?round=1", "/blocks", "/block/3", "/tx/0x00", "/participants",
    "/device/1", "/server/1", "/offences", "/offence/a", "/audit", "/compare", "/search?q=x", "/report",
)  # fmt: skip
EVERYTHING = """() => {
    const found = [];
    const walker = document.createTreeWalker(document, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const at = walker.currentNode;
        if (at.nodeType === Node.TEXT_NODE) found.push(at.data);
        else for (const each of at.attributes) found.push(each.value);
    }
    return found;
}"""
ADDRESSES = """() => [...document.querySelectorAll("[href], [src], [action], [formaction], [data]")].flatMap(
    (each) => ["href", "src", "action", "formaction", "data"].map((name) => each.getAttribute(name)).filter(Boolean))"""
NOT_SHOWN = {
    "RoundFact.block", "BlockDetail.parent", "TransactionDetail.block_hash", "FindingDetail.id", "FindingDetail.posted",
    "AuditState.head", "MachineFact.role", "Participant.name", "Said.link", "PostDetail.sender_link",
    "TransactionDetail.sender_link", "Found.url",
}  # fmt: skip
"""Fields that no page shows, or only as an address, which may be none"""


@pytest.fixture(scope="module")
def home() -> Iterator[str]:
    """A node of which nothing is true."""
    with in_this_process(HostileDashboard()) as address:
        yield address


def check_harmless(page: Page) -> None:
    """Nothing of a text became an element, a script, a style or an address."""
    assert page.locator(".injected, img, iframe, object, embed, base, style, [style*=url]").count() == 0
    assert page.evaluate("[...document.querySelectorAll('*')].flatMap((e) => e.getAttributeNames())"
                         ".filter((name) => name.startsWith('on'))") == []  # fmt: skip
    assert page.locator("script:not([src^='/static/'])").count() == 0
    assert [each for each in page.evaluate(ADDRESSES) if not re.match(r"[/#?](?![/\\])|/$", each)] == []


def texts_of(fact: type) -> set[str]:
    """Fields of a fact that hold texts."""
    types = typing.get_type_hints(fact).items()
    return {f"{fact.__name__}.{name}" for name, each in types if each is str or each == tuple[str, ...]}


def test_every_hostile_text_is_shown_as_text(somebody: Visitor) -> None:
    shown: set[str] = set()
    for path in PATHS:
        page = somebody.open(path)
        expect(page.locator("h1").first).to_be_attached()
        page.wait_for_timeout(300)  # for what scripts add
        check_harmless(page)
        found = [each for each in page.evaluate(EVERYTHING) if SHOWN in each]
        assert found, path
        shown |= {name for each in found for name in re.findall(r"([A-Z]\w+\.\w+)[ \w]* <img", each)}
    known = [each for room in (facts, decoded) for each in vars(room).values() if dataclasses.is_dataclass(each)]
    texts = {name for each in known for name in texts_of(typing.cast(type, each))}
    assert len(texts) > 50
    assert texts - shown == NOT_SHOWN


def test_what_scripts_write_is_text_too(somebody: Visitor) -> None:
    page = somebody.open("/")
    page.locator("#round").focus()
    page.keyboard.press("Home")
    expect(page.locator("#network-round")).to_have_text("1")
    expect(page.locator("[data-device='1'] title")).to_contain_text(SHOWN)
    box = page.locator("[data-chart=learning] .u-over").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 1, box["y"] + 40)
    expect(page.locator(".note.marks")).to_contain_text(SHOWN)
    page.locator("#q").fill("x")
    expect(page.locator("#found a")).to_have_count(1)  # of four places three are elsewhere
    expect(page.locator("#found a")).to_contain_text(SHOWN)
    expect(page.locator("#found a")).to_have_attribute("href", "/device/1")
    check_harmless(page)


@pytest.mark.parametrize(
    "path", ["/{}", "/round/{}", "/block/{}", "/tx/{}", "/offence/{}?x={}", "/?run={}", "/search?q={}"]
)
def test_an_address_is_a_text_as_well(browser: Browser, tmp_path: Path, path: str) -> None:
    with in_this_process(HostileDashboard()) as home, visitor(browser, home) as somebody:
        text = "<img src=x onerror=alert(1)><b class=injected>"
        page = somebody.open(path.format(quote(text, safe=""), quote(text, safe="")))
        expect(page.locator("h1").first).to_be_attached()
        check_harmless(page)
        somebody.complaints = [each for each in somebody.complaints if "status of 4" not in each]


def test_files_and_their_names_are_read_as_texts(browser: Browser, tmp_path: Path) -> None:
    """The whole way: a run folder of a stranger, in the command that people use."""
    bad = "<img src=x onerror=alert(1)><b class=injected>"
    refused = [
        {"node": f"device 1{ATTACK}", "reason": ATTACK, "detail": ATTACK},
        {"node": "device 1", "reason": ATTACK},
    ]
    lines = [
        line(number, refused=refused, offences=[lied(detail=ATTACK), {"offender": ATTACK, "kind": ATTACK}],
             absent=[ATTACK], seconds={ATTACK: 1.0}, block=ATTACK)
        for number in (1, 2)
    ]  # fmt: skip
    folder = write_run(tmp_path / bad, lines)
    with (folder / "config.toml").open("a", encoding="utf-8") as file:
        file.write(f'note = """{ATTACK.replace(chr(92), "")}"""\n')
    other = write_run(tmp_path / "other", [line(1)])
    with served(folder, other) as home, visitor(browser, home) as somebody:
        run = quote(bad, safe="")
        for path in ("/", "/round/2", "/offences", "/device/1", "/network", "/compare", "/report", "/search?q=img"):
            page = somebody.open(f"{path}{'&' if '?' in path else '?'}run={run}")
            expect(page.locator("h1").first).to_be_attached()
            page.wait_for_timeout(300)
            check_harmless(page)
            assert any(bad in each for each in page.evaluate(EVERYTHING)), path
