"""What tests of the pages share: a client, a reader of HTML, and snapshots made by hand."""

from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
from starlette.testclient import TestClient

from bfl.dashboard.facts import About, BlockFact, OffenceFact, Participant, RoundFact, Snapshot
from bfl.dashboard.index.dashboard import Dashboard
from bfl.dashboard.web.app import PageServer
from bfl.dashboard.web.pages_beside import page_parts
from bfl.dashboard.web.security import WebParams


def client_of(dashboard: Dashboard) -> TestClient:
    """A browser that follows no redirect by itself."""
    pages, error_page = page_parts(dashboard.siblings)
    server = PageServer(dashboard.siblings, WebParams(), pages, error_page)
    return TestClient(server.app, base_url="http://127.0.0.1:8765", follow_redirects=False)


class Page(HTMLParser):
    """A page, read: its links, its texts, and what its policy would refuse."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.refused: list[str] = []
        self.names: list[str] = []
        self.ids: list[str] = []
        self.text = ""
        self._is_in_script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Opens an element."""
        given = {name: value or "" for name, value in attrs}
        self.refused += [f"{tag} {name}" for name in given if name == "style" or name.startswith("on")]
        self._is_in_script = tag in ("script", "style") and "src" not in given
        self.ids += [given["id"]] if "id" in given else []
        self.names += [given[name] for name in ("title", "aria-label") if name in given]
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        self.loads += [given[name] for name in ("src", "action") if name in given]
        self.loads += [given["href"]] if tag == "link" else []

    def handle_endtag(self, tag: str) -> None:
        """Closes one."""
        self._is_in_script = False

    def handle_data(self, data: str) -> None:
        """Text, or a script that is written into the page."""
        if self._is_in_script and data.strip():
            self.refused.append(f"inline: {data.strip()[:60]}")
        self.text += f"{data} "


def fact(round_: int, assignment: Sequence[int] | None = (0, -1, 1, 0), **changes: Any) -> RoundFact:
    """A round of four devices and two servers."""
    known = None if assignment is None else np.array(assignment, np.int16)
    made = RoundFact(
        round=round_, leader=0, winner=1, phi=5, training_nodes=3, samples=400,
        offloaded=0 if known is None else int((known >= 0).sum()), assignment=known, accuracy=0.5, loss=1.5,
        latency={
            "paper": {"learn": 1.0, "consensus": 0.25, "mine": 2.0, "T": 3.25, "T_wall": 0.8},
            "real": {"learn": 0.5, "consensus": 0.25, "mine": 2.0, "T": 2.75, "T_wall": 0.7},
        },
        seconds={"plan": 0.125, "train": 0.5, "seal": 0.25},
    )  # fmt: skip
    return replace(made, **changes)


def lie(round_: int, who: str = "server 1", **changes: Any) -> OffenceFact:
    """An offence."""
    made = OffenceFact(f"{round_}-server-1-3", round_, who, "iterate", 3, "wrong iterate of step 3", round_ + 2)
    return replace(made, **changes)


def block(number: int, **changes: Any) -> BlockFact:
    """A block."""
    made = BlockFact(
        number=number, hash=f"0x{number:064x}", round=max(0, number - 1), timestamp=1_700_000_000 + number,
        leader="server 0", winner="device 1", posts={"gradient": 3, "iterate": 12, "plan": 1}, size=1500,
        payload_size=998_500, difficulty=2000, endorsements=2, is_final=True,
    )  # fmt: skip
    return replace(made, **changes)


def snapshot(rounds: Sequence[RoundFact] = (), blocks: Sequence[BlockFact] = (), **changes: Any) -> Snapshot:
    """A run of four devices and two servers."""
    about = About(
        kind="run", name="mine", place="runs/mine", scheme="bfl", dataset="synthetic", partition="iid", planner="a2c",
        seed=0, rounds_planned=10, devices=4, edges=2, graph=((0, 1),), chain_id=7, is_simulated=True,
    )  # fmt: skip
    servers = [Participant(f"server {m}", "server", m, f"0x{m:040x}", m, 0) for m in range(2)]
    devices = [Participant(f"device {n}", "device", n, f"0x{n + 9:040x}", n % 2, 100) for n in range(4)]
    made = Snapshot(about, "running", 1, rounds, blocks, (*servers, *devices))
    return replace(made, **changes)
