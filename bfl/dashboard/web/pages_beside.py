"""The pages, where they are installed; without them there is the API."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from starlette.requests import Request
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

from bfl.dashboard.index.dashboard import Dashboard
from bfl.dashboard.web.app import ErrorPage, plain_page
from bfl.dashboard.web.asked import Asked

_PAGES = "bfl.dashboard.pages"


def page_parts(dashboards: Mapping[str, Dashboard]) -> tuple[Sequence[BaseRoute], ErrorPage]:
    """Routes of the pages, and how they show an error."""
    if find_spec(_PAGES) is None:
        return (), plain_page
    pages: Any = import_module(_PAGES)

    def source_of(request: Request) -> Dashboard:
        return Asked(request, dashboards).dashboard

    static = Mount("/static", StaticFiles(packages=[(_PAGES, "static")]))
    return [*pages.routes(source_of), static], getattr(pages, "error_page", plain_page)
