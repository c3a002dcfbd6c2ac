"""The report: one HTML file that opens anywhere, without a program, a network or a script."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from bfl import __version__
from bfl.dashboard.charts.lines import as_table, draw, legend
from bfl.dashboard.decoded import AuditState, Evidence
from bfl.dashboard.facts import Snapshot
from bfl.dashboard.index.figures import credits_of, key_figures
from bfl.dashboard.report.curves import TERM_WORDS, latency_charts, learning_charts, time_chart
from bfl.dashboard.report.words import limits_of, summary_of, verdict_of

MOST_ROWS, MOST_OFFENCES = 200, 200
"""Of a table: a report is read, not searched"""
_SETTINGS = ("scheme", "dataset", "partition", "planner", "filter", "attack", "model", "seed", "graph", "phi", "batch")


@dataclass(frozen=True)
class Account:
    """All that a report is made of."""

    snapshot: Snapshot
    audit: AuditState
    evidence: Sequence[Evidence]
    """Of the offences, oldest first, `MOST_OFFENCES` of them at most."""
    made: str
    """When, for people; a report of the same run may be made again."""


def render(account: Account) -> str:
    """The whole file."""
    snapshot, figures = account.snapshot, key_figures(account.snapshot)
    credit = credits_of(snapshot)
    time = time_chart(snapshot.rounds)
    charts = [*learning_charts(snapshot.rounds), *latency_charts(snapshot.rounds), *([time] if time else [])]
    return environment().get_template("report.html").render(
        about=snapshot.about, status=snapshot.status, told=snapshot.told, version=__version__, made=account.made,
        verdict=verdict_of(account.audit), audit=account.audit, summary=summary_of(snapshot, figures), figures=figures,
        charts=charts, draw=draw, legend=legend, as_table=as_table, terms=TERM_WORDS, evidence=account.evidence,
        offences=len(snapshot.offences), people=snapshot.participants[:MOST_ROWS], count=len(snapshot.participants),
        credit=credit, limits=limits_of(snapshot, account.audit), settings=_settings(snapshot), style=Markup(style()),  # noqa: S704 - our own file
        head=snapshot.blocks[-1] if snapshot.blocks else None,
    )  # fmt: skip


def style() -> str:
    """What the file has of style: ours alone."""
    own = (files("bfl.dashboard.report") / "report.css").read_text(encoding="utf-8")
    return own + (files("bfl.dashboard.charts") / "charts.css").read_text(encoding="utf-8")


def _settings(snapshot: Snapshot) -> list[tuple[str, str]]:
    known = snapshot.about.settings
    return [(key, str(known[key])) for key in _SETTINGS if str(known.get(key, ""))]


def environment() -> Environment:
    """Of this folder's templates; what they are given is escaped."""
    made = Environment(
        loader=PackageLoader("bfl.dashboard.report", "."), autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.filters["short"] = lambda text: f"{text[:10]}…" if len(text) > 14 else text
    return made
