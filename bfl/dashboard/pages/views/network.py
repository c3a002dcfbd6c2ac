"""The network as a drawing: servers on an inner ring, devices outside, under an arc of their home's colour."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bfl.dashboard.facts import ITSELF, RoundFact, Snapshot
from bfl.dashboard.pages.views.links import Links
from bfl.dashboard.pages.views.numbers import count
from bfl.dashboard.pages.views.rounds import barred_in, find_round
from bfl.dashboard.pages.views.tables import Cell, Column, Table, server

WIDTH, HEIGHT = 380.0, 282.0
MOST_DRAWN, MOST_LABELLED = 2000, 80
SERVER_COLOURS = 6
FIRST_HATCHED = 3
"""From here on colours alone do not tell servers apart"""
_CENTRE = (WIDTH / 2, HEIGHT / 2)
_ARC, _OUTER = (174.0, 128.0), (154.0, 109.0)
_INNER = (66.0, 47.0)
_GAP = math.radians(5)
_BEND = 0.16
_MOST_NAMED = 40


@dataclass(frozen=True)
class ServerNode:
    """A server at its place."""

    index: int
    x: float
    y: float
    r: float
    colour: int
    is_hatched: bool
    href: str
    title: str
    is_leader: bool
    is_excluded: bool
    is_offender: bool


@dataclass(frozen=True)
class DeviceNode:
    """A device at its place. `path`: to the server that trains for it, or to its home."""

    index: int
    x: float
    y: float
    r: float
    home: int
    target: int
    path: str
    href: str
    title: str


@dataclass(frozen=True)
class NetworkView:
    """The network in one round."""

    round: int
    rounds: int
    servers: tuple[ServerNode, ...]
    devices: tuple[DeviceNode, ...]
    seal: str
    """Path around who sealed the block."""
    crosses: str
    """Path over whose gradient did not count."""
    joints: tuple[tuple[float, float, float, float], ...]
    arcs: tuple[tuple[int, str], ...]
    has_labels: bool
    leader: str
    winner: str
    told: str
    """What is drawn, for who does not see it."""
    note: str
    href: str
    previous: str
    next: str
    table: Table


def network_view(snapshot: Snapshot, to: Links, number: int | None = None) -> NetworkView:
    """In a round; the last where none is named. Without any round: who is there."""
    rounds = snapshot.rounds
    fact = find_round(rounds, number) if number is not None else rounds[-1] if rounds else None
    round_ = 0 if fact is None else fact.round
    places = places_of_servers(snapshot.about.edges)
    homes = {each.index: each.home for each in snapshot.participants if each.role == "device"}
    drawn = min(len(homes), MOST_DRAWN)
    barred = barred_in(rounds, round_)
    devices = tuple(_devices(homes, places, fact, to))
    refused = refused_devices(fact)
    return NetworkView(
        round=round_,
        rounds=len(rounds),
        servers=tuple(_server(each, places, fact, barred, to) for each in range(len(places))),
        devices=devices,
        seal="".join(diamond(each.x, each.y, each.r + 4) for each in devices if fact and fact.winner == each.index),
        crosses="".join(cross(each.x, each.y, each.r) for each in devices if each.index in refused),
        joints=tuple((*places[a], *places[b]) for a, b in snapshot.about.graph if max(a, b) < len(places)),
        arcs=tuple((server_ % SERVER_COLOURS, _arc(server_, len(places))) for server_ in range(len(places))),
        has_labels=drawn <= MOST_LABELLED,
        leader="" if fact is None or fact.leader < 0 else f"S{fact.leader}",
        winner="" if fact is None or fact.winner is None else f"device {fact.winner}",
        told=told_of(fact, barred, snapshot),
        note=f"The first {MOST_DRAWN:,} of {len(homes):,} devices are drawn." if drawn < len(homes) else "",
        href=to(f"/round/{round_}") if round_ else "",
        previous=to("/network", round=round_ - 1) if round_ > 1 else "",
        next=to("/network", round=round_ + 1) if 0 < round_ < len(rounds) else "",
        table=_table(snapshot, fact, barred, to),
    )


def told_of(fact: RoundFact | None, barred: Sequence[int], snapshot: Snapshot) -> str:
    """The drawing in words."""
    about = snapshot.about
    everybody = f"{count(about.edges, 'edge server')} and {count(about.devices, 'device')}"
    if fact is None:
        return f"{everybody}; no round is finished yet."
    told = [f"{everybody} in round {fact.round}: {count(fact.offloaded, 'device offloads', 'devices offload')}"]
    told += [f"server {fact.leader} leads"] if fact.leader >= 0 else []
    told += [f"device {fact.winner} sealed the block"] if fact.winner is not None else []
    told += [f"server {each} is excluded" for each in barred]
    told += [f"{count(len(fact.refused), 'gradient')} refused"] if fact.refused else []
    return ", ".join(told) + "."


# --- geometry


def _at(radii: tuple[float, float], angle: float, share: float = 1.0) -> tuple[float, float]:
    x, y = _CENTRE
    return round(x + share * radii[0] * math.cos(angle), 1), round(y + share * radii[1] * math.sin(angle), 1)


def _sector(server_: int, servers: int) -> tuple[float, float]:
    """Angles between which a server's devices are, clockwise from the top."""
    step = 2 * math.pi / max(1, servers)
    begin = -math.pi / 2 + server_ * step
    return begin + min(_GAP, step / 8), begin + step - min(_GAP, step / 8)


def places_of_servers(servers: int) -> list[tuple[float, float]]:
    """In the middle of their sectors; a single one in the centre."""
    if servers == 1:
        return [_CENTRE]
    return [_at(_INNER, sum(_sector(each, servers)) / 2) for each in range(servers)]


def places_in_sector(number: int, server_: int, servers: int, radius: float) -> list[tuple[float, float]]:
    """So many devices side by side, in as many rows as they need."""
    begin, end = _sector(server_, servers)
    room = max(1, int((end - begin) * sum(_OUTER) / 2 / (2.5 * radius)))
    rows = math.ceil(number / room)
    found = []
    for row in range(rows):
        here = number // rows + (row < number % rows)
        share = 1 - min(0.5, 2.5 * radius * row / _OUTER[1])
        found += [_at(_OUTER, begin + (end - begin) * (index + 0.5) / here, share) for index in range(here)]
    return found


def _radius(devices: int) -> float:
    return 9.0 if devices <= 30 else 7.0 if devices <= MOST_LABELLED else 4.0 if devices <= 250 else 2.0


def _arc(server_: int, servers: int) -> str:
    begin, end = _sector(server_, servers)
    (x1, y1), (x2, y2) = _at(_ARC, begin), _at(_ARC, end)
    is_large = int(end - begin > math.pi)
    return f"M{x1} {y1}A{_ARC[0]} {_ARC[1]} 0 {is_large} 1 {x2} {y2}"


def curve(start: tuple[float, float], end: tuple[float, float]) -> str:
    """From a device to a server, bent a little so that lines do not lie on each other; `network.js` does the same."""
    (x1, y1), (x2, y2) = start, end
    x, y = (x1 + x2) / 2 - (y2 - y1) * _BEND, (y1 + y2) / 2 + (x2 - x1) * _BEND
    return f"M{x1:g} {y1:g}Q{x:.1f} {y:.1f} {x2:g} {y2:g}"


def diamond(x: float, y: float, r: float) -> str:
    """Around who sealed."""
    return f"M{x:g} {y - r:g}l{r:g} {r:g}l-{r:g} {r:g}l-{r:g} -{r:g}z"


def cross(x: float, y: float, r: float) -> str:
    """At the shoulder of who was refused."""
    return f"M{x + r - 2:g} {y - r - 2:g}l5 5m0 -5l-5 5"


# --- who is drawn


def refused_devices(fact: RoundFact | None) -> set[int]:
    """Numbers of the devices whose gradients did not count."""
    parts = (each.name.partition("device ") for each in (fact.refused if fact is not None else ()))
    return {int(number) for before, role, number in parts if role and not before and number.isdecimal()}


def _server(
    index: int, places: Sequence[tuple[float, float]], fact: RoundFact | None, barred: Sequence[int], to: Links
) -> ServerNode:
    name = f"server {index}"
    is_leader = fact is not None and fact.leader == index
    is_offender = fact is not None and any(each.offender == name for each in fact.offences)
    told = [
        word for word, holds in (("leads", is_leader), ("excluded", index in barred), ("offence", is_offender)) if holds
    ]
    return ServerNode(
        index=index,
        x=places[index][0],
        y=places[index][1],
        r=15.0 if len(places) <= 8 else 9.0,
        colour=index % SERVER_COLOURS,
        is_hatched=index >= FIRST_HATCHED,
        href=to(f"/server/{index}"),
        title=f"{name}: {', '.join(told)}" if told else name,
        is_leader=is_leader,
        is_excluded=index in barred,
        is_offender=is_offender,
    )


def _devices(
    homes: Mapping[int, int], places: Sequence[tuple[float, float]], fact: RoundFact | None, to: Links
) -> list[DeviceNode]:
    shown = list(homes.items())[:MOST_DRAWN]
    radius, servers = _radius(len(shown)), len(places)
    by_home: dict[int, list[int]] = {}
    for index, home in shown:
        if 0 <= home < servers:
            by_home.setdefault(home, []).append(index)
    spots: dict[int, tuple[float, float]] = {}
    for home, indices in by_home.items():
        spots |= dict(zip(indices, places_in_sector(len(indices), home, servers, radius), strict=True))
    targets = {} if fact is None or fact.assignment is None else dict(enumerate(fact.assignment.tolist()))
    refused = {} if fact is None else {each.name: each.reason for each in fact.refused}
    winner = None if fact is None else fact.winner
    return [
        _device(index, spots[index], homes[index], targets.get(index), places, refused, winner == index, radius, to)
        for index in sorted(spots)
    ]


def _device(
    index: int,
    spot: tuple[float, float],
    home: int,
    target: int | None,
    places: Sequence[tuple[float, float]],
    refused: Mapping[str, str],
    is_winner: bool,
    radius: float,
    to: Links,
) -> DeviceNode:
    name = f"device {index}"
    goes = ITSELF if target is None or not 0 <= target < len(places) else target
    told = "offloads to server " + str(goes) if goes != ITSELF else "trains itself" if target is not None else ""
    words = [word for word in (told, "sealed the block" if is_winner else "") if word]
    words += [f"refused: {refused[name]}"] if name in refused else []
    end = places[goes if goes != ITSELF else home]
    return DeviceNode(
        index, spot[0], spot[1], radius, home, goes, curve(spot, end), to(f"/device/{index}"),
        f"{name}: {', '.join(words)}" if words else name,
    )  # fmt: skip


def _table(snapshot: Snapshot, fact: RoundFact | None, barred: Sequence[int], to: Links) -> Table:
    columns = (Column("server"), Column("in this round"), Column("trains for devices", "wide"))
    rows = []
    for index in range(min(snapshot.about.edges, 64) if fact is not None else 0):
        rows.append((server(index, to), Cell(_part_of(index, fact, barred)), _trained_by(index, fact, to)))
    return Table("servers of this round", columns, tuple(rows), "no round is finished yet")


def _part_of(index: int, fact: RoundFact | None, barred: Sequence[int]) -> str:
    if fact is None:
        return ""
    told = ["leads"] if fact.leader == index else []
    told += ["excluded"] if index in barred else []
    told += ["absent"] if f"server {index}" in fact.absent else []
    return ", ".join(told)


def _trained_by(index: int, fact: RoundFact | None, to: Links) -> Cell:
    if fact is None or fact.assignment is None:
        return Cell("")
    found = [device for device, target in enumerate(fact.assignment.tolist()) if target == index]
    cells = [Cell(str(each), to(f"/device/{each}"), title=f"device {each}") for each in found[:_MOST_NAMED]]
    cells += [Cell(f"and {len(found) - _MOST_NAMED:,} more", tone="muted")] if len(found) > _MOST_NAMED else []
    return Cell("", rest=tuple(cells)) if cells else Cell("nobody", tone="muted")
