"""The hint to the allocator."""

import sys

import numpy as np
import pytest

from clients.memory import keep_freed_memory


def test_the_hint_may_be_given_again_and_large_arrays_still_come_and_go() -> None:
    first = keep_freed_memory()
    assert isinstance(first, bool)
    assert keep_freed_memory() is first
    for size in (10, 10**6, 10**7):
        array = np.arange(size)
        assert array[-1] == size - 1
        del array


def test_a_system_without_glibc_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert keep_freed_memory() is False
