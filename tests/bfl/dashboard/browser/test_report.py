"""The report in a real browser, from a file alone: nothing is asked of anybody, and it says what it must."""

from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect

from bfl.dashboard.index.dashboard import Dashboard
from bfl.dashboard.report.making import audited, told_report
from tests.bfl.dashboard.browser.chromium import PHONE, visitor
from tests.bfl.dashboard.browser.hostile import SHOWN, HostileDashboard
from tests.bfl.dashboard.browser.served import served
from tests.bfl.dashboard.made import attacked_run, line, opened, write_run

pytestmark = [pytest.mark.browser, pytest.mark.slow]

MOST_BYTES = 400_000


def written(dashboard: Dashboard, folder: Path) -> Path:
    """Its report as a file."""
    path = folder / "a report.html"
    path.write_text(told_report(dashboard), encoding="utf-8")
    return path


def test_it_opens_from_a_file_asks_nobody_and_names_who_lied(browser: Browser, tmp_path: Path) -> None:
    dashboard = opened(attacked_run())
    audited(dashboard, lambda told: None)
    path = written(dashboard, tmp_path)
    asked: list[str] = []
    with visitor(browser) as somebody:
        somebody.page.on("request", lambda request: asked.append(request.url))
        page = somebody.open(path.as_uri())
        expect(page.locator("h1")).to_be_visible()
        expect(page.locator("body")).to_contain_text("server 1")
        expect(page.locator("body")).to_contain_text("iterate of step")
        expect(page.locator("svg").first).to_be_visible()
        assert page.locator("script, link[href], img").count() == 0
    assert [each for each in asked if not each.startswith("data:")] == [path.as_uri()]
    assert path.stat().st_size < MOST_BYTES


def test_the_page_gives_it_as_a_file(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    with served(attacked_run()) as home:
        path.write_text(httpx.get(f"{home}report", params={"file": 1}, trust_env=False).text, encoding="utf-8")
    with visitor(browser) as somebody:
        expect(somebody.open(path.as_uri()).locator("body")).to_contain_text("server 1")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_read_on_a_phone_in_both_themes(browser: Browser, tmp_path: Path, scheme: str) -> None:
    path = written(opened(attacked_run()), tmp_path)
    with visitor(browser, is_phone=True) as somebody:
        somebody.page.emulate_media(color_scheme=scheme)
        page = somebody.open(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        expect(page.locator("svg").first).to_be_visible()


def test_it_is_small_for_a_hundred_rounds(tmp_path: Path) -> None:
    path = written(opened(write_run(tmp_path / "run", map(line, range(1, 101)), rounds=100)), tmp_path)
    assert path.stat().st_size < MOST_BYTES


def test_hostile_texts_stay_texts(browser: Browser, tmp_path: Path) -> None:
    path = written(HostileDashboard("run"), tmp_path)
    with visitor(browser) as somebody:
        page = somebody.open(path.as_uri())
        assert page.locator(".injected, img, script, iframe, base, object").count() == 0
        assert SHOWN in page.locator("body").inner_text()
        assert page.locator("a[href^='javascript'], a[href^='//'], [onerror]").count() == 0
