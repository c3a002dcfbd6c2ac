"""Where something does not fit."""

import contextlib
from collections.abc import Iterator

from chain.errors import ChainError, InspectionError, LedgerError


@contextlib.contextmanager
def misfit_at(what: str) -> Iterator[None]:
    """What is wrong inside does not fit there; but where nobody answers, nothing is known about the chain."""
    try:
        yield
    except LedgerError:
        raise
    except ChainError as error:
        raise InspectionError(f"{what}: {error}") from error
