"""What the tests of the registry start from."""

import pytest

from tests.chain.protocol.registry_bench import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()
