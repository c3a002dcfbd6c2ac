"""`bfl dashboard` as a process of its own, for tests."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.bfl.runs import environment

WITHIN_S = 60.0


@contextmanager
def served(*arguments: str, folder: Path, **variables: str) -> Iterator[tuple[httpx.Client, "subprocess.Popen[str]"]]:
    """A client of the page, and its process; it ends with the block."""
    command = [sys.executable, "-m", "bfl", "dashboard", "--port", "0", *arguments]
    with subprocess.Popen(
        command, cwd=folder, env=environment(**variables), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            assert process.stdout is not None
            told = process.stdout.readline()
            assert told.startswith("page: http://"), told + process.stdout.read()
            with httpx.Client(
                base_url=told.removeprefix("page: ").strip(), timeout=WITHIN_S, trust_env=False
            ) as client:
                yield client, process
        finally:
            process.kill()


def events_of(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    """Events of an open stream, one after the other."""
    told: dict[str, Any] = {}
    for each in answer.iter_lines():
        name, _, value = each.partition(": ")
        if name in ("id", "event", "data"):
            told[name] = json.loads(value) if name == "data" else value
        elif not each and "event" in told:
            yield told
            told = {}
