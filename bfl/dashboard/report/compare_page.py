"""Several runs beside each other as one HTML file, which opens anywhere."""

from collections.abc import Sequence
from datetime import UTC, datetime

from markupsafe import Markup

from bfl import __version__
from bfl.dashboard.charts.lines import as_table, draw, legend
from bfl.dashboard.report.comparing import Group, comparison_charts
from bfl.dashboard.report.html import environment, style


def comparison_page(groups: Sequence[Group], now: datetime | None = None) -> str:
    """The whole file."""
    return environment().get_template("compare.html").render(
        groups=groups, count=sum(len(each.runs) for each in groups), charts=comparison_charts(groups), draw=draw,
        legend=legend, as_table=as_table, version=__version__,
        made=f"{(now or datetime.now(UTC)).astimezone(UTC):%Y-%m-%d %H:%M} UTC",
        style=Markup(style()),  # noqa: S704 - our own file
    )  # fmt: skip
