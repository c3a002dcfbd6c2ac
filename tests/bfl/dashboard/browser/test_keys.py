"""The way through with keys alone; search, slider and theme."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.bfl.dashboard.browser.chromium import Visitor
from tests.bfl.dashboard.browser.served import served
from tests.bfl.dashboard.made import attacked_run

pytestmark = [pytest.mark.browser, pytest.mark.slow]
DARKEST, LIGHTEST = 60, 200


@pytest.fixture(scope="module")
def home() -> Iterator[str]:
    """A run in which server 1 lies: four rounds, three servers, four devices."""
    with served(attacked_run()) as address:
        yield address


@pytest.mark.parametrize(
    ("text", "place", "heading"),
    [
        ("block 3", "/block/3", "Block 3"), ("round 2", "/round/2", "Round 2"), ("device 3", "/device/3", "Device 3"),
        ("server 1", "/server/1", "Server 1"), ("audit", "/audit", "Audit"),
    ],
)  # fmt: skip
def test_search_leads_there(somebody: Visitor, text: str, place: str, heading: str) -> None:
    page = somebody.open("/")
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type(text)
    expect(page.locator("#found a").first).to_have_text(text)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{somebody.home}{place}")
    expect(page.locator("main h1")).to_contain_text(heading)


def test_a_hash_is_found_by_its_beginning_and_whole(somebody: Visitor) -> None:
    page = somebody.open("/block/2")
    hash_ = page.locator("section[aria-labelledby=block-h] .facts").inner_text().partition("0x")[2][:64]
    assert len(hash_) == 64
    sent = page.locator("a[href^='/tx/0x']").first.get_attribute("href")
    for text in (f"0x{hash_[:12]}", f"0x{hash_}"):
        page.goto(f"{somebody.home}/blocks")
        page.locator("#q").fill(text)
        expect(page.locator("#found a").first).to_contain_text("block 2")
        page.keyboard.press("Escape")
        expect(page.locator("#found")).to_be_hidden()
    page.locator("#q").fill(str(sent).removeprefix("/tx/"))
    page.locator("#q").press("Enter")
    expect(page.locator("main h1")).to_contain_text("Transaction")


def test_what_is_not_there_is_told_with_examples(somebody: Visitor) -> None:
    page = somebody.open("/")
    page.locator("#q").fill("no such thing")
    page.locator("#q").press("Enter")
    expect(page.locator("main")).to_contain_text("Nothing here is called so")
    expect(page.locator("#q")).to_have_value("no such thing")


def leads(page: Page) -> str:
    return page.locator(".server.leads").get_attribute("data-server") or ""


def test_the_slider_moves_the_network_through_the_rounds(somebody: Visitor) -> None:
    page = somebody.open("/")
    shown, slider = page.locator("#network-round"), page.locator("#round")
    expect(shown).to_have_text("4")
    expect(page.locator("svg.network [data-device]")).to_have_count(4)
    slider.focus()
    for key, round_ in (("ArrowLeft", 3), ("ArrowLeft", 2), ("Home", 1), ("End", 4), ("ArrowLeft", 3)):
        page.keyboard.press(key)
        expect(shown).to_have_text(str(round_))
        expect(slider).to_have_value(str(round_))
        expect(page.locator("#network-leader")).to_have_text(f"S{leads(page)}")
    expect(page.locator(".server.excluded")).to_have_attribute("data-server", "1")
    slider.fill("2")
    expect(page.locator(".server.offends")).to_have_attribute("data-server", "1")
    expect(page.locator(".server.excluded")).to_have_count(0)
    expect(shown).to_have_attribute("href", "/round/2")
    expect(page.locator(".note.marks")).to_contain_text("round 2: server 1")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".note.marks")).to_contain_text("Dashed red lines")


def test_the_address_of_the_network_follows_its_slider_and_leads_back(somebody: Visitor) -> None:
    page = somebody.open("/network")
    page.locator("#round").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#live-round")).to_contain_text("Servers in round 3")
    expect(page).to_have_url(f"{somebody.home}/network?round=3")
    page.reload()
    expect(page.locator("#network-round")).to_have_text("3")


def test_arrows_move_the_slider_from_anywhere_and_pages_of_rounds_and_blocks(somebody: Visitor) -> None:
    page = somebody.open("/")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#network-round")).to_have_text("3")
    page.goto(f"{somebody.home}/round/2")
    page.keyboard.press("ArrowRight")
    expect(page.locator("main h1")).to_have_text("Round 3")
    page.goto(f"{somebody.home}/block/2")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("main h1")).to_contain_text("Block 1")


def test_tab_begins_at_the_content_and_reaches_every_tab_and_row(somebody: Visitor) -> None:
    page = somebody.open("/blocks")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    seen = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.getAttribute('href') || document.activeElement.id"))
    assert {"/", "/rounds", "/network", "/audit", "/compare", "/report", "q", "theme", "/block/5", "/round/4"} <= seen
    page.keyboard.press("Home")
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def brightness(page: Page, of: str) -> float:
    """Of the colour of an element's ground, from 0 to 255."""
    colour = page.evaluate(
        """(of) => {
        const paper = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
        paper.fillStyle = getComputedStyle(document.querySelector(of)).backgroundColor;
        paper.fillRect(0, 0, 1, 1);
        return [...paper.getImageData(0, 0, 1, 1).data];
        }""",
        of,
    )
    return float(sum(colour[:3]) / 3)


def test_t_goes_through_the_themes_and_the_choice_survives(somebody: Visitor) -> None:
    page = somebody.open("/")
    root = page.locator("html")
    assert brightness(page, "body") > LIGHTEST
    page.keyboard.press("t")
    expect(root).to_have_attribute("data-theme", "light")
    page.keyboard.press("t")
    expect(root).to_have_attribute("data-theme", "dark")
    for path in ("/", "/blocks", "/offence/2-server-1-1", "/audit"):
        page.goto(somebody.home + path)
        expect(root).to_have_attribute("data-theme", "dark")
        assert brightness(page, "body") < DARKEST
        assert brightness(page, ".card") < DARKEST
    page.locator("#theme").click()
    expect(page.locator("html[data-theme]")).to_have_count(0)
    page.keyboard.press("/")
    page.keyboard.type("t")  # a letter in the box is no key
    expect(page.locator("html[data-theme]")).to_have_count(0)


def test_the_systems_theme_is_followed_and_charts_with_it(somebody: Visitor) -> None:
    page = somebody.open("/")
    expect(page.locator("[data-chart=learning] canvas")).to_be_visible()
    page.emulate_media(color_scheme="dark")
    assert brightness(page, "body") < DARKEST
    expect(page.locator("[data-chart=learning] canvas")).to_be_visible()
    page.emulate_media(color_scheme="light")
    assert brightness(page, "body") > LIGHTEST
