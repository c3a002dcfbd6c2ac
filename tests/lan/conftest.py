"""Rows of the test network that need namespaces, and the reason where there are none."""

import pytest

from tests.lan.lan import find_obstacle


@pytest.fixture(scope="session")
def namespaced() -> None:
    """Skips where machines cannot be namespaces; asked when a test runs, because the answer takes a moment."""
    if find_obstacle():
        pytest.skip(f"{find_obstacle()}; addresses 127.0.0.x have no cables")


@pytest.fixture(params=["namespaces", "loopback"])
def namespaces(request: pytest.FixtureRequest) -> bool:
    """Both kinds of machines, one after the other."""
    if request.param == "namespaces":
        request.getfixturevalue("namespaced")
    return bool(request.param == "namespaces")
