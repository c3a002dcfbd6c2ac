"""Lines and stacked areas over the rounds. Colours and dashes are classes of charts.css; nothing here has a style.

What is wrong is told by form too: an offence is a dashed upright line with a mark on top, an exclusion a tinted band.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

from bfl.dashboard.charts.axes import Frame, number_text, span_of, thinned, ticks

WIDTH, HEIGHT = 720.0, 260.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 16.0, 14.0, 34.0
_COLOURS = 8


@dataclass(frozen=True)
class Line:
    """A named line; `spread`: between which values it lies, by x, for a band around it."""

    name: str
    points: Sequence[tuple[float, float | None]]
    is_dashed: bool = False
    spread: Sequence[tuple[float, float, float]] = ()


@dataclass(frozen=True)
class Event:
    """An offence at a round; with `through` an exclusion from it to that round."""

    at: float
    text: str
    through: float | None = None


@dataclass(frozen=True)
class Chart:
    """A chart and what is said of it to somebody who does not see it."""

    title: str
    told: str
    y_label: str
    lines: Sequence[Line]
    events: Sequence[Event] = field(default_factory=tuple)
    x_label: str = "round"
    is_stacked: bool = False


def draw(chart: Chart) -> Markup:
    """The chart as SVG, whole and safe to put into a page."""
    stacks = _stacked(chart.lines) if chart.is_stacked else ()
    frame = _frame(chart, stacks)
    parts = [_grid(frame, chart), *(_event(each, frame) for each in chart.events)]
    parts += (
        _areas(stacks, frame) if chart.is_stacked else [_line(n, each, frame) for n, each in enumerate(chart.lines)]
    )
    return Markup(
        '<svg class="chart" viewBox="0 0 {w:g} {h:g}" role="img"><title>{title}</title><desc>{told}</desc>{body}</svg>'
    ).format(w=WIDTH, h=HEIGHT, title=chart.title, told=chart.told, body=Markup("").join(parts))


def legend(chart: Chart) -> Markup:
    """Names of the lines with their last values."""
    items = [
        Markup('<li><span class="key c{n}{dash}"></span>{name} <b>{last}</b></li>').format(
            n=n % _COLOURS, dash=" dashed" if line.is_dashed else "", name=line.name, last=_last(line)
        )
        for n, line in enumerate(chart.lines)
    ]
    return Markup('<ul class="legend">{}</ul>').format(Markup("").join(items))


def _last(line: Line) -> str:
    found = [y for _, y in line.points if y is not None]
    return number_text(found[-1]) if found else "-"


def _frame(chart: Chart, stacks: Sequence[Sequence[tuple[float, float, float]]]) -> Frame:
    xs = [x for line in chart.lines for x, _ in line.points] or [0.0, 1.0]
    values: list[float | None] = [high for stack in stacks for _, _, high in stack]
    if not chart.is_stacked:
        values = [y for line in chart.lines for _, y in line.points]
        values += [edge for line in chart.lines for _, low, high in line.spread for edge in (low, high)]
    low, high = span_of(values, from_zero=chart.is_stacked)
    return Frame(_LEFT, _TOP, WIDTH - _RIGHT, HEIGHT - _BOTTOM, min(xs), max(xs), low, high)


def _grid(frame: Frame, chart: Chart) -> Markup:
    parts = []
    for value in ticks(frame.low, frame.high):
        y = frame.y(value)
        parts.append(
            Markup('<line class="grid" x1="{a:g}" x2="{b:g}" y1="{y:g}" y2="{y:g}"/>').format(
                a=frame.left, b=frame.right, y=y
            )
        )
        parts.append(_text("tick-y", frame.left - 6, y + 4, number_text(value)))
    for value in ticks(frame.first, frame.last, 8):
        if value != int(value):  # there is no half round
            continue
        parts.append(_text("tick-x", frame.x(value), frame.bottom + 15, number_text(value)))
    parts.append(_text("label", frame.right, HEIGHT - 4, chart.x_label))
    parts.append(_text("label-y", frame.left, _TOP - 3, chart.y_label))
    return Markup("").join(parts)


def _text(kind: str, x: float, y: float, text: str) -> Markup:
    return Markup('<text class="{kind}" x="{x:g}" y="{y:g}">{text}</text>').format(kind=kind, x=x, y=y, text=text)


def _event(event: Event, frame: Frame) -> Markup:
    """Within the rounds that are shown."""
    first = frame.x(min(max(event.at, frame.first), frame.last))
    if event.through is not None:
        last = frame.x(min(max(event.through, frame.first), frame.last))
        return Markup(
            '<rect class="excluded" x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}"><title>{text}</title></rect>'
        ).format(x=first, y=frame.top, w=max(last - first, 1.0), h=frame.bottom - frame.top, text=event.text)
    return Markup(
        '<g class="offence"><title>{text}</title><line x1="{x:g}" x2="{x:g}" y1="{a:g}" y2="{b:g}"/>'
        '<path d="M{l:g} {a:g}h10l-5 8z"/></g>'
    ).format(x=first, l=first - 5, a=frame.top, b=frame.bottom, text=event.text)


def _line(number: int, line: Line, frame: Frame) -> Markup:
    colour, parts = number % _COLOURS, []
    if line.spread:
        upper = [(x, high) for x, _, high in line.spread]
        lower = [(x, low) for x, low, _ in reversed(line.spread)]
        parts.append(_path(f"spread c{colour}", [*upper, *lower], frame, "z"))
    points = thinned(line.points)
    parts.append(_path(f"line c{colour}{' dashed' * line.is_dashed}", points, frame))
    if len(points) == 1:
        (x, y), *_ = points
        parts.append(
            Markup('<circle class="dot c{c}" cx="{x:g}" cy="{y:g}" r="3"/>').format(
                c=colour, x=frame.x(x), y=frame.y(y)
            )
        )
    return Markup("").join(parts)


def _path(kind: str, points: Sequence[tuple[float, float]], frame: Frame, end: str = "") -> Markup:
    told = " ".join(f"{'L' if n else 'M'}{frame.x(x):g} {frame.y(y):g}" for n, (x, y) in enumerate(points))
    return Markup('<path class="{kind}" d="{told}{end}"/>').format(kind=kind, told=told, end=end if told else "")


def _stacked(lines: Sequence[Line]) -> list[list[tuple[float, float, float]]]:
    """(x, from, to) of each area, one upon the other."""
    below: dict[float, float] = {}
    found = []
    for line in lines:
        area = []
        for x, y in line.points:
            start = below.get(x, 0.0)
            below[x] = start + (y or 0.0)
            area.append((x, start, below[x]))
        found.append(area)
    return found


def _areas(stacks: Sequence[Sequence[tuple[float, float, float]]], frame: Frame) -> list[Markup]:
    parts = []
    for number, stack in enumerate(stacks):
        upper = thinned([(x, high) for x, _, high in stack])
        shown = {x for x, _ in upper}
        lower = [(x, low) for x, low, _ in reversed(stack) if x in shown]
        parts.append(_path(f"area c{number % _COLOURS}", [*upper, *lower], frame, "z"))
    return parts


def as_table(chart: Chart, most_rows: int = 200) -> Markup:
    """The same numbers for somebody who does not see the chart; of many rounds every n-th and the last."""
    columns = [dict(line.points) for line in chart.lines]
    xs = sorted({x for column in columns for x in column})
    step = max(1, -(-len(xs) // most_rows))
    shown = [x for n, x in enumerate(xs) if n % step == 0 or n == len(xs) - 1]
    head = Markup("").join(Markup('<th scope="col">{}</th>').format(each.name) for each in chart.lines)
    rows = [
        Markup('<tr><th scope="row">{x}</th>{cells}</tr>').format(
            x=number_text(x), cells=Markup("").join(_cell(column.get(x)) for column in columns)
        )
        for x in shown
    ]
    return Markup(
        '<table class="numbers"><caption>{title}</caption><thead><tr><th scope="col">{x}</th>{head}</tr></thead>'
        "<tbody>{rows}</tbody></table>"
    ).format(title=chart.title, x=escape(chart.x_label), head=head, rows=Markup("").join(rows))


def _cell(value: float | None) -> Markup:
    return Markup("<td>{}</td>").format("-" if value is None else f"{value:.4g}")
