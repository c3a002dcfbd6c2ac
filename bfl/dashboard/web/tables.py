"""The tables as CSV, for spreadsheets: streamed row by row, and no cell that a spreadsheet would take for a formula."""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from bfl.dashboard.facts import TERMS, RoundFact, Snapshot
from bfl.dashboard.index.dashboard import Dashboard
from bfl.dashboard.index.figures import credits_of
from bfl.dashboard.web.api import PREFIX
from bfl.dashboard.web.asked import Asked
from bfl.dashboard.web.columns import SUMS
from bfl.show.text import utc_time

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_ROWS_AT_ONCE = 200
Rows = Iterator[Sequence[Any]]


def table_routes(dashboards: Mapping[str, Dashboard]) -> list[Route]:
    """rounds.csv, blocks.csv, ..., here and under /api/v1."""
    tables = {
        "rounds": _rounds, "blocks": _blocks, "participants": _participants, "offences": _offences,
        "assignments": _assignments,
    }  # fmt: skip
    return [
        Route(f"{place}/{name}.csv", _endpoint(name, rows, dashboards))
        for name, rows in tables.items()
        for place in (PREFIX, "")
    ]


def _endpoint(
    name: str, rows: Callable[[Snapshot], Rows], dashboards: Mapping[str, Dashboard]
) -> Callable[[Request], Response]:
    def respond(request: Request) -> Response:
        dashboard = Asked(request, dashboards).dashboard
        safe = "".join(each if each.isascii() and (each.isalnum() or each in "-_.") else "_" for each in dashboard.name)
        headers = {"content-disposition": f'attachment; filename="{safe}-{name}.csv"'}
        parts = _text(rows(dashboard.snapshot))
        return StreamingResponse(parts, media_type="text/csv; charset=utf-8", headers=headers)

    return respond


def _text(rows: Rows) -> Iterator[str]:
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    for count, row in enumerate(rows, 1):
        writer.writerow([_cell(each) for each in row])
        if count % _ROWS_AT_ONCE == 0:
            yield written.getvalue()
            written.seek(0)
            written.truncate()
    yield written.getvalue()


def _cell(value: Any) -> Any:
    """A text that a spreadsheet would compute stands behind an apostrophe."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _rounds(snapshot: Snapshot) -> Rows:
    kinds, terms = ("paper", "real"), (*TERMS, *SUMS)
    phases = list(dict.fromkeys(name for each in snapshot.rounds for name in each.seconds))
    plain = (
        "round", "accuracy", "loss", "leader", "winner", "phi", "training_nodes", "samples", "offloaded", "divergence",
        "consensus_error", "block", "block_bytes",
    )  # fmt: skip
    counted = ("refused", "offences", "absent", "excluded", "failed_leaders", "filtered", "set_aside")
    yield [
        *plain, *counted, *(f"{kind} {term} s" for kind in (*kinds, "measured") for term in terms),
        *(f"{phase} s" for phase in phases),
    ]  # fmt: skip
    for each in snapshot.rounds:
        yield [
            *(getattr(each, name) for name in plain),
            *(_listed(each, name) for name in counted),
            *(each.latency.get(kind, {}).get(term) for kind in kinds for term in terms),
            *(each.measured.get(term) for term in terms),
            *(each.seconds.get(phase) for phase in phases),
        ]


def _listed(fact: RoundFact, name: str) -> str:
    told = {
        "refused": [f"{each.name} ({each.reason})" for each in fact.refused],
        "offences": [each.id for each in fact.offences],
        "absent": list(fact.absent),
        "excluded": [f"server {each}" for each in fact.excluded],
        "failed_leaders": [f"server {each}" for each in fact.failed_leaders],
        "filtered": [f"device {each}" for each in fact.filtered],
        "set_aside": [f"device {each}" for each, _ in fact.aside],
    }
    return "; ".join(told[name])


def _blocks(snapshot: Snapshot) -> Rows:
    plain = (
        "number", "round", "attempt", "hash", "timestamp", "leader", "winner", "size", "payload_size", "difficulty",
        "endorsements", "is_final",
    )  # fmt: skip
    yield [*plain, "time (UTC)", "posts"]
    for each in snapshot.blocks:
        posts = "; ".join(f"{count} {kind}" for kind, count in each.posts.items())
        yield [*(getattr(each, name) for name in plain), utc_time(each.timestamp), posts]


def _participants(snapshot: Snapshot) -> Rows:
    credits_by_name = credits_of(snapshot)
    plain = ("name", "role", "index", "address", "home", "samples", "consent")
    is_first = True
    for each in snapshot.participants:
        credit = asdict(credits_by_name[each.name])
        if is_first:
            yield [*plain, *credit]
        is_first = False
        yield [*(getattr(each, name) for name in plain), *credit.values()]


def _offences(snapshot: Snapshot) -> Rows:
    plain = ("id", "round", "offender", "kind", "step", "detail", "excluded_through")
    yield plain
    for each in snapshot.offences:
        yield [getattr(each, name) for name in plain]


def _assignments(snapshot: Snapshot) -> Rows:
    """One row per round, one column per device: a server's number, -1 for itself, empty where nobody knows."""
    devices = snapshot.about.devices
    yield ["round", *(f"device {device}" for device in range(devices))]
    for each in snapshot.rounds:
        found = [] if each.assignment is None else each.assignment[:devices].tolist()
        yield [each.round, *found, *([None] * (devices - len(found)))]
