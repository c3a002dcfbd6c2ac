"""From kits to audits: a rehearsal from its beginning to its end, told step by step."""

import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Protocol

from bfl.errors import BflError
from bfl.network.lab.audits import audit_all
from bfl.network.lab.machines import Lab
from bfl.network.lab.outcome import LabResult, accusations_at, head_of, left_out_at
from bfl.network.lab.params import LabParams, address_of
from bfl.network.lan import leftovers
from bfl.network.lan.switch import Switch

PREFIX = "lab"
_LOOK_S = 0.5


class Watcher(Protocol):
    """Whoever hears how a rehearsal goes."""

    def say(self, line: str) -> None:
        """A step, or something that has happened."""

    def show(self, rounds: int, word: str) -> None:
        """Rounds that are sealed, and what there is to say of now."""


@contextmanager
def open_lab(params: LabParams) -> Iterator[Lab]:
    """The machines of a lab, not started yet; whatever happens, nothing stays but the folder."""
    if params.out.exists() and any(params.out.iterdir()):
        raise BflError(f"{params.out} is not empty; choose another --out")
    params.out.mkdir(parents=True, exist_ok=True)
    leftovers.sweep(PREFIX)
    mark = leftovers.new_name(PREFIX)
    names = [*params.edge_names, *params.device_names]
    with ExitStack() as undo:
        undo.callback(leftovers.remove, mark)
        inside: dict[str, Sequence[str]] = dict.fromkeys(names, ())
        if params.namespaces:
            if os.geteuid() != 0:
                raise BflError("found --namespaces without root; leave it out, or run it as root")
            switch = Switch(f"{mark}.switch")
            for index, name in enumerate(names):
                switch.connect(f"{mark}.{name}", address_of(index))
                inside[name] = ["nsenter", f"--net=/run/netns/{mark}.{name}", "--"]
        lab = Lab(params, inside, mark)
        undo.callback(lab.end)
        yield lab


class Rehearsal:
    """One run of a lab, and how long its steps take."""

    def __init__(self, lab: Lab, watcher: Watcher) -> None:
        self._lab, self._params, self._watcher = lab, lab.params, watcher
        self._seconds: dict[str, float] = {}
        self._patience_ends_s = 0.0

    def run(self) -> LabResult:
        """Kits, machines, rounds, audits."""
        params, lab, say = self._params, self._lab, self._watcher.say
        with self._step("kits"):
            say("making keys, certificates and the founding block")
            lab.prepare()
        with self._step("start"):
            say(f"{params.edges} edges and {params.devices} devices start; their logs are {params.kits}/NAME/log")
            lab.start()
            self._patience_ends_s = time.monotonic() + params.patience_s
            self._wait_for(1)
        with self._step("rounds"):
            self._wait_for(params.rounds)
        restarts, rounds, accuracy = lab.restarts(), lab.rounds(), lab.accuracy()
        with self._step("end"):
            say("ending the machines")
            lab.end()
        with self._step("audits"):
            say(f"auditing the chains of {params.edges} edges")
            audits = audit_all(params, say)
        say("looking for accusations")
        kits = {name: params.kits / name for name in params.edge_names}
        accused = {name: accusations_at(kit) for name, kit in kits.items()}
        left_out = max((left_out_at(kit) for kit in kits.values()), key=Counter.total)
        heads = {name: head_of(params, name) for name in kits}
        return LabResult(rounds, heads, self._seconds, accuracy, restarts, audits, accused, left_out)

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._seconds[name] = round(time.monotonic() - began, 1)

    def _wait_for(self, rounds: int) -> None:
        """Until every edge has so many rounds, or patience is over; what ends meanwhile is started again."""
        lab, told, counts = self._lab, -1, self._lab.rounds()
        while time.monotonic() < self._patience_ends_s:
            counts = lab.rounds()
            most = max(counts.values())
            if most != told or not most:
                accuracy, told = lab.accuracy(), most
                self._watcher.show(most, lab.last_word() if accuracy is None else f"accuracy {100 * accuracy:.1f} %")
            if min(counts.values()) >= rounds:
                return
            for line in lab.look():
                self._watcher.say(line)
            time.sleep(_LOOK_S)
        told_s = f"given up after {self._params.patience_s:.0f} s"
        self._watcher.say(f"{told_s}: found rounds {counts}, expected {rounds} of each edge")


def run_lab(params: LabParams, watcher: Watcher) -> LabResult:
    """Rehearse it; what came of it is also in `summary.json`."""
    with open_lab(params) as lab:
        result = Rehearsal(lab, watcher).run()
    faults = result.faults(params.rounds)
    summary = {"well": not faults, "faults": faults, **vars(result)}
    (params.out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    return result
