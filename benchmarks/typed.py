"""Commands as a person types them: at a terminal of a machine of the test network, with the answers that are asked for.

What is shown of them is what the terminal showed: shortened, never made up.
"""

import contextlib
import fcntl
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bfl.network.lan.leftovers import MARK
from tests.lan.lan import Lan

COLUMNS = 110
_ASKS = re.compile(r"(?:^|\n)[^\n]*(?:password|again)[^\n]*: ?\Z")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_LOOK_S = 0.05
_REPOSITORY = Path(__file__).resolve().parents[1]
_LONG_WORD = re.compile(r"\bbfl1\.([\w-]{8})[\w-]+")
_LONG_HEX = re.compile(r"\b0x([0-9a-f]{8})[0-9a-f]{20,}")


class Session:
    """One command line, from the moment it is typed."""

    def __init__(self, place: "Desk", line: str) -> None:
        self.desk, self.line, self._said = place, line, b""
        self._began, self._ended_s = time.monotonic(), 0.0
        own, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, place.columns, 0, 0))
        self._terminal = own
        self.process = subprocess.Popen(
            [*place.inside, "bash", "-c", line], cwd=place.folder, env=place.environment, stdin=theirs, stdout=theirs,
            stderr=theirs, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                raw = os.read(self._terminal, 1 << 16)
            except OSError:  # a terminal that nobody has open any more
                raw = b""
            if not raw:
                os.close(self._terminal)
                return
            self._said += raw
            if _ASKS.search(self.text):
                with contextlib.suppress(OSError):
                    os.write(self._terminal, f"{self.desk.password}\n".encode())

    @property
    def text(self) -> str:
        """What the terminal shows."""
        plain = _CONTROL.sub("", self._said.decode(errors="replace")).replace("\r\n", "\n")
        plain = plain.replace(f"{self.desk.folder}/", "")
        return "\n".join(line.rpartition("\r")[2] for line in plain.split("\n"))

    @property
    def seconds(self) -> float:
        """Until it ended, or until now."""
        return (self._ended_s or time.monotonic()) - self._began

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self.process.poll()

    def wait(self, most_s: float) -> "Session":
        """Until it ends; what has not ended by then is told as that, and ended."""
        try:
            self.process.wait(most_s)
        except subprocess.TimeoutExpired:
            self.end()
            self._said += f"\n(had not ended after {most_s:g} s)\n".encode()
        self._ended_s = time.monotonic()
        time.sleep(_LOOK_S)  # for its last words
        return self

    def wait_for(self, pattern: str, most_s: float) -> bool:
        """Whether it says this (a regular expression) in this time, or before it ends."""
        end = time.monotonic() + most_s
        while time.monotonic() < end:
            has_ended = self.code is not None
            if re.search(pattern, self.text):
                return True
            if has_ended:
                return False
            time.sleep(_LOOK_S)
        return False

    def end(self) -> None:
        """Ctrl-C, and after a while -9."""
        for number, patience_s in ((signal.SIGINT, 30.0), (signal.SIGKILL, 10.0)):
            if self.code is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(patience_s)

    @property
    def last_line(self) -> str:
        """What a person reads last."""
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        return lines[-1] if lines else "(nothing)"

    def shown(self, most_lines: int = 12) -> str:
        """For a page: prompt, command, output, seconds."""
        lines = [line for line in short(self.text).splitlines() if line.strip()]
        if len(lines) > most_lines:
            lines = [*lines[: most_lines - 1], f"... {len(lines) - most_lines + 1} more lines"]
        text = "\n".join([f"{self.desk.name}$ {short(self.line)}", *lines, f"# {self.seconds:.1f} s"])
        return "\n".join(f"    {line}".rstrip() for line in text.splitlines())


class Desk:
    """Where a person sits: a machine, a folder of its own, a password of its own."""

    def __init__(
        self, name: str, folder: Path, address: str = "", mark: str = "", programs: Path | None = None
    ) -> None:
        """`mark`: the name of its network namespace; without one it is this computer."""
        self.name, self.folder, self.address = name, folder, address
        self.password, self.extra, self.columns = f"that of {name}", dict[str, str](), COLUMNS
        self._mark, self._programs = mark, programs
        self.inside = ["nsenter", f"--net=/run/netns/{mark}", "--"] if mark else []

    @property
    def environment(self) -> dict[str, str]:
        """As after logging in: nothing of bfl is set."""
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("BFL_")}
        path = f"{self._programs or ''}{os.pathsep}{inherited.get('PATH', '')}"
        own = {"PATH": path, "PYTHONPATH": str(_REPOSITORY), "TERM": "xterm", "OMP_NUM_THREADS": "1", MARK: self._mark}
        return {**inherited, **own, **self.extra}

    def begin(self, line: str) -> Session:
        """Type a command that goes on."""
        return Session(self, line)

    def run(self, line: str, most_s: float = 180.0) -> Session:
        """Type a command, and wait for its end."""
        return self.begin(line).wait(most_s)


@contextmanager
def open_desks(names: list[str], disk_mb: int) -> Iterator[dict[str, Desk]]:
    """A machine for each of them, in a network namespace, with a disk; and nothing of it stays."""
    with Lan.open(names, namespaces=True, disk_mb=disk_mb) as lan:
        program = lan.folder / "bin" / "bfl"  # of this checkout, whatever is installed
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m bfl "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        yield {
            name: Desk(name, lan[name].folder, lan[name].address, f"{lan.name}.{name}", program.parent)
            for name in names
        }


def short(text: str) -> str:
    """Without what fills lines and says nothing: the middle of a token, of an address, of a hash."""
    return _LONG_HEX.sub(r"0x\1...", _LONG_WORD.sub(r"bfl1.\1...", text.replace(sys.prefix, ".venv")))


def carry(source: Path, target: Path) -> None:
    """A file from one machine to another, as a person brings it: by scp, a stick, a mail."""
    shutil.copy(source, target)


def write_block(page: Path, command: str, content: str) -> None:
    """Put what a command made where a page has it: between two comments that name the command."""
    begin, end = f"<!-- made by {command} -->", f"<!-- end of {command} -->"
    text = page.read_text(encoding="utf-8")
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"{page}: found no {begin} ... {end}; write them where its output goes")
    page.write_text(f"{before}{begin}\n\n{content.strip()}\n\n{end}{after}", encoding="utf-8")
