"""The JSON-RPC methods for what is beside the chain: payloads (B1), sent with a post or later and fetched by digest in
ranges; endorsements (Q1) and passes (D3.2); and how the node is.
"""

from typing import Any

from chain.client.payloads import RANGE_BYTES
from chain.node.node import Node
from chain.protocol.endorsements import ENDORSEMENT_BYTES, Domain, decode_endorsement
from chain.protocol.passes import PASS_BYTES, Signed, decode_pass
from chain.rpc import arguments as parsing
from chain.rpc.arguments import ArgumentError
from chain.rpc.encoding import Json, hex_bytes
from chain.rpc.summaries import status_of
from chain.wire.sidecar import Sidecar

_MOST_SIDECARS = 2  # the founding has parameters and a model
_MOST_PAIRS = 64
_MOST_VOTES = 4096
_LAST_ROUND: int = 2**63 - 1
MOST_BESIDE_BYTES = 1 << 20
"""Of payloads that come with a pending post; larger ones are fetched in ranges"""


class SidecarMethods:
    """Part of a node's methods."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def bfl_sendPost(self, raw: Any, sidecars: Any = ()) -> str:  # noqa: N802
        """A signed post with the payloads beside it (B1); returns its hash."""
        if not isinstance(sidecars, list | tuple) or len(sidecars) > _MOST_SIDECARS:
            raise ArgumentError(f"sidecars: expected a list of at most {_MOST_SIDECARS} payloads")
        beside = [Sidecar(parsing.data(each, "sidecar")) for each in sidecars]
        return hex_bytes(self._node.submit(parsing.data(raw, "transaction"), beside))

    def bfl_getPending(self, transaction_hash: Any) -> Json | None:  # noqa: N802
        """A pending post as it was signed, with the payloads beside it if they are small; none where it is not (or no
        longer) in the pool. For peers that missed it.
        """
        entry = self._node.find_pending(parsing.hash32(transaction_hash, "transaction hash"))
        if entry is None:
            return None
        named = entry.post.commitments
        is_small = sum(each.size for each in named) <= MOST_BESIDE_BYTES
        beside = [self._node.payload(each.digest) for each in named] if is_small else []
        found = [hex_bytes(each) for each in beside if each is not None]
        return {"raw": hex_bytes(entry.post.transaction.raw), "sidecars": found}

    def bfl_sendSidecar(self, digest: Any, payload: Any) -> bool:  # noqa: N802
        """A payload that a pending post or a waiting block names."""
        self._node.deliver(parsing.hash32(digest, "digest"), parsing.data(payload, "payload"))
        return True

    def bfl_getSidecar(self, digest: Any, start: Any = 0, length: Any = RANGE_BYTES) -> Json | None:  # noqa: N802
        """Some bytes of a payload, and the size of the whole; none where it is not here, or pruned."""
        wanted = parsing.hash32(digest, "digest")
        first, most = parsing.number(start, "start"), min(RANGE_BYTES, parsing.number(length, "length"))
        found = self._node.payload_range(wanted, first, most)
        return None if found is None else {"size": found[0], "data": hex_bytes(found[1])}

    def bfl_wantedSidecars(self) -> list[list[Any]]:  # noqa: N802
        """[digest, size] of the payloads that are missing here."""
        return [[hex_bytes(each.digest), each.size] for each in self._node.wanted()]

    def bfl_holdEvidence(self, digest: Any) -> bool:  # noqa: N802
        """Keep the payload of a wrong iterate with the block that has its flag; whether it was here."""
        return self._node.hold_evidence(parsing.hash32(digest, "digest"))

    def bfl_pruned(self) -> list[int]:
        """Numbers of the blocks whose payloads are not all here any more (B6)."""
        return self._node.pruned()

    def bfl_status(self) -> Json:
        """RUNNING, DIVERGED or STOPPED, with both digests where a majority signed what is refused here (D3.5)."""
        return status_of(self._node)

    # --- endorsements

    def bfl_sendEndorsement(self, raw: Any) -> bool:  # noqa: N802
        """A server's signature under a block; whether it is new here."""
        signed = parsing.sized_bytes(raw, ENDORSEMENT_BYTES, "endorsement")
        return self._node.take_endorsement(decode_endorsement(signed, Domain.of(self._node.genesis)))

    def bfl_endorsements(self, block_hash: Any) -> list[str]:
        """The signatures under a block that are here."""
        return [hex_bytes(each.encode()) for each in self._node.endorsements(parsing.hash32(block_hash, "block hash"))]

    def bfl_sendPass(self, raw: Any) -> bool:  # noqa: N802
        """A server's pass to another attempt (D3.2); whether it is new here."""
        signed = parsing.sized_bytes(raw, PASS_BYTES, "pass")
        return self._node.take_pass(decode_pass(signed, Domain.of(self._node.genesis)))

    def bfl_votes(self, round_: Any) -> list[str]:
        """What servers have signed in a round: endorsements of any block, and passes; the last 4,096."""
        endorsements, passes = self._node.votes(_round(round_))
        signed: list[Signed] = [*endorsements, *passes]
        return [hex_bytes(each.encode()) for each in signed[-_MOST_VOTES:]]

    def bfl_attemptOf(self, block_hash: Any) -> int | None:  # noqa: N802
        """The attempt at its round that a block has the posts of; none for one that is not here."""
        return self._node.attempt_of(parsing.hash32(block_hash, "block hash"))

    def bfl_contradictions(self, first_round: Any = 0) -> list[list[str]]:
        """Pairs that one server signed and no honest one signs both of; at most 64, the first ones."""
        found = self._node.contradictions(_round(first_round))[:_MOST_PAIRS]
        return [[hex_bytes(each.encode()) for each in pair] for pair in found]


def _round(value: Any) -> int:
    """A round; one that no database can hold has no endorsements, as the last that it can hold."""
    return min(parsing.number(value, "round"), _LAST_ROUND)
