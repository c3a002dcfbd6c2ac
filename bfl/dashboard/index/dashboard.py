"""One source that is shown: what pages, API and report ask."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bfl.dashboard.decoded import AuditState, BlockDetail, Evidence, Found, TransactionDetail
from bfl.dashboard.errors import NotFoundError
from bfl.dashboard.facts import Snapshot


class Details:
    """What is read from the chain on demand. `NotFoundError` (404) says what was found and expected; a source without
    a chain refuses with it too. Blocks a few milliseconds: call it in a thread.
    """

    def block(self, which: str) -> BlockDetail:
        """By number or by hash with 0x."""
        raise NotImplementedError

    def transaction(self, transaction_hash: str) -> TransactionDetail:
        """By hash with 0x."""
        raise NotImplementedError

    def evidence(self, offence_id: str) -> Evidence:
        """Of an offence of the snapshot, by its id: from the metrics, the flags of its block, the audit if one ran."""
        raise NotImplementedError

    def model_file(self, round_: int) -> bytes:
        """The model after a round as torch.save makes it."""
        raise NotImplementedError


class AuditJob:
    """One audit at a time, in a niced child process."""

    @property
    def state(self) -> AuditState:
        """How it stands; cheap."""
        raise NotImplementedError

    def start(self) -> AuditState:
        """Begin, or begin again where the chain has grown; nothing happens while one runs."""
        raise NotImplementedError

    def stop(self) -> None:
        """End the child."""
        raise NotImplementedError


class Dashboard:
    """One run, kit or node. All of it may be called from any thread."""

    name: str
    """In ?run=NAME"""
    place: Path | None
    """Run folder or kit; None for a node."""
    details: Details
    audit: AuditJob
    siblings: Mapping[str, "Dashboard"]
    """All that are served, this one among them, by name, in the order of the command line."""

    @property
    def snapshot(self) -> Snapshot:
        """The newest; never None: before anything is read it has status "waiting"."""
        raise NotImplementedError

    def search(self, text: str) -> list[Found]:
        """Places that a text may mean, best first, at most 20; nothing raises."""
        raise NotImplementedError

    def compare(self, names: Sequence[str]) -> list[Snapshot]:
        """Snapshots of these siblings, in this order; of all where none is named. `NotFoundError` for a strange name."""
        unknown = [name for name in names if name not in self.siblings]
        if unknown:
            raise NotFoundError(f"found run {unknown[0]!r:.80}, expected one of {', '.join(self.siblings)}")
        return [self.siblings[name].snapshot for name in names or self.siblings]
