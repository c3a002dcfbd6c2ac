"""Endorsements (Q1): a server's signature under a sealed block, beside the chain. A strict majority makes it final."""

import struct
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, NamedTuple

from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak

from chain.errors import ChainError, EndorsementError, SignatureError
from chain.protocol.contract import Call
from chain.protocol.genesis import Genesis
from chain.protocol.turns import FOUNDING_BLOCK
from chain.wire.address import Address
from chain.wire.headers import Header
from chain.wire.signatures import SIGNATURE_BYTES, recover_signer_of, sign

_DOMAIN_TYPE = keccak(b"EIP712Domain(uint256 chainId,address verifyingContract)")
ENDORSEMENT_TYPE = keccak(b"Endorsement(uint256 round,uint256 attempt,bytes32 block,uint256 time)")
_LAYOUT = struct.Struct(f">QI32sQ{SIGNATURE_BYTES}s")
ENDORSEMENT_BYTES = _LAYOUT.size


class Domain(NamedTuple):
    """Where a signature counts (EIP-712): one registry on one chain."""

    chain_id: int
    registry: Address

    @classmethod
    def of(cls, genesis: Genesis) -> "Domain":
        """That of a network of ours."""
        return cls(genesis.chain_id, genesis.registry)


class SignedBeside(ABC):
    """What a server signs beside the chain: type and fields of EIP-712, for one registry on one chain."""

    name: ClassVar[str]
    """What it is, in an error."""
    refused_as: ClassVar[type[ChainError]]
    round: int
    domain: Domain
    signature: bytes
    """r, s, parity."""

    @property
    @abstractmethod
    def said(self) -> bytes:
        """Type and fields, as the registry is shown them."""

    @property
    def digest(self) -> bytes:
        """What is signed: EIP-712's hash of the structured data."""
        return typed_digest(self.domain, self.said)

    @cached_property
    def signer(self) -> Address:
        """Whose it is; refused if nobody's."""
        try:
            return recover_signer_of(self.digest, self.signature)
        except SignatureError as error:
            raise self.refused_as(f"{self.name} of round {self.round}: {error}") from error


@dataclass(frozen=True)
class Endorsement(SignedBeside):
    """What one server signs once it has replayed a block and holds its payloads; on an external network the block is
    the round's `result` (B7).
    """

    round: int
    attempt: int
    block_hash: bytes
    time_ms: int
    """When it was signed, in milliseconds of the epoch; the next round's deadlines count from it."""
    domain: Domain
    signature: bytes = b""
    """r, s, parity."""

    name, refused_as = "an endorsement", EndorsementError

    @property
    def said(self) -> bytes:
        """Type and fields, as the registry is shown them."""
        return ENDORSEMENT_TYPE + word(self.round) + word(self.attempt) + self.block_hash + word(self.time_ms)

    def contradicts(self, other: "Endorsement") -> bool:
        """Whether one server signs two blocks for one (round, attempt): evidence that convicts it."""
        places = [(each.round, each.attempt) for each in (self, other)]
        return places[0] == places[1] and self.block_hash != other.block_hash and self.signer == other.signer

    def encode(self) -> bytes:
        """One form of fixed size; the domain is the reader's own."""
        try:
            return _LAYOUT.pack(self.round, self.attempt, self.block_hash, self.time_ms, self.signature)
        except struct.error as error:
            raise EndorsementError(f"an endorsement of round {self.round} that has no form: {error}") from error


def decode_endorsement(raw: bytes, domain: Domain) -> Endorsement:
    """The reverse of `Endorsement.encode`."""
    if len(raw) != ENDORSEMENT_BYTES:
        raise EndorsementError(f"found an endorsement of {len(raw)} bytes, expected {ENDORSEMENT_BYTES}")
    round_, attempt, block_hash, time_ms, signature = _LAYOUT.unpack(raw)
    return Endorsement(round_, attempt, block_hash, time_ms, domain, signature)


def endorse(
    account: LocalAccount, domain: Domain, round_: int, attempt: int, block_hash: bytes, time_ms: int
) -> Endorsement:
    """Sign a block. Whoever calls this answers for it: two blocks of one (round, attempt) convict the signer."""
    unsigned = Endorsement(round_, attempt, block_hash, time_ms, domain)
    return replace(unsigned, signature=bytes(sign(account, unsigned.digest).to_bytes()))


def posted_call(endorsements: Sequence[Endorsement]) -> tuple[Any, ...]:
    """The arguments of `endorse` for endorsements of one block in one attempt, by address of their signers."""
    by_address = sorted(endorsements, key=lambda each: each.signer)
    first, times = by_address[0], [each.time_ms for each in by_address]
    return first.round, first.attempt, first.block_hash, times, b"".join(each.signature for each in by_address)


def posted_endorsements(call: Call, domain: Domain) -> list[Endorsement]:
    """What a call of `endorse` carries; whoever catches up learns what is final from the blocks themselves."""
    place, times, signatures = (
        (call["round"], call["attempt"], bytes(call["digest"])),
        call["times"],
        call["signatures"],
    )
    cut = [signatures[i * SIGNATURE_BYTES : (i + 1) * SIGNATURE_BYTES] for i in range(len(times))]
    return [Endorsement(*place, time_ms, domain, signed) for time_ms, signed in zip(times, cut, strict=True)]


def quorum(servers: int) -> int:
    """How many make a block final: more than half of all."""
    return servers // 2 + 1


def signers_of(header: Header, endorsements: Iterable[Endorsement], servers: Collection[bytes]) -> set[Address]:
    """Which of these servers signed a block; those of one attempt, of the one with most: they are never added."""
    by_attempt: dict[int, set[Address]] = defaultdict(set)
    for each in endorsements:
        is_of_block = (each.round, each.block_hash) == (header.block_number - FOUNDING_BLOCK, header.hash)
        if is_of_block and each.signer in servers:
            by_attempt[each.attempt].add(each.signer)
    return max(by_attempt.values(), key=len, default=set())


def is_final(header: Header, endorsements: Iterable[Endorsement], servers: Collection[bytes]) -> bool:
    """Whether a strict majority of all servers signed a block (Q1); the founding block needs nobody."""
    if header.block_number <= FOUNDING_BLOCK:
        return True
    return len(signers_of(header, endorsements, servers)) >= quorum(len(servers))


def check_final(header: Header, endorsements: Iterable[Endorsement], servers: Collection[bytes]) -> set[Address]:
    """Raise `EndorsementError` unless a block is final; returns who signed it."""
    found = signers_of(header, endorsements, servers)
    if header.block_number > FOUNDING_BLOCK and len(found) < quorum(len(servers)):
        raise EndorsementError(
            f"block {header.block_number} is signed by {len(found)} of {len(servers)} servers, "
            f"expected at least {quorum(len(servers))}: it is not final"
        )
    return found


def typed_digest(domain: Domain, said: bytes) -> bytes:
    """EIP-712's hash of structured data: what is signed of its type and fields, and where that counts."""
    return keccak(b"\x19\x01" + _separator(domain) + keccak(said))


def word(number: int) -> bytes:
    """A number as EIP-712 has it."""
    return number.to_bytes(32, "big")


@lru_cache(maxsize=64)
def _separator(domain: Domain) -> bytes:
    return keccak(_DOMAIN_TYPE + word(domain.chain_id) + bytes(12) + domain.registry)


# --- a majority that this node disagrees with (D3.5)


@dataclass(frozen=True)
class Majority:
    """A strict majority's signatures for a block in one attempt."""

    round: int
    attempt: int
    block_hash: bytes
    signers: frozenset[Address]


@dataclass(frozen=True)
class Divergence:
    """What a majority signed, why this node refuses it, and what it has instead."""

    signed: Majority
    reason: str
    own: Header
    """The block of that round here, or the last one where there is none."""

    def __str__(self) -> str:
        signed, own = self.signed, self.own
        return (
            f"DIVERGED at round {signed.round}: found block 0x{signed.block_hash.hex()}, which {len(signed.signers)} "
            f"servers have signed in attempt {signed.attempt} ({', '.join(map(str, sorted(signed.signers)))}) and this "
            f"node refuses ({self.reason}); expected one that follows from its own chain, which is at block "
            f"{own.block_number}, 0x{own.hash.hex()}. Nothing is posted or signed from here. Compare software and "
            "machine with those of the others (bfl doctor), mend what differs, and start node and server again"
        )
