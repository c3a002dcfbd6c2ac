"""What a sender says in a slot of a round, whoever reads it: a node, an auditor, somebody over JSON-RPC."""

from dataclasses import dataclass, field

from eth_hash.auto import keccak

from chain.protocol.contract import Call
from chain.protocol.slots import slot_of_kind
from chain.wire.address import Address

KINDS = ("plan", "gradient", "close", "iterate", "model")
"""Calls that are a sender's one word in a slot; flags, chunks, votes and endorsements are not"""


@dataclass(frozen=True)
class Post:
    """Something posted in a round, as read from the ledger."""

    round: int
    slot: int
    sender: Address
    digest: bytes
    payload: bytes
    transaction_hash: bytes
    arguments: Call = field(repr=False)
    """The whole call: samples, iterations, base model and plan of a gradient, say."""
    is_intact: bool
    """Whether the payload has the digest; one in chunks need not (C8), and then it counts as not posted."""

    @classmethod
    def of(cls, call: Call, sender: Address, transaction_hash: bytes, joined: bytes | None = None) -> "Post":
        """What a call posts; `joined` is its payload where that came in chunks."""
        slot = slot_of_kind(call.name, int(call["step"]) if "step" in call else 0)
        digest, payload = bytes(call["digest"]), bytes(call["payload"]) if joined is None else joined
        is_intact = not call["chunks"] if joined is None else keccak(payload) == digest
        return cls(int(call["round"]), slot, sender, digest, payload, transaction_hash, call, is_intact)

    @property
    def said(self) -> dict[str, object]:
        """All that it says; the payload is named by its digest."""
        return {name: value for name, value in self.arguments.arguments.items() if name != "payload"}
