"""One browser for a module, and a fresh visitor for each test."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.bfl.dashboard.browser.chromium import Visitor, chromium, visitor


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's chromium, or a reason why not."""
    with chromium() as found:
        yield found


@pytest.fixture
def somebody(browser: Browser, home: str) -> Iterator[Visitor]:
    """At a desk. `home` is what the module serves."""
    with visitor(browser, home) as found:
        yield found


@pytest.fixture
def phone(browser: Browser, home: str) -> Iterator[Visitor]:
    """With a phone in the hand."""
    with visitor(browser, home, is_phone=True) as found:
        yield found
