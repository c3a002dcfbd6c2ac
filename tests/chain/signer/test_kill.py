"""kill -9 at any moment: no slot has two statements among all that ever left, and all that left is on the disk."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.kills
KILLS = 40


def test_whatever_a_killed_process_emitted_is_kept_and_never_contradicted(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.chain.signer.kills", str(KILLS), str(tmp_path)]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert shown.returncode == 0, shown.stderr
    found = json.loads(shown.stdout)
    assert found["kills"] == KILLS
    assert found["busy"] >= KILLS // 2
    assert found["emitted"] > KILLS
