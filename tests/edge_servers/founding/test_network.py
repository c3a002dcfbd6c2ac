"""Who orders a device in a round: its home, or its standby while home is dormant."""

import pytest

from clients.consent import Consent
from edge_servers.founding.network import DeviceRecord, Network, simulated_address
from edge_servers.learning.graph import make_graph

SERVERS = tuple(simulated_address(1, "server", m) for m in range(4))
HOMES, STANDBYS = (0, 1, 2, 0), (1, 2, 0, None)
NETWORK = Network(
    SERVERS,
    tuple(
        DeviceRecord(n, simulated_address(1, "device", n), home, 10, Consent(), standby)
        for n, (home, standby) in enumerate(zip(HOMES, STANDBYS, strict=True))
    ),
    make_graph("line", 4),
    1,
)


@pytest.mark.parametrize(
    ("dormant", "serving"),
    [
        ((), HOMES),
        ((3,), HOMES),  # nobody's home
        ((0,), (1, 1, 2, 0)),  # the last device has no standby: it waits for home
        ((0, 1), (0, 2, 2, 0)),  # nobody is there for the first device: it waits at home
        ((0, 1, 2), HOMES),
    ],
)
def test_a_device_is_ordered_by_its_standby_only_while_home_sleeps_and_that_one_does_not(
    dormant: tuple[int, ...], serving: tuple[int, ...]
) -> None:
    assert NETWORK.serving([SERVERS[m] for m in dormant]) == serving


def test_its_cluster_is_its_homes_in_any_case() -> None:
    assert [[device.index for device in NETWORK.cluster(m)] for m in range(4)] == [[0, 3], [1], [2], []]
