"""What several tests of replay share."""

from collections.abc import Iterator

import pytest

from edge_servers.replay.record import RoundRecord
from tests.edge_servers.chain_network import ChainNetwork, chain_network


@pytest.fixture(scope="session")
def network() -> Iterator[ChainNetwork]:
    """Two honest rounds of three servers and six devices; nobody adds a third."""
    with chain_network() as made:
        made.run(2)
        yield made


@pytest.fixture
def record(network: ChainNetwork) -> RoundRecord:
    """Of round 2."""
    return network.record(2)
