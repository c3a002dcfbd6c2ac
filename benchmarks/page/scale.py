"""A thousand devices, five thousand rounds: first paint, scrolling, slider, memory."""

import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

from benchmarks.page.figures import Figure, cpu_s, memory_mb, renderer_cpu_s, worst_of_most
from tests.bfl.dashboard.browser.chromium import chromium, visitor
from tests.bfl.dashboard.browser.served import wait_until_read
from tests.bfl.dashboard.made import lied, line, write_run
from tests.bfl.dashboard.pages_served import served

EDGES = 10
PAINT_S, STEP_MS, MEMORY_MB = 2.0, 100.0, 400.0
STEPS = 40
_OFFENCE_EVERY = 500
_READ_S = 300.0

_SCROLLED = """async ({ by, down, steps }) => {
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    const place = document.querySelector("[data-matrix] .window");
    const found = [];
    for (let step = 0; step < steps; step++) {
        await frame();
        const begun = performance.now();
        place.scrollLeft += by;
        place.scrollTop += down;
        await frame();
        await frame();
        found.push(performance.now() - begun);
    }
    return found;
}"""
"""Two frames: in the first the script draws, after it the browser has. At 60 a second 17 to 33 ms of it is waiting."""
_SLID = """async (rounds) => {
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    const [slider, shown] = [document.querySelector("#round"), document.querySelector("#network-round")];
    const found = [];
    for (const round of rounds) {
        await frame();
        const begun = performance.now();
        slider.value = String(round);
        slider.dispatchEvent(new Event("input", { bubbles: true }));
        while (shown.textContent !== String(round)) await frame();
        await frame();
        found.push(performance.now() - begun);
    }
    return found;
}"""


def lines(devices: int, rounds: int) -> Iterator[dict[str, Any]]:
    """Made up; a lie now and then, and exclusions after it."""
    for number in range(1, rounds + 1):
        offences = [lied(server=number % EDGES)] if number % _OFFENCE_EVERY == 0 else []
        excluded = [number % EDGES] if offences else []
        yield line(number, devices=devices, edges=EDGES, offences=offences, excluded=excluded)


def measure(folder: Path, devices: int, rounds: int) -> list[Figure]:
    """All of it, with one server and one browser."""
    run = write_run(folder / "large", lines(devices, rounds), devices=devices, edges=EDGES, rounds=rounds)
    begun = time.monotonic()
    with served(str(run), folder=folder) as (client, process):
        wait_until_read(str(client.base_url), run, _READ_S)
        read_s, read_cpu_s = time.monotonic() - begun, cpu_s(process.pid)
        with chromium() as browser:
            figures = in_browser(browser, str(client.base_url), devices, rounds)
        client.get("/rounds.csv")
        client.get("/assignments.csv")
        size_mb = (run / "metrics.jsonl").stat().st_size / 1e6
        return [
            Figure(f"the server has read {size_mb:.0f} MB of metrics", read_s, "s", None, f"{read_cpu_s:.1f} s of CPU"),
            *figures,
            Figure(
                "memory of the server", memory_mb(process.pid, "VmRSS"), "MB", MEMORY_MB, "now, all tables asked for"
            ),
            Figure("memory of the server, most", memory_mb(process.pid, "VmHWM"), "MB", MEMORY_MB, "ever"),
        ]


def in_browser(browser: Browser, home: str, devices: int, rounds: int) -> list[Figure]:
    """First paint twice, the second as a visitor has it who was here before; then steps."""
    figures = []
    with visitor(browser, home) as somebody:
        for word in ("first visit", "again"):
            before = renderer_cpu_s(browser)
            page = somebody.open("/")
            page.locator("[data-chart=learning] canvas").wait_for()
            page.locator("[data-device]").nth(devices - 1).wait_for(state="attached")
            page.locator("[data-matrix] canvas").wait_for()
            taken, paint = renderer_cpu_s(browser) - before, first_paint_ms(page)
            note = f"first paint after {paint:.0f} ms; {devices:,} devices, network, charts and matrix drawn"
            figures.append(Figure(f"CPU of the browser until all is drawn, {word}", taken, "s", PAINT_S, note))
        for name, argument in (("sideways", {"by": -700, "down": 0}), ("down", {"by": -40, "down": 260})):
            before = renderer_cpu_s(browser)
            steps = page.evaluate(_SCROLLED, {**argument, "steps": STEPS})
            figures += of_steps(f"a step of the matrix, {name}", steps, renderer_cpu_s(browser) - before)
        before = renderer_cpu_s(browser)
        steps = page.evaluate(_SLID, [1 + step * (rounds - 1) // STEPS for step in range(STEPS)])
        figures += of_steps("a step of the slider, a new round each", steps, renderer_cpu_s(browser) - before)
    return figures


def of_steps(what: str, steps_ms: list[float], taken_s: float) -> list[Figure]:
    """Half of them, most of them."""
    note = f"{1000 * taken_s / len(steps_ms):.0f} ms of CPU a step"
    return [
        Figure(f"{what}: median", statistics.median(steps_ms), "ms", STEP_MS, note),
        Figure(f"{what}: 95 of 100 within", worst_of_most(steps_ms), "ms", STEP_MS),
    ]


def first_paint_ms(page: Page) -> float:
    """Since the navigation began, on the wall."""
    found = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0")
    return float(found)
