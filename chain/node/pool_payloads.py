"""The payloads of pending posts (B1, B2): one per sender and slot, of founded sizes; of iterates the last ones only."""

from collections import OrderedDict
from collections.abc import Iterable

from chain.protocol.posts import Commitment, SignedCall
from chain.wire.sidecar import Sidecar

_KEPT_ITERATES_PER_SERVER = 2


class PoolPayloads:
    """What is held beside the pool."""

    def __init__(self) -> None:
        self._stored: dict[bytes, Sidecar] = {}
        self._iterates: OrderedDict[bytes, Sidecar] = OrderedDict()
        self.evidence: dict[bytes, Sidecar] = {}
        """Of iterates that somebody has found wrong: kept with the block that has their flag (B3)."""
        self.sought: set[bytes] = set()
        """Digests of such iterates whose payloads are not here."""

    def find(self, digest: bytes) -> Sidecar | None:
        """A payload that is here with a pending post."""
        return self._stored.get(digest) or self._iterates.get(digest) or self.evidence.get(digest)

    def hold(self, post: SignedCall, sidecar: Sidecar, servers: int) -> None:
        """Take a payload that came with a post, in a network of so many servers."""
        if post.is_stored:
            self._stored[sidecar.digest] = sidecar
            return
        self._iterates[sidecar.digest] = sidecar
        while len(self._iterates) > _KEPT_ITERATES_PER_SERVER * max(1, servers):
            self._iterates.popitem(last=False)

    def take(self, sidecar: Sidecar) -> None:
        """A payload that came later than the post that names it."""
        (self.evidence if sidecar.digest in self.sought else self._stored)[sidecar.digest] = sidecar
        self.sought.discard(sidecar.digest)

    def missing(self, posts: Iterable[SignedCall]) -> list[Commitment]:
        """What pending posts name and is not here yet; an iterate's is not missed unless it is sought as evidence."""
        named = [(each, post.is_stored) for post in posts for each in post.commitments]
        return [
            each
            for each, is_stored in named
            if (is_stored and each.digest not in self._stored) or each.digest in self.sought
        ]

    def follow(self, posts: Iterable[SignedCall]) -> None:
        """A new head: what the posts that are left do not name goes."""
        named = {each.digest for post in posts for each in post.commitments}
        self._stored = {digest: sidecar for digest, sidecar in self._stored.items() if digest in named}
        self._iterates, self.evidence, self.sought = OrderedDict(), {}, set()
