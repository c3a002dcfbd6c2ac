"""Charts as SVG: well-formed, safe, and drawn where they should be."""

from xml.etree import ElementTree as Xml

from bfl.dashboard.charts.lines import Chart, Event, Line, as_table, draw, legend
from tests.bfl.dashboard.made import HOSTILE

TWO = [Line("a", [(1.0, 1.0), (2.0, 3.0)]), Line("b", [(1.0, 2.0), (2.0, None)], is_dashed=True)]


def read(chart: Chart) -> Xml.Element:
    return Xml.fromstring(str(draw(chart)))  # noqa: S314 - our own


def paths(root: Xml.Element, kind: str) -> list[str]:
    return [each.attrib["d"] for each in root.iter("path") if each.attrib.get("class", "").startswith(kind)]


def test_a_line_for_each_series_and_the_dashed_one_is_dashed() -> None:
    root = read(Chart("learning", "told", "%", TWO))
    kinds = [each.attrib["class"] for each in root.iter("path")]
    assert kinds == ["line c0", "line c1 dashed"]
    assert root.find("title") is not None
    assert root.attrib["role"] == "img"
    assert paths(root, "line c0")[0].count("L") == 1


def test_stacked_areas_lie_upon_each_other() -> None:
    root = read(Chart("time", "told", "s", [Line("a", [(1.0, 1.0), (2.0, 1.0)]), Line("b", [(1.0, 2.0), (2.0, 2.0)])],
                      is_stacked=True))  # fmt: skip
    lower, upper = (
        [x.strip() for x in each.removesuffix("z").replace("M", "L").split("L")[1:]] for each in paths(root, "area")
    )
    assert lower[:2] == upper[:1:-1], "the second begins where the first ends"


def test_offences_and_exclusions_are_drawn_within_the_rounds_that_are_shown() -> None:
    events = (Event(2.0, "a lie"), Event(2.0, "excluded", through=99.0))
    root = read(Chart("learning", "told", "%", TWO, events))
    (offence,) = [each for each in root.iter("g") if each.attrib["class"] == "offence"]
    (band,) = root.iter("rect")
    right = float(offence.find("line").attrib["x1"])  # type: ignore[union-attr]
    assert float(band.attrib["x"]) == right
    assert float(band.attrib["width"]) == 1.0, "the rounds that are shown end there"


def test_nothing_that_a_stranger_wrote_becomes_markup() -> None:
    chart = Chart(HOSTILE, HOSTILE, HOSTILE, [Line(HOSTILE, [(1.0, 1.0)])], (Event(1.0, HOSTILE),), x_label=HOSTILE)
    for told in (draw(chart), legend(chart), as_table(chart)):
        assert "<script" not in told
        assert "alert(1)" in told
        assert "style=" not in told


def test_an_empty_chart_is_a_picture_too() -> None:
    assert read(Chart("nothing", "yet", "", [])).tag.endswith("svg")
    assert read(Chart("nothing", "yet", "", [Line("a", [])], is_stacked=True)) is not None


def test_a_table_has_the_numbers_of_the_chart_and_of_many_rounds_some() -> None:
    told = as_table(Chart("learning", "told", "%", TWO))
    assert "<td>3</td>" in told
    assert "<td>-</td>" in told
    many = as_table(Chart("x", "y", "", [Line("a", [(float(k), 1.0) for k in range(1, 1001)])]), most_rows=100)
    assert 100 <= many.count("<tr>") - 1 <= 102
    assert ">1,000</th>" in many, "the last round is there"


def test_a_band_goes_around_its_line() -> None:
    line = Line("mean", [(1.0, 2.0), (2.0, 2.0)], spread=[(1.0, 1.0, 3.0), (2.0, 1.0, 3.0)])
    assert len(paths(read(Chart("x", "y", "", [line])), "spread c0")) == 1
