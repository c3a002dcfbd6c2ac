"""Eqs. 8 and 9 for all servers, step by step, as whoever replays a round computes them."""

from chain.wire.codec import iterate_digest
from edge_servers.founding.parameters import FoundingParameters
from edge_servers.learning.aggregation import FixedPoint
from edge_servers.learning.gossip import next_iterate


class Iterates:
    """x_m(l) of every server m. Of the values the first step and the newest are kept, of all others their digests: an
    iterate is judged by its digest, and a model may be as large as memory (B9).
    """

    def __init__(self, first: list[FixedPoint], phi: int, founding: FoundingParameters) -> None:
        self.first, self.phi, self._founding = first, phi, founding
        self._step, self._newest = 0, first
        self._digests = [self._digests_of(first)]

    def __len__(self) -> int:
        return self.phi + 1

    @property
    def last(self) -> list[FixedPoint]:
        """x_m(phi)."""
        return self.values(self.phi)

    def digest(self, step: int, server: int) -> bytes:
        """What an honest server's post of this step names."""
        self._go_to(step)
        return self._digests[step][server]

    def values(self, step: int) -> list[FixedPoint]:
        """x_m(step) by server; an earlier step than the newest is computed again."""
        self._go_to(step)
        if step == self._step:
            return self._newest
        values = self.first
        for _ in range(step):
            values = self._next(values)
        return values

    def _go_to(self, step: int) -> None:
        if not 0 <= step <= self.phi:
            raise IndexError(f"step {step} of {self.phi}")
        while self._step < step:
            self._newest = self._next(self._newest)
            self._step += 1
            if len(self._digests) == self._step:
                self._digests.append(self._digests_of(self._newest))

    def _next(self, values: list[FixedPoint]) -> list[FixedPoint]:
        """Eq. 9 for everybody, from the values of the step before."""
        network, last = self._founding.network, dict(enumerate(values))
        return [next_iterate(m, last, network.graph.neighbours(m), network.weight) for m in last]

    def _digests_of(self, values: list[FixedPoint]) -> list[bytes]:
        return [iterate_digest(x, self._founding.sizes) for x in values]
