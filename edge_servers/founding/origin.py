"""Where model 0 of a network came from that was founded where another one stood (P2)."""

import re
from dataclasses import dataclass
from typing import Any

_HASH = re.compile(r"0x[0-9a-f]{64}")
_KEYS = ("chain", "round", "block", "model")


@dataclass(frozen=True)
class Origin:
    """A round of another chain; whoever has that chain can look."""

    chain_id: int
    round: int
    block_hash: bytes
    model_digest: bytes
    """Of the payload: that of model 0 is the same."""

    @property
    def content(self) -> dict[str, Any]:
        """As the founding parameters have it."""
        told = (self.chain_id, self.round, "0x" + self.block_hash.hex(), "0x" + self.model_digest.hex())
        return dict(zip(_KEYS, told, strict=True))

    def __str__(self) -> str:
        return f"the model of round {self.round} of chain {self.chain_id}, block 0x{self.block_hash.hex()}"


def read_origin(content: Any) -> Origin | None:
    """The reverse of `Origin.content`, None for a network that began by itself; `ValueError` where it is neither."""
    if content is None:
        return None
    chain_id, round_, block, model = (content[key] for key in _KEYS)
    hashes = [bytes.fromhex(each[2:]) for each in (block, model) if _HASH.fullmatch(each)]
    if len(hashes) < 2 or min(int(chain_id), int(round_)) < 1:
        raise ValueError("found an impossible origin of model 0")
    return Origin(int(chain_id), int(round_), *hashes)
