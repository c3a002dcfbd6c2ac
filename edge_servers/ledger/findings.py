"""What a referee has worked out of one attempt at a round."""

from chain.wire.address import Address
from edge_servers.founding.standing import Standing
from edge_servers.ledger.board import RoundSlot
from edge_servers.replay.offences import Offence
from edge_servers.replay.record import RoundRecord
from edge_servers.replay.replay import AggregatedRound


class Findings:
    """What the referee has worked out of one attempt at a round."""

    def __init__(self, before: Standing, attempt: int) -> None:
        self.round, self.model, self.divergence = before.round + 1, before.model, before.divergence
        self.reputation = before.reputation
        self.attempt = attempt
        self.virtual = set(before.excluded)
        self.offences: dict[tuple[Address, int], Offence] = {}
        self.silent: set[Address] = set(self.virtual)
        self.dormant: frozenset[Address] = frozenset()
        self.record: RoundRecord | None = None
        self.closed: AggregatedRound | None = None
        self.accused: set[tuple[Address, Address]] = set()
        self.checked: set[tuple[Address, int]] = set()
        self.held: set[bytes] = set()

    def slot(self, kind: str, step: int = 0) -> RoundSlot:
        """A slot of this attempt."""
        return RoundSlot(self.round, kind, step, self.attempt)
