"""Numbers and texts for people, in a terminal and on a page. Standard library only."""

from datetime import UTC, datetime


def utc_time(timestamp: int) -> str:
    """A block's time, UTC."""
    try:
        return f"{datetime.fromtimestamp(timestamp, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return str(timestamp)


def size_text(count: int) -> str:
    """A number of bytes with its unit."""
    return f"{count / 1e6:.2f} MB" if count >= 1e6 else f"{count / 1e3:.1f} KB" if count >= 1e3 else f"{count} B"


def printable(text: str) -> str:
    """A text from the chain without what would move a terminal's cursor."""
    return "".join(each if each.isprintable() else "\ufffd" for each in text)


def printable_lines(text: str) -> str:
    """The same of a text of several lines."""
    return "\n".join(map(printable, text.split("\n")))
