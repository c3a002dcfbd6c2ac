"""What can go wrong in the policy."""


class PolicyError(Exception):
    """Any refusal of this package."""


class ActionError(PolicyError):
    """An action outside the environment's action space."""


class ObservationError(PolicyError):
    """A state or observation that is not finite, or of another size than the policy was asked for."""


class StoredFileError(PolicyError):
    """A file whose form is not the one we write: too large, compressed, or with something strange in it."""
