"""One audit at a time, in a niced child process; the page sees how far it is, and what came of it."""

import json
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from bfl.dashboard.decoded import AuditState, FindingDetail, Said
from bfl.dashboard.index.children import child_command, child_environment
from bfl.dashboard.reading.clean import hex_text, listed, number, text, whole

_MOST_LINE_CHARACTERS = 4 << 20
_STOP_S = 3.0
_FITS, _DOES_NOT_FIT = 0, 1
_NOT_SHOWN = (
    "Whether the data were good, or the labels right: gradients are on the chain, data never are.",
    "Who is behind an address: a key shows that the same one signed, not whose it is.",
    "Whether this is the chain that others know: compare the hash of its head with somebody you trust.",
)
_NOT_EXECUTED = "What the registry made of the posts: no block was executed here, receipts were believed."


class AuditJob:
    """For any thread. `start` again after it has ended: the chain may have grown."""

    def __init__(self, where: tuple[str, ...], secrets: Mapping[str, str], why_not: str = "") -> None:
        """`why_not`: why there is nothing to audit; empty where there is."""
        self._where, self._secrets = where, secrets
        first = AuditState("not started", "nobody has checked it here")
        self._lock, self._state = threading.Lock(), AuditState("impossible", why_not) if why_not else first
        self._child: subprocess.Popen[str] | None = None
        self.version = 0
        """Grows with every change of the state."""

    @property
    def state(self) -> AuditState:
        """How it stands; cheap."""
        return self._state

    def start(self) -> AuditState:
        """Begin; nothing happens while one runs."""
        with self._lock:
            if self._state.status in ("impossible", "running"):
                return self._state
            self._set(AuditState("running", "the audit begins", findings=self._state.findings))
            self._child = subprocess.Popen(  # noqa: S603 - our own module
                child_command("audit", *self._where), env=child_environment(self._secrets), text=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
            threading.Thread(target=self._follow, args=(self._child,), name="audit", daemon=True).start()
            return self._state

    def stop(self) -> None:
        """End the child."""
        child = self._child
        if child is None or child.poll() is not None:
            return
        child.terminate()
        try:
            child.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def _set(self, state: AuditState) -> None:
        self._state = state
        self.version += 1

    def _follow(self, child: "subprocess.Popen[str]") -> None:
        """Reads what the child says, to its end."""
        result: dict[str, Any] | None = None
        with child:
            out, err = child.stdout, child.stderr
            if out is None or err is None:
                return
            while line := out.readline(_MOST_LINE_CHARACTERS):
                told = _read(line)
                if "verdict" in told:
                    result = told
                elif "done" in told:
                    self._tell_progress(whole(told["done"]), whole(told.get("of")))
            trouble = err.read(_MOST_LINE_CHARACTERS).strip()
            code = child.wait()
        state = _failed(code, trouble) if result is None else _finished(result, code)
        self._set(replace(state, done=self._state.done, of=self._state.of))

    def _tell_progress(self, done: int, of: int) -> None:
        checked = f"checked through block {done - 1} of {of - 1}"
        self._set(replace(self._state, told=checked, done=done, of=of))


def _read(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _failed(code: int, trouble: str) -> AuditState:
    last = trouble.splitlines()[-1] if trouble else f"it ended with code {code} and said nothing"
    return AuditState("failed", f"The audit could not be made: {text(last, 500)}", exit_code=code)


def _finished(told: Mapping[str, Any], code: int) -> AuditState:
    findings = tuple(_finding(each) for each in listed(told.get("findings"), 2000) if isinstance(each, dict))
    verdict = text(told["verdict"])
    not_checked = tuple(text(each, 500) for each in listed(told.get("not_checked"), 100))
    return AuditState(
        status="finished",
        told=_sentence(verdict, code, text(told.get("told"), 1000)),
        verdict=verdict,
        exit_code=code,
        not_shown=(*not_checked, *_not_shown(told)),
        believed=tuple(text(each, 500) for each in listed(told.get("believed"), 100)),
        findings=findings,
        rows=tuple(Said(text(name), text(value)) for name, value in listed(told.get("rows"), 100)),
        seconds=number(told.get("seconds")),
        head=hex_text(told.get("head"), 64),
    )


def _not_shown(told: Mapping[str, Any]) -> tuple[str, ...]:
    more = [] if told.get("executed", True) else [_NOT_EXECUTED]
    if simulated := text(told.get("simulated")):
        more.append(f"Who signed: {simulated}, so anybody could have made this chain.")
    return (*more, *_NOT_SHOWN)


def _sentence(verdict: str, code: int, place: str) -> str:
    if code == _DOES_NOT_FIT:
        return f"This chain does not fit. The first place: {place}"
    if code == _FITS and verdict == "fits":
        return "Every block fits, and every model follows from what was posted. Nobody misbehaved."
    if code == _FITS:
        return f"The chain {verdict}: every model is right all the same, because the others noticed."
    return f"The chain {verdict}."


def _finding(found: Mapping[str, Any]) -> FindingDetail:
    """As the child has written it; by the names of the fields."""
    read: dict[str, Any] = {each.name: text(found.get(each.name), 1000) for each in fields(FindingDetail)}
    read |= {name: number(found.get(name)) for name in ("off_by", "off_by_norm")}
    read["round"] = whole(found.get("round"))
    read["flagged_by"] = tuple(text(each, 80) for each in listed(found.get("flagged_by"), 100))
    through = found.get("excluded_through")
    read["excluded_through"] = None if through is None else whole(through)
    return FindingDetail(**read)
