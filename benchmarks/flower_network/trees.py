"""Every process below one, by what it is: CPU seconds, ended children's too, and memory, as the kernel says."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_FLOWER = re.compile(r"flower-(?:superlink|supernode|superexec)|flwr-(?:serverapp|clientapp)")
_OURS = {"edge": "supervisor", "device": "supervisor", "device-executor": "device", "edge-server": "edge-server"}
_OURS |= {"node": "node", "miner": "miner"}
_OTHER, _CHILD = "other", ": child"


@dataclass(frozen=True)
class Stat:
    """A line of /proc/PID/stat, as far as it is needed."""

    pid: int
    parent: int
    cpu_s: float
    """Its own; a zombie still has it."""
    children_s: float
    """Of the children that have ended and were waited for, and theirs."""


def read_stat(text: str) -> Stat:
    """The fields behind the name, which may have blanks and brackets in it."""
    before, _, after = text.rpartition(")")
    fields = after.split()
    user, system, children_user, children_system = (int(each) for each in fields[11:15])
    return Stat(
        int(before.split(maxsplit=1)[0]), int(fields[1]),
        (user + system) * _TICK_S, (children_user + children_system) * _TICK_S,
    )  # fmt: skip


def kind_of(command: Sequence[str]) -> str:
    """What a process is, by its command line; `other` where that does not say."""
    for word in command[:2]:
        if _FLOWER.fullmatch(Path(word).name):
            return Path(word).name
    for word, room, part in zip(command, command[1:], command[2:], strict=False):
        if Path(word).name == "bfl" and room == "network":
            return _OURS.get(part, _OTHER)
    return _OTHER


def below(root: int, stats: Mapping[int, Stat]) -> Iterator[Stat]:
    """All descendants of a process, parents first."""
    children: dict[int, list[Stat]] = {}
    for stat in stats.values():
        children.setdefault(stat.parent, []).append(stat)
    todo = list(children.get(root, ()))
    while todo:
        stat = todo.pop()
        yield stat
        todo += children.get(stat.pid, ())


@dataclass
class Memory:
    """Of one kind of process."""

    shares_mb: list[float] = field(default_factory=list)
    """PSS of each process at each look: pages that many share are divided among them."""
    peak_mb: float = 0.0
    """The largest resident set that one of them ever had."""
    most: int = 0
    """How many there were at once."""


@dataclass
class Tree:
    """The processes below one, watched: looks have to be frequent enough to see what each kind is."""

    root: int
    memory: dict[str, Memory] = field(default_factory=dict)
    sums_mb: list[float] = field(default_factory=list)
    """PSS of all of them together, at each look."""
    _kinds: dict[int, str] = field(default_factory=dict)
    _own_s: dict[int, float] = field(default_factory=dict)

    def cpu_s(self) -> tuple[float, dict[str, float]]:
        """CPU seconds so far, exactly; and as seen by kind: what a process did between the last look and its end is
        in the first alone.
        """
        total, by_kind = 0.0, dict.fromkeys(self._kinds.values(), 0.0)
        for stat in below(self.root, read_stats()):
            self._kinds[stat.pid] = _kind(stat, self._kinds)
            self._own_s[stat.pid] = stat.cpu_s
            total += stat.cpu_s + stat.children_s
        for pid, cpu_s in self._own_s.items():
            kind = self._kinds[pid]
            by_kind[kind] = by_kind.get(kind, 0.0) + cpu_s
        return total, by_kind

    def look_at_memory(self) -> None:
        """One sample of every process."""
        here: dict[str, int] = {}
        sum_mb = 0.0
        for stat in below(self.root, read_stats()):
            kind = self._kinds.get(stat.pid, _OTHER)
            share_mb, peak_mb = _memory_mb(stat.pid)
            if not share_mb:  # ended, or about to
                continue
            memory = self.memory.setdefault(kind, Memory())
            memory.shares_mb.append(share_mb)
            memory.peak_mb = max(memory.peak_mb, peak_mb)
            here[kind] = here.get(kind, 0) + 1
            memory.most, sum_mb = max(memory.most, here[kind]), sum_mb + share_mb
        self.sums_mb.append(sum_mb)


def read_stats() -> dict[int, Stat]:
    """Of every process of this machine."""
    found = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            text = _read(entry.name, "stat")
            if text:
                found[int(entry.name)] = read_stat(text)
    return found


def _kind(stat: Stat, known: Mapping[int, str]) -> str:
    """Asked at every look: a child is what its parent is until it has started its own program."""
    command = _read(str(stat.pid), "cmdline")
    if not command:  # a zombie is what it was
        return known.get(stat.pid, _OTHER)
    kind, parent = kind_of(command.split("\0")), known.get(stat.parent, _OTHER)
    return f"{parent.removesuffix(_CHILD)}{_CHILD}" if kind == _OTHER != parent else kind


def _memory_mb(pid: int) -> tuple[float, float]:
    """PSS, and the peak of the resident set."""
    share = re.search(r"^Pss:\s+(\d+) kB", _read(str(pid), "smaps_rollup"), re.MULTILINE)
    peak = re.search(r"^VmHWM:\s+(\d+) kB", _read(str(pid), "status"), re.MULTILINE)
    if share is None or peak is None:
        return 0.0, 0.0
    return int(share[1]) / 1024, int(peak[1]) / 1024


def _read(pid: str, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace")
    except OSError:  # it has just ended
        return ""
