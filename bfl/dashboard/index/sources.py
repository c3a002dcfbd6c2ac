"""What a page can show: a run folder, a kit, a node. Each is polled by one thread, and gives a snapshot."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bfl.dashboard.facts import About, BlockFact, MachineFact, Participant, RoundFact, Snapshot, Status
from bfl.dashboard.reading.clean import whole
from bfl.dashboard.reading.merging import RoundMerger
from bfl.dashboard.reading.metrics_tail import MetricsTail
from bfl.dashboard.reading.run_files import (
    about_run,
    graph_of,
    is_held,
    participants_of,
    settings_or_trouble,
    status_of_run,
)

if TYPE_CHECKING:  # the page is served before these are imported, which takes a second
    from bfl.dashboard.reading.chain_follower import ChainFollower
    from bfl.dashboard.reading.feeds import Feed
    from bfl.dashboard.reading.machines import MachineWatch
    from chain.audit.archive import Archive

DATABASE = "chain.db"


class Source(Protocol):
    """Something to show; all but `open_archive` is for the tailer's thread."""

    name: str
    place: Path | None
    where: tuple[str, ...]
    """How a child process finds the chain."""
    secrets: Mapping[str, str]
    """What it needs for that, in its environment."""

    def poll(self, until_s: float) -> bool:
        """Read what is new until this time of the monotonic clock; whether there is more to read."""

    def snapshot(self) -> Snapshot:
        """What is known; its cursor is the tailer's business."""

    def open_archive(self) -> "Archive":
        """The chain, to be closed by the caller, for any thread; `DashboardError` where there is none."""

    def close(self) -> None:
        """Give back what is open."""


class RunSource:
    """A run folder: its metrics first, which need nothing imported, then its chain."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self._folder = name, folder
        self.place: Path | None = folder
        self.where: tuple[str, ...] = ("file", str(folder))
        self.secrets: Mapping[str, str] = {}
        settings, self._trouble = settings_or_trouble(folder / "config.toml")
        self._about = about_run(name, folder, settings)
        self._people: tuple[Participant, ...] = ()
        self._tail = MetricsTail(folder / "metrics.jsonl", whole(settings.get("exclusion-rounds")))
        self._merger = RoundMerger(shows_chain_alone=False)
        self._chain: ChainFollower | None = None
        self._is_begun = False

    def poll(self, until_s: float) -> bool:
        """The first time: metrics alone."""
        has_more = self._tail.poll(until_s)
        if not self._is_begun:
            self._is_begun = True
            return True
        if not self._about.graph and self._about.edges:
            self._about = replace(self._about, graph=graph_of(self._about.settings, self._about.edges))
            self._people = participants_of(self._about.devices, self._about.edges)
        if self._chain is None and (self._folder / DATABASE).exists():
            self._chain = self._follower()
        if self._chain is not None:
            has_more |= self._chain.poll(until_s)
        return has_more

    def _follower(self) -> "ChainFollower":
        from bfl.dashboard.reading.chain_follower import ChainFollower
        from bfl.dashboard.reading.feeds import FileFeed

        return ChainFollower(lambda: FileFeed(self._folder / DATABASE), self._lacks_assignment)

    def _lacks_assignment(self, round_: int) -> bool:
        """Whether the chain's plan has to say who offloads where: metrics of older runs do not."""
        known = self._tail.rounds.get(round_)
        return known is None or known.assignment is None

    def snapshot(self) -> Snapshot:
        """Metrics, with what the chain adds."""
        chain, about, people = self._chain, self._about, self._people
        rounds = self._merger.merged(self._tail.rounds, {} if chain is None else chain.rounds)
        status, told = status_of_run(self._folder, len(rounds))
        if chain is not None and chain.founded is not None:
            about, people = chain.founded.told(about), chain.founded.participants or people
        troubles = [told, self._trouble, self._tail.trouble if status != "waiting" else "", _trouble(chain)]
        return Snapshot(
            about, status, 0, rounds, _blocks(chain), people, told=_joined(troubles),
            reorganised=0 if chain is None else chain.reorganised,
        )  # fmt: skip

    def open_archive(self) -> "Archive":
        """Its chain.db, read beside whoever writes it."""
        return _file_archive(self._folder / DATABASE)

    def close(self) -> None:
        """Close the database."""
        if self._chain is not None:
            self._chain.close()


class ChainSource:
    """A network's chain, with the health of its machines and, on an edge, what that edge has measured."""

    def __init__(
        self,
        about: About,
        place: Path | None,
        open_feed: "Callable[[], Feed]",
        watch: "MachineWatch",
        where: tuple[str, ...],
        secrets: Mapping[str, str],
        metrics: MetricsTail | None = None,
        lock: Path | None = None,
    ) -> None:
        """`lock` is held by whoever runs this machine; None for others' nodes."""
        from bfl.dashboard.reading.chain_follower import ChainFollower

        self.name, self.place, self.where, self.secrets = about.name, place, where, secrets
        self._about, self._open_feed, self._watch, self._tail, self._lock = about, open_feed, watch, metrics, lock
        self._merger = RoundMerger(shows_chain_alone=True)
        self._chain = ChainFollower(open_feed)
        watch.start()

    def poll(self, until_s: float) -> bool:
        """What is new."""
        has_more = self._tail is not None and self._tail.poll(until_s)
        return self._chain.poll(until_s) or has_more

    def snapshot(self) -> Snapshot:
        """The chain's rounds, with accuracy and times where this machine has measured them."""
        chain, machines = self._chain, self._watch.facts
        founded = chain.founded
        rounds = self._merger.merged({} if self._tail is None else self._tail.rounds, chain.rounds)
        return Snapshot(
            about=self._about if founded is None else founded.told(self._about),
            status=self._status(machines, rounds),
            cursor=0,
            rounds=rounds,
            blocks=_blocks(chain),
            participants=() if founded is None else founded.participants,
            machines=machines,
            told=_joined([_trouble(chain), *_divergence(machines)]),
            reorganised=chain.reorganised,
        )

    def _status(self, machines: Sequence[MachineFact], rounds: Sequence[RoundFact]) -> Status:
        if any("DIVERGED" in each.word for each in machines):
            return "diverged"
        if self._chain.trouble:
            return "unreachable"
        if self._lock is not None and not is_held(self._lock, self._lock):
            return "paused"
        return "running" if rounds or any(each.head for each in machines) else "waiting"

    def open_archive(self) -> "Archive":
        """A connection of its own."""
        return self._open_feed().archive

    def close(self) -> None:
        """Ask nobody any more."""
        self._watch.close()
        self._chain.close()


def _file_archive(path: Path) -> "Archive":
    from bfl.dashboard.errors import NotFoundError

    if not path.exists():
        raise NotFoundError(f"found no {path.name} in {path.parent}: this run has no chain")
    from chain.audit.archive import FileArchive

    return FileArchive(path)


def _trouble(chain: "ChainFollower | None") -> str:
    return "" if chain is None else chain.trouble


def _blocks(chain: "ChainFollower | None") -> tuple[BlockFact, ...]:
    return () if chain is None else tuple(chain.blocks)


def _divergence(machines: Sequence[MachineFact]) -> list[str]:
    return [f"{each.name}: {each.word}" for each in machines if "DIVERGED" in each.word]


def _joined(troubles: Sequence[str]) -> str:
    return "; ".join(dict.fromkeys(each for each in troubles if each))
