"""What an open page costs the run that it shows."""

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page

from benchmarks.page.figures import Figure
from tests.bfl.dashboard.browser.chromium import chromium, visitor
from tests.bfl.dashboard.pages_served import served
from tests.bfl.runs import environment, flags_of

SETTINGS = {
    "dataset": "synthetic", "devices": 10, "edges": 3, "rounds": 400, "scheme": "bfl", "threads": 1, "planner": "fixed",
}  # fmt: skip
SLOWER = 0.03
TURNS, ROUNDS_OF_A_TURN = 10, 12
_PATIENCE_S = 240.0


@contextmanager
def running(folder: Path) -> Iterator[None]:
    """A simulation, ended with the block."""
    command = [sys.executable, "-m", "bfl", "simulate", "--out", str(folder), *flags_of(SETTINGS)]
    run = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, cwd=folder.parent)
    try:
        yield
    finally:
        run.terminate()
        run.wait(_PATIENCE_S)


def seconds_of(folder: Path) -> list[float]:
    """Of each round so far, all phases."""
    try:
        text = (folder / "metrics.jsonl").read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return [sum(json.loads(each)["seconds"].values()) for each in text.splitlines() if each.endswith("}")]


def wait_for_round(folder: Path, number: int) -> None:
    """Until so many are done."""
    end = time.monotonic() + _PATIENCE_S
    while len(seconds_of(folder)) < number:
        if time.monotonic() > end:
            raise TimeoutError(f"found {len(seconds_of(folder))} rounds after {_PATIENCE_S} s, expected {number}")
        time.sleep(0.2)


def measure(folder: Path) -> list[Figure]:
    """Rounds with the page and without, in turn."""
    run = folder / "beside"
    found: dict[bool, list[float]] = {True: [], False: []}
    with running(run):
        wait_for_round(run, 2)
        with (
            served(str(run), folder=folder) as (client, process),
            chromium() as browser,
            visitor(browser, str(client.base_url)) as somebody,
        ):
            wait_for_round(run, len(seconds_of(run)) + 2)  # the server has read what there is
            for turn in range(TURNS):
                is_open = bool(turn % 2)
                os.kill(process.pid, signal.SIGCONT if is_open else signal.SIGSTOP)
                if is_open:
                    somebody.open("/")
                begun = len(seconds_of(run)) + 1  # the round that is running now is of neither
                wait_for_round(run, begun + ROUNDS_OF_A_TURN)
                found[is_open] += seconds_of(run)[begun : begun + ROUNDS_OF_A_TURN]
                if is_open:
                    check_followed(somebody.page, begun + ROUNDS_OF_A_TURN)
                    somebody.page.goto("about:blank")
            os.kill(process.pid, signal.SIGCONT)
    with_page, without = found[True], found[False]
    slower = statistics.median(with_page) / statistics.median(without) - 1
    note = (
        f"{statistics.median(with_page):.3f} s a round with it, {statistics.median(without):.3f} s without "
        f"({len(with_page)} rounds each; quartiles {quartiles(with_page)} and {quartiles(without)})"
    )
    return [Figure("a simulation is slower by an open page on the same 2 cores", 100 * slower, "%", 100 * SLOWER, note)]


def check_followed(page: Page, rounds: int) -> None:
    """A page that does not follow costs nothing."""
    shown = int(page.locator(".state .progress").inner_text().partition(" /")[0].replace(",", ""))
    if shown < rounds - 5:
        raise AssertionError(f"the page shows {shown} rounds, expected about {rounds}")


def quartiles(values: list[float]) -> str:
    """Of them, in seconds."""
    low, _, high = statistics.quantiles(values, n=4)
    return f"{low:.3f} to {high:.3f}"
