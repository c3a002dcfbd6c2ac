"""The application: API, stream, tables, metrics and pages behind one guard."""

from collections.abc import Callable, Mapping, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Scope

from bfl.dashboard.errors import DashboardError, NotFoundError, RequestRefusedError
from bfl.dashboard.index.dashboard import Dashboard
from bfl.dashboard.web.api import PREFIX, api_routes
from bfl.dashboard.web.prometheus import prometheus_routes
from bfl.dashboard.web.security import Guard, WebParams
from bfl.dashboard.web.stream import Streams
from bfl.dashboard.web.tables import table_routes

ErrorPage = Callable[[int, str], Response]
"""Makes a page of a status and what is to be said"""
_STATUS: Mapping[type[Exception], int] = {NotFoundError: 404, RequestRefusedError: 400, DashboardError: 503}


def plain_page(status: int, told: str) -> Response:
    """An error without a page."""
    return PlainTextResponse(f"{told}\n", status_code=status)


class PageServer:
    """What is served: an ASGI application, and how its streams are told that the end has come."""

    def __init__(
        self,
        dashboards: Mapping[str, Dashboard],
        params: WebParams,
        pages: Sequence[BaseRoute] = (),
        error_page: ErrorPage = plain_page,
    ) -> None:
        self.streams, self._error_page = Streams(dashboards), error_page
        routes = [
            *api_routes(dashboards),
            Route(f"{PREFIX}/stream", self.streams.answer),
            *table_routes(dashboards),
            *prometheus_routes(dashboards),
            *pages,
        ]
        handlers = dict.fromkeys((*_STATUS, HTTPException, 500), self._told)
        inner = Starlette(routes=routes, exception_handlers=handlers)
        inner.router.redirect_slashes = False
        self.app = Guard(inner, params, self._refused)

    async def _told(self, request: Request, error: Exception) -> Response:
        """An error as its visitor wants it."""
        if isinstance(error, HTTPException):
            told = f"found {request.url.path:.200}, expected a page that is here: begin at /"
            return self._refused(request.scope, error.status_code, told if error.status_code == 404 else error.detail)
        for kind, status in _STATUS.items():
            if isinstance(error, kind):
                return self._refused(request.scope, status, str(error))
        return self._refused(request.scope, 500, "an error of ours: the terminal of `bfl dashboard` has the details")

    def _refused(self, scope: Scope, status: int, told: str) -> Response:
        if str(scope["path"]).startswith("/api/"):
            return JSONResponse({"error": told}, status_code=status)
        return self._error_page(status, told)
