"""The report that somebody reads who does not program."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bfl.cli import app
from bfl.dashboard.report.making import audited, read_runs, told_report
from tests.bfl.dashboard.made import HOSTILE, attacked_run, lied, line, write_run


class Outside(HTMLParser):
    """Everything in a page that would be fetched from somewhere, or run."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "link", "iframe", "img", "object", "embed", "base"):
            self.found.append(tag)
        self.found += [name for name, _ in attrs if name in ("src", "href", "style") or name.startswith("on")]


@pytest.fixture(scope="module")
def attacked() -> str:
    """The report of a run with a lie in it, audited here."""
    (dashboard,) = read_runs([attacked_run()])
    told: list[str] = []
    state = audited(dashboard, told.append)
    assert state.status == "finished"
    return told_report(dashboard)


def test_it_names_the_liar_how_one_knows_and_what_it_means(attacked: str) -> None:
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", attacked))
    assert "It fits, but 1 participant misbehaved" in text
    assert "Round 2: server 1" in text
    assert "what it signed" in text
    assert "derived again by the audit of this report" in text
    assert "excluded through round" in text
    assert "Keys, clock, radio channels" in text


def test_it_is_one_file_that_fetches_and_runs_nothing(attacked: str) -> None:
    assert Outside(attacked).found == []
    assert "default-src 'none'" in attacked
    assert len(attacked) < 200_000


def test_it_says_that_nobody_has_checked_where_nobody_has(tmp_path: Path) -> None:
    (dashboard,) = read_runs([write_run(tmp_path / "run", [line(k) for k in range(1, 6)])])
    page = told_report(dashboard)
    assert "Not checked" in page
    assert "13.0 %" in page, "the mean of the five evaluations, as the summary has it"


def test_it_shows_what_strangers_wrote_as_text(tmp_path: Path) -> None:
    refused = [{"node": HOSTILE, "reason": HOSTILE, "detail": HOSTILE}]
    lines = [line(1), line(2, offences=[lied(detail=HOSTILE)], refused=refused, absent=[HOSTILE])]
    (dashboard,) = read_runs([write_run(tmp_path / "run", lines, dataset="synthetic")])
    page = told_report(dashboard)
    assert Outside(page).found == []
    assert "alert(1)" in page


def test_a_run_without_a_round_has_a_report(tmp_path: Path) -> None:
    (dashboard,) = read_runs([write_run(tmp_path / "run", [])])
    assert "No round has ended yet" in told_report(dashboard)


def test_the_command_writes_it_with_its_verdict(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    told = CliRunner().invoke(app, ["audit", "report", str(attacked_run()), "--out", str(out)])
    assert told.exit_code == 0, told.output
    assert "fits, but 1 participant misbehaved" in told.output
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")
    nowhere = CliRunner().invoke(
        app, ["audit", "report", str(attacked_run()), "--out", str(tmp_path / "no" / "r.html")]
    )
    assert "there is no folder" in str(nowhere.exception)
