"""A page that somebody leaves open: what happens appears by itself."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.bfl.dashboard.browser.chromium import visitor
from tests.bfl.dashboard.browser.served import served
from tests.bfl.dashboard.made import LIAR, lied, line, write_run
from tests.bfl.runs import SMALL, environment, flags_of

pytestmark = [pytest.mark.browser, pytest.mark.slow]
_RUNS_MS, _STOPS_S = 180_000, 30.0


def append(folder: Path, *lines: dict[str, Any]) -> None:
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(each) + "\n" for each in lines)


def stays(page: Page) -> None:
    """From here on the page may not be loaded again."""
    page.evaluate("() => { window.isTheSame = true; }")


def test_rounds_and_offences_appear_by_themselves(browser: Browser, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [])
    with served(folder) as home, visitor(browser, home) as somebody:
        page = somebody.open("/")
        expect(page.locator("#connection")).to_have_text("live")
        expect(page.locator("svg.network [data-device]")).to_have_count(4)
        expect(page.locator(".state .progress")).to_have_text("0 / 10")

        append(folder, *map(line, (1, 2, 3)))
        expect(page.locator(".state .progress")).to_have_text("3 / 10")
        expect(page.locator("#network-round")).to_have_text("3")
        for name in ("learning", "latency", "phases"):
            expect(page.locator(f"[data-chart={name}] canvas")).to_be_visible()
        expect(page.locator("[data-matrix] canvas")).to_be_visible()
        expect(page.locator("[data-legend=learning] [data-value=accuracy]")).to_have_text("13.00 %")

        stays(page)
        append(folder, line(4, offences=[lied()], excluded=[1]))
        expect(page.locator(".tabs .count.bad")).to_have_text("1")
        expect(page.locator("section[aria-labelledby=offences-h]")).to_contain_text("iterate of step 3")
        expect(page.locator("[data-legend=learning] [data-value=accuracy]")).to_have_text("14.00 %")
        expect(page.locator("#network-round")).to_have_text("4")

        page.locator("#round").focus()
        page.keyboard.press("Home")
        expect(page.locator("#network-round")).to_have_text("1")
        append(folder, line(5))
        expect(page.locator(".state .progress")).to_have_text("5 / 10")
        expect(page.locator("#round")).to_have_attribute("max", "5")
        expect(page.locator("#network-round")).to_have_text("1")  # who looks at round 1 is left there
        assert page.evaluate("window.isTheSame")


def test_a_lost_connection_is_told(browser: Browser, tmp_path: Path) -> None:
    with visitor(browser) as somebody:
        with served(write_run(tmp_path / "run", [line(1)])) as home:
            page = somebody.open(home)
            expect(page.locator("#connection")).to_have_text("live")
        expect(page.locator("#connection")).to_have_text("connection lost")
        expect(page.locator(".state .progress")).to_have_text("1 / 10")  # what was there stays
        somebody.complaints = [each for each in somebody.complaints if "net::ERR" not in each]


SETTINGS = SMALL | {
    "scheme": "bfl", "attack": LIAR, "edges": 3, "hidden": 2, "difficulty": 1, "planner": "fixed:0", "phi": 2,
    "rounds": 6,
}  # fmt: skip


@contextmanager
def simulated(folder: Path) -> Iterator[str]:
    """`bfl simulate --dashboard`, and the address of its page; both end with the block."""
    command = [sys.executable, "-m", "bfl", "simulate", "--dashboard", "--out", str(folder), *flags_of(SETTINGS)]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, cwd=folder.parent, text=True) as run:
        assert run.stdout is not None
        try:
            said = next((each for each in run.stdout if each.startswith("page: http")), "")
            assert said, f"it ended with {run.poll()} and told of no page"
            reader = threading.Thread(target=run.stdout.read)  # or it would wait for us
            reader.start()
            yield said.removeprefix("page: ").strip()
        finally:
            run.terminate()
            run.wait(_STOPS_S)
            reader.join(_STOPS_S)


def test_a_page_left_open_follows_a_run_to_its_end(browser: Browser, tmp_path: Path) -> None:
    """A real one, with a lie in its second round."""
    with simulated(tmp_path / "run") as home, visitor(browser, home) as somebody:
        page = somebody.open("/")
        expect(page.locator(".state .pill")).to_have_text(re.compile("waiting|live"))
        expect(page.locator(".state .pill")).to_have_text("finished", timeout=_RUNS_MS)
        expect(page.locator(".state .progress")).to_have_text("6 / 6")
        expect(page.locator("#network-round")).to_have_text("6")
        expect(page.locator("section[aria-labelledby=blocks-h] tbody tr").first).to_contain_text(re.compile("^7"))
        expect(page.locator("svg.network [data-device]")).to_have_count(4)
        expect(page.locator("svg.network .joint")).to_have_count(2)
        expect(page.locator("section[aria-labelledby=offences-h]")).to_contain_text("wrong iterate")
        accuracy = json.loads((tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])[
            "accuracy"
        ]
        shown = page.locator("[data-legend=learning] [data-value=accuracy]")
        expect(shown).to_have_text(f"{100 * accuracy:.2f} %")
