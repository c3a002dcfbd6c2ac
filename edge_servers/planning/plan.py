"""What is posted in a round, by whom, in which phase (the table of protocol.md)."""

import dataclasses
import hashlib
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from chain.errors import CodecError
from chain.wire.documents import canonical_json, read_canonical_json
from edge_servers.errors import PlanError

_MOST = 2**63


@dataclass(frozen=True)
class Plan:
    """The leader's plan of a round: who offloads where AFTER projection, and what everyone computes with."""

    round: int
    state_digest: str
    assignment: tuple[int, ...]
    """Server each device offloads to, by device; -1 trains itself."""
    samples: tuple[int, ...]
    """D_n of the round, by device."""
    iterations: tuple[int, ...]
    """e_n, by device."""
    server_iterations: tuple[int, ...]
    """e_m, by server."""
    phi: int
    deadline_s: float
    divergence: float
    """Xi of the round before, which `phi = auto` uses."""
    policy_digest: str
    """Names the planner and its weights."""
    power_w: tuple[float, ...] = ()
    bandwidth_hz: tuple[float, ...] = ()
    cpu_hz: tuple[float, ...] = ()
    hash_rate: tuple[float, ...] = ()
    """What the policy gives each device; the hash rates are the odds of sealing the round."""
    latency_s: Mapping[str, float] = field(default_factory=dict)
    """What the plan should take, by term."""

    @cached_property
    def payload(self) -> bytes:
        """The plan as it is posted: canonical JSON."""
        return canonical_json(asdict(self))

    @cached_property  # every order and every reply of a round names it
    def digest(self) -> str:
        """sha256 of the payload."""
        return hashlib.sha256(self.payload).hexdigest()


NO_PLAN = Plan(-1, "", (), (), (), (), 0, 0.0, 0.0, "")
"""Of a server that has not read one yet"""


def read_plan(payload: bytes) -> Plan:
    """The plan in a post; `PlanError` says what is wrong with it."""
    try:
        content = read_canonical_json(payload)
    except CodecError as error:
        raise PlanError(f"the plan: {error}") from error
    fields = {each.name: each for each in dataclasses.fields(Plan)}
    if not isinstance(content, dict) or content.keys() != fields.keys():
        raise PlanError(f"found a plan with other fields than {', '.join(fields)}")
    for name, value in content.items():
        kind = _name_of(fields[name].type)
        if not _fits(value, kind):
            raise PlanError(f"plan: found {name} = {value!r:.80}, expected {kind}")
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in content.items()}
    return Plan(**values)


def _name_of(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _fits(value: Any, kind: str) -> bool:
    if kind == "int":
        return type(value) is int and abs(value) < _MOST
    if kind == "float":
        return (
            type(value) in (int, float) and abs(value) <= sys.float_info.max
        )  # neither NaN nor what no float can hold
    if kind == "str":
        return isinstance(value, str)
    if kind.startswith("tuple"):
        inner = kind.removeprefix("tuple[").partition(",")[0]
        return isinstance(value, list) and all(_fits(each, inner) for each in value)
    return isinstance(value, dict) and all(_fits(each, "float") for each in value.values())


def canonical_digest(content: object) -> str:
    """sha256 of canonical JSON: sorted keys, no spaces."""
    return hashlib.sha256(canonical_json(content)).hexdigest()
