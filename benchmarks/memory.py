"""Peak memory of this process and its children, sampled: Ray's workers count as what they cost."""

import threading
import time
from pathlib import Path
from types import TracebackType


def tree_mb() -> float:
    """Proportional set size of this process and all its descendants, in MB (shared pages counted once)."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue  # it ended meanwhile
        parents[int(stat.parent.name)] = int(fields[1])
    own = {int(Path("/proc/self").resolve().name)}
    while more := {pid for pid, parent in parents.items() if parent in own and pid not in own}:
        own |= more
    return sum(_pss_kb(pid) for pid in own) / 1024


def _pss_kb(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


class PeakMemory:
    """`with PeakMemory() as peak: ...; peak.mb`."""

    def __init__(self, every_s: float = 0.5) -> None:
        self.mb = 0.0
        self._every_s = every_s
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._done.is_set():
            self.mb = max(self.mb, tree_mb())
            time.sleep(self._every_s)

    def __enter__(self) -> "PeakMemory":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
        self.mb = max(self.mb, tree_mb())
