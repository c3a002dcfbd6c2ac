"""A real browser, where there is one; what it complains of, and what it asks of anybody but the page."""

import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from bfl.dashboard.index.dashboard import Dashboard, together
from bfl.dashboard.index.opening import run_sources
from bfl.dashboard.web.app import PageServer
from bfl.dashboard.web.pages_beside import page_parts
from bfl.dashboard.web.security import WebParams
from bfl.dashboard.web.serving import listening

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium() -> str:
    """The program; a test without one is skipped, and says what to do."""
    found = os.environ.get("BFL_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if not found or not Path(found).exists():
        pytest.skip("no chromium: `apt-get install chromium`, or name one in BFL_CHROMIUM")
    return found


@contextmanager
def served(*folders: Path) -> Iterator[tuple[str, Dashboard]]:
    """A server of these runs, read on while it is open: its address, and the first of them."""
    dashboards = together([Dashboard(each) for each in run_sources(folders)])
    at: socket.socket = listening("127.0.0.1", 0)
    port = at.getsockname()[1]
    pages, error_page = page_parts(dashboards)
    page = PageServer(dashboards, WebParams(port=port), pages, error_page)
    config = uvicorn.Config(page.app, loop="asyncio", lifespan="off", log_config=None, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([at],), daemon=True)
    for each in dashboards.values():
        each.start()
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}", next(iter(dashboards.values()))
    finally:
        page.streams.close()
        server.should_exit = True
        thread.join(10)
        for each in dashboards.values():
            each.stop()


class Visitor:
    """A tab. `troubles`: errors of its console, exceptions of its scripts, requests to somebody else."""

    def __init__(self, new_page: Callable[..., Any], address: str, **settings: Any) -> None:
        self.address = address
        self.troubles: list[str] = []
        self.tab = new_page(**settings)
        self.tab.on("console", lambda said: self._hear(said.type, said.text))
        self.tab.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.tab.on("request", lambda request: self._see(request.url))

    def _hear(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.troubles.append(text)

    def _see(self, url: str) -> None:
        if not url.startswith((self.address, "data:")):
            self.troubles.append(f"asked for {url}")

    def open(self, path: str) -> Any:
        """Go to a page."""
        self.tab.goto(self.address + path)
        return self.tab


@contextmanager
def browser() -> Iterator[Callable[..., Any]]:
    """Opens tabs, each with cookies and storage of its own."""
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
    program = chromium()
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=program, args=list(FLAGS))
        try:
            yield lambda **settings: opened.new_context(**settings).new_page()
        finally:
            opened.close()
