"""The leader's plan of a round, as it is posted and read."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Annotated

from pydantic import Field

from chain.errors import CodecError
from chain.wire.documents import canonical_json, read_canonical_json, read_record

_KIND = "plan"
Whole = Annotated[int, Field(gt=-(2**63), lt=2**63)]
Number = Annotated[float, Field(allow_inf_nan=False)]
"""Neither NaN nor what no float can hold"""


@dataclass(frozen=True)
class Plan:
    """The leader's plan of a round: who offloads where AFTER projection, and what everyone computes with."""

    round: Whole
    state_digest: str
    assignment: tuple[Whole, ...]
    """Server each device offloads to, by device; -1 trains itself."""
    samples: tuple[Whole, ...]
    """D_n of the round, by device."""
    iterations: tuple[Whole, ...]
    """e_n, by device."""
    server_iterations: tuple[Whole, ...]
    """e_m, by server."""
    phi: Whole
    deadline_s: Number
    divergence: Number
    """Xi of the round before, which `phi = auto` uses."""
    policy_digest: str
    """Names the planner and its weights."""
    power_w: tuple[Number, ...] = ()
    bandwidth_hz: tuple[Number, ...] = ()
    cpu_hz: tuple[Number, ...] = ()
    hash_rate: tuple[Number, ...] = ()
    """What the policy gives each device; the hash rates are the odds of sealing the round."""
    latency_s: Mapping[str, Whole | Number] = field(default_factory=dict)
    """What the plan should take, by term."""
    start_ms: Whole = 0
    """When the attempt began, in milliseconds of the epoch: deadlines count from it."""
    reputation: tuple[tuple[Whole, ...], ...] = ()
    """What is held against devices, a row for each (R6); a plan without any has no word for it."""
    kind: str = _KIND

    @cached_property
    def payload(self) -> bytes:
        """The plan as it is hashed, and travels beside its post: canonical JSON."""
        content = asdict(self)
        if not self.reputation:
            del content[_REPUTATION]
        return canonical_json(content)

    @cached_property  # every order and every reply of a round names it
    def digest(self) -> str:
        """sha256 of the payload."""
        return hashlib.sha256(self.payload).hexdigest()


_FIELDS = Plan.__dataclass_fields__.keys()
_REPUTATION = "reputation"
NO_PLAN = Plan(-1, "", (), (), (), (), 0, 0.0, 0.0, "")
"""Of a server that has not read one yet"""


def read_plan(payload: bytes) -> Plan:
    """The plan in a post; `CodecError` says what is wrong with it."""
    try:
        content = read_canonical_json(payload)
    except CodecError as error:
        raise CodecError(f"the plan: {error}") from error
    keys = {*content, _REPUTATION} if isinstance(content, dict) else set()
    if keys != _FIELDS or content["kind"] != _KIND or content.get(_REPUTATION) == []:
        raise CodecError(f"found a plan with other fields than {', '.join(Plan.__dataclass_fields__)}")
    try:
        return read_record(Plan, payload)
    except CodecError as error:
        raise CodecError(f"plan: {error}") from error
