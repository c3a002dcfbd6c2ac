"""Is there something newer than what pyproject.toml pins (==) or caps (<)? A table; whether to move stays a decision.

    python .ci/pins.py [PYPROJECT]

Asks the pip of this Python: the newest release is one that this Python can install. News is no failure: it ends with 0.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ANSWER_S = 60
AT_ONCE = 4
REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*(?P<limits>[^;]*)")
LIMIT = re.compile(r"(?P<sign>==|~=|<=|<)\s*(?P<version>[\w.*+!-]+)")
PRE_RELEASE = re.compile(r"\d(a|b|rc|\.dev)\d")

Ask = Callable[["Pin"], str | None]


@dataclass(frozen=True)
class Pin:
    """A requirement that keeps newer releases out, and what pyproject.toml says about why."""

    name: str
    sign: str
    version: str
    why: str

    @property
    def ours(self) -> str:
        return f"{self.sign}{self.version}"

    def leaves_out(self, newest: str) -> bool:
        """Whether the newest release is outside."""
        if self.sign == "==":
            return _release(newest) != _release(self.version)
        if self.sign == "~=":
            kept = _release(self.version)[:-1]
            return _release(newest)[: len(kept)] != kept
        if self.sign == "<=":
            return _release(newest) > _release(self.version)
        return _release(newest) >= _release(self.version)


def _release(version: str) -> tuple[int, ...]:
    """Its numbers, those of a pre-release among them, without a local part: `2.13.0+cpu` is `2.13.0`, `4.0` is `4`."""
    numbers = [int(number) for number in re.findall(r"\d+", version.partition("+")[0])]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def find_pins(text: str) -> list[Pin]:
    """Every pinned or capped requirement of a pyproject.toml, in its order, once each."""
    project = tomllib.loads(text)
    lists = [project["build-system"]["requires"], project["project"].get("dependencies", [])]
    lists += project["project"].get("optional-dependencies", {}).values()
    reasons = dict(reversed(list(_reasons(text))))  # the first one counts
    pins: dict[str, Pin] = {}
    for requirement in (each for one in lists for each in one):
        parts = REQUIREMENT.match(requirement)
        limit = LIMIT.search(parts["limits"]) if parts else None
        if parts and limit:
            why = reasons.get(requirement, "")
            pins.setdefault(parts["name"], Pin(parts["name"], limit["sign"], limit["version"], why))
    return list(pins.values())


def _reasons(text: str) -> Iterator[tuple[str, str]]:
    """Each quoted string with what the comment beside it, or else the one above it or its list, says of pins."""
    above: list[str] = []
    in_comment = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("#"):
            above = [*(above if in_comment else []), line.lstrip("# ")]
        elif not line or line.startswith("["):
            above = []
        in_comment = line.startswith("#")
        if not in_comment:
            quoted = re.findall(r'"([^"]*)"', line)
            beside = re.search(r"#\s*(.*)$", re.sub(r'"[^"]*"', "", line))
            reason = beside[1] if beside else _about_pins(" ".join(above))
            yield from ((requirement, reason) for requirement in quoted)


def _about_pins(comment: str) -> str:
    """Those sentences of a comment that are about pins."""
    sentences = re.split(r"(?<=[.!?])\s+", comment)
    return " ".join(sentence for sentence in sentences if re.search(r"\b(pinned|capped)\b", sentence, re.IGNORECASE))


def newest_release(answer: str) -> str | None:
    """What `pip index versions NAME` says: its first line is `NAME (VERSION)`."""
    found = re.match(r"\S+ \(([^)\s]+)\)", answer)
    return found[1] if found else None


def ask_pip(pin: Pin) -> str | None:
    """The newest release that this Python could install, or None without an answer in time."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--retries", "1", "index", "versions"]
    command += ["--pre"] if PRE_RELEASE.search(pin.version) else []
    try:
        done = subprocess.run(  # noqa: S603 - our own names
            [*command, pin.name], capture_output=True, text=True, timeout=ANSWER_S, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    return newest_release(done.stdout)


def report(pins: list[Pin], ask: Ask) -> str:
    """The table, what is newer first, and one line that counts."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(zip(pins, pool.map(ask, pins), strict=True))
    if pins and not any(newest for _, newest in answers):
        return f"Nothing was checked: pip's index answered for none of {len(pins)} packages. Is this machine online?"
    newer = [(pin, newest) for pin, newest in answers if newest and pin.leaves_out(newest)]
    rest = [(pin, newest or "no answer") for pin, newest in answers if (pin, newest) not in newer]
    rows = [("name", "ours", "newest", "", "why it is pinned")]
    rows += [(pin.name, pin.ours, newest, "newer", pin.why) for pin, newest in newer]
    rows += [(pin.name, pin.ours, newest, "", pin.why) for pin, newest in rest]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = ["  ".join([*map(str.ljust, row, widths), row[4]]).rstrip() for row in rows]
    unanswered = sum(newest is None for _, newest in answers)
    return "\n".join([*lines, f"{len(newer)} of {len(pins)} have something newer; {unanswered} without an answer."])


if __name__ == "__main__":
    here = Path(__file__).resolve().parents[1] / "pyproject.toml"
    print(report(find_pins(Path(sys.argv[1] if sys.argv[1:] else here).read_text(encoding="utf-8")), ask_pip))
