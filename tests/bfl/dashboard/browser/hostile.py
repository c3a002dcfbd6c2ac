"""A source in which every text is an attack: what a chain, metrics, settings, a kit or a node could ever say."""

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from bfl.dashboard.decoded import AuditState, BlockDetail, Evidence, Found, TransactionDetail
from bfl.dashboard.facts import (
    About,
    BlockFact,
    MachineFact,
    OffenceFact,
    Participant,
    RefusedNode,
    RoundFact,
    Snapshot,
)
from bfl.dashboard.index.audit_job import AuditJob
from bfl.dashboard.index.dashboard import Dashboard
from bfl.dashboard.index.details import Details
from chain.audit.archive import Archive

DEVICES, SERVERS = 3, 2
Fact = TypeVar("Fact")
ATTACK = "<img src=x onerror=alert(1)><b class=injected>\"'`{{7*7}}\u202e</script><script>alert(2)</script>"
SHOWN = '<img src=x onerror=alert(1)><b class=injected>"'
"""Of it, as text; what is longer may be cut"""
LINK = "javascript:alert(3)//"


def attack(field: str) -> str:
    """It begins with the name of its field, so that a page can be asked which fields it shows."""
    return f"{field} {ATTACK}"


def hostile(fact: type[Fact], /, **known: Any) -> Fact:
    """A fact all of whose texts are attacks; what is `known` stays."""
    types_ = typing.get_type_hints(fact)
    names = [each.name for each in dataclasses.fields(cast(Any, fact))]
    made = {name: _value(f"{fact.__name__}.{name}", types_[name]) for name in names if name not in known}
    return fact(**made, **known)


def _value(field: str, of: Any) -> Any:
    """A value of this type, the worst there is."""
    origin, parts = typing.get_origin(of), typing.get_args(of)
    if of is str:
        return LINK if field.endswith("link") else attack(field)
    if of in (int, float, bool):
        return of(1)
    if dataclasses.is_dataclass(of):
        return hostile(cast(Any, of))
    if origin is typing.Literal:
        return parts[-1]
    if origin in (types.UnionType, typing.Union):
        return _value(field, next(each for each in parts if each is not type(None)))
    if origin is tuple or origin is Sequence:
        return tuple(_value(field, each) for each in parts if each is not ...)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {attack(f"{field} key"): _value(field, parts[1])}
    raise AssertionError(f"{field}: a test must learn to make a {of}")


def hostile_snapshot(kind: str) -> Snapshot:
    """Three rounds, each told of as badly as can be."""
    people = [hostile(Participant, name=f"server {m}", role="server", index=m, home=m) for m in range(SERVERS)]
    people += [hostile(Participant, name=f"device {n}", role="device", index=n, home=0) for n in range(DEVICES)]
    return Snapshot(
        about=hostile(About, kind=kind, devices=DEVICES, edges=SERVERS, graph=((0, 1),), rounds_planned=5, chain_id=7),
        status="diverged",
        cursor=1,
        rounds=[_round(each) for each in (1, 2, 3)],
        blocks=[hostile(BlockFact, number=number, round=max(0, number - 1), timestamp=1) for number in range(5)],
        participants=people,
        machines=[hostile(MachineFact)],
        told=attack("Snapshot.told"),
        reorganised=1,
    )


def _round(round_: int) -> RoundFact:
    refused = (hostile(RefusedNode), hostile(RefusedNode, name="device 1"))
    offences = (
        hostile(OffenceFact, id="a", round=round_),
        hostile(OffenceFact, id="b", round=round_, offender="server 1"),
    )
    return hostile(
        RoundFact, round=round_, leader=0, winner=1, assignment=np.array([0, 1, -1], np.int16), refused=refused,
        offences=offences, excluded=(1,), failed_leaders=(1,), latency={"paper": {"T": 1.0, "mine": 1.0}},
        seconds={attack("RoundFact.seconds"): 1.0},
    )  # fmt: skip


class HostileSource:
    """Where all of it comes from; its chain cannot be opened."""

    name = "hostile"
    place: Path | None = None
    where: tuple[str, ...] = ()
    secrets: Mapping[str, str] = {}

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def poll(self, until_s: float) -> bool:
        """There is never more."""
        return False

    def snapshot(self) -> Snapshot:
        """The same each time."""
        return hostile_snapshot(self._kind)

    def open_archive(self) -> Archive:
        """Nobody asks."""
        raise AssertionError

    def close(self) -> None:
        """Nothing is open."""


class HostileDetails:
    """What is read when a block, a transaction or an offence is opened."""

    def block(self, which: str) -> BlockDetail:
        """Whichever is asked for."""
        return hostile(BlockDetail, fact=hostile(BlockFact, number=3, round=2, timestamp=1))

    def transaction(self, hash_: str) -> TransactionDetail:
        """Whichever is asked for."""
        return hostile(TransactionDetail)

    def evidence(self, offence_id: str) -> Evidence:
        """Whichever is asked for."""
        return hostile(Evidence, source="chain")


class HostileAudit(AuditJob):
    """An audit whose child said all this."""

    @property
    def state(self) -> AuditState:
        """It has ended."""
        return hostile(AuditState, status="finished", exit_code=1)


class HostileDashboard(Dashboard):
    """All of it together."""

    def __init__(self, kind: str = "node") -> None:
        super().__init__(HostileSource(kind))
        self.details = cast(Details, HostileDetails())
        self.audit = HostileAudit((), {})
        self.tailer.look()

    def search(self, text: str) -> list[Found]:
        """Places that are none."""
        urls = (LINK, "//evil.example/", "/\\evil.example", "/device/1")
        return [Found(attack(f"Found.label {number}"), url) for number, url in enumerate(urls)]
