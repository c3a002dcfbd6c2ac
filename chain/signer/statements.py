"""What a key is asked to sign: a place (chain, round, attempt, slot) and what is said there, whatever bytes say it."""

import hashlib
import re
from dataclasses import dataclass
from typing import NamedTuple

from chain.errors import SigningRefusedError
from chain.protocol.slots import MAX_STEP

ENDORSE, PASS = "endorse", "pass"
_POSTS = ("plan", "gradient", "roll", "close", "model")
_ITERATE = re.compile(r"iterate:(0|[1-9][0-9]{0,2})")
_DIGEST_BYTES = 32
_MOST = 2**63


class Endorsed(NamedTuple):
    """A block that this key endorsed, and the attempt in which it did; what a pass names."""

    attempt: int
    block_hash: bytes


@dataclass(frozen=True)
class Statement:
    """One thing said in one slot. Nonce, gas and time are no part of it: with others it is still the same thing."""

    chain_id: int
    round: int
    attempt: int
    slot: str
    said: bytes
    """Digest of what is said; of an endorsement the hash of its block."""
    named: Endorsed | None = None
    """Of a pass: the highest endorsement of the round, None where there is none. `said` follows from it."""

    def __post_init__(self) -> None:
        if not (0 <= self.round < _MOST and 0 <= self.attempt < _MOST):
            raise SigningRefusedError(
                f"found round {self.round} and attempt {self.attempt}, expected numbers from 0 below {_MOST}"
            )
        if not is_slot(self.slot):
            raise SigningRefusedError(
                f"found the slot {self.slot!r:.40}, expected {', '.join(_POSTS)}, iterate:STEP, {ENDORSE} or {PASS}; "
                "flags and votes are not limited: sign them without this memory"
            )
        if len(self.said) != _DIGEST_BYTES:
            raise SigningRefusedError(f"found a digest of {len(self.said)} bytes, expected {_DIGEST_BYTES}")
        if self.slot == PASS and self.said != _named_digest(self.named):
            raise SigningRefusedError("found a pass whose digest is not that of what it names; make it by to_pass")
        if self.slot != PASS and self.named is not None:
            raise SigningRefusedError(f"found a named block in the slot {self.slot}; only a pass names one")

    @classmethod
    def post(cls, chain_id: int, round_: int, attempt: int, slot: str, call: bytes) -> "Statement":
        """A post: `call` is the call's data as it is encoded for the registry, without nonce and gas."""
        return cls(chain_id, round_, attempt, slot, hashlib.sha256(call).digest())

    @classmethod
    def endorsement(cls, chain_id: int, round_: int, attempt: int, block_hash: bytes) -> "Statement":
        """A server's word for a block in an attempt; when it was given is not compared."""
        return cls(chain_id, round_, attempt, ENDORSE, block_hash)

    @classmethod
    def to_pass(cls, chain_id: int, round_: int, attempt: int, named: Endorsed | None) -> "Statement":
        """A pass to `attempt`. The endorsements and certificates that it carries are no part of what it says."""
        return cls(chain_id, round_, attempt, PASS, _named_digest(named), named)

    def __str__(self) -> str:
        return f"{self.slot} of round {self.round}, attempt {self.attempt}"


class Signed(NamedTuple):
    """A statement as it was signed."""

    attempt: int
    slot: str
    said: bytes
    raw: bytes
    """What leaves the machine: a transaction, an endorsement, a pass. Empty once it is forgotten."""


def is_slot(name: str) -> bool:
    """Whether a key says one thing at most in a slot of this name."""
    found = _ITERATE.fullmatch(name)
    return int(found[1]) <= MAX_STEP if found else name in (*_POSTS, ENDORSE, PASS)


def _named_digest(named: Endorsed | None) -> bytes:
    content = b"nothing" if named is None else b"%d %b" % (named.attempt, named.block_hash)
    return hashlib.sha256(b"pass naming " + content).digest()
