"""What the page knows: small immutable facts, the same for a run folder, a kit and a node. No bytes of payloads.

A `Snapshot` is all of it at one moment. The tailer makes a new one a second; whoever shows something reads one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

ITSELF = -1
"""In an assignment: the device trains itself"""
TERMS = ("learn", "consensus", "mine")
"""Of a latency: they add up to "T"; "T_wall" is what a clock on the wall would show"""
Assignment = NDArray[np.int16]
"""Server that each device offloads to, by device; `ITSELF` where it trains"""
Kind = Literal["run", "kit", "node"]
Status = Literal["waiting", "running", "finished", "interrupted", "paused", "unreachable", "diverged"]


@dataclass(frozen=True)
class Participant:
    """A server or a device, by name ("server 1", "device 3")."""

    name: str
    role: Literal["server", "device"]
    index: int
    address: str
    """0x..; empty without a chain."""
    home: int
    """Number of its home server; a server is its own."""
    samples: int
    """Registered; 0 where it is not known."""
    consent: str = "any"


@dataclass(frozen=True)
class RefusedNode:
    """Whose gradient did not count, and why."""

    name: str
    reason: str
    """Code, such as "late"."""
    detail: str = ""


@dataclass(frozen=True)
class OffenceFact:
    """Something that was wrong in a round."""

    id: str
    """For links: ROUND-ROLE-NUMBER-STEP or -KIND, such as "8-server-1-3"; unique in a run."""
    round: int
    offender: str
    kind: str
    step: int | None
    detail: str
    excluded_through: int | None = None
    """Last round of the exclusion that followed, where it is known."""


@dataclass(frozen=True, eq=False)
class RoundFact:
    """A finished round. Compared by identity: a round that has not changed stays the same object."""

    round: int
    leader: int
    winner: int | None
    phi: int
    training_nodes: int
    samples: int
    offloaded: int
    assignment: Assignment | None
    accuracy: float | None = None
    loss: float | None = None
    divergence: float | None = None
    consensus_error: float | None = None
    latency: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Simulated seconds by kind ("paper", "real") and term: `TERMS`, and their sums "T" and "T_wall"."""
    measured: Mapping[str, float] = field(default_factory=dict)
    """Seconds by term as a network of machines measured them; empty in a simulation."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Wall time by phase, on the machine that ran it."""
    refused: tuple[RefusedNode, ...] = ()
    offences: tuple[OffenceFact, ...] = ()
    absent: tuple[str, ...] = ()
    excluded: tuple[int, ...] = ()
    """Servers that may not post in the NEXT round."""
    failed_leaders: tuple[int, ...] = ()
    filtered: tuple[int, ...] = ()
    """Devices whose gradients the filter took out."""
    aside: tuple[tuple[int, int], ...] = ()
    """(device, last round of it) of those that took no part in this round: no offence."""
    block: str = ""
    """0x and the hash of its block; empty without a chain."""
    block_bytes: int = 0


@dataclass(frozen=True)
class BlockFact:
    """A sealed block, in a few hundred bytes."""

    number: int
    hash: str
    round: int
    timestamp: int
    leader: str
    """Name, or an address where there is none; empty for genesis."""
    winner: str
    posts: Mapping[str, int]
    """How many of each kind."""
    size: int
    payload_size: int
    difficulty: int
    endorsements: int
    is_final: bool
    attempt: int = 0
    """At its round, in which it was built; 0: the first."""


@dataclass(frozen=True)
class MachineFact:
    """A machine of a real network, as this one sees it."""

    name: str
    role: str
    word: str
    """For people: "block 41, clock +0.1 s"."""
    is_well: bool
    head: int | None = None
    peers: int | None = None
    pool: int | None = None
    version: str = ""
    skew_s: float | None = None
    last_seen_s: float | None = None
    """Epoch seconds."""


@dataclass(frozen=True)
class About:
    """What is shown: one run, kit or node."""

    kind: Kind
    name: str
    place: str
    """Folder or URL, for people."""
    scheme: str
    dataset: str
    partition: str
    planner: str
    seed: int | None
    rounds_planned: int | None
    devices: int
    edges: int
    graph: tuple[tuple[int, int], ...]
    """Pairs of servers that gossip."""
    chain_id: int | None
    """None without a chain."""
    is_simulated: bool
    """Whether keys, clock, channels and hash rates are simulated."""
    settings: Mapping[str, str | int | float] = field(default_factory=dict)


@dataclass(frozen=True)
class Snapshot:
    """Everything at one moment."""

    about: About
    status: Status
    cursor: int
    """Grows with every change; clients ask for what came after theirs."""
    rounds: Sequence[RoundFact]
    """Rounds 1, 2, ... as far as they are known, without gaps."""
    blocks: Sequence[BlockFact]
    """By number, from 0; empty without a chain."""
    participants: Sequence[Participant]
    machines: Sequence[MachineFact] = ()
    told: str = ""
    """What is wrong with the source, for people; empty where all is well."""
    reorganised: int = 0
    """How often blocks that were shown were replaced."""

    @property
    def offences(self) -> list[OffenceFact]:
        """All of them, oldest first."""
        return [each for round_ in self.rounds for each in round_.offences]
