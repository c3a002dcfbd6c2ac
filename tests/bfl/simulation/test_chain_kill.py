"""kill -9 at random moments of `bfl simulate` on the chain: resumed each time, it comes to the same end."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bfl.runs import ROOT, environment

KILLS = 3
pytestmark = pytest.mark.kills


def test_a_run_killed_at_random_moments_and_resumed_is_the_run_that_nobody_killed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bfl.chain_kills", str(KILLS), str(tmp_path)],
        cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["kills"] == KILLS == len(found["heads"])
    assert found["heads"] == sorted(found["heads"])  # no block was lost
    assert found["blocks"] == 2 + found["rounds"] > found["heads"][-1] + 2
