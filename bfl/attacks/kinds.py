"""The kinds of attacks, with the options that each takes, and one attack as a value (docs/attacks.md)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

REQUIRED = ""


DEVICE_KINDS: Mapping[str, Mapping[str, str]] = {
    "sign-flip": {"device": REQUIRED, "strength": "1"},
    "noise": {"device": REQUIRED, "strength": "10"},
    "label-flip": {"device": REQUIRED},
    "inflated-samples": {"device": REQUIRED, "strength": "10"},
    "forged": {"device": REQUIRED},
    "alie": {"device": REQUIRED, "strength": "1.5"},
    "ipm": {"device": REQUIRED, "strength": "0.5"},
    "mimic": {"device": REQUIRED},
    "model-replacement": {"device": REQUIRED, "strength": "5"},
    "absent": {"device": REQUIRED},
}
"""Each kind of device attack with the options it takes and their defaults."""


LEADER = "leader"


PHASES = ("plan", "close", "model", "seal")
"""What the leader alone does."""


SERVER_KINDS: Mapping[str, Mapping[str, str]] = {
    "iterate-noise": {"server": "0", "step": "3", "strength": "0.08"},
    "lying-aggregate": {"server": "0", "strength": "1"},
    "poisoned-gradient": {"server": "0", "strength": "5"},
    "inflated-weight": {"server": "0", "strength": "10"},
    "withheld-gradient": {"server": "0"},
    "wrong-model": {"server": LEADER, "strength": "0.08"},
    "omitted-gradient": {"server": LEADER, "device": "first"},
    "withheld-iterate": {"server": "0", "step": "3"},
    "equivocation": {"server": "0", "step": "3"},
    "silent-leader": {"server": LEADER, "phase": "model"},
    "slow-leader": {"server": LEADER},
    "double-signing": {"server": LEADER},
    "broken-pass": {"server": "0"},
}


STEPPED = ("withheld-iterate", "equivocation")
"""Kinds about an iterate of one step; so is iterate-noise, where servers gossip"""
CHAIN_ONLY = ("equivocation", "double-signing", "broken-pass", "forged")
"""Kinds that only signatures make possible: without a chain they do nothing"""


KINDS = {**SERVER_KINDS, **DEVICE_KINDS}
"""Each kind with the options it takes and their defaults."""


@dataclass(frozen=True)
class Attack:
    """One part of the text."""

    kind: str
    rounds: tuple[range, ...] | None
    """None: all of them."""
    strength: float = 1.0
    server: int | None = None
    """Of a server's attack: who; None is whoever leads."""
    devices: frozenset[int] = frozenset()
    """Of a device's attack: who. Of omitted-gradient: the victims; none is the first in the list."""
    step: int = 0
    phase: str = ""
    post: str = ""
    """Of a server's attack that somebody else wrote: what it lies about."""
    _leaders: dict[int, int] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def is_foreign(self) -> bool:
        """Whether it is somebody else's function (bfl/attacks/own.py)."""
        return self.kind not in KINDS

    @property
    def is_of_device(self) -> bool:
        """Whether devices play it, not a server."""
        return bool(self.devices) if self.is_foreign else self.kind in DEVICE_KINDS

    def is_on(self, round_: int) -> bool:
        """Whether it happens in a round."""
        return self.rounds is None or any(round_ in part for part in self.rounds)

    def is_played_by(self, server: int, round_: int) -> bool:
        """Whether `server`, which is about to post, is the attacker.

        The leader of an attack is the first that comes to lead: if its successors attacked as well, nobody would be
        left to lead the round.
        """
        return server == (self._leaders.setdefault(round_, server) if self.server is None else self.server)
