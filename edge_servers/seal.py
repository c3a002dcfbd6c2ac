"""Who would have mined a round's block, until there is a chain: drawn from the seed, bound to the models by a hash."""

import hashlib
from collections.abc import Mapping

from clients.models import Vector
from clients.orders import vector_digest
from policy.streams import Purpose, stream


def drawn_winner(seed: int, round_: int, devices: int) -> int:
    """The device that wins the round, each with the same chance (hash power comes with the policy)."""
    return int(stream(seed, Purpose.WINNER, round_).integers(devices))


def founding_hash(seed: int) -> bytes:
    """The hash that stands before round 1."""
    return hashlib.sha256(f"bfl founding {seed}".encode()).digest()


def round_hash(parent: bytes, models: Mapping[str, Vector], winner: str) -> bytes:
    """sha256 over the parent, the published models and the winner: what a block hash will be (L14)."""
    content = parent
    for sender, model in sorted(models.items()):
        content += bytes.fromhex(sender.removeprefix("0x")) + bytes.fromhex(vector_digest(model))
    return hashlib.sha256(content + bytes.fromhex(winner.removeprefix("0x"))).digest()
