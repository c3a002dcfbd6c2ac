"""What can go wrong at the front door."""


class BflError(Exception):
    """Any refusal of this package; its text is for the person at the terminal."""


class ConfigError(BflError):
    """A configuration that cannot be read."""


class RunFolderError(BflError):
    """A run folder that is missing, in use or damaged."""


class RunInUseError(RunFolderError):
    """A run folder that another process is writing just now."""
