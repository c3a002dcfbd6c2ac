"""A real browser for tests, and what it must never do: talk to others, complain, ask, break the page's policy."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, sync_playwright

VARIABLE = "BFL_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run",
    "--disable-quic", "--disable-dev-shm-usage",
)  # fmt: skip
DESK, PHONE = {"width": 1440, "height": 900}, {"width": 360, "height": 740}
PATIENCE_MS = 20_000
_TELLS_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) =>
    console.error(`policy: ${event.violatedDirective} refused ${event.blockedURI} ${event.sample}`));
"""


def find_chromium() -> str | None:
    """The program that BFL_CHROMIUM names, or the first of its usual names on PATH."""
    wanted = os.environ.get(VARIABLE)
    return shutil.which(wanted) if wanted else next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window; the test is skipped where there is none."""
    program = find_chromium()
    if program is None:
        pytest.skip(f"no browser: install one (Debian: apt-get install chromium) or name it in {VARIABLE}")
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=[*QUIET, *as_root], timeout=60_000)
        try:
            yield browser
        finally:
            browser.close()


class Visitor:
    """A browser's window, and everything it did that it should not."""

    def __init__(self, context: BrowserContext, home: str = "") -> None:
        """`home`: what addresses are relative to, such as http://127.0.0.1:8765."""
        self.home = home.rstrip("/")
        self.strangers: list[str] = []
        """Requests to anything but this machine."""
        self.complaints: list[str] = []
        """Errors and warnings of the console, uncaught errors, violations of the policy."""
        self.dialogs: list[str] = []
        context.set_default_timeout(PATIENCE_MS)
        context.add_init_script(_TELLS_VIOLATIONS)
        context.on("request", lambda request: self._note_request(request.url))
        context.on("console", self._note_message)
        context.on("weberror", lambda error: self.complaints.append(f"uncaught: {error.error}"))
        context.on("dialog", self._note_dialog)
        self.page: Page = context.new_page()

    def _note_request(self, url: str) -> None:
        found = urlsplit(url)
        is_here = found.hostname in ("127.0.0.1", "localhost", "::1") or found.scheme in (
            "data",
            "blob",
            "about",
            "file",
        )
        if not is_here:
            self.strangers.append(url)

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "assert"):
            self.complaints.append(f"{message.type}: {message.text}")

    def _note_dialog(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def open(self, path: str) -> Page:
        """Go to a page of the server."""
        self.page.goto(self.home + path, wait_until="load")
        return self.page

    def check(self) -> None:
        """Nothing happened that should not."""
        assert self.strangers == []
        assert self.dialogs == []
        assert self.complaints == []


@contextmanager
def visitor(browser: Browser, home: str = "", is_phone: bool = False) -> Iterator[Visitor]:
    """Somebody without history or cookies, checked at the end."""
    size = PHONE if is_phone else DESK
    context = browser.new_context(viewport={"width": size["width"], "height": size["height"]}, has_touch=is_phone)
    try:
        found = Visitor(context, home)
        yield found
        found.page.close()
        found.check()
    finally:
        context.close()
