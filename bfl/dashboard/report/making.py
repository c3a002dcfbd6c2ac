"""A report of a run folder, from its files to the text of the page: read once, audited here where that is wanted."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bfl.dashboard.decoded import AuditState, Evidence
from bfl.dashboard.errors import DashboardError
from bfl.dashboard.facts import Snapshot
from bfl.dashboard.index.dashboard import Dashboard
from bfl.dashboard.index.opening import run_sources
from bfl.dashboard.report.html import MOST_OFFENCES, Account, render

_READ_S = 120.0
_LOOK_S = 0.1


def read_runs(folders: Sequence[Path]) -> list[Dashboard]:
    """Run folders as they are now; nothing reads on."""
    found = [Dashboard(each) for each in run_sources(folders)]
    for each in found:
        end = time.monotonic() + _READ_S
        while each.tailer.look():
            if time.monotonic() > end:
                raise DashboardError(f"{each.name} was not read to its end within {_READ_S:g} s; is it on a slow disk?")
    return found


def report_of(dashboard: Dashboard, is_audited: bool, say: Callable[[str], None], now: datetime | None = None) -> str:
    """The report of what a dashboard has read."""
    if is_audited:
        audited(dashboard, say)
    return told_report(dashboard, now)


def told_report(dashboard: Dashboard, now: datetime | None = None) -> str:
    """The report with what is known by now: a page shows it while a run goes on."""
    snapshot = dashboard.snapshot
    made = f"{(now or datetime.now(UTC)).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    return render(Account(snapshot, dashboard.audit.state, evidence_of(dashboard, snapshot), made))


def audited(dashboard: Dashboard, say: Callable[[str], None]) -> AuditState:
    """Audit its chain, in a child process; `say` hears how far it is."""
    told = ""
    state = dashboard.audit.start()
    try:
        while state.status == "running":
            if state.told != told:
                told = state.told
                say(told)
            time.sleep(_LOOK_S)
            state = dashboard.audit.state
    finally:
        dashboard.audit.stop()
    return state


def evidence_of(dashboard: Dashboard, snapshot: Snapshot) -> list[Evidence]:
    """Of its offences, the oldest first."""
    return [dashboard.details.evidence(each.id) for each in snapshot.offences[:MOST_OFFENCES]]
