"""What is read when somebody opens it, not every second: a block, a post, the evidence of an offence, an audit."""

from dataclasses import dataclass
from typing import Literal

from bfl.dashboard.facts import BlockFact, OffenceFact


@dataclass(frozen=True)
class Said:
    """A name and a value with its unit, for people. All of it may come from a stranger: escape it."""

    name: str
    value: str
    link: str = ""
    """Path on the page, such as /server/1, /tx/0x.., /block/13; empty for none."""


@dataclass(frozen=True)
class PostDetail:
    """A transaction in the list of its block."""

    index: int
    hash: str
    phase: str
    """Of the round: founding, plan, train, close, gossip, verify, model; "-" where it is none of ours."""
    what: str
    """Call of the registry; "unreadable" where it is none."""
    sender: str
    """Name, or an address where there is none."""
    sender_link: str
    says: str
    size: int
    is_accepted: bool


@dataclass(frozen=True)
class BlockDetail:
    """A block, opened."""

    fact: BlockFact
    parent: str
    rows: tuple[Said, ...]
    """Its header, in an order for people."""
    posts: tuple[PostDetail, ...]
    """At most MOST_POSTS of them."""
    post_count: int
    signers: tuple[str, ...]
    """Names of the servers that endorsed it (Q1)."""


@dataclass(frozen=True)
class EventDetail:
    """What the registry made of a transaction."""

    name: str
    fields: tuple[Said, ...]


@dataclass(frozen=True)
class PayloadDetail:
    """A payload that a transaction names by its digest (B1)."""

    digest: str
    size: int
    is_here: bool


@dataclass(frozen=True)
class TransactionDetail:
    """A transaction, opened."""

    hash: str
    block: int
    block_hash: str
    index: int
    round: int | None
    phase: str
    what: str
    sender: str
    sender_link: str
    is_accepted: bool
    size: int
    said: tuple[Said, ...]
    events: tuple[EventDetail, ...]
    payloads: tuple[PayloadDetail, ...]


@dataclass(frozen=True)
class FlagDetail:
    """A server's flag: that it expected something else."""

    server: str
    transaction: str
    expected: str
    """Digest that it derived; empty where it named none."""


@dataclass(frozen=True)
class Evidence:
    """How one knows of an offence."""

    offence: OffenceFact
    told: str
    """In one or two plain sentences."""
    source: Literal["metrics", "chain", "audit"]
    """Who says so: the run's own record, flags in a block, or the audit that derived it again here."""
    block: int | None = None
    transaction: str = ""
    """Of what was posted; empty where it is not on the chain."""
    posted: str = ""
    """Digest."""
    expected: str = ""
    """Digest that follows from the chain."""
    off_by: float | None = None
    """Largest difference of one parameter."""
    off_by_norm: float | None = None
    flags: tuple[FlagDetail, ...] = ()
    flagged_by: tuple[str, ...] = ()
    excluded_from: int | None = None
    """First round that the offender might not post in."""
    excluded_through: int | None = None
    verdict: str = ""
    """Of the audit; empty where none has looked."""
    steps: tuple[Said, ...] = ()
    """What happened one after the other, with links."""


@dataclass(frozen=True)
class FindingDetail:
    """What an audit found wrong."""

    id: str
    """As OffenceFact has it."""
    round: int
    offender: str
    detail: str
    verdict: str
    flagged_by: tuple[str, ...]
    off_by: float | None
    off_by_norm: float | None
    posted: str
    expected: str
    excluded_through: int | None


@dataclass(frozen=True)
class AuditState:
    """How an audit stands."""

    status: Literal["impossible", "not started", "running", "finished", "failed"]
    told: str
    """For people: "checked through block 73 of 101", then the verdict in a sentence; why it is impossible or failed."""
    done: int = 0
    of: int = 0
    verdict: str = ""
    """"fits", "fits, but 1 participant misbehaved", "does not fit", with "as far as it could be checked"."""
    exit_code: int | None = None
    not_shown: tuple[str, ...] = ()
    """What this audit does NOT show, line by line."""
    believed: tuple[str, ...] = ()
    """What was taken as somebody says it is."""
    findings: tuple[FindingDetail, ...] = ()
    rows: tuple[Said, ...] = ()
    """Counts: blocks, transactions, rounds derived again, and so on."""
    seconds: float | None = None
    head: str = ""
    """Hash of the head that was audited."""


@dataclass(frozen=True)
class Found:
    """A place that a search leads to."""

    label: str
    url: str
    """Path on the page."""
