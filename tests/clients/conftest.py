"""What several tests of devices share."""

from collections.abc import Iterator

import pytest
import torch
from flwr.supercore.task_identity import TaskIdentity

from chain.wire.plan import Plan
from clients.data import Dataset, load_dataset
from clients.orders import Order
from edge_servers.round import begin
from edge_servers.round import plan as plan_round
from tests.clients.chain_device import order_to
from tests.edge_servers.small_network import SmallChain, small_chain


@pytest.fixture(scope="session", autouse=True)
def _flower_identity() -> None:
    """Flower stamps every message with who runs; a real process is told so at its start."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1


@pytest.fixture(scope="package", autouse=True)
def _one_thread() -> Iterator[None]:
    """Small networks on a busy machine: torch's threads would wait for each other most of the time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def synthetic() -> Dataset:
    """The synthetic data set of seed 0, made once."""
    return load_dataset("synthetic", "", 0)


@pytest.fixture(scope="module")
def chain() -> Iterator[SmallChain]:
    """A network whose first round is planned: devices 0 and 4 offload, the others train."""
    made = small_chain()
    begin(made.federation.servers)
    plan_round(made.federation.servers)
    yield made
    made.hosted.close()


@pytest.fixture
def plan(chain: SmallChain) -> Plan:
    """The leader's."""
    return chain.federation.servers[0].current.plan


@pytest.fixture
def order(chain: SmallChain) -> Order:
    """To device 3, which trains; its home is server 0."""
    return order_to(chain, 3)
