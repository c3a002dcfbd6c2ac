"""The child process: `audit WHERE...` tells line by line, in JSON, how far it is and what it found; `model K FILE
WHERE...` writes a model. WHERE: "file" and a run folder or chain.db, "rpc" and a URL, or "kit" and a kit's folder.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from bfl.auditing.findings import Audit, audit_rounds
from bfl.auditing.model_export import model_content
from bfl.auditing.model_file import checked_run_model, run_model
from bfl.auditing.verdict import gaps_in, verdict
from bfl.config import TOKEN_VARIABLE
from bfl.dashboard.index.children import NO_MODEL
from bfl.dashboard.index.opening import feeds_of_kit
from bfl.dashboard.reading.round_lines import unused_id
from bfl.errors import BflError
from bfl.network.kits import read_kit
from bfl.show.text import size_text
from chain.audit.archive import Archive, open_archive
from chain.errors import ChainError, InspectionError, ProofError
from edge_servers.errors import EdgeError
from edge_servers.replay.audit import AuditError, PrunedModelError
from edge_servers.replay.offences import Offence

_NICE = 10
_TELL_EVERY_S = 0.2
_MOST_FINDINGS = 2000


def open_place(where: Sequence[str]) -> Archive:
    """The chain that a source shows."""
    kind, place = where
    if kind == "rpc":
        return open_archive(None, place, os.environ.get(TOKEN_VARIABLE, ""))
    if kind == "kit":
        return feeds_of_kit(read_kit(Path(place)))().archive
    return open_archive(Path(place))


def _say(told: dict[str, Any]) -> None:
    print(json.dumps(told), flush=True)


class _Progress:
    """Says now and then how far the audit is."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def __call__(self, done: int, of: int) -> None:
        if time.monotonic() >= self._next_s or done == of:
            self._next_s = time.monotonic() + _TELL_EVERY_S
            _say({"done": done, "of": of})


def audit(where: Sequence[str]) -> int:
    """Audit a chain; the exit code is that of `bfl audit check`."""
    started = time.monotonic()
    with closing(open_place(where)) as archive:
        if not archive.head().block_number:
            raise BflError("this chain is not founded: there is nothing to check yet")
        try:
            found = audit_rounds(archive, _Progress())
            path = run_model(Path(where[1])) if where[0] == "file" else None
            found.model_file = "" if path is None else checked_run_model(path, found)
        except PrunedModelError as error:
            raise BflError(str(error)) from error
        except (InspectionError, AuditError, ProofError) as error:
            _say({"verdict": "does not fit", "told": str(error)[:1000], "exit_code": 1})
            return 1
    told = _told(found, time.monotonic() - started)
    _say(told)
    return int(told["exit_code"])


def _told(found: Audit, seconds: float) -> dict[str, Any]:
    gaps = gaps_in(found)
    return {
        "verdict": verdict(found.findings, gaps),
        "exit_code": 2 if gaps else 0,
        "not_checked": gaps,
        "executed": not found.not_executed,
        "simulated": found.simulated,
        "believed": found.believed,
        "findings": _findings(found.findings[:_MOST_FINDINGS]),
        "rows": _rows(found),
        "seconds": seconds,
        "head": f"0x{found.found.hashes[-1].hex()}",
    }


def _rows(audited: Audit) -> list[tuple[str, str]]:
    found = audited.found
    rows = [
        ("blocks", f"{found.blocks:,}"),
        ("rounds whose model was derived again, bit for bit", f"{len(audited.rounds):,}"),
        ("transactions", f"{found.transactions:,}"),
        ("reverted", f"{found.reverted:,}"),
        ("payloads beside the blocks", size_text(found.payload_bytes)),
        ("final", f"blocks up to {found.final} of {found.blocks - 1}"),
        ("servers that signed the last block", f"{found.signed[0]} of {found.signed[1]}"),
    ]
    return [*rows, ("model.pt", audited.model_file)] if audited.model_file else rows


def _findings(findings: Sequence[Offence]) -> list[dict[str, Any]]:
    used: dict[str, Any] = {}
    for each in findings:
        id_ = unused_id(each.round, each.name, each.kind, each.step, used)
        used[id_] = {
            "id": id_,
            "round": each.round,
            "offender": each.name,
            "detail": each.detail,
            "verdict": each.verdict,
            "flagged_by": list(each.flagged_by),
            "off_by": None if each.off_by is None else each.off_by[0],
            "off_by_norm": None if each.off_by is None else each.off_by[1],
            "posted": f"0x{each.found.hex()}" if each.found else "",
            "expected": f"0x{each.expected.hex()}" if any(each.expected) else "",
            "excluded_through": each.excluded_through,
        }
    return list(used.values())


def model(round_: int, path: Path, where: Sequence[str]) -> int:
    """Write the model of a round."""
    import torch

    with closing(open_place(where)) as archive:
        block, founding = archive.block(round_ + 1), archive.block(1)
        try:
            content = model_content(archive, block, founding)
        except BflError as error:
            print(error, file=sys.stderr)
            return NO_MODEL
    torch.save(content, path)
    return 0


def main(arguments: Sequence[str]) -> int:
    """What the parent has asked for."""
    os.nice(_NICE)
    try:
        if arguments[0] == "audit":
            return audit(arguments[1:])
        return model(int(arguments[1]), Path(arguments[2]), arguments[3:])
    except (BflError, ChainError, EdgeError, OSError) as error:
        print(str(error)[:1000], file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
