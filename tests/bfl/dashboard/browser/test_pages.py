"""Every page in a real browser: tabs, deep links, tables, charts, the audit; on a phone, and without scripts."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.bfl.dashboard.browser.chromium import DESK, Visitor
from tests.bfl.dashboard.browser.served import served
from tests.bfl.dashboard.made import attacked_run, line, write_run

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ROUNDS = 40
TABS = ("Overview", "Rounds", "Network", "Blocks", "Participants", "Offences", "Audit", "Compare")
ATTACKED, MADE = "run=attacked", "run=made"
NOT_FOUND = re.compile(r"status of 404")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A run in which server 1 lies, and one of forty rounds without a chain."""
    made = write_run(tmp_path_factory.mktemp("runs") / "made", map(line, range(1, ROUNDS + 1)), rounds=ROUNDS)
    with served(attacked_run(), made) as address:
        yield address


@pytest.fixture(scope="module")
def paths(home: str, browser: Browser) -> list[str]:
    """One of every kind of page."""
    page = browser.new_page()
    page.goto(f"{home}block/2?{ATTACKED}")
    sent = page.locator("a[href^='/tx/0x']").first.get_attribute("href")
    page.close()
    assert sent is not None
    fixed = (
        "", "rounds", "round/2", "network", "blocks", "block/0", "block/1", "block/3", "participants", "device/3",
        "server/1", "offences", "offence/2-server-1-1", "audit", "search?q=server", "compare",
    )  # fmt: skip
    return [*(f"/{each}{'&' if '?' in each else '?'}{ATTACKED}" for each in fixed), sent, f"/?{MADE}"]


def test_every_tab_opens(somebody: Visitor) -> None:
    page = somebody.open("/")
    for name in TABS:
        page.get_by_role("navigation", name="pages", exact=True).get_by_role("link", name=name).click()
        expect(page.locator(".tabs a[aria-current=page]")).to_contain_text(name)
        expect(page.locator("main h1")).to_be_attached()
        expect(page.locator("main .card").first).to_be_visible()
    expect(page.locator(".tabs .count.bad")).to_have_text("2")


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/round/2", "Round 2"), ("/block/3", "Block 3: round 2"), ("/block/0", "genesis"), ("/device/3", "Device 3"),
        ("/server/1", "Server 1"), ("/offence/2-server-1-1", "wrong iterate in round 2"),
        ("/participants", "Servers"), ("/audit", "Audit"), ("/network?round=1", "Network"),
    ],
)  # fmt: skip
def test_a_deep_link_shows_what_it_names(somebody: Visitor, path: str, told: str) -> None:
    page = somebody.open(f"{path}{'&' if '?' in path else '?'}{ATTACKED}")
    expect(page.locator("main h1")).to_contain_text(told)
    expect(page).to_have_title(re.compile("attacked"))


def test_a_page_that_is_not_there_says_so(somebody: Visitor) -> None:
    page = somebody.open(f"/round/99?{ATTACKED}")
    expect(page.locator("main")).to_contain_text("found round 99, expected 1 to 4")
    somebody.complaints = [each for each in somebody.complaints if not NOT_FOUND.search(each)]


def test_an_offence_leads_to_its_evidence_and_on_to_the_signed_post(somebody: Visitor) -> None:
    page = somebody.open(f"/?{ATTACKED}")
    page.locator("section[aria-labelledby=offences-h]").get_by_role("link", name="evidence").first.click()
    expect(page.locator("main")).to_contain_text("The evidence")
    expect(page.locator("main")).to_contain_text("flagged by")
    page.locator("main a[href^='/tx/0x']").first.click()
    expect(page.locator("main h1")).to_contain_text("Transaction: iterate of server 1")
    page.locator("main .facts").get_by_role("link", name="server 1").first.click()
    expect(page.locator("main h1")).to_contain_text("Server 1")


def test_tables_say_what_charts_draw(somebody: Visitor) -> None:
    page = somebody.open(f"/?{MADE}")
    tables = page.locator("details.table", has_text="show as table")
    assert tables.count() >= 5
    for index in range(tables.count()):
        tables.nth(index).locator("summary").click()
        expect(tables.nth(index).locator("table.rows").first).to_be_visible()
    learning = page.locator("section[aria-labelledby=learning-h]")
    expect(learning.locator("tbody tr").first).to_contain_text("50.00 %")  # 0.1 + 0.01 * 40
    expect(learning.locator("[data-value=accuracy]")).to_have_text("50.00 %")
    expect(page.locator("section[aria-labelledby=latency-h] tbody tr").first).to_contain_text("3.25")
    expect(page.locator("section[aria-labelledby=phases-h] tbody tr").first).to_contain_text("0.5")


def test_charts_are_drawn_and_read_by_the_cursor(somebody: Visitor) -> None:
    page = somebody.open(f"/?{MADE}")
    for name in ("learning", "latency", "phases"):
        expect(page.locator(f"[data-chart={name}] canvas")).to_be_visible()
    chart = page.locator("[data-chart=learning] .u-over")
    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 1, box["y"] + 50)
    expect(page.locator("[data-legend=learning] [data-value=accuracy]")).to_have_text("11.00 %")
    expect(page.locator("#network-round")).to_have_text("1")


def test_the_latency_is_of_the_paper_or_of_this_run(somebody: Visitor) -> None:
    page = somebody.open(f"/?{ATTACKED}")
    shown = page.locator("section[aria-labelledby=latency-h]")
    paper = shown.locator("[data-legend=latency-paper] [data-value=T]").inner_text()
    shown.get_by_text("real", exact=True).click()
    real = shown.locator("[data-legend=latency-real] [data-value=T]")
    expect(real).to_be_visible()
    expect(real).not_to_have_text(paper)
    expect(shown.locator("[data-legend=latency-paper]")).to_be_hidden()


def test_the_matrix_says_who_offloads_where(somebody: Visitor) -> None:
    """Device n goes to (n + round) % 3 - 1."""
    page = somebody.open(f"/?{MADE}")
    matrix = page.locator("[data-matrix]")
    canvas = matrix.locator("canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    said = matrix.locator(".said")
    page.mouse.move(box["x"] + 62 + 3, box["y"] + 13 * 2 + 5)
    expect(said).to_have_text("round 1, device 2: itself")
    page.mouse.move(box["x"] + 62 + 3, box["y"] + 5)
    expect(said).to_have_text("round 1, device 0: server 0")
    page.mouse.move(box["x"] + box["width"] - 8, box["y"] + 13 + 5)
    expect(said).to_have_text(f"round {ROUNDS}, device 1: server 1")


def test_without_scripts_the_same_is_there_standing_still(browser: Browser, home: str) -> None:
    context = browser.new_context(
        java_script_enabled=False, viewport={"width": DESK["width"], "height": DESK["height"]}
    )
    page = context.new_page()
    page.goto(f"{home}?{ATTACKED}")
    expect(page.locator("svg.network [data-device]")).to_have_count(4)
    expect(page.locator("svg.tiles .tile").first).to_be_attached()
    expect(page.locator("section[aria-labelledby=blocks-h] tbody tr").first).to_contain_text("5")
    page.locator("#q").fill("device 2")
    page.locator("#q").press("Enter")
    expect(page.locator("main h1")).to_contain_text("Device 2")
    context.close()


def test_runs_are_chosen_and_compared(somebody: Visitor) -> None:
    page = somebody.open("/")
    page.locator("#run").select_option("made")
    expect(page.locator(".state .progress")).to_have_text(f"{ROUNDS} / {ROUNDS}")
    expect(page.locator(".tabs a").first).to_have_attribute("href", re.compile(MADE))
    page.goto(f"{somebody.home}/compare?run=attacked&run=made")
    expect(page.locator("svg.chart").first).to_be_visible()
    rows = page.locator("section[aria-labelledby=runs-h] tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("made")


def test_csvs_are_offered(somebody: Visitor) -> None:
    page = somebody.open(f"/?{MADE}")
    page.locator(".menu summary").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="rounds.csv").click()
    text = Path(download.value.path()).read_text(encoding="utf-8")
    assert text.count("\n") == ROUNDS + 1


def test_the_audit_runs_from_its_button_and_tells_its_verdict(somebody: Visitor) -> None:
    page = somebody.open(f"/audit?{ATTACKED}")
    page.get_by_role("button", name="Check it now").click()
    verdict = page.locator("#live-audit .verdict")
    expect(verdict).to_contain_text("misbehaved", timeout=120_000)
    expect(page.locator("#live-findings tbody tr").first).to_contain_text("server 1")
    expect(page.get_by_text("What this does not show")).to_be_visible()
    page.goto(f"{somebody.home}/offence/2-server-1-1?{ATTACKED}")
    expect(page.locator("main")).to_contain_text("Derived again on this machine")


def test_no_page_is_wider_than_a_phone(phone: Visitor, paths: list[str]) -> None:
    wide = {}
    for path in paths:
        page = phone.open(path)
        expect(page.locator("main .card").first).to_be_visible()
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > 360:
            wide[path] = width
    assert wide == {}


def test_every_control_has_a_name_and_every_page_a_heading(somebody: Visitor, paths: list[str]) -> None:
    """For who hears the page."""
    for path in paths:
        page = somebody.open(path)
        assert page.locator("main h1").count() == 1, path
        unnamed = page.evaluate(
            """() => [...document.querySelectorAll("a[href], button, input, select, summary, svg[role]")]
            .filter((each) => each.checkVisibility() && !(each.textContent.trim() || each.ariaLabel || each.title
                || each.labels?.length || each.getAttribute("aria-labelledby") || each.type === "hidden"))
            .map((each) => each.outerHTML.slice(0, 100))"""
        )
        assert unnamed == [], path
