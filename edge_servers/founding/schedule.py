"""When what is due in an attempt (D3.3): absolute, from the founding parameters and phi alone. Phases end early;
deadlines only bound them, and nobody judges anybody before one that is common to all.
"""

from dataclasses import dataclass, replace

from edge_servers.parameters import RoundParams

MOST_APART_S = 15.0
"""By how much a leader's beginning may differ from this server's: majorities and clocks differ a little"""


@dataclass(frozen=True)
class Schedule:
    """The deadlines of one attempt, in seconds of the epoch."""

    start_s: float
    """The latest time that a majority signed under the parent, or passed to this attempt."""
    rounds: RoundParams
    phi: int = 0
    """Consensus steps, once there is a plan."""

    def of_plan(self, start_s: float, phi: int) -> "Schedule":
        """The same for all, from the time in the leader's plan; one that is far off is not believed, or a leader could
        make everybody wait for it, or be late.
        """
        if not start_s:
            return replace(self, phi=phi)
        nearest = min(max(start_s, self.start_s - MOST_APART_S), self.start_s + MOST_APART_S)
        return replace(self, start_s=nearest, phi=phi)

    @property
    def plan(self) -> float:
        """Plan."""
        return self.start_s + self.rounds.plan_s

    @property
    def train(self) -> float:
        """Gradients and rolls."""
        return self.plan + self.rounds.deadline_s

    @property
    def rolls(self) -> float:
        """Until when a leader waits for rolls: the close is still to be made and to arrive."""
        return self.train + self.rounds.close_s / 2

    @property
    def close(self) -> float:
        """Closed list, and the gradients it names."""
        return self.train + self.rounds.close_s

    def gossip(self, step: int) -> float:
        """Iterates of a step."""
        return self.close + self.rounds.gossip_s * (step + 1)

    @property
    def verify(self) -> float:
        """Flags."""
        return self.gossip(self.phi) + self.rounds.verify_s

    @property
    def model(self) -> float:
        """The leader's model."""
        return self.verify + self.rounds.model_s

    @property
    def seal(self) -> float:
        """The block, mined and signed by its leader."""
        return self.model + self.rounds.seal_s

    @property
    def final(self) -> float:
        """Signatures of a majority."""
        return self.seal + self.rounds.sign_s
