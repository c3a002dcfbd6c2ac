"""`bfl simulate --dashboard`: the page beside a run, which stays until Ctrl-C and ends with its run."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.bfl.runs import SMALL, environment, flags_of

WITHIN_S = 120.0


def simulating(folder: Path, **changes: object) -> "subprocess.Popen[str]":
    settings = SMALL | {name.replace("_", "-"): value for name, value in changes.items()}
    command = [sys.executable, "-m", "bfl", "simulate", "--dashboard", "--out", "run", *flags_of(settings)]
    return subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def line_with(process: "subprocess.Popen[str]", word: str) -> str:
    """The next line that it says with this word."""
    assert process.stdout is not None
    said = []
    for each in process.stdout:
        said.append(each)
        if word in each:
            return each
    raise AssertionError(f"no line with {word!r}: {said}")


def is_there(url: str) -> bool:
    try:
        return httpx.get(f"{url}api/v1/run", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.slow
def test_the_page_shows_the_run_and_stays_until_ctrl_c(tmp_path: Path) -> None:
    with simulating(tmp_path, rounds=3) as process:
        try:
            url = line_with(process, "page: ").removeprefix("page: ").strip()
            assert is_there(url)
            assert f"{url} stays until Ctrl-C" in line_with(process, "The run is finished")
            told = httpx.get(f"{url}api/v1/run", trust_env=False).json()
            assert (told["name"], told["rounds_planned"]) == ("run", 3)
            process.send_signal(signal.SIGINT)
            assert process.wait(WITHIN_S) == 0
            assert not is_there(url)
        finally:
            process.kill()


@pytest.mark.slow
def test_the_page_of_a_run_that_was_killed_ends_too(tmp_path: Path) -> None:
    with simulating(tmp_path, rounds=500) as process:
        url = line_with(process, "page: ").removeprefix("page: ").strip()
        process.kill()
        process.wait(WITHIN_S)
        end = time.monotonic() + WITHIN_S
        while is_there(url):
            assert time.monotonic() < end
            time.sleep(0.2)
