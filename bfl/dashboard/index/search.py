"""What somebody may mean by a text: a block, round, device, server, offence, hash, address."""

import re
from collections.abc import Iterator

from bfl.dashboard.decoded import Found
from bfl.dashboard.facts import Snapshot

MOST_TEXT, MOST_FOUND = 200, 20
_NAMED = re.compile(r"(block|round|device|server)\s*[#:-]?\s*(\d{1,9})", re.IGNORECASE)
_HEX = re.compile(r"(?:0x)?([0-9a-f]{4,64})", re.IGNORECASE)
_TABS = ("overview", "rounds", "network", "blocks", "participants", "offences", "audit", "compare", "report")


def find_places(asked: str, snapshot: Snapshot) -> list[Found]:
    """Places, best first; whatever the text is."""
    wanted = asked.strip()[:MOST_TEXT]
    if not wanted:
        return []
    found: dict[str, Found] = {}
    for each in _places(wanted, snapshot):
        found.setdefault(each.url, each)
        if len(found) >= MOST_FOUND:
            break
    return list(found.values())


def _places(wanted: str, snapshot: Snapshot) -> Iterator[Found]:
    named = _NAMED.fullmatch(wanted)
    if named:
        yield from _numbered(named[1].lower(), int(named[2]), snapshot)
        return
    if wanted.isascii() and wanted.isdigit() and len(wanted) <= 9:
        for kind in ("round", "block", "device", "server"):
            yield from _numbered(kind, int(wanted), snapshot)
    if hexadecimal := _HEX.fullmatch(wanted):
        yield from _hashes(hexadecimal[1].lower(), snapshot)
    yield from _offences(wanted.lower(), snapshot)
    yield from _people(wanted.lower(), snapshot)
    yield from (Found(tab, "/" if tab == "overview" else f"/{tab}") for tab in _TABS if tab.startswith(wanted.lower()))


def _numbered(kind: str, number: int, snapshot: Snapshot) -> Iterator[Found]:
    if kind == "block" and number < len(snapshot.blocks):
        yield Found(f"block {number}", f"/block/{number}")
    elif kind == "round" and 1 <= number <= len(snapshot.rounds):
        yield Found(f"round {number}", f"/round/{number}")
    elif kind in ("device", "server") and number < _count(kind, snapshot):
        yield Found(f"{kind} {number}", f"/{kind}/{number}")


def _count(role: str, snapshot: Snapshot) -> int:
    return snapshot.about.devices if role == "device" else snapshot.about.edges


def _hashes(digits: str, snapshot: Snapshot) -> Iterator[Found]:
    """Of blocks and addresses their beginning is enough; a transaction is looked up when its page is opened."""
    begin = f"0x{digits}"
    for block in snapshot.blocks:
        if block.hash.startswith(begin):
            yield Found(f"block {block.number} ({block.hash[:18]}…)", f"/block/{block.number}")
    for each in snapshot.participants:
        if each.address.startswith(begin):
            yield Found(f"{each.name} ({each.address})", f"/{each.role}/{each.index}")
    if len(digits) == 64 and snapshot.blocks:
        yield Found(f"transaction {begin[:18]}…", f"/tx/{begin}")


def _offences(wanted: str, snapshot: Snapshot) -> Iterator[Found]:
    for each in snapshot.offences:
        if wanted in (each.id, each.kind, each.offender) or (len(wanted) > 3 and wanted in each.detail.lower()):
            yield Found(f"round {each.round}: {each.detail or each.kind}", f"/offence/{each.id}")


def _people(wanted: str, snapshot: Snapshot) -> Iterator[Found]:
    for each in snapshot.participants:
        if each.name.startswith(wanted):
            yield Found(each.name, f"/{each.role}/{each.index}")
