"""What the page refuses."""

from bfl.errors import BflError


class DashboardError(BflError):
    """Of the page and its sources."""


class NotFoundError(DashboardError):
    """There is no such block, round, run ...: 404."""


class RequestRefusedError(DashboardError):
    """What was asked for cannot be meant: 400."""
