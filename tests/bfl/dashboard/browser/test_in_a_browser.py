"""The page in Chromium: live, by keyboard, in both themes, on a phone, without scripts; its console stays silent."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bfl.dashboard.browser.chromium import Visitor, browser, served
from tests.bfl.dashboard.made import HOSTILE, attacked_run, lied, line, write_run

pytestmark = pytest.mark.browser
Tabs = Callable[..., Any]
PAGES = (
    "/", "/rounds", "/round/2", "/network", "/blocks", "/block/3", "/participants", "/device/1", "/server/1",
    "/offences", "/audit", "/compare", "/search?q=2", "/report",
)  # fmt: skip
PHONE = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def tabs() -> Iterator[Tabs]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def attacked(tabs: Tabs) -> Iterator[str]:
    """A finished run on a chain, with a lie in it."""
    with served(attacked_run()) as (address, _):
        yield address


def has(place: Any, text: str) -> None:
    """Waits for a text; the page's policy forbids to wait for a function."""
    from playwright.sync_api import expect

    expect(place).to_contain_text(text, timeout=15_000)


def test_every_page_is_silent_and_fits_a_phone(tabs: Tabs, attacked: str) -> None:
    visitor = Visitor(tabs, attacked, viewport=PHONE)
    has(visitor.open("/").locator("#connection"), "live")
    for path in PAGES:
        tab = visitor.open(path)
        assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path
    assert visitor.troubles == []


def test_a_run_that_goes_on_is_followed(tabs: Tabs, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "live", [])
    metrics = folder / "metrics.jsonl"
    with served(folder) as (address, _):
        visitor = Visitor(tabs, address)
        tab = visitor.open("/")
        has(tab.locator(".progress"), "0 / 10")
        for count, each in enumerate((line(1), line(2, offences=[lied(step=1)]), line(3)), 1):
            with metrics.open("a", encoding="utf-8") as file:
                file.write(json.dumps(each) + "\n")
            has(tab.locator(".progress"), f"{count} / 10")
            has(tab.locator("#network-round"), str(count))
        has(tab.locator(".count.bad"), "1")
        has(tab.locator("#live-offences"), "wrong iterate")
        has(tab.locator("[data-legend=learning]"), "13.00 %")
        assert tab.locator("[data-chart=learning] canvas").count() == 1
        assert visitor.troubles == []


def test_a_lost_connection_is_told(tabs: Tabs, tmp_path: Path) -> None:
    with served(write_run(tmp_path / "short", [line(1)])) as (address, _):
        tab = Visitor(tabs, address).open("/")
        has(tab.locator("#connection"), "live")
    has(tab.locator("#connection"), "connection lost")


def test_the_slider_and_the_charts_move_the_network(tabs: Tabs, attacked: str) -> None:
    visitor = Visitor(tabs, attacked)
    tab = visitor.open("/")
    has(tab.locator("#connection"), "live")
    tab.locator("#round").focus()
    for expected in ("3", "2"):
        tab.keyboard.press("ArrowLeft")
        has(tab.locator("#network-round"), expected)
    has(tab.locator(".note.marks"), "round 2: server 1")
    box = tab.locator("[data-chart=learning] .u-over").bounding_box()
    tab.mouse.move(box["x"] + box["width"] * 0.99, box["y"] + 40)
    has(tab.locator("#network-round"), "4")
    has(tab.locator(".note.marks"), "Dashed red lines")
    tab.mouse.move(box["x"] + box["width"] / 3, box["y"] + 40)
    has(tab.locator(".note.marks"), "round 2: server 1")
    assert tab.locator("#round").input_value() == "2"
    assert visitor.troubles == []


def test_the_address_of_the_network_follows_its_slider(tabs: Tabs, attacked: str) -> None:
    tab = Visitor(tabs, attacked).open("/network")
    tab.locator("#round").focus()
    tab.keyboard.press("ArrowLeft")
    has(tab.locator("#live-round"), "Servers in round 3")
    assert tab.url.endswith("/network?round=3")


def test_search_theme_and_steps_by_keyboard(tabs: Tabs, attacked: str) -> None:
    visitor = Visitor(tabs, attacked, color_scheme="dark")
    tab = visitor.open("/")
    dark = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    tab.keyboard.press("t")
    light = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (dark, light) == ("rgb(13, 17, 22)", "rgb(245, 247, 249)")
    tab.reload()
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == light
    tab.keyboard.press("/")
    tab.keyboard.type("round 2")
    has(tab.locator("#found"), "round 2")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/round/2")
    tab.keyboard.press("ArrowRight")
    tab.wait_for_url("**/round/3")
    assert visitor.troubles == []


def test_the_first_stop_of_the_keyboard_leads_past_the_bar(tabs: Tabs, attacked: str) -> None:
    tab = Visitor(tabs, attacked).open("/")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "to the content"
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "main"


def test_latency_can_be_switched(tabs: Tabs, attacked: str) -> None:
    tab = Visitor(tabs, attacked).open("/")
    assert tab.locator("p[data-kind=real]").is_hidden()
    tab.get_by_text("real", exact=True).click()
    assert tab.locator("p[data-kind=real]").is_visible()
    assert tab.locator("p[data-kind=paper]").is_hidden()


def test_without_scripts_there_are_tables_and_drawings(tabs: Tabs, attacked: str) -> None:
    visitor = Visitor(tabs, attacked, java_script_enabled=False)
    tab = visitor.open("/")
    assert tab.locator("svg.chart").count() >= 3
    assert tab.locator("svg.tiles path.tile").count() >= 1
    tab.locator("noscript button", has_text="show this round").first.click()
    tab.wait_for_url("**/network?round=4")
    tab.get_by_role("link", name="‹ before").first.click()
    tab.wait_for_url("**/network?round=3")
    assert visitor.troubles == []


def test_a_hostile_text_is_a_text(tabs: Tabs, tmp_path: Path) -> None:
    lie = lied(detail=HOSTILE) | {"offender": HOSTILE, "kind": HOSTILE}
    refused = [{"node": HOSTILE, "reason": HOSTILE, "detail": HOSTILE}, {"node": "device 1", "reason": HOSTILE}]
    lines = [line(1), line(2, offences=[lie], refused=refused, seconds={HOSTILE: 1.0}), line(3)]
    with served(write_run(tmp_path / "hostile", lines)) as (address, _):
        visitor = Visitor(tabs, address)
        tab = visitor.open("/")
        tab.on("dialog", lambda _: visitor.troubles.append("a dialog"))
        has(tab.locator("#connection"), "live")
        tab.locator("#round").focus()
        tab.keyboard.press("ArrowLeft")
        has(tab.locator("#network-round"), "2")
        tab.locator("[data-device='1']").hover()
        tab.keyboard.press("/")
        tab.keyboard.type("script")
        has(tab.locator("#found"), "<script>alert(1)</script>")
        has(visitor.open("/round/2").locator("main"), "<script>alert(1)</script>")
        assert visitor.troubles == []


def test_an_audit_is_followed_to_its_verdict(tabs: Tabs, attacked: str) -> None:
    visitor = Visitor(tabs, attacked)
    tab = visitor.open("/audit")
    tab.get_by_role("button", name="Check it now").click()
    from playwright.sync_api import expect

    expect(tab.locator(".verdict.big")).to_contain_text("misbehaved", timeout=120_000)
    has(tab.locator("#live-findings"), "derived again")
    has(tab.locator("#live-not"), "What this does not show")
    assert visitor.troubles == []


def test_the_report_opens_from_a_file(tabs: Tabs, attacked: str, tmp_path: Path) -> None:
    import httpx

    file = tmp_path / "report.html"
    file.write_text(httpx.get(f"{attacked}/report?file=1").text, encoding="utf-8")
    visitor = Visitor(tabs, "file://")
    tab = visitor.tab
    tab.goto(f"file://{os.fspath(file)}")
    has(tab.locator("body"), "server 1")
    assert visitor.troubles == []
