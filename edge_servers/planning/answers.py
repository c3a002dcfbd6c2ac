"""Which devices answer a simulated round in time: each takes as long as the latency model says (docs/devices.md).

Nobody judges anybody here: who is late is out of the round like a device that was switched off (D3.6).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from edge_servers.planning.state import LOCAL
from policy.world.latency import Latency
from policy.world.state import Array

DATA_SHARE = 1 / 3
"""Of the deadline: so long servers wait for data, because they are still to train on them"""
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of a round's devices.  # all (N,)"""

    seconds: Array
    """Until the gradient or the data have arrived, from the order on."""
    due_s: Array
    """How long the servers wait for each."""
    away: Mask
    """Who is not there."""
    offloads: Mask

    @cached_property
    def late(self) -> Mask:
        """Who is there, and answers when nobody waits any more."""
        return np.asarray(~self.away & (self.seconds > self.due_s))

    @cached_property
    def missing(self) -> Mask:
        """Who is out of the round."""
        return self.away | self.late


def expected_answers(latency: Latency, assignment: Sequence[int], deadline_s: float, there: Sequence[bool]) -> Answers:
    """S12, S15, S16: data take T_off, a gradient T_off (after a time-out) + T_loc + T_up."""
    offloads = np.array(assignment) != LOCAL
    trained_s = latency.offload_s[0] + latency.local_s[0] + latency.upload_s[0]
    return Answers(
        seconds=np.where(offloads, latency.offload_s[0], trained_s),
        due_s=np.where(offloads, deadline_s * DATA_SHARE, deadline_s),
        away=~np.array(there),
        offloads=offloads,
    )


def spent_until_due(latency: Latency, answers: Answers) -> Latency:
    """The same round where nobody goes on after the deadline, and who is away does nothing: what T adds up (S17)."""
    seconds = np.where(answers.late, answers.due_s, np.where(answers.away, 0.0, answers.seconds))
    return _with_seconds(latency, answers, seconds)


def waited_until_due(latency: Latency, answers: Answers) -> Latency:
    """The same round as servers see it, who wait for everybody, at most until the deadline: what T_wall shows (S26)."""
    waited = _with_seconds(latency, answers, np.where(answers.missing, answers.due_s, answers.seconds))
    return replace(waited, trains=waited.trains | answers.missing[None])


def _with_seconds(latency: Latency, answers: Answers, seconds: Array) -> Latency:
    """Who is missing has spent `seconds` on whatever it did, and no server executes its data."""
    missing = answers.missing[None]
    return replace(
        latency,
        offload_s=np.where(missing, 0.0, latency.offload_s),
        server_share_s=np.where(missing, 0.0, latency.server_share_s),
        local_s=np.where(missing, seconds[None], latency.local_s),
        upload_s=np.where(missing, 0.0, latency.upload_s),
    )
