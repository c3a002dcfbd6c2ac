"""The payloads that a node has (B1): of pending posts, of blocks that wait, of its blocks; and who else has some."""

from collections.abc import Sequence

from chain.errors import MissingSidecarError, SidecarSizeError
from chain.node.body import Body
from chain.node.pool import Pool
from chain.node.reading import NodeReader, under_lock
from chain.node.waiting import WaitingBlocks
from chain.protocol.availability import kept_payloads, missing_payloads
from chain.protocol.posts import Commitment, PayloadSource, SignedCall
from chain.store.payloads import EVIDENCE, KeptPayload
from chain.store.store import Store
from chain.wire.address import Address
from chain.wire.headers import Header
from chain.wire.sidecar import Sidecar


class PayloadReader(NodeReader):
    """A node to read, payloads included; itself a `PayloadSource`."""

    def __init__(self, store: Store, pool: Pool) -> None:
        super().__init__(store, pool)
        self._waiting = WaitingBlocks()
        self.sources: list[PayloadSource] = []
        """Who is asked for payloads that are missing here; over a network that is `chain.peers`' work."""

    @under_lock
    def payload(self, digest: bytes) -> bytes | None:
        """The payload with this digest: of a pending post, or kept with a block; None where it is not here."""
        sidecar = self._held(digest)
        return self._store.payloads.read(digest) if sidecar is None else sidecar.payload

    def _held(self, digest: bytes) -> Sidecar | None:
        """A payload that is not in the store: of a pending post, or of a block that waits."""
        return self._pool.payloads.find(digest) or self._waiting.sidecar(digest)

    @under_lock
    def has_payload(self, digest: bytes) -> bool:
        """Whether a payload is here."""
        return self._held(digest) is not None or self._store.payloads.has(digest)

    @under_lock
    def payload_range(self, digest: bytes, start: int, length: int) -> tuple[int, bytes] | None:
        """Size of a payload and some bytes of it; None where it is not here."""
        sidecar = self._held(digest)
        if sidecar is not None:
            return len(sidecar.payload), sidecar.payload[start : start + length]
        size = self._store.payloads.size(digest)
        if size is None:
            return None
        return size, self._store.payloads.read_range(digest, start, length) if start < size else b""

    @property
    @under_lock
    def largest_payload(self) -> int:
        """Bytes of the largest payload that this network was founded with; 0 before that."""
        return max(self._pool.sizes)

    @under_lock
    def pruned(self) -> list[int]:
        """Numbers of the blocks whose payloads are not all here (B6)."""
        return self._store.pruned()

    @under_lock
    def wanted(self) -> list[Commitment]:
        """The payloads that are missing here: of pending posts, and of blocks that wait for them."""
        pending = self._pool.payloads.missing(entry.post for entry in self._pool)
        found = [each for each in pending if not self.has_payload(each.digest)]
        for block in self._waiting:
            found += block.missing(self)
        return list(dict.fromkeys(found))  # two posts may name one digest, and one of them lie about its size

    @under_lock
    def hold_evidence(self, digest: bytes) -> bool:
        """Keep the payload of a pending iterate that is wrong, for the block with its flag (B3); whether it is here."""
        if not self._is_pending(digest):
            return False
        sidecar = self._pool.payloads.find(digest) or self._ask_sources(digest)
        if sidecar is None:
            self._pool.payloads.sought.add(digest)  # peers are asked for it
        else:
            self._pool.payloads.evidence[digest] = sidecar
        return sidecar is not None

    def _ask_sources(self, digest: bytes) -> Sidecar | None:
        for source in self.sources:
            payload = source.payload(digest)
            if payload is not None and (sidecar := Sidecar(payload)).digest == digest:
                return sidecar
        return None

    def _payloads_of(self, header: Header, body: Body) -> tuple[list[KeptPayload], dict[bytes, bytes]]:
        """What a block keeps (B3), and the bytes of what is not in the store yet; evidence is kept where it is."""
        calls = [post.call for post in body.posts if post.call is not None]
        flagged = {call["offender"] for call in calls if call.name.startswith("flag")}
        accused = {each.digest for post in body.posts if post.sender in flagged for each in post.commitments}
        # Of two that name one payload the first; but a model is one, whatever a device calls a gradient.
        stored = [post for post in reversed(body.posts) if post.is_stored]
        stored.sort(key=lambda post: post.call is not None and post.call.name == "model")
        kinds = {each.digest: post.call.name for post in stored for each in post.commitments if post.call is not None}
        found = kept_payloads(body.posts, header.coinbase, self)
        for each in found:
            self._check_size(each)
        kept = [KeptPayload(each.digest, kinds[each.digest], each.size) for each in found]
        kept += [
            KeptPayload(digest, EVIDENCE, len(sidecar.payload))
            for digest, sidecar in self._pool.payloads.evidence.items()
            if digest in accused
        ]
        held = {each.digest: self._held(each.digest) for each in kept}
        return kept, {digest: sidecar.payload for digest, sidecar in held.items() if sidecar is not None}

    def _check_size(self, named: Commitment) -> None:
        """A post may name a payload that is here under another post, and lie about its size."""
        found = self.payload_range(named.digest, 0, 0)
        if found is not None and found[0] != named.size:
            raise SidecarSizeError(f"found a payload of {found[0]} bytes, its post names {named.size}")

    @under_lock
    def _misses_payloads(self, post: SignedCall) -> bool:
        """Whether a post is pending here whose payload is not."""
        is_known = self._pool.find(post.transaction.hash) is not None
        return is_known and any(not self.has_payload(each.digest) for each in post.commitments if post.is_stored)

    def _body_to_propose(self, coinbase: Address, timestamp: int) -> Body:
        """Everything pending as a body whose payloads are here. Gradients posted without theirs after the list was made
        are left out: nobody can replay them.
        """
        body = self._pool.body(coinbase, timestamp)
        missing = missing_payloads(body.posts, coinbase, self)
        late = self._gradients_naming(missing)
        if late:
            for transaction_hash in late:
                self._pool.drop(transaction_hash)
            body = self._pool.body(coinbase, timestamp)
            missing = missing_payloads(body.posts, coinbase, self)
        if missing:
            raise MissingSidecarError(
                f"{len(missing)} payloads of this round are not here, the first is 0x{missing[0].digest.hex()}: "
                "a leader refuses as unavailable what it does not hold"
            )
        return body

    def _gradients_naming(self, missing: Sequence[Commitment]) -> list[bytes]:
        """Pending gradients whose payloads are among those that are missing, once the round has its model."""
        posts = [entry.post for entry in self._pool if entry.post.call is not None]
        if not any(post.call is not None and post.call.name == "model" for post in posts):
            return []
        gradients = [post for post in posts if post.call is not None and post.call.name == "gradient"]
        return [post.transaction.hash for post in gradients if set(post.commitments) & set(missing)]

    def _is_pending(self, digest: bytes) -> bool:
        """Whether a pending post names this payload, an iterate's included."""
        return any(each.digest == digest for entry in self._pool for each in entry.post.commitments)
