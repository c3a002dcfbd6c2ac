"""The page as a process: its stream, its end, and a large run in little memory."""

import json
import re
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.bfl.conftest import Command
from tests.bfl.dashboard.made import lied, line, write_run
from tests.bfl.dashboard.pages_served import WITHIN_S, events_of, served

STREAM = "/api/v1/stream"


def wait_for(is_there: Callable[[], bool], within_s: float = WITHIN_S) -> None:
    end = time.monotonic() + within_s
    while not is_there():
        assert time.monotonic() < end
        time.sleep(0.1)


def rounds_of(client: httpx.Client) -> int:
    return int(client.get("/api/v1/run").json()["round"])


def append(folder: Path, *rounds: int) -> None:
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line(each, offences=[lied()])) + "\n" for each in rounds)


def test_a_stream_tells_what_is_new_and_goes_on_where_it_was_cut(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "runs" / "run", map(line, range(1, 4)))
    with served(folder=tmp_path) as (client, _):  # no argument: the newest run under runs/
        wait_for(lambda: rounds_of(client) == 3)
        with client.stream("GET", STREAM) as answer:
            events = events_of(answer)
            first = next(events)
            assert (first["event"], first["data"]["round"]) == ("health", 3)
            append(folder, 4)
            new = next(each for each in events if each["event"] == "round")
            assert (new["data"]["first"], new["data"]["last"]) == (4, 4)
            offence = next(each for each in events if each["event"] == "offence")
            assert offence["data"]["offences"][0]["id"] == "4-server-1-3"
        append(folder, 5, 6)
        wait_for(lambda: rounds_of(client) == 6)
        with client.stream("GET", STREAM, headers={"last-event-id": new["id"]}) as answer:
            missed = next(events_of(answer))
            assert (missed["event"], missed["data"]["first"], missed["data"]["last"]) == ("round", 5, 6)


def test_a_visitor_has_six_streams_and_a_closed_one_makes_room(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [line(1)])
    with served(str(folder), folder=tmp_path) as (client, _), ExitStack() as opened:
        streams = [opened.enter_context(client.stream("GET", STREAM)) for _ in range(6)]
        refused = client.get(STREAM)
        assert refused.status_code == 429
        assert "close a tab" in refused.json()["error"]
        streams[0].close()

        def is_let_in() -> bool:
            with client.stream("GET", STREAM) as answer:
                return answer.status_code == 200

        wait_for(is_let_in)


def test_it_ends_soon_though_a_stream_is_open(tmp_path: Path) -> None:
    """uvicorn would wait for the stream; without our word for twenty seconds and more."""
    folder = write_run(tmp_path / "run", [line(1)])
    with served(str(folder), folder=tmp_path) as (client, process), client.stream("GET", STREAM):
        process.send_signal(signal.SIGTERM)
        assert process.wait(15.0) in (0, -signal.SIGTERM)


def test_other_machines_need_the_token_that_is_printed(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [line(1)])
    (tmp_path / "token").write_text("a-token-that-somebody-chose\n")
    for arguments in (("--token-file", "token"), ("--host", "0.0.0.0")):  # noqa: S104 - that is what is tested
        with served(str(folder), *arguments, folder=tmp_path) as (client, _):
            found = re.search(r"token=([\w-]+)", str(client.base_url))
            assert found
            url = f"http://127.0.0.1:{client.base_url.port}"
            with httpx.Client(base_url=url, trust_env=False) as visitor:
                assert visitor.get("/api/v1/run").status_code == 401
                assert visitor.get(f"/api/v1/run?token={found[1]}").status_code == 200
                assert visitor.get("/api/v1/run").json()["name"] == "run"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "found no run under runs/"),
        (("nowhere",), "found no folder nowhere"),
        (("run", "--rpc", "http://127.0.0.1:1"), "found RUN and --rpc, expected one of them"),
        (("--kit", "run"), "expected edge or device"),
        (("--rpc", "ftp://nowhere"), "expected http:// or https:// and a host"),
        (("run", "--token-file", "short"), "expected a token of at least 16"),
        (("run", "--host", "192.0.2.1"), "the page cannot listen on 192.0.2.1:8765"),
    ],
)
def test_what_cannot_be_shown_is_refused(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], told: str
) -> None:
    write_run(tmp_path / "run", [line(1)])
    (tmp_path / "short").write_text("short")
    monkeypatch.chdir(tmp_path)
    answer = command("dashboard", *arguments)
    assert answer.code == 2
    assert told in answer.err


@pytest.mark.slow
def test_a_thousand_devices_and_five_thousand_rounds_fit_in_400_mb(tmp_path: Path) -> None:
    folder = write_run(
        tmp_path / "run", (line(each, devices=1000, edges=10) for each in range(1, 5001)), devices=1000, edges=10,
        rounds=5000,
    )  # fmt: skip
    with served(str(folder), folder=tmp_path) as (client, process):
        wait_for(lambda: rounds_of(client) == 5000, 200.0)
        for path in ("rounds", "participants", "assignments?from=4900&last=190", "search?q=device 7", "offences"):
            assert client.get(f"/api/v1/{path}").status_code == 200
        assert client.get("/rounds.csv").text.count("\n") == 5001
        assert client.get("/metrics").status_code == 200
        status = Path(f"/proc/{process.pid}/status").read_text()
        peak_kb = int(re.findall(r"VmHWM:\s+(\d+)", status)[0])
        print(f"peak: {peak_kb / 1024:.0f} MB")
        assert peak_kb < 400 << 10
