"""What can go wrong on an edge server."""

from chain.wire.address import Address


class EdgeError(Exception):
    """Any refusal of this package."""


class GraphError(EdgeError):
    """A graph of edge servers that cannot reach consensus."""


class OverflowRefusedError(EdgeError):
    """A value that does not fit the fixed-point range (P8); never wrapped."""


class BoardError(EdgeError):
    """A post that breaks the rules of the board, or one that did not come in time."""


class PlanError(EdgeError):
    """A plan that does not fit the network."""


class FederationError(EdgeError):
    """A network that cannot be founded."""


class GradientRefusedError(EdgeError):
    """A gradient that is not admitted (P6); `reason` is its code."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class ReplayError(EdgeError):
    """A round whose posts do not follow from each other (P13)."""


class LeaderFailedError(EdgeError):
    """A leader that posted nothing in its time, or something wrong: this attempt is given up (D3.2)."""

    def __init__(self, leader: Address, detail: str) -> None:
        super().__init__(detail)
        self.leader = leader


class AttemptOverError(EdgeError):
    """An attempt that the network has left: its round is final, or a majority is at a later attempt (D3.2)."""


class ForeignCodeError(EdgeError):
    """A network whose filter or scheme is code of others that is not here. That says nothing against the network."""


class CodeNotAllowedError(ForeignCodeError):
    """Nobody here has allowed that code."""
