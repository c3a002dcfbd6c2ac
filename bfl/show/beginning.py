"""The first line of a run, before anything that takes seconds is loaded."""

from clients.parameters import DataParams
from edge_servers.parameters import RoundParams


def first_line(rounds: RoundParams, data: DataParams) -> str:
    """What is going to happen."""
    return (
        f"simulating {rounds.rounds:,} rounds of {rounds.scheme}: {data.devices:,} devices, {rounds.edges} edge servers"
        f", {data.dataset}, {data.partition}; loading ..."
    )
