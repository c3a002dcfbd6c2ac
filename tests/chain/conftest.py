"""What several tests of the chain share."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Whatever a test opens; closed behind it."""
    with ExitStack() as stack:
        yield stack
