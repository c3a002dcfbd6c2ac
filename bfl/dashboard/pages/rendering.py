"""From a view model to HTML: everything is escaped, and what cannot be seen is made visible."""

import functools
import hashlib
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from bfl.dashboard.charts.lines import as_table, draw, legend
from bfl.dashboard.pages.views.frame import Frame
from bfl.dashboard.pages.views.links import Links

_PACKAGE = "bfl.dashboard.pages"
_CUT = 240
_POLICY = re.compile(r"<meta http-equiv=[^>]*>")


def visible(value: Any) -> Any:
    """Characters that turn the writing around, or that nobody sees, as their numbers; all that templates print."""
    if not isinstance(value, str) or isinstance(value, Markup) or value.isprintable():
        return value
    return "".join(each if each.isprintable() else f"⟨U+{ord(each):04X}⟩" for each in value)


def cut(value: str, most: int = _CUT) -> str | Markup:
    """A long text, cut; the whole of it is in its title, as far as anybody reads."""
    if len(value) <= most:
        return value
    whole, shown = visible(value[: 20 * _CUT]), visible(value[:most])
    return Markup('<span title="{}">{}…</span>').format(whole, shown)


@functools.cache
def static(path: str) -> str:
    """The address of a file that is served as it is; it changes with what is in it, so that browsers may keep it."""
    digest = hashlib.sha256(files(_PACKAGE).joinpath("static", *path.split("/")).read_bytes()).hexdigest()
    return f"/static/{path}?v={digest[:12]}"


@functools.cache
def environment() -> Environment:
    """Templates; an unknown name in one is an error, not an empty place."""
    made = Environment(
        loader=PackageLoader(_PACKAGE, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters["cut"] = cut
    made.globals |= {"static": static, "draw": draw, "legend": legend, "as_table": as_table}
    return made


def render(template: str, frame: Frame, to: Links, **views: Any) -> str:
    """A page as text."""
    return environment().get_template(template).render(frame=frame, to=to, **views)


def page(template: str, frame: Frame, to: Links, **views: Any) -> HTMLResponse:
    """A page."""
    return HTMLResponse(render(template, frame, to, **views))


def served_report(text: str, to: Links) -> str:
    """A report in its page: the styles in its file are refused by the policy of this server, so they are linked to."""
    links = Markup('<p class="made"><a href="{}">‹ back</a> · <a href="{}" download>save as one file</a></p>').format(
        to("/"), to("/report", file=1)
    )
    head, _, rest = text.partition("<style>")
    head = _POLICY.sub("", head)
    body = rest.partition("</style>")[2].replace("<main>", f"<main>{links}", 1)
    icon = static("icon.svg")
    return f'{head}<link rel="icon" href="{icon}"><link rel="stylesheet" href="/report.css">{body}'


_ERRORS: Mapping[int, str] = {
    400: "This request cannot be meant",
    401: "This page wants its token",
    403: "This is not for other sites",
    404: "There is no such page",
    405: "This page can only be read",
    421: "This page has another name",
    503: "This cannot be read at the moment",
}


def error_page(status: int, told: str) -> HTMLResponse:
    """What went wrong, and where to go; it needs no run, so nothing else can go wrong."""
    title = _ERRORS.get(status, "Something went wrong here")
    text = environment().get_template("error.html").render(status=status, title=title, told=told)
    return HTMLResponse(text, status_code=status)
