"""Numbers with their units, as the pages write them."""

from bfl.show.text import size_text, utc_time

UNKNOWN = "–"
"""Where nobody knows; never a zero"""


def percent(share: float | None, digits: int = 2) -> str:
    """A share of one, in per cent, without the sign."""
    return UNKNOWN if share is None else f"{100 * share:.{digits}f}"


def seconds(value: float | None) -> str:
    """Without the unit; three figures or so."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def seconds_text(value: float | None) -> str:
    """With the unit."""
    return UNKNOWN if value is None else f"{seconds(value)} s"


def figure(value: float | None, digits: int = 3) -> str:
    """A number without a unit, such as a loss."""
    if value is None:
        return UNKNOWN
    return f"{value:.{digits}f}" if 1e-3 <= abs(value) < 1e5 or value == 0 else f"{value:.3g}"


def whole(value: int | None) -> str:
    """With thousands set apart."""
    return UNKNOWN if value is None else f"{value:,}"


def size(count: int | None) -> tuple[str, str]:
    """A number of bytes, and its unit."""
    if count is None:
        return UNKNOWN, ""
    number, _, unit = size_text(count).partition(" ")
    return number, unit


def clock(timestamp: int) -> str:
    """Time of day, UTC."""
    return utc_time(timestamp).rpartition(" ")[2]


def moment(timestamp: int) -> str:
    """Day and time, UTC."""
    return f"{utc_time(timestamp)} UTC"


def count(number: int, one: str, many: str = "") -> str:
    """ "1 round", "3 rounds"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def short_hash(text: str) -> str:
    """The beginning of a hash; the whole stands in a title."""
    return f"{text[:12]}…" if len(text) > 14 else text
