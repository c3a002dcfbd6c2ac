"""One source that is shown: what pages, API and report ask."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bfl.dashboard.decoded import Found
from bfl.dashboard.errors import NotFoundError
from bfl.dashboard.facts import Snapshot
from bfl.dashboard.index.audit_job import AuditJob
from bfl.dashboard.index.details import Details
from bfl.dashboard.index.search import find_places
from bfl.dashboard.index.sources import DATABASE, RunSource, Source
from bfl.dashboard.index.tailer import Tailer


class Dashboard:
    """One run, kit or node. All of it may be called from any thread."""

    def __init__(self, source: Source) -> None:
        self.name: str = source.name
        """In ?run=NAME"""
        self.place: Path | None = source.place
        """Run folder or kit; None for a node."""
        self.tailer = Tailer(source)
        self.audit = AuditJob(source.where, source.secrets, _why_no_audit(source))
        self.details = Details(source, lambda: self.tailer.snapshot, lambda: self.audit.state)
        self.siblings: Mapping[str, Dashboard] = {self.name: self}
        """All that are served, this one among them, by name, in the order of the command line."""

    @property
    def snapshot(self) -> Snapshot:
        """The newest; never None: before anything is read it has status "waiting"."""
        return self.tailer.snapshot

    def search(self, text: str) -> list[Found]:
        """Places that a text may mean, best first, at most 20; nothing raises."""
        return find_places(text, self.snapshot)

    def compare(self, names: Sequence[str]) -> list[Snapshot]:
        """Snapshots of these siblings, in this order; of all where none is named. `NotFoundError` for another name."""
        unknown = [name for name in names if name not in self.siblings]
        if unknown:
            raise NotFoundError(f"found run {unknown[0]!r:.80}, expected one of {', '.join(self.siblings)}")
        return [self.siblings[name].snapshot for name in dict.fromkeys(names or self.siblings)]

    def start(self) -> None:
        """Read from now on."""
        self.tailer.start()

    def stop(self) -> None:
        """End what runs."""
        self.audit.stop()
        self.tailer.stop()


def _why_no_audit(source: Source) -> str:
    if isinstance(source, RunSource) and source.place is not None and not (source.place / DATABASE).exists():
        return "This run has no chain: there is nothing that could be checked."
    return ""


def together(dashboards: Sequence[Dashboard]) -> dict[str, Dashboard]:
    """Several, each of which knows the others."""
    named = {each.name: each for each in dashboards}
    for each in dashboards:
        each.siblings = named
    return named
