"""What several tests of a node's door share."""

from collections.abc import Iterator

import pytest

from tests.chain.scene import Scene, scene


@pytest.fixture(scope="module")
def shared() -> Iterator[Scene]:
    """Of tests that change nothing."""
    made = scene()
    yield made
    made.node.close()


@pytest.fixture
def own() -> Iterator[Scene]:
    """Of a test that changes it."""
    made = scene()
    yield made
    made.node.close()
