"""The API: shapes that pages and others rely on, on a run that was really made and on made-up ones."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from bfl.dashboard.index.dashboard import Dashboard
from bfl.dashboard.web.app import PageServer
from bfl.dashboard.web.security import WebParams
from tests.bfl.dashboard.made import HOSTILE, attacked_run, lied, line, opened, write_run


def client_of(dashboard: Dashboard, **params: Any) -> TestClient:
    server = PageServer(dashboard.siblings, WebParams(**params))
    return TestClient(server.app, base_url="http://127.0.0.1:8765", raise_server_exceptions=True)


@pytest.fixture(scope="module")
def web() -> TestClient:
    """A run in whose second round server 1 lies."""
    return client_of(opened(attacked_run()))


def get(client: TestClient, path: str) -> Any:
    answer = client.get(f"/api/v1/{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_run_says_what_is_shown(web: TestClient) -> None:
    told = get(web, "run")
    assert (told["kind"], told["name"], told["status"], told["round"], told["rounds_planned"]) == (
        "run", "attacked", "finished", 4, 4,
    )  # fmt: skip
    assert (told["devices"], told["edges"], told["graph"], told["simulated"]) == (4, 3, [[0, 1], [1, 2]], True)
    assert told["homes"] == [0, 1, 2, 0]
    assert told["head"]["number"] == 5
    assert told["offences"] >= 1
    figures = told["key_figures"]
    assert figures["block_number"] == 5
    assert 0.0 <= figures["accuracy"] <= 1.0
    assert figures["latency_paper"] > 0
    assert figures["round_s"] > figures["train_s"] > 0


def test_the_accuracy_of_the_summary_is_shown_too(web: TestClient) -> None:
    summary = json.loads((attacked_run() / "summary.json").read_text())
    assert get(web, "run")["key_figures"]["accuracy_summary"] == pytest.approx(summary["accuracy"])


def test_rounds_are_columns_with_marks_and_bands(web: TestClient) -> None:
    told = get(web, "rounds")
    assert (told["round"], told["first"], told["last"], told["step"]) == ([1, 2, 3, 4], 1, 4, 1)
    lengths = {len(told[name]) for name in ("accuracy", "loss", "leader", "winner", "offloaded", "training_nodes")}
    assert lengths == {4}
    assert set(told["latency"]["paper"]) == {"mine", "consensus", "learn", "T", "T_wall"}
    assert {each["id"] for each in told["marks"]} >= {"2-server-1-1"}
    assert told["bands"] == [{"from": 3, "through": 12, "who": "server 1"}]
    assert get(web, "rounds?after=3")["round"] == [4]
    assert get(web, "rounds?after=4")["round"] == []
    assert get(web, "rounds?after=4")["first"] is None


def test_many_rounds_are_decimated_but_no_offence_is_lost(tmp_path: Path) -> None:
    lines = [line(each, offences=[lied()] if each == 777 else [], excluded=[1] if each == 777 else []) for each in
             range(1, 1001)]  # fmt: skip
    web = client_of(opened(write_run(tmp_path / "run", lines)))
    told = get(web, "rounds?points=100")
    assert (told["step"], told["round"][0], told["round"][-1]) == (10, 1, 1000)
    assert len(told["round"]) <= 101
    assert [each["round"] for each in told["marks"]] == [777]
    assert told["bands"] == [{"from": 778, "through": 778, "who": "server 1"}]


def test_a_round_is_told_whole(web: TestClient) -> None:
    told = get(web, "rounds/2")
    assert len(told["assignment"]) == 4
    assert told["leader_name"] == f"server {told['leader']}"
    assert told["links"] == {
        "page": "/round/2", "block": "/block/3", "offences": [f"/offence/{each['id']}" for each in told["offences"]],
    }  # fmt: skip


def test_assignments_are_a_tile(tmp_path: Path) -> None:
    lines = [line(1), line(2, refused=[{"node": "device 3", "reason": "late", "detail": ""}]), line(3)]
    del lines[2]["assignment"]
    web = client_of(opened(write_run(tmp_path / "run", lines)))
    assert get(web, "assignments") == {
        "from": 1, "to": 3, "first": 0, "last": 3, "winners": [1, 2, 3], "refused": [[], [3], []],
        "rows": [[0, 1, None], [1, -1, None], [-1, 0, None], [0, 1, None]],
    }  # fmt: skip
    assert get(web, "assignments?from=2&to=2&first=1&last=2")["rows"] == [[-1], [0]]
    assert get(web, "assignments?from=3&to=99&first=3&last=99")["rows"] == [[None]]
    assert get(web, "assignments?from=9&to=12")["rows"] == [[], [], [], []]


def test_blocks_come_in_pages_the_newest_first(web: TestClient) -> None:
    told = get(web, "blocks?limit=2")
    assert [each["number"] for each in told["blocks"]] == [5, 4]
    assert told["total"] == 6
    assert [each["number"] for each in get(web, "blocks?before=4&limit=10")["blocks"]] == [3, 2, 1, 0]
    assert get(web, "blocks/4") == get(web, f"blocks/{told['blocks'][1]['hash']}")
    post = get(web, "blocks/3")["posts"][0]
    assert get(web, f"transactions/{post['hash']}")["what"] == post["what"]


def test_participants_have_their_credit(web: TestClient) -> None:
    told = get(web, "participants")
    people = {each["name"]: each for each in told["participants"]}
    assert told["total"] == 7
    assert sum(each["sealed"] for each in people.values()) == 4
    assert sum(each["led"] for each in people.values()) == 4
    assert people["server 1"]["offences"] >= 1
    assert people["server 1"]["excluded_through"] == 12
    devices = [each for each in people.values() if each["role"] == "device"]
    assert all(each["trained"] + each["offloaded"] == 4 for each in devices)
    assert [each["name"] for each in get(web, "participants?from=5&limit=1")["participants"]] == ["device 2"]


def test_offences_lead_to_their_evidence(web: TestClient) -> None:
    listed = get(web, "offences")["offences"]
    assert listed[0]["link"] == "/offence/2-server-1-1"
    assert get(web, "offences/2-server-1-1")["flagged_by"]


def test_search_and_comparison(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / name, map(line, range(1, 4)), seed=seed) for name, seed in (("a", 1), ("b", 2))]
    web = client_of(opened(*folders))
    assert get(web, "search?q=round+2")["found"] == [{"label": "round 2", "url": "/round/2"}]
    assert [(each["name"], each["seed"]) for each in get(web, "compare")["runs"]] == [("a", 1), ("b", 2)]
    assert [each["name"] for each in get(web, "compare?run=b")["runs"]] == ["b"]
    assert get(web, "run?run=b")["name"] == "b"
    assert get(web, "run")["runs"] == ["a", "b"]


def test_an_audit_is_started_by_the_page_alone(web: TestClient) -> None:
    assert get(web, "audit")["status"] == "not started"
    for headers in ({}, {"sec-fetch-site": "none"}, {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}):
        answer = web.get("/api/v1/audit?start=1", headers=headers)
        assert answer.status_code == 400, headers
        assert "expected its button" in answer.json()["error"]
    assert get(web, "audit")["status"] == "not started"


# --- tables


def rows(client: TestClient, name: str) -> list[list[str]]:
    answer = client.get(f"/{name}.csv")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/csv")
    return list(csv.reader(io.StringIO(answer.text)))


@pytest.mark.parametrize(
    ("name", "count"), [("rounds", 5), ("blocks", 7), ("participants", 8), ("assignments", 5), ("offences", None)]
)
def test_tables_have_a_row_for_each_and_cells_for_all_columns(web: TestClient, name: str, count: int | None) -> None:
    found = rows(web, name)
    assert len({len(each) for each in found}) == 1
    assert count is None or len(found) == count
    assert web.get(f"/api/v1/{name}.csv").text == web.get(f"/{name}.csv").text


def test_no_cell_is_a_formula(tmp_path: Path) -> None:
    lines = [line(1, offences=[lied(detail='=HYPERLINK("http://a.example")')])]
    found = rows(client_of(opened(write_run(tmp_path / "run", lines))), "offences")
    assert found[1][5].startswith("'=HYPERLINK")


def test_hostile_texts_come_out_as_text(tmp_path: Path) -> None:
    web = client_of(opened(write_run(tmp_path / "run", [line(1, offences=[lied(detail=HOSTILE)])])))
    answer = web.get("/api/v1/offences")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "\x1b" not in answer.json()["offences"][0]["detail"]
