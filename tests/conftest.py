"""Tests compute with one thread: on a busy machine two threads that wait for each other are slower than one."""

import gc
import os
from collections.abc import Iterator

import pytest

from clients.plugins import forget_permissions

os.environ.setdefault("OMP_NUM_THREADS", "1")

_LONG = {
    "tests/bfl": {"auditing", "commands", "experiments", "simulation", "test_cli.py", "test_packaging.py", "writers",
                  "test_running.py", "test_kills.py"},
    "tests/chain": {"test_ledger.py", "test_light.py", "test_miner.py", "test_store.py"},
    "tests/clients": {"test_client_app.py", "test_sources.py", "test_training.py"},
    "tests/edge_servers": {
        "test_availability.py", "test_chain_hosting.py", "test_chain_round.py", "test_leaders.py", "test_liars.py",
        "test_attempts.py", "test_recovery.py", "test_referee.py", "test_round.py", "test_audit.py",
    },
    "tests/test_architecture.py": {"test_architecture.py"},
    "tests/test_docs.py": {"test_docs.py"},
}  # fmt: skip
"""Folders and files with whole runs, whole rounds or processes of their own: `./run.sh test --quick` leaves them out"""

_EXPERIMENTS = {
    "tests/benchmarks/test_mutants.py", "tests/benchmarks/test_visitors.py", "tests/benchmarks/test_walk.py",
    "tests/lan/test_network.py",
    "tests/bfl/experiments/test_reproduce_runs.py", "tests/policy/actor/test_shipped.py",
    "tests/policy/rivals/test_library_baselines.py", "tests/policy/rivals/test_optimum.py",
    "tests/policy/training/test_learning.py",
}  # fmt: skip
"""Whole experiments, trainings and measurements: only `./run.sh test --all` runs them"""


@pytest.fixture(autouse=True)
def _nothing_is_permitted() -> Iterator[None]:
    """No test lives on what another one has permitted or offered."""
    yield
    forget_permissions()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        name = item.path.as_posix()
        if any(f"/{where}" in name and names & set(item.path.parts) for where, names in _LONG.items()):
            item.add_marker(pytest.mark.slow)
        if any(name.endswith(each) for each in _EXPERIMENTS):
            item.add_marker(pytest.mark.experiment)
    # The long ones first: at the end no core waits for another.
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish() -> None:
    """Half a million objects of torch, web3 and 6000 tests live as long as pytest: no collection looks at them again.
    The tests of audits take 88 CPU seconds so instead of 125.
    """
    gc.collect()
    gc.freeze()
