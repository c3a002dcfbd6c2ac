"""A line of metrics.jsonl as the fact of a round. The file may be anybody's: what has another form is left out (Q4)."""

import json
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from bfl.dashboard.facts import ITSELF, TERMS, Assignment, OffenceFact, RefusedNode, RoundFact
from bfl.dashboard.reading.clean import hex_text, index, listed, number, numbers, text, whole

MOST_DEVICES, MOST_SERVERS = 100_000, 1024
_MOST_OFFENCES, _MOST_REFUSED = 2048, 4096
_TERMS = {"T_learn": "learn", "T_cons": "consensus", "T_mine": "mine", "T": "T", "T_wall": "T_wall"}
_PHASES = {
    "learn": ("plan", "train", "close"), "consensus": ("gossip", "verify"), "mine": ("model", "seal"),
}  # fmt: skip
"""Which phases of a real round the terms of the paper stand for"""


def read_round(line: bytes, round_: int, exclusion_rounds: int = 0, is_real: bool = False) -> RoundFact | None:
    """The fact in a whole line of this round; None for any other line. `is_real`: seconds are those of a network."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or content.get("round") != round_ or type(content["round"]) is not int:
        return None
    return _fact(content, round_, exclusion_rounds, is_real)


def _fact(content: Mapping[str, Any], round_: int, exclusion_rounds: int, is_real: bool) -> RoundFact:
    excluded = _indices(content.get("excluded"))
    seconds = numbers(content.get("seconds"))
    return RoundFact(
        round=round_,
        leader=whole(content.get("leader"), ITSELF),
        winner=index(content.get("winner")),
        phi=whole(content.get("phi")),
        training_nodes=whole(content.get("training-nodes")),
        samples=whole(content.get("samples")),
        offloaded=whole(content.get("offloaded")),
        assignment=assignment_of(content.get("assignment")),
        accuracy=number(content.get("accuracy")),
        loss=number(content.get("loss")),
        divergence=number(content.get("divergence")),
        consensus_error=number(content.get("consensus-error")),
        latency=_latency(content.get("latency")),
        measured=measured_terms(seconds) if is_real else {},
        seconds={sys.intern(name): each for name, each in seconds.items()},
        refused=tuple(_refused(each) for each in listed(content.get("refused"), _MOST_REFUSED)),
        offences=_offences(content.get("offences"), round_, excluded, exclusion_rounds),
        absent=tuple(_named(each) for each in listed(content.get("absent"), MOST_SERVERS)),
        excluded=excluded,
        failed_leaders=_indices(content.get("failed-leaders")),
        filtered=_indices(content.get("filtered"), MOST_DEVICES),
        aside=_aside(content.get("set-aside")),
        block=hex_text(content.get("block"), 64),
        block_bytes=whole(content.get("block-bytes")),
    )


def assignment_of(found: Any) -> Assignment | None:
    """Who offloads where; None where the line has none, as lines of older runs."""
    if not isinstance(found, list | tuple) or not found or len(found) > MOST_DEVICES:
        return None
    if any(type(each) is not int or not ITSELF <= each < MOST_SERVERS for each in found):
        return None
    assignment = np.array(found, np.int16)
    assignment.setflags(write=False)
    return assignment


def measured_terms(seconds: Mapping[str, float]) -> dict[str, float]:
    """What a network really took, by the terms of the paper; nothing where no phase is timed."""
    if not seconds:
        return {}
    found = {term: sum(seconds.get(phase, 0.0) for phase in phases) for term, phases in _PHASES.items()}
    total = sum(found[term] for term in TERMS)
    return found | {"T": total, "T_wall": total}


def latency_terms(found: Any) -> dict[str, float]:
    """The terms of one kind, by our names."""
    return {_TERMS[name]: each for name, each in numbers(found).items() if name in _TERMS}


def _latency(found: Any) -> dict[str, dict[str, float]]:
    kinds = found if isinstance(found, dict) else {}
    return {kind: terms for kind in ("paper", "real") if (terms := latency_terms(kinds.get(kind)))}


def _aside(found: Any) -> tuple[tuple[int, int], ...]:
    rows = (each for each in listed(found, MOST_DEVICES) if isinstance(each, dict))
    read = ((index(each.get("device")), index(each.get("through"))) for each in rows)
    return tuple((device, through) for device, through in read if device is not None and through is not None)


def _indices(found: Any, most: int = MOST_SERVERS) -> tuple[int, ...]:
    read = (index(each) for each in listed(found, most))
    return tuple(each for each in read if each is not None)


def _named(found: Any) -> str:
    return sys.intern(text(found, 80))


def _refused(found: Any) -> RefusedNode:
    each = found if isinstance(found, dict) else {}
    return RefusedNode(_named(each.get("node")), _named(each.get("reason")), text(each.get("detail")))


def _offences(found: Any, round_: int, excluded: tuple[int, ...], exclusion_rounds: int) -> tuple[OffenceFact, ...]:
    told: dict[str, OffenceFact] = {}
    for each in listed(found, _MOST_OFFENCES):
        if not isinstance(each, dict):
            continue
        offender, kind, step = _named(each.get("offender")), _named(each.get("kind")), index(each.get("step"))
        is_out = offender in {f"server {server}" for server in excluded}
        through = round_ + exclusion_rounds if is_out and exclusion_rounds else None
        id_ = unused_id(round_, offender, kind, step, told)
        told[id_] = OffenceFact(id_, round_, offender, kind, step, text(each.get("detail")), through)
    return tuple(told.values())


def unused_id(round_: int, offender: str, kind: str, step: int | None, used: Mapping[str, object]) -> str:
    """The id of an offence, for links: 8-server-1-3; numbered where the same was found twice."""
    bare = f"{round_} {offender} {kind if step is None else step}".lower()
    id_ = "-".join("".join(each if each.isascii() and each.isalnum() else " " for each in bare).split())
    count = 1
    while f"{id_}-{count}" in used or (count == 1 and id_ in used):
        count += 1
    return id_ if count == 1 else f"{id_}-{count}"
