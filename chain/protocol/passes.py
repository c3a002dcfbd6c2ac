"""Passes (D3.2): a server's word that it signs nothing below an attempt at a round any more, beside the chain.

A quorum of passes is what starts an attempt; time alone never does. What it allows is in `attempts.py`.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak

from chain.errors import PassError
from chain.protocol.contract import Call
from chain.protocol.endorsements import (
    ENDORSEMENT_TYPE,
    Domain,
    Endorsement,
    SignedBeside,
    decode_endorsement,
    word,
)
from chain.protocol.slots import Slot
from chain.wire.signatures import SIGNATURE_BYTES, sign

_TYPE = keccak(b"Pass(uint256 round,uint256 attempt,uint256 endorsed,bytes32 block,uint256 time)")
_LAYOUT = struct.Struct(f">QII32sQ{SIGNATURE_BYTES}s")
PASS_BYTES = _LAYOUT.size
_NO_BLOCK = bytes(32)
_SAID_BYTES = 6 * 32


Signed: TypeAlias = "Endorsement | Pass"
"""What servers sign beside the chain"""


class Named(NamedTuple):
    """The highest endorsement of a server in a round, as its pass names it."""

    attempt: int
    block_hash: bytes


@dataclass(frozen=True)
class Pass(SignedBeside):
    """What a server signs when an attempt has failed for it: on to this attempt, and what it has endorsed so far."""

    round: int
    attempt: int
    named: Named | None
    time_ms: int
    """When it was signed, in milliseconds of the epoch; deadlines of the attempt count from it."""
    domain: Domain
    signature: bytes = b""
    """r, s, parity."""

    name, refused_as = "a pass", PassError

    @property
    def said(self) -> bytes:
        """Type and fields, as the registry is shown them."""
        endorsed, block_hash = self._words
        return _TYPE + word(self.round) + word(self.attempt) + word(endorsed) + block_hash + word(self.time_ms)

    @property
    def _words(self) -> tuple[int, bytes]:
        """What it names, as it is signed: 0 for nothing, b + 1 for a block of attempt b."""
        return (0, _NO_BLOCK) if self.named is None else (self.named.attempt + 1, self.named.block_hash)

    def contradicts(self, other: "Pass") -> bool:
        """Whether one server passes twice to one attempt, naming different things: evidence that convicts it."""
        places = [(each.round, each.attempt) for each in (self, other)]
        return places[0] == places[1] and self.named != other.named and self.signer == other.signer

    def hides(self, endorsement: Endorsement) -> bool:
        """Whether it names nothing, or something lower or else, though its signer endorsed this: convicts it too."""
        if (endorsement.round, endorsement.signer) != (self.round, self.signer) or endorsement.attempt >= self.attempt:
            return False
        if self.named is None or self.named.attempt < endorsement.attempt:
            return True
        return self.named.attempt == endorsement.attempt and self.named.block_hash != endorsement.block_hash

    def encode(self) -> bytes:
        """One form of fixed size; the domain is the reader's own."""
        endorsed, block_hash = self._words
        try:
            return _LAYOUT.pack(self.round, self.attempt, endorsed, block_hash, self.time_ms, self.signature)
        except struct.error as error:
            raise PassError(f"a pass of round {self.round} that has no form: {error}") from error


def decode_pass(raw: bytes, domain: Domain) -> Pass:
    """The reverse of `Pass.encode`."""
    if len(raw) != PASS_BYTES:
        raise PassError(f"found a pass of {len(raw)} bytes, expected {PASS_BYTES}")
    round_, attempt, endorsed, block_hash, time_ms, signature = _LAYOUT.unpack(raw)
    if attempt == 0 or endorsed > attempt or (endorsed == 0) != (block_hash == _NO_BLOCK):
        raise PassError(f"found a pass to attempt {attempt} that names attempt {endorsed - 1}, expected a lower one")
    named = Named(endorsed - 1, block_hash) if endorsed else None
    return Pass(round_, attempt, named, time_ms, domain, signature)


def decode_signed(raw: bytes, domain: Domain) -> Signed:
    """An endorsement or a pass, which differ in their sizes."""
    return decode_pass(raw, domain) if len(raw) == PASS_BYTES else decode_endorsement(raw, domain)


def contradict(first: Signed, second: Signed) -> bool:
    """Whether two things are of one server and no honest one signs both: evidence that convicts it."""
    if isinstance(first, Endorsement):
        return second.hides(first) if isinstance(second, Pass) else first.contradicts(second)
    return first.contradicts(second) if isinstance(second, Pass) else first.hides(second)


def read_said(said: bytes, signature: bytes, domain: Domain) -> Signed:
    """What the registry was shown: type and fields of EIP-712; `PassError` if it is neither endorsement nor pass."""
    numbers = [int.from_bytes(said[i : i + 32], "big") for i in range(32, len(said), 32)]
    if len(said) == _SAID_BYTES and said[:32] == _TYPE:
        named = Named(numbers[2] - 1, bytes(said[128:160])) if numbers[2] else None
        return Pass(numbers[0], numbers[1], named, numbers[4], domain, bytes(signature))
    if len(said) == _SAID_BYTES - 32 and said[:32] == ENDORSEMENT_TYPE:
        return Endorsement(numbers[0], numbers[1], bytes(said[96:128]), numbers[3], domain, bytes(signature))
    raise PassError(f"found {len(said)} bytes that are neither an endorsement nor a pass")


def sign_pass(
    account: LocalAccount, domain: Domain, round_: int, attempt: int, named: Named | None, time_ms: int
) -> Pass:
    """Sign a pass. Whoever calls this answers for it: what it hides convicts the signer."""
    unsigned = Pass(round_, attempt, named, time_ms, domain)
    return replace(unsigned, signature=bytes(sign(account, unsigned.digest).to_bytes()))


def contradiction(call: Call) -> Slot:
    """What the evidence of a `flag_signatures` is, by its types; the registry has taken it."""
    is_pass = [bytes(call[name][:32]) == _TYPE for name in ("first", "second")]
    return Slot.DOUBLE_PASS if all(is_pass) else Slot.BROKEN_PASS if any(is_pass) else Slot.DOUBLE_ENDORSEMENT


def begun_call(passes: Sequence[Pass]) -> tuple[Any, ...]:
    """The arguments of `begin_attempt` for passes that name nothing, by address of their signers."""
    by_address = sorted(passes, key=lambda each: each.signer)
    first, times = by_address[0], [each.time_ms for each in by_address]
    return first.round, first.attempt, times, b"".join(each.signature for each in by_address)


def begun_by(call: Call, domain: Domain) -> list[Pass]:
    """The passes that a call of `begin_attempt` carries."""
    round_, attempt, times, signatures = (call[name] for name in ("round", "attempt", "times", "signatures"))
    cut = [signatures[i * SIGNATURE_BYTES : (i + 1) * SIGNATURE_BYTES] for i in range(len(times))]
    return [Pass(round_, attempt, None, time_ms, domain, signed) for time_ms, signed in zip(times, cut, strict=True)]
