"""The audit that the page starts: a process of its own, one at a time, in plain words."""

import shutil
import sqlite3
import time
from pathlib import Path

import pytest

from bfl.dashboard.decoded import AuditState
from bfl.dashboard.index.audit_job import AuditJob
from tests.bfl.dashboard.made import attacked_run, opened

WITHIN_S = 120.0


def finished(job: AuditJob) -> AuditState:
    end = time.monotonic() + WITHIN_S
    while job.state.status == "running":
        assert time.monotonic() < end, f"the audit still runs: {job.state}"
        time.sleep(0.05)
    return job.state


@pytest.mark.slow
def test_an_audit_tells_how_far_it_is_and_what_came_of_it() -> None:
    dashboard = opened(attacked_run())
    job = dashboard.audit
    assert job.state.status == "not started"
    assert job.start().status == "running"
    assert job.start().status == "running", "nothing happens while one runs"
    state = finished(job)
    assert (state.status, state.verdict, state.exit_code) == ("finished", "fits, but 1 participant misbehaved", 0)
    assert (state.done, state.of) == (6, 6)
    assert any("anybody could have made this chain" in each for each in state.not_shown)
    assert any("Whether the data were good" in each for each in state.not_shown)
    assert state.head == dashboard.snapshot.blocks[-1].hash
    evidence = dashboard.details.evidence("2-server-1-1")
    assert (evidence.source, evidence.verdict) == ("audit", "derived again")
    assert evidence.off_by is not None
    assert evidence.off_by > 0


@pytest.mark.slow
def test_a_chain_that_does_not_fit_says_where(tmp_path: Path) -> None:
    shutil.copytree(attacked_run(), tmp_path / "forged")
    with sqlite3.connect(tmp_path / "forged" / "chain.db") as database:
        database.execute("UPDATE part SET value = substr(value, 1, length(value) - 1) || X'77'")
    job = AuditJob(("file", str(tmp_path / "forged")), {})
    job.start()
    state = finished(job)
    assert (state.status, state.verdict, state.exit_code) == ("finished", "does not fit", 1)
    assert "does not fit. The first place:" in state.told


def test_an_audit_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    job = AuditJob(("file", str(tmp_path / "nowhere")), {})
    job.start()
    state = finished(job)
    assert (state.status, state.exit_code) == ("failed", 2)
    assert "does not exist" in state.told
    assert job.start().status == "running", "it may be tried again"
    finished(job)


def test_a_stopped_audit_leaves_no_process() -> None:
    job = AuditJob(("file", str(attacked_run())), {})
    job.start()
    job.stop()
    assert finished(job).status == "failed"
