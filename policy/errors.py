"""What can go wrong in the policy, and what was probably meant."""

import difflib
from collections.abc import Iterable


class PolicyError(Exception):
    """Any refusal of this package."""


class ActionError(PolicyError):
    """An action outside the environment's action space."""


class ObservationError(PolicyError):
    """A state or observation that is not finite, or of another size than the policy was asked for."""


class StoredFileError(PolicyError):
    """A file whose form is not the one we write: too large, compressed, or with something strange in it."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean "x"?)`, or nothing where no known word is close."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f' (did you mean "{close[0]}"?)' if close else ""
