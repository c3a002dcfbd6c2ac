"""/api/v1: everything that the pages show, as JSON."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bfl.dashboard.errors import NotFoundError, RequestRefusedError
from bfl.dashboard.facts import BlockFact, RoundFact, Snapshot
from bfl.dashboard.index.dashboard import Dashboard
from bfl.dashboard.index.figures import credits_of, key_figures
from bfl.dashboard.index.search import MOST_TEXT
from bfl.dashboard.same_site import STARTS, is_own_request
from bfl.dashboard.web.asked import Asked, plain
from bfl.dashboard.web.columns import MOST_POINTS, columns_of, short

PREFIX = "/api/v1"
MOST_ROWS, MOST_CELLS = 500, 20_000
_ROWS = 50
Answer = Callable[[Asked], Any]


def api_routes(dashboards: Mapping[str, Dashboard]) -> list[Route]:
    """All but the stream and the tables."""
    answers: dict[str, Answer] = {
        "run": run, "rounds": rounds, "rounds/{round}": one_round, "assignments": assignments, "blocks": blocks,
        "blocks/{which}": block, "transactions/{hash}": transaction, "participants": participants,
        "offences": offences, "offences/{id}": offence, "compare": compare, "search": search, "machines": machines,
    }  # fmt: skip
    found = [Route(f"{PREFIX}/{path}", _endpoint(answer, dashboards)) for path, answer in answers.items()]

    def audit(request: Request) -> Response:
        return JSONResponse(_audit(Asked(request, dashboards), request))

    def model(request: Request) -> Response:
        return _model(Asked(request, dashboards))

    return [*found, Route(f"{PREFIX}/audit", audit), Route(f"{PREFIX}/models/{{round}}", model)]


def _endpoint(answer: Answer, dashboards: Mapping[str, Dashboard]) -> Callable[[Request], Response]:
    """Not async: Starlette runs it in a thread, where it may read files."""

    @functools.wraps(answer)
    def respond(request: Request) -> Response:
        return JSONResponse(answer(Asked(request, dashboards)))

    return respond


# --- run and rounds


def run(asked: Asked) -> dict[str, Any]:
    """What is shown, and how it stands."""
    dashboard = asked.dashboard
    snapshot = dashboard.snapshot
    about, last = snapshot.about, snapshot.blocks[-1] if snapshot.blocks else None
    figures = asdict(key_figures(snapshot))
    totals = {name: figures.pop(name) for name in ("total_bytes", "offences", "refused")}
    return {
        **{name: getattr(about, name) for name in (
            "kind", "name", "place", "scheme", "dataset", "partition", "planner", "seed", "rounds_planned", "devices",
            "edges", "chain_id",
        )},
        "simulated": about.is_simulated,
        "graph": [list(each) for each in about.graph],
        "homes": [each.home for each in snapshot.participants if each.role == "device"],
        "status": snapshot.status,
        "told": snapshot.told,
        "cursor": snapshot.cursor,
        "round": len(snapshot.rounds),
        "reorganised": snapshot.reorganised,
        "head": None if last is None else {"number": last.number, "hash": last.hash},
        **totals,
        "key_figures": figures,
        "settings": dict(about.settings),
        "runs": list(dashboard.siblings),
    }  # fmt: skip


def rounds(asked: Asked) -> dict[str, Any]:
    """Columns of the rounds behind ?after=."""
    snapshot = asked.dashboard.snapshot
    after, points = asked.whole("after", 0), asked.whole("points", MOST_POINTS, 2, MOST_POINTS)
    return {"cursor": snapshot.cursor, **columns_of(snapshot.rounds, after, points)}


def one_round(asked: Asked) -> dict[str, Any]:
    """A round whole, with names and links."""
    snapshot = asked.dashboard.snapshot
    fact = _round(snapshot, asked.number_in_path("round"))
    told = plain(fact)
    return {
        **told,
        "leader_name": f"server {fact.leader}" if fact.leader >= 0 else None,
        "winner_name": None if fact.winner is None else f"device {fact.winner}",
        "excluded_names": [f"server {each}" for each in fact.excluded],
        "links": {
            "page": f"/round/{fact.round}",
            "block": f"/block/{fact.round + 1}" if fact.round + 1 < len(snapshot.blocks) else None,
            "offences": [f"/offence/{each.id}" for each in fact.offences],
        },
    }


def _round(snapshot: Snapshot, number: int) -> RoundFact:
    if not 1 <= number <= len(snapshot.rounds):
        told = f"expected 1 to {len(snapshot.rounds)}" if snapshot.rounds else "no round is finished yet"
        raise NotFoundError(f"found round {number}, {told}")
    return snapshot.rounds[number - 1]


def assignments(asked: Asked) -> dict[str, Any]:
    """A tile of the matrix of devices by rounds."""
    snapshot = asked.dashboard.snapshot
    known, devices = len(snapshot.rounds), snapshot.about.devices
    first, last = asked.whole("first", 0), asked.whole("last", max(0, devices - 1))
    begin, end = asked.whole("from", 1, 1), asked.whole("to", max(1, known), 1)
    last, end = min(last, devices - 1), min(end, known)
    cells = max(0, last - first + 1) * max(0, end - begin + 1)
    if cells > MOST_CELLS:
        raise RequestRefusedError(f"found {cells:,} cells, expected at most {MOST_CELLS:,}: ask for a part")
    shown = snapshot.rounds[begin - 1 : end]
    return {
        "from": begin,
        "to": end,
        "first": first,
        "last": last,
        "rows": [[_cell(each, device) for each in shown] for device in range(first, last + 1)],
        "winners": [each.winner for each in shown],
        "refused": [_refused_devices(each) for each in shown],
    }


def _cell(fact: RoundFact, device: int) -> int | None:
    found = fact.assignment
    return None if found is None or device >= len(found) else int(found[device])


def _refused_devices(fact: RoundFact) -> list[int]:
    parts = (each.name.partition("device ") for each in fact.refused)
    return [int(number) for before, role, number in parts if role and not before and number.isdigit()]


# --- chain


def blocks(asked: Asked) -> dict[str, Any]:
    """A page of blocks, the newest first."""
    snapshot = asked.dashboard.snapshot
    total, limit = len(snapshot.blocks), asked.whole("limit", _ROWS, 1, MOST_ROWS)
    before = min(total, asked.whole("before", total))
    shown = snapshot.blocks[max(0, before - limit) : before]
    return {"total": total, "blocks": [block_row(each) for each in reversed(shown)]}


def block_row(fact: BlockFact) -> dict[str, Any]:
    """A block in a list."""
    return {**plain(fact), "link": f"/block/{fact.number}"}


def block(asked: Asked) -> Any:
    """A block, opened."""
    return plain(asked.dashboard.details.block(asked.in_path("which")))


def transaction(asked: Asked) -> Any:
    """A transaction, opened."""
    return plain(asked.dashboard.details.transaction(asked.in_path("hash")))


def _model(asked: Asked) -> Response:
    """A model as a .pt file."""
    round_ = asked.number_in_path("round")
    content = asked.dashboard.details.model_file(round_)
    name = f'attachment; filename="model-{round_}.pt"'
    return Response(content, media_type="application/octet-stream", headers={"content-disposition": name})


# --- people and offences


def participants(asked: Asked) -> dict[str, Any]:
    """A page of participants with what they have done."""
    snapshot = asked.dashboard.snapshot
    first, limit = asked.whole("from", 0), asked.whole("limit", _ROWS, 1, MOST_ROWS)
    credits_by_name = credits_of(snapshot)
    shown = snapshot.participants[first : first + limit]
    rows = [
        {**plain(each), **asdict(credits_by_name[each.name]), "link": f"/{each.role}/{each.index}"} for each in shown
    ]
    return {"total": len(snapshot.participants), "from": first, "participants": rows}


def offences(asked: Asked) -> dict[str, Any]:
    """All offences, oldest first; a page of them."""
    found = asked.dashboard.snapshot.offences
    first, limit = asked.whole("from", 0), asked.whole("limit", MOST_ROWS, 1, MOST_ROWS)
    rows = [{**plain(each), "link": f"/offence/{each.id}"} for each in found[first : first + limit]]
    return {"total": len(found), "from": first, "offences": rows}


def offence(asked: Asked) -> Any:
    """The evidence of one."""
    return plain(asked.dashboard.details.evidence(asked.in_path("id")))


def machines(asked: Asked) -> dict[str, Any]:
    """How the machines of a network are."""
    return {"machines": [plain(each) for each in asked.dashboard.snapshot.machines]}


# --- audit, comparison, search


def _audit(asked: Asked, request: Request) -> Any:
    """How the audit stands; ?start=1 begins one, for the page itself and for programs that say so."""
    job = asked.dashboard.audit
    if not asked.has("start", "1"):
        return plain(job.state)
    if not is_own_request(request.headers):
        raise RequestRefusedError(f"found a start by no page of ours, expected its button, or a header {STARTS}: 1")
    return plain(job.start())


def compare(asked: Asked) -> dict[str, Any]:
    """Accuracy and loss of several runs over their rounds."""
    snapshots = asked.any_dashboard.compare(asked.names())
    points = asked.whole("points", MOST_POINTS, 2, MOST_POINTS)
    return {"runs": [_compared(each, points) for each in snapshots]}


def _compared(snapshot: Snapshot, points: int) -> dict[str, Any]:
    about, columns = snapshot.about, columns_of(snapshot.rounds, 0, points)
    named = ("name", "scheme", "dataset", "partition", "planner", "seed", "devices", "edges")
    kept = ("first", "last", "step", "round", "accuracy", "loss", "latency", "marks", "bands")
    return {
        **{name: getattr(about, name) for name in named},
        "status": snapshot.status,
        "accuracy_summary": short(key_figures(snapshot).accuracy_summary),
        **{name: columns[name] for name in kept},
    }


def search(asked: Asked) -> dict[str, Any]:
    """Places that ?q= may mean."""
    found: Sequence[Any] = asked.dashboard.search(asked.text("q", MOST_TEXT))
    return {"found": [asdict(each) for each in found]}
