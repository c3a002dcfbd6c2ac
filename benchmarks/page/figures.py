"""Figures with their limits, and where they are read."""

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser


@dataclass(frozen=True)
class Figure:
    """Something measured; `limit` None: it is told for the record."""

    what: str
    value: float
    unit: str
    limit: float | None = None
    note: str = ""

    @property
    def row(self) -> str:
        """Of the table."""
        is_wrong = self.limit is not None and self.value > self.limit
        limit = "" if self.limit is None else f"{self.limit:g} {self.unit}"
        return f"| {self.what} | {self.value:.3g} {self.unit} | {limit} | {'WRONG ' * is_wrong}{self.note} |"


def renderer_cpu_s(browser: Browser) -> float:
    """CPU seconds of all renderer processes so far, all threads."""
    session = browser.new_browser_cdp_session()
    try:
        processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    finally:
        session.detach()
    return float(sum(each["cpuTime"] for each in processes if each["type"] == "renderer"))


def cpu_s(pid: int) -> float:
    """CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def memory_mb(pid: int, field: str) -> float:
    """VmRSS: now; VmHWM: the most so far."""
    return int(re.findall(rf"{field}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="ascii"))[0]) / 1024


def worst_of_most(values: Sequence[float]) -> float:
    """The 95th percentile."""
    return statistics.quantiles(values, n=20)[-1]
