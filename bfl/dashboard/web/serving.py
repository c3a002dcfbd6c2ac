"""uvicorn around the application, until Ctrl-C."""

import socket
from collections.abc import Callable, Mapping

import uvicorn

from bfl.dashboard.errors import DashboardError
from bfl.dashboard.index.dashboard import Dashboard
from bfl.dashboard.web.app import PageServer
from bfl.dashboard.web.security import WebParams

_STOP_S = 2
"""A stream that is open would keep uvicorn for twenty seconds"""
_BACKLOG, _MOST_CONNECTIONS = 128, 256


class _Server(uvicorn.Server):
    """uvicorn, except that streams end when it does."""

    def __init__(self, config: uvicorn.Config, page: PageServer) -> None:
        super().__init__(config)
        self._page = page

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._page.streams.close()
        await super().shutdown(sockets)


def listening(host: str, port: int) -> socket.socket:
    """A socket that browsers can come to at once, while the rest is being loaded."""
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(_BACKLOG)
    except (OSError, UnicodeError) as error:
        found.close()
        raise DashboardError(
            f"the page cannot listen on {host}:{port}: {error}; choose another --port, or 0 for any that is free"
        ) from error
    return found


def serve(
    dashboards: Mapping[str, Dashboard], params: WebParams, at: socket.socket, on_start: Callable[[], None]
) -> None:
    """Serve until a signal; `on_start` is called once before requests are answered."""
    from bfl.dashboard.web.pages_beside import page_parts

    pages, error_page = page_parts(dashboards)
    page = PageServer(dashboards, params, pages, error_page)
    config = uvicorn.Config(
        page.app, loop="asyncio", http="h11", ws="none", lifespan="off", log_config=None, access_log=False,
        proxy_headers=False, server_header=False, timeout_graceful_shutdown=_STOP_S,
        limit_concurrency=_MOST_CONNECTIONS, timeout_keep_alive=15, h11_max_incomplete_event_size=32 << 10,
    )  # fmt: skip
    for dashboard in dashboards.values():
        dashboard.start()
    on_start()
    try:
        _Server(config, page).run([at])
    finally:
        for dashboard in dashboards.values():
            dashboard.stop()
