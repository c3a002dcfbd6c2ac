"""The page as people start it, a process of its own; and pages of sources that no folder could hold."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import uvicorn

from bfl.dashboard.index.dashboard import Dashboard, together
from bfl.dashboard.web.app import PageServer
from bfl.dashboard.web.pages_beside import page_parts
from bfl.dashboard.web.security import WebParams
from bfl.dashboard.web.serving import listening
from tests.bfl.dashboard.pages_served import served as served_by_process

_STOPS_S, _READ_S = 30.0, 60.0


@contextmanager
def served(*runs: Path) -> Iterator[str]:
    """The address of a page of run folders, once all of them are read."""
    with served_by_process(*map(str, runs), folder=runs[0].parent) as (client, _):
        address = str(client.base_url)
        for run in runs:
            wait_until_read(address, run)
        yield address


def wait_until_read(address: str, run: Path, within_s: float = _READ_S) -> None:
    """Until the page shows all rounds of a run that has ended, and the block of its last."""
    lines = (run / "metrics.jsonl").read_bytes().count(b"\n")
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        told = httpx.get(f"{address}api/v1/run", params={"run": run.name}, timeout=_READ_S, trust_env=False).json()
        head = -1 if told["head"] is None else told["head"]["number"]
        if told["round"] == lines and told["graph"] and (head > lines or not (run / "chain.db").exists()):
            return
        time.sleep(0.1)
    raise AssertionError(f"after {within_s} s the page has read {told}")


@contextmanager
def in_this_process(*shown: Dashboard) -> Iterator[str]:
    """The address of a page of dashboards that are not started."""
    dashboards = together(shown)
    at = listening("127.0.0.1", 0)
    params = WebParams(port=at.getsockname()[1])
    page = PageServer(dashboards, params, *page_parts(dashboards))
    config = uvicorn.Config(page.app, loop="asyncio", http="h11", ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [at]})
    thread.start()
    try:
        yield params.url
    finally:
        page.streams.close()
        server.should_exit = True
        thread.join(_STOPS_S)
        at.close()
