"""What the address of a page asks for: numbers within bounds, or the first page."""

from starlette.requests import Request

from bfl.dashboard.errors import NotFoundError, RequestRefusedError

_MOST_DIGITS = 9
MOST_TEXT = 200
MOST_RUNS = 20


def number_in_query(request: Request, name: str) -> int | None:
    """None where it is not asked for."""
    given = request.query_params.get(name)
    if given is None:
        return None
    if not _is_number(given):
        raise RequestRefusedError(
            f"found {name} = {given!r:.40}, expected a whole number of at most {_MOST_DIGITS} digits"
        )
    return int(given)


def page_in_query(request: Request) -> int:
    """Of a list; 1 where none is asked for."""
    return number_in_query(request, "page") or 1


def number_in_path(request: Request, name: str) -> int:
    """Such as 12 of /round/12."""
    given = str(request.path_params["number"])
    if not _is_number(given):
        raise NotFoundError(f"found {name} {given!r:.40}, expected a whole number")
    return int(given)


def text_in_query(request: Request, name: str) -> str:
    """As it was typed; longer ones are refused."""
    given = request.query_params.get(name, "").strip()
    if len(given) > MOST_TEXT:
        raise RequestRefusedError(f"found {name} of {len(given)} characters, expected at most {MOST_TEXT}")
    return given


def runs_in_query(request: Request) -> list[str]:
    """All that ?run= names."""
    given = request.query_params.getlist("run")
    if len(given) > MOST_RUNS:
        raise RequestRefusedError(f"found {len(given)} runs, expected at most {MOST_RUNS}")
    return given


def _is_number(given: str) -> bool:
    return given.isascii() and given.isdigit() and len(given) <= _MOST_DIGITS
