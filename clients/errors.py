"""What can go wrong on a device."""


class ClientError(Exception):
    """Any refusal of this package."""


class ParameterError(ClientError):
    """A setting that is unknown, of the wrong type or out of range."""


class DataError(ClientError):
    """A data set that is missing, damaged or not of the expected form."""


class PartitionError(DataError):
    """A division of the data that cannot be made."""


class ModelError(ClientError):
    """A model that cannot be built or does not fit its parameter vector."""


class OrderError(ClientError):
    """An order that is malformed or does not belong to this device."""


class WalletError(ClientError):
    """What a device remembers of its chain, in a file that is damaged, open to others or of another network."""


class LateError(ClientError):
    """Training that is not over at the deadline of its order."""


class ReplyError(ClientError):
    """A reply that is malformed."""


class FlowerAwayError(ClientError):
    """A SuperNode or a SuperLink that does not answer, or not as expected."""


class FlowerEndedError(FlowerAwayError):
    """A task or a run that Flower no longer knows as ours."""


class BadReplyError(ClientError):
    """A reply whose bytes are none of Flower's."""
