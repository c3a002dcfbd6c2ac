"""The pages by their addresses. Endpoints are not async: Starlette runs them in threads, where they may read files."""

from collections.abc import Callable, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from bfl.dashboard.index.dashboard import Dashboard
from bfl.dashboard.pages import asked
from bfl.dashboard.pages.rendering import page, served_report
from bfl.dashboard.pages.views.audit import audit_view
from bfl.dashboard.pages.views.chain import block_view, blocks_page, transaction_view
from bfl.dashboard.pages.views.compare import compare_view
from bfl.dashboard.pages.views.frame import frame
from bfl.dashboard.pages.views.links import Links
from bfl.dashboard.pages.views.matrix import matrix_view
from bfl.dashboard.pages.views.network import network_view
from bfl.dashboard.pages.views.offences import offence_table, offence_view, offences_page, place_in_shell
from bfl.dashboard.pages.views.overview import drawn, overview
from bfl.dashboard.pages.views.people import machine_table, participants_page, person_view, short_participants
from bfl.dashboard.pages.views.rounds import (
    assignment_table,
    find_round,
    latency_table,
    phases_table,
    round_view,
    rounds_table,
)
from bfl.dashboard.pages.views.tables import ROWS
from bfl.dashboard.report.html import style
from bfl.dashboard.report.making import told_report
from bfl.dashboard.same_site import is_own_request

SourceOf = Callable[[Request], Dashboard]
_SHORT = 11
_LAST_OFFENCES = 6


def routes(source_of: SourceOf) -> list[Route]:
    """All pages of whatever a request is about."""
    pages: dict[str, Callable[[Visit], Response]] = {
        "/": _overview,
        "/rounds": _rounds,
        "/round/{number}": _round,
        "/network": _network,
        "/blocks": _blocks,
        "/block/{which}": _block,
        "/tx/{hash}": _transaction,
        "/participants": _participants,
        "/server/{number}": _server,
        "/device/{number}": _device,
        "/offences": _offences,
        "/offence/{id}": _offence,
        "/audit": _audit,
        "/compare": _compare,
        "/search": _search,
        "/report": _report,
        "/report.css": _report_style,
    }
    return [Route(path, _endpoint(made, source_of), methods=["GET"]) for path, made in pages.items()]


class Visit:
    """A request, what it is about, and the links of its answer."""

    def __init__(self, request: Request, dashboard: Dashboard) -> None:
        self.request, self.dashboard = request, dashboard
        self.snapshot = dashboard.snapshot
        self.names: Sequence[str] = list(dashboard.siblings)
        self.to = Links(dashboard.name if len(self.names) > 1 else "")
        self.page = asked.page_in_query(request)
        self.is_update = request.query_params.get("live") == "1"

    def answer(self, template: str, here: str, title: str, typed: str = "", **views: Any) -> Response:
        """The page, in its frame."""
        around = frame(self.snapshot, self.names, self.to, here, title, typed)
        return page(template, around, self.to, is_update=self.is_update, **views)

    def part(self, name: str) -> str:
        """Of the path."""
        return str(self.request.path_params[name])


def _endpoint(made: Callable[[Visit], Response], source_of: SourceOf) -> Callable[[Request], Response]:
    def respond(request: Request) -> Response:
        return made(Visit(request, source_of(request)))

    return respond


def _overview(visit: Visit) -> Response:
    snapshot, to = visit.snapshot, visit.to
    return visit.answer(
        "overview.html", "overview", "Overview",
        view=overview(snapshot, to),
        drawn=None if visit.is_update else drawn(snapshot),
        network=None if visit.is_update else network_view(snapshot, to),
        matrix=matrix_view(snapshot, to),
        rounds=rounds_table(snapshot, to, 1, _SHORT),
        latency=latency_table(snapshot, to, _SHORT),
        phases=phases_table(snapshot, to, _SHORT),
        offences=offence_table(snapshot.offences[: -_LAST_OFFENCES - 1 : -1], to),
        blocks=blocks_page(snapshot, to, 1, _SHORT, is_long=False),
        participants=short_participants(snapshot, to, _SHORT),
        machines=machine_table(snapshot) if snapshot.machines else None,
    )  # fmt: skip


def _rounds(visit: Visit) -> Response:
    table = rounds_table(visit.snapshot, visit.to, visit.page)
    return visit.answer(
        "rounds.html",
        "rounds",
        "Rounds",
        table=table,
        view=overview(visit.snapshot, visit.to),
        drawn=drawn(visit.snapshot),
    )


def _round(visit: Visit) -> Response:
    number = asked.number_in_path(visit.request, "round")
    view = round_view(visit.snapshot, number, visit.to, visit.page)
    network = network_view(visit.snapshot, visit.to, number)
    return visit.answer("round.html", "rounds", f"Round {number}", view=view, network=network)


def _network(visit: Visit) -> Response:
    snapshot, to = visit.snapshot, visit.to
    wanted = asked.number_in_query(visit.request, "round")
    view = network_view(snapshot, to, wanted)
    devices = None
    if view.round:
        devices = assignment_table(snapshot, find_round(snapshot.rounds, view.round), to, visit.page, "/network")
    machines = machine_table(snapshot) if snapshot.about.kind != "run" else None
    return visit.answer(
        "network.html",
        "network",
        "Network",
        network=view,
        devices=devices,
        machines=machines,
        servers=participants_page(snapshot, to, 1, "server"),
        matrix=matrix_view(snapshot, to),
        against=latency_table(snapshot, to, _SHORT),
    )


def _blocks(visit: Visit) -> Response:
    return visit.answer("blocks.html", "blocks", "Blocks", table=blocks_page(visit.snapshot, visit.to, visit.page))


def _block(visit: Visit) -> Response:
    detail = visit.dashboard.details.block(visit.part("which"))
    view = block_view(detail, visit.snapshot, visit.to, visit.page)
    return visit.answer("block.html", "blocks", f"Block {view.number}", view=view)


def _transaction(visit: Visit) -> Response:
    detail = visit.dashboard.details.transaction(visit.part("hash"))
    return visit.answer("transaction.html", "blocks", "Transaction", view=transaction_view(detail, visit.to))


def _participants(visit: Visit) -> Response:
    role = "server" if visit.request.query_params.get("role") == "server" else "device"
    other = "device" if role == "server" else "server"
    tables = [
        participants_page(visit.snapshot, visit.to, visit.page if each == role else 1, each) for each in (role, other)
    ]
    servers, devices = sorted(tables, key=lambda table: table.name, reverse=True)
    return visit.answer("participants.html", "participants", "Participants", servers=servers, devices=devices)


def _server(visit: Visit) -> Response:
    return _person(visit, "server")


def _device(visit: Visit) -> Response:
    return _person(visit, "device")


def _person(visit: Visit, role: str) -> Response:
    number = asked.number_in_path(visit.request, role)
    view = person_view(visit.snapshot, role, number, visit.to, visit.page)
    return visit.answer("person.html", "participants", view.name.capitalize(), view=view)


def _offences(visit: Visit) -> Response:
    table = offences_page(visit.snapshot, visit.to, visit.page, ROWS)
    return visit.answer("offences.html", "offences", "Offences", table=table)


def _offence(visit: Visit) -> Response:
    evidence = visit.dashboard.details.evidence(visit.part("id"))
    view = offence_view(evidence, visit.to, place_in_shell(visit.snapshot.about))
    return visit.answer("offence.html", "offences", f"Offence: {view.title}", view=view)


def _audit(visit: Visit) -> Response:
    """?start=1 begins one, for our own button alone; the answer leads back, so that reloading starts no other."""
    if visit.request.query_params.get("start") == "1" and is_own_request(visit.request.headers):
        visit.dashboard.audit.start()
        return RedirectResponse(visit.to("/audit"), status_code=303)
    view = audit_view(visit.dashboard.audit.state, visit.snapshot, visit.to)
    return visit.answer("audit.html", "audit", "Audit", view=view)


def _compare(visit: Visit) -> Response:
    """Here ?run= names all that are compared; links lead on to the first of them."""
    given = asked.runs_in_query(visit.request)
    snapshots = visit.dashboard.compare(given if len(given) > 1 else [])
    return visit.answer("compare.html", "compare", "Compare", view=compare_view(snapshots, visit.names, visit.to))


def _search(visit: Visit) -> Response:
    """One place: there at once. Several, or none: a list."""
    query = asked.text_in_query(visit.request, "q")
    found = [(each.label, visit.to.told(each.url)) for each in visit.dashboard.search(query)]
    if len(found) == 1 and found[0][1]:
        return RedirectResponse(found[0][1], status_code=303)
    return visit.answer("search.html", "", f"Search: {query}", query, query=query, found=found)


def _report(visit: Visit) -> Response:
    """The report as it is now; ?file=1: the one file that opens anywhere."""
    text = told_report(visit.dashboard)
    if visit.request.query_params.get("file") == "1":
        return HTMLResponse(text, headers={"content-disposition": 'attachment; filename="report.html"'})
    return HTMLResponse(served_report(text, visit.to))


def _report_style(_visit: Visit) -> Response:
    return Response(style(), media_type="text/css")
