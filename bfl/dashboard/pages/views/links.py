"""Addresses on the page: every link keeps the run that is looked at."""

from urllib.parse import quote, urlencode

PART = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./")


class Links:
    """Makes links. `run` is named where several are shown; empty where there is one."""

    def __init__(self, run: str = "") -> None:
        self.run = run

    def __call__(self, path: str, **query: str | int) -> str:
        """A path on this page, with a query."""
        asked = {name: str(value) for name, value in query.items()} | ({"run": self.run} if self.run else {})
        return quote(path) + (f"?{urlencode(asked)}" if asked else "")

    def told(self, path: str) -> str:
        """A path that others have written; empty unless it is one of this page."""
        return self(path) if path.startswith("/") and not path.startswith("//") and set(path) <= PART else ""

    def who(self, name: str) -> str:
        """The page of "server 1" or "device 3"; empty for anybody else."""
        role, _, number = name.partition(" ")
        is_known = role in ("server", "device") and number.isascii() and number.isdigit()
        return self(f"/{role}/{number}") if is_known else ""
