"""What can go wrong at the front door."""

from typing import Any


class BflError(Exception):
    """Any refusal of this package; its text is for the person at the terminal."""


class ConfigError(BflError):
    """A configuration that cannot be read."""


class RunFolderError(BflError):
    """A run folder that is missing, in use or damaged."""


class RunInUseError(RunFolderError):
    """A run folder that another process is writing just now."""


class StopRun(Exception):  # noqa: N818 - as StopIteration: a wish, no error
    """Raised by a callback: the run ends after this round, which is recorded, and may be resumed."""

    @property
    def why(self) -> str:
        """What the callback said."""
        return ", ".join(map(str, self.args))


class CallbackError(BflError):
    """A callback of the user failed; the run ended after the round that it was told of."""

    run: Any = None
    """The `bfl.Run`, which may be resumed."""


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C during a run."""

    run: Any = None
    """The `bfl.Run`, which may be resumed; None where nothing was written yet."""


class NothingLearnedWarning(UserWarning):
    """A run went through all its rounds and learned nothing."""
