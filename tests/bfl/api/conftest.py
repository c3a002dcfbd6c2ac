"""Temporary folders of runs that a test interrupts go with the test."""

import tempfile
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _temporary_folders_are_the_tests_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
