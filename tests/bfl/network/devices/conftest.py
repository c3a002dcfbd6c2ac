"""What tests of a kit's device share: this process is one that Flower knows, and gets its threads back."""

from collections.abc import Iterator

import pytest
import torch

from clients.flower import identify_process


@pytest.fixture(autouse=True)
def _identity() -> None:
    identify_process(1, 1)


@pytest.fixture(scope="package", autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
