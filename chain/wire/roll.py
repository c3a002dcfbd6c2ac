"""A server's roll (D3.6): the gradients of its cluster that it holds, and who is out and why. What the close answers
for: a gradient outside a roll that the close cites is late, and nobody's fault.
"""

from dataclasses import dataclass

from chain.errors import CodecError
from chain.wire.documents import canonical_json, hashes_in, read_canonical_json, refusals_in

_KIND = "roll"
_KEYS = {"kind", "round", "held", "refused"}


@dataclass(frozen=True)
class Roll:
    """What a home server has of its cluster when the time of training is over."""

    round: int
    held: tuple[bytes, ...]
    """Gradient transactions, those of the server itself among them."""
    refused: tuple[tuple[str, str], ...] = ()
    """(who, reason code)."""

    def encode(self) -> bytes:
        """The roll as canonical JSON: what is hashed, and beside the post."""
        held, refused = ["0x" + each.hex() for each in self.held], [list(each) for each in self.refused]
        return canonical_json({"kind": _KIND, "round": self.round, "held": held, "refused": refused})

    @classmethod
    def decode(cls, payload: bytes) -> "Roll":
        """The reverse of `encode`; `CodecError` unless the payload is in canonical form."""
        content = read_canonical_json(payload)
        if not isinstance(content, dict) or content.keys() != _KEYS or content["kind"] != _KIND:
            raise CodecError(f"found no roll: expected the keys {', '.join(sorted(_KEYS))}")
        if type(content["round"]) is not int:
            raise CodecError("roll: expected round to be a whole number")
        return cls(content["round"], hashes_in(content, "held"), refusals_in(content))
