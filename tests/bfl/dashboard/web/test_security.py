"""Wrong and hostile requests: each is refused with what was found and what was expected, and nothing breaks."""

import re
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from bfl.dashboard.index.dashboard import Dashboard
from bfl.dashboard.web.app import PageServer
from bfl.dashboard.web.security import CONTENT_POLICY, WebParams, host_in, is_loopback, is_same
from tests.bfl.dashboard.made import line, opened, write_run

TOKEN, ANY = "a-token-of-quite-some-length", "0.0.0.0"  # noqa: S104 - nothing is bound


@pytest.fixture
def shown(tmp_path: Path) -> Dashboard:
    """A run of three rounds without a chain."""
    return opened(write_run(tmp_path / "run", map(line, range(1, 4))))


def client_of(dashboard: Dashboard, **params: Any) -> TestClient:
    server = PageServer(dashboard.siblings, WebParams(**params))
    return TestClient(server.app, base_url="http://127.0.0.1:8765", follow_redirects=False)


API = "/api/v1/"
WRONG = [
    ("rounds/0", 404), ("rounds/4", 404), ("rounds/-1", 400), ("rounds/1e3", 400), ("rounds/٣", 400),
    ("rounds/99999999999999999999", 400), ("rounds?after=-1", 400), ("rounds?after=1.5", 400), ("rounds?points=0", 400),
    ("rounds?points=1000000", 400), ("assignments?first=-5", 400), ("assignments?from=0", 400),
    ("blocks/0", 404), ("blocks/0x1234", 404), ("blocks/..%2F..%2Fetc%2Fpasswd", 404), ("blocks?limit=501", 400),
    ("blocks?before=abc", 400), ("transactions/0x00", 404), ("offences/1-server-0-3", 404),
    ("offences/%3Cscript%3E", 404), ("models/1", 404), ("models/x", 400), ("run?run=other", 404),
    ("run?run=%00", 404), ("compare?" + "&".join(["run=run"] * 21), 400), ("search?q=" + "x" * 201, 400),
    ("participants?limit=0", 400), ("nothing", 404), ("", 404), ("run/", 404), ("audit?start=1", 400),
]  # fmt: skip


@pytest.mark.parametrize(("path", "status"), WRONG, ids=[path[:40] for path, _ in WRONG])
def test_a_wrong_request_is_told_what_was_found_and_expected(shown: Dashboard, path: str, status: int) -> None:
    answer = client_of(shown).get(API + path)
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]
    assert re.search(r"found|no chain", answer.json()["error"])
    assert len(answer.json()["error"]) < 400


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"])
def test_nothing_can_be_changed(shown: Dashboard, method: str) -> None:
    answer = client_of(shown).request(method, API + "audit")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "", "10.0.0.1:8765",
             "localhost.evil.example", "127.0.0.1@evil.example", "2130706433"],
)  # fmt: skip
def test_a_host_that_is_not_this_page_is_refused(shown: Dashboard, host: str) -> None:
    """A name of somebody else's site may lead here (DNS rebinding)."""
    answer = client_of(shown).get(API + "run", headers={"host": host})
    assert answer.status_code == 421
    assert "expected 127.0.0.1 or localhost" in answer.json()["error"]


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost", "LOCALHOST:9000", "[::1]:8765", "localhost."])
def test_this_machines_own_names_are_known_through_any_tunnel(shown: Dashboard, host: str) -> None:
    assert client_of(shown).get(API + "run", headers={"host": host}).status_code == 200


def test_what_is_too_long_or_has_a_body_is_refused(shown: Dashboard) -> None:
    web = client_of(shown)
    assert web.get("/" + "x" * 2000).status_code == 414
    assert web.get(API + "run?" + "x" * 3000).status_code == 414
    assert web.request("GET", API + "run", content=b"{}").status_code == 400
    assert web.get(API + "run", headers={f"x-{n}": "y" for n in range(80)}).status_code == 431


def test_another_sites_page_gets_no_part_of_this_one_but_may_link_to_it(shown: Dashboard) -> None:
    web = client_of(shown)
    for mode in ("no-cors", "cors", "websocket"):
        headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": mode}
        assert web.get(API + "run", headers=headers).status_code == 403
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert web.get(API + "run", headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["/api/v1/run", "/nowhere", "/metrics", "/api/v1/nowhere", "/rounds.csv"])
def test_every_answer_has_the_headers(shown: Dashboard, path: str) -> None:
    answer = client_of(shown).get(path)
    assert (
        answer.headers["content-security-policy"]
        == CONTENT_POLICY
        == (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
            "frame-ancestors 'none'"
        )
    )
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in answer.headers
    assert "server" not in answer.headers


def test_a_page_that_is_not_there_is_told_in_text(shown: Dashboard) -> None:
    answer = client_of(shown).get("/<script>alert(1)</script>")
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/plain")


def test_head_has_the_headers_alone(shown: Dashboard) -> None:
    answer = client_of(shown).head(API + "run")
    assert (answer.status_code, answer.content) == (200, b"")


# --- other machines


@pytest.mark.parametrize(
    "path", ["/", "/api/v1/run", "/metrics", "/api/v1/stream", "/?token=", "/?token=wrong", f"/?token={TOKEN}x",
             f"/?token={TOKEN}&token={TOKEN}"],
)  # fmt: skip
def test_without_the_token_nobody_sees_anything(shown: Dashboard, path: str) -> None:
    answer = client_of(shown, host=ANY, token=TOKEN).get(path)
    assert answer.status_code == 401
    assert TOKEN not in answer.text
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("cookie", ["wrong", TOKEN, "", "=;=;", "x" * 5000])
def test_a_made_up_cookie_is_none(shown: Dashboard, cookie: str) -> None:
    web = client_of(shown, host=ANY, token=TOKEN)
    answer = web.get(API + "run", headers={"cookie": f"bfl-dashboard-8765={cookie}"})
    assert answer.status_code == 401


def test_the_token_is_exchanged_for_a_cookie_that_scripts_and_other_sites_do_not_get(shown: Dashboard) -> None:
    web = client_of(shown, host=ANY, token=TOKEN)
    answer = web.get(f"/api/v1/rounds?after=1&token={TOKEN}&run=run")
    cookie = answer.headers["set-cookie"]
    assert answer.status_code == 200
    assert TOKEN not in cookie + answer.text
    assert all(each in cookie for each in ("HttpOnly", "SameSite=strict", "Path=/"))
    assert 'content="0; url=/api/v1/rounds?after=1&amp;run=run"' in answer.text
    assert web.get(API + "run").status_code == 200


def test_the_way_on_after_the_token_stays_on_this_page(shown: Dashboard) -> None:
    web = client_of(shown, host=ANY, token=TOKEN)
    answer = web.get(f"//evil.example/%22%3E%3Cscript%3E?token={TOKEN}")
    found = re.findall(r'url=([^"]*)"', answer.text)
    assert answer.status_code == 200
    assert found
    assert all(each.startswith("/") and not each.startswith("//") for each in found)
    assert "<script>" not in answer.text


def test_a_program_shows_the_token_in_a_header(shown: Dashboard) -> None:
    web = client_of(shown, host=ANY, token=TOKEN)
    assert web.get("/metrics", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert web.get("/metrics", headers={"authorization": f"Bearer {TOKEN}1"}).status_code == 401


@pytest.mark.parametrize(("host", "status"), [("192.0.2.7:8765", 200), ("edge-1:8765", 200), ("evil.example", 421)])
def test_for_other_machines_addresses_and_own_names_are_hosts(shown: Dashboard, host: str, status: int) -> None:
    web = client_of(shown, host=ANY, token=TOKEN, names=frozenset({"edge-1"}))
    answer = web.get(API + "run", headers={"host": host, "authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == status


def test_words() -> None:
    assert [is_loopback(each) for each in ("127.0.0.1", "127.1.2.3", "::1", "localhost")] == [True] * 4
    assert [is_loopback(each) for each in (ANY, "::", "192.0.2.1", "edge-1", "")] == [False] * 5
    assert [host_in(each) for each in ("A:1", "[::1]:80", "a.", " b ")] == ["a", "[::1]", "a", "b"]
    assert is_same("ä", "ä")
    assert not is_same("a", "ab")
    assert WebParams(token=TOKEN, host="::").url == f"http://[::]:8765/?token={TOKEN}"
    assert WebParams().session != WebParams().session
    assert WebParams().session not in repr(WebParams())
