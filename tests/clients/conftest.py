"""What several tests of devices share."""

from collections.abc import Iterator

import pytest
import torch
from flwr.supercore.task_identity import TaskIdentity

from clients.data import Dataset, load_dataset


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
