"""What a server signs for data that were offloaded to it (D7): without it they do not count as handed over."""

import hashlib
import struct
from dataclasses import dataclass, replace

from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak

from chain.errors import EndorsementError
from chain.protocol.endorsements import Domain, SignedBeside, word
from chain.wire.signatures import SIGNATURE_BYTES, sign

_TYPE = keccak(b"Receipt(uint256 round,uint256 attempt,uint256 device,bytes32 plan,bytes32 data)")
_LAYOUT = struct.Struct(f">QIQ32s32s{SIGNATURE_BYTES}s")
RECEIPT_BYTES = _LAYOUT.size


@dataclass(frozen=True)
class Receipt(SignedBeside):
    """These bytes of this device have arrived, for this plan."""

    round: int
    attempt: int
    device: int
    plan: bytes
    data: bytes
    """sha256 of what was sealed."""
    domain: Domain
    signature: bytes = b""

    name, refused_as = "a receipt", EndorsementError

    @property
    def said(self) -> bytes:
        """Type and fields."""
        return _TYPE + word(self.round) + word(self.attempt) + word(self.device) + self.plan + self.data

    def signed_by(self, account: LocalAccount) -> "Receipt":
        """The same with a signature."""
        return replace(self, signature=bytes(sign(account, self.digest).to_bytes()))

    def encode(self) -> bytes:
        """One form of fixed size; the domain is the reader's own."""
        return _LAYOUT.pack(self.round, self.attempt, self.device, self.plan, self.data, self.signature)


def receipt_for(round_: int, attempt: int, device: int, plan: str, sealed: bytes, domain: Domain) -> Receipt:
    """What its receiver would sign."""
    return Receipt(round_, attempt, device, bytes.fromhex(plan), hashlib.sha256(sealed).digest(), domain)


def read_receipt(raw: bytes, domain: Domain) -> Receipt:
    """The reverse of `Receipt.encode`."""
    if len(raw) != RECEIPT_BYTES:
        raise EndorsementError(f"found a receipt of {len(raw)} bytes, expected {RECEIPT_BYTES}")
    round_, attempt, device, plan, data, signature = _LAYOUT.unpack(raw)
    return Receipt(round_, attempt, device, plan, data, domain, signature)
