"""What a request asks for, checked once: errors say what was found and what was expected."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from starlette.requests import Request

from bfl.dashboard.errors import NotFoundError, RequestRefusedError
from bfl.dashboard.index.dashboard import Dashboard

MOST_RUNS = 20
_MOST_NUMBER = 2**53


class Asked:
    """The query of a request, and which run it is about."""

    def __init__(self, request: Request, dashboards: Mapping[str, Dashboard]) -> None:
        self._query, self._path, self._dashboards = request.query_params, request.path_params, dashboards

    @property
    def dashboard(self) -> Dashboard:
        """The run that ?run= names, the first of several; the first of the command line where it names none."""
        name = next(iter(self._query.getlist("run")), None)
        if name is None:
            return self.any_dashboard
        if name not in self._dashboards:
            raise NotFoundError(f"found run {name!r:.80}, expected one of {', '.join(self._dashboards)}")
        return self._dashboards[name]

    @property
    def any_dashboard(self) -> Dashboard:
        """The first, where several are named."""
        return next(iter(self._dashboards.values()))

    def names(self) -> list[str]:
        """All runs that are named."""
        found = self._query.getlist("run")
        if len(found) > MOST_RUNS:
            raise RequestRefusedError(f"found {len(found)} runs, expected at most {MOST_RUNS}")
        return found

    def whole(self, name: str, otherwise: int, least: int = 0, most: int = _MOST_NUMBER) -> int:
        """A whole number in the query."""
        given = self._query.get(name)
        return otherwise if given is None else whole_number(given, name, least, most)

    def text(self, name: str, most: int) -> str:
        """A text in the query."""
        given = self._query.get(name, "")
        if len(given) > most:
            raise RequestRefusedError(f"found {name} of {len(given)} characters, expected at most {most}")
        return given

    def has(self, name: str, value: str) -> bool:
        """Whether the query says exactly this."""
        return self._query.get(name) == value

    def in_path(self, name: str) -> str:
        """A part of the path."""
        return str(self._path[name])

    def number_in_path(self, name: str) -> int:
        """A part of the path that must be a number."""
        return whole_number(self.in_path(name), name, 0, _MOST_NUMBER)


def whole_number(given: str, name: str, least: int, most: int) -> int:
    """A number as people write it; neither signs nor spaces nor other scripts' digits."""
    is_number = given.isascii() and given.isdigit() and len(given) <= 16
    if not is_number or not least <= int(given) <= most:
        raise RequestRefusedError(f"found {name} = {given!r:.40}, expected a whole number from {least} to {most}")
    return int(given)


def plain(fact: Any) -> Any:
    """Facts as JSON has them."""
    return _plain(asdict(fact))


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
