"""The pages behind the guard, with what they load."""

from collections.abc import Mapping, Sequence

from starlette.requests import Request
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

from bfl.dashboard import pages
from bfl.dashboard.index.dashboard import Dashboard
from bfl.dashboard.web.app import ErrorPage
from bfl.dashboard.web.asked import Asked


def page_parts(dashboards: Mapping[str, Dashboard]) -> tuple[Sequence[BaseRoute], ErrorPage]:
    """Routes of the pages, and how they show an error."""

    def source_of(request: Request) -> Dashboard:
        return Asked(request, dashboards).dashboard

    static = Mount("/static", StaticFiles(packages=[(pages.__name__, "static")]))
    return [*pages.routes(source_of), static], pages.error_page
