"""A real node over JSON-RPC, and kits: the chain, the health of machines, and nothing more believed than fits."""

import http.server
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from bfl.dashboard.facts import MachineFact, Snapshot
from bfl.dashboard.index.dashboard import Dashboard
from bfl.dashboard.index.opening import kit_source, node_source
from bfl.dashboard.reading.machines import machine_fact
from bfl.network.making import make_kits
from bfl.network.status import NodeState, state_of
from chain.errors import ChainError
from chain.node.node import Node
from chain.rpc.server import RpcServer, ServerParams
from tests.bfl.dashboard.made import attacked_run, opened, read_all
from tests.bfl.network.described import write

TOKEN = "a-token-of-the-node"  # noqa: S105
NOW_S = 1_800_000_000.0


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A node that has the chain of a run in whose second round server 1 lies; it wants a token."""
    shutil.copy(attacked_run() / "chain.db", tmp_path / "chain.db")
    node = Node.open(tmp_path / "chain.db", now=lambda: NOW_S)
    with RpcServer(node, ServerParams(port=0, token=TOKEN)) as address:
        yield address
    node.close()


@contextmanager
def shown(dashboard: Dashboard) -> Iterator[Dashboard]:
    """It, with everything read and its machines asked once."""
    try:
        read_all(dashboard)
        end = time.monotonic() + 60.0
        while not dashboard.snapshot.machines:
            assert time.monotonic() < end
            time.sleep(0.05)
            dashboard.tailer.look()
        yield dashboard
    finally:
        dashboard.stop()


def without_times(snapshot: Snapshot) -> list[tuple[Any, ...]]:
    """What both a chain and the metrics of its run tell of rounds."""
    return [
        (each.round, each.leader, each.winner, each.phi, each.training_nodes, each.samples, each.offloaded,
         None if each.assignment is None else each.assignment.tolist(), each.excluded, each.block)
        for each in snapshot.rounds
    ]  # fmt: skip


def test_a_node_tells_the_same_rounds_as_the_metrics_of_the_run(url: str) -> None:
    of_run = opened(attacked_run()).snapshot
    with shown(Dashboard(node_source(url, TOKEN))) as dashboard:
        found = dashboard.snapshot
        assert without_times(found) == without_times(of_run)
        assert found.blocks == of_run.blocks
        assert found.participants == of_run.participants
        assert (found.about.kind, found.about.scheme, found.about.graph) == ("node", "bfl", of_run.about.graph)
        assert (found.status, found.told, found.about.is_simulated) == ("running", "", True)
        assert {each.id for each in found.offences} <= {each.id for each in of_run.offences}
        assert found.offences[0].excluded_through == 12
        (machine,) = found.machines
        assert (machine.head, machine.pool, machine.is_well) == (5, 0, True)
        assert machine.version.startswith("bfl/")
        evidence = dashboard.details.evidence("2-server-1-1")
        assert len(evidence.flags) == 2


def test_the_token_of_a_node_is_in_nothing_that_is_shown(url: str) -> None:
    with shown(Dashboard(node_source(url, TOKEN))) as dashboard:
        assert TOKEN not in repr(dashboard.snapshot)
        assert TOKEN not in " ".join(dashboard.audit._where)
        assert dashboard.audit._secrets == {"BFL_RPC_TOKEN": TOKEN}


def test_a_node_with_another_token_is_told(url: str) -> None:
    with shown(Dashboard(node_source(url, "another-token"))) as dashboard:
        assert dashboard.snapshot.status == "unreachable"
        assert "BFL_RPC_TOKEN" in dashboard.snapshot.told


def test_a_token_goes_nowhere_in_the_clear() -> None:
    with pytest.raises(ChainError, match="https"):
        node_source("http://192.0.2.1:8545", TOKEN)


def test_a_node_that_is_away_is_told_and_does_not_end_the_page() -> None:
    with shown(Dashboard(node_source("http://127.0.0.1:9", ""))) as dashboard:
        assert dashboard.snapshot.status == "unreachable"
        assert "no node answers" in dashboard.snapshot.told
        (machine,) = dashboard.snapshot.machines
        assert not machine.is_well
        assert machine.last_seen_s is None


@contextmanager
def answering(answer: Callable[[Any], bytes]) -> Iterator[str]:
    """Somebody who answers whatever he likes."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self._send(answer(asked))

        def do_GET(self) -> None:
            self._send(answer({}))

        def _send(self, content: bytes) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"null", b"<html>", b"\xff" * 100, b"[" * 50_000, b'{"result": 5}',
                b'{"block": "x"}'], ids=lambda each: str(each[:12]),
)  # fmt: skip
def test_a_node_that_says_anything_breaks_nothing(content: bytes) -> None:
    with answering(lambda _: content) as url, shown(Dashboard(node_source(url, ""))) as dashboard:
        found = dashboard.snapshot
        assert (found.status, found.rounds, found.blocks) == ("unreachable", (), ())
        assert found.told
        assert not found.machines[0].is_well


def test_an_answer_about_its_health_is_bounded() -> None:
    with answering(lambda _: b"x" * (1 << 20)) as url, httpx.Client(trust_env=False) as client:
        assert "found an answer of more than" in state_of(client, "node", url).word


def test_hostile_words_of_a_node_are_cut_and_printable() -> None:
    def answer(asked: Any) -> bytes:
        told = {"state": "DIVERGED", "told": "\x1b[2J<b>" * 500, "pending": "0x2"}
        both = [{"id": 0, "result": told}, {"id": 1, "result": "\u202e" * 99}]
        return json.dumps(both if isinstance(asked, list) else {"block": 7}).encode()

    with answering(answer) as url, shown(Dashboard(node_source(url, ""))) as dashboard:
        (machine,) = dashboard.snapshot.machines
        assert dashboard.snapshot.status == "diverged"
        assert len(machine.word) <= 300
        assert machine.word.isprintable()
        assert machine.version.isprintable()


# --- kits


@pytest.fixture(scope="module")
def kits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kits")
    make_kits(write(folder), folder / "kits", "of a test", time.time(), work=2)
    return folder / "kits"


def test_an_edge_that_does_not_run_shows_its_chain_and_that_it_is_stopped(kits: Path) -> None:
    dashboard = Dashboard(kit_source(kits / "edge-a"))
    try:
        read_all(dashboard)
        found = dashboard.snapshot
        assert (found.about.kind, found.about.name, found.about.edges, found.about.devices) == ("kit", "edge-a", 3, 2)
        assert [each.number for each in found.blocks] == [0, 1]
        assert found.status == "paused"
        assert not found.about.is_simulated
        assert dashboard.audit.state.status == "not started"
    finally:
        dashboard.stop()


def test_a_device_asks_the_edges(kits: Path) -> None:
    source = kit_source(kits / "pi-1")
    try:
        assert (source.where, source.name) == (("kit", str(kits / "pi-1")), "pi-1")
    finally:
        source.close()


def test_machines_are_told_with_when_they_were_last_seen() -> None:

    seen = {"edge-a": NOW_S}
    well = machine_fact(NodeState("edge-a", 41, 0.12, version="bfl/0.9.0", pending=3), seen)
    assert well == MachineFact("edge-a", "edge", "block 41", True, 41, None, 3, "bfl/0.9.0", 0.1, NOW_S)
    away = machine_fact(NodeState("edge-a", None, trouble="does not answer"), seen)
    assert (away.is_well, away.skew_s, away.last_seen_s) == (False, None, NOW_S)
    assert not machine_fact(NodeState("edge-a", 41, 9.0), seen).is_well
