"""A server that signed two things which no honest one signs both of (Q1, D3.2): two endorsements, two passes, or
a pass that hides an endorsement. Both signatures are recovered here, nobody's word is needed.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import rlp
from eth_hash.auto import keccak
from rlp.exceptions import RLPException

from chain.audit.archive import Archive
from chain.client.posts import Flag
from chain.errors import ChainError, EndorsementError, NotRegistryCallError, PassError
from chain.protocol.contract import Call
from chain.protocol.endorsements import Domain
from chain.protocol.genesis import Genesis
from chain.protocol.passes import contradict, read_said
from chain.protocol.posts import SignedCall, read_signed_call
from chain.protocol.slots import kind_of, step_of
from chain.wire.address import Address
from chain.wire.transactions import TYPE, decode_transaction
from edge_servers.founding.network import Network
from edge_servers.replay.audit import DerivedRound
from edge_servers.replay.offences import FALSE_FLAG, Offence, double_signing, equivocation, told_by_flag


def judged_signatures(flag: Flag, derived: DerivedRound) -> Offence:
    """What the evidence in a flag shows."""
    told = replace(told_by_flag(flag, derived.founding.network), found=flag.transaction_hash)
    try:
        call, domain = _evidence(flag, derived), Domain.of(derived.genesis)
        first = read_said(call["first"], call["first_signature"], domain)
        second = read_said(call["second"], call["second_signature"], domain)
        is_proven = first.signer == flag.offender and contradict(first, second)
    except ChainError as error:
        detail = f"the evidence against {told.name} cannot be read: {error}"
        return replace(told, verdict=FALSE_FLAG, detail=detail)
    if not is_proven:
        detail = f"the evidence is not what no honest server signs both of, signed by {told.name}"
        return replace(told, verdict=FALSE_FLAG, detail=detail)
    return replace(told, detail=f"{told.detail} (round {first.round})", signed_round=first.round)


def _evidence(flag: Flag, derived: DerivedRound) -> Call:
    expected = [flag.transaction_hash, flag.expected]
    for post in derived.posts:
        call = post.call
        if call is None or call.name != "flag_signatures" or post.sender != flag.server:
            continue
        if [keccak(call[name]) for name in ("first", "second")] == expected:
            return call
    raise NotRegistryCallError(f"found no flag with the evidence 0x{expected[0].hex()}")


def signed_twice(archive: Archive, members: Mapping[bytes, bytes], network: Network) -> list[Offence]:
    """Servers that signed what no honest one does, as the signatures beside the chain show; flags need not say it."""
    found: dict[tuple[Address, int], Offence] = {}
    for first, second in archive.contradictions():
        with suppress(EndorsementError, PassError):  # of nobody
            if contradict(first, second) and members.get(first.signer) == first.signer:
                told = double_signing(first, second, network)
                detail = f"{told.detail} (round {first.round}; the signatures lie beside the chain)"
                found[first.signer, first.round] = replace(
                    told, round=first.round, signed_round=first.round, found=told.transaction_hash, detail=detail
                )
    return list(found.values())


def judged_equivocation(flag: Flag, derived: DerivedRound) -> Offence:
    """Two signed posts for one slot speak for themselves: both signatures are recovered here."""
    offender = Address(flag.offender)
    told = equivocation(offender, flag.transaction_hash, flag.expected, derived.founding.network)
    told = replace(told, found=flag.transaction_hash)
    try:
        call = _posts_in(flag, derived)
        first, second = (_signed(call, name, derived.genesis) for name in ("first", "second"))
    except (ChainError, RLPException, ValueError, TypeError) as error:
        detail = f"the evidence against {told.name} cannot be read: {error}"
        return replace(told, verdict=FALSE_FLAG, detail=detail)
    posts = [signed.post for signed in (first, second) if signed.post is not None]
    if first.sender != offender or not first.contradicts(second):
        detail = f"the evidence is not two posts of {told.name} for one slot"
        return replace(told, verdict=FALSE_FLAG, detail=detail)
    digests, step = [post.digest for post in posts], step_of(posts[0].slot)
    place = f"step {step}" if step is not None else kind_of(posts[0].slot)
    detail = f"{told.detail} ({place} of round {posts[0].round})"
    return replace(
        told, transaction_hash=first.transaction.hash, found=digests[0], expected=digests[1], detail=detail
    )  # fmt: skip


def _posts_in(flag: Flag, derived: DerivedRound) -> Call:
    """The call that carries both signatures; a reverted one beside it may carry others."""
    expected = flag.transaction_hash, flag.expected
    for post in derived.posts:
        call = post.call
        if call is None or call.name != "flag_equivocation" or post.sender != flag.server:
            continue
        if (keccak(call["first"]), keccak(call["second"])) == expected:
            return call
    raise NotRegistryCallError(f"found no flag with the evidence 0x{expected[0].hex()}")


def _signed(call: Call, name: str, genesis: Genesis) -> SignedCall:
    """One of the two posts in a flag: its unsigned transaction and its signature, put together again."""
    unsigned, signature = bytes(call[name]), bytes(call[f"{name}_signature"])
    if len(signature) != 65:
        raise NotRegistryCallError(f"found {len(signature)} bytes of signature, expected 65")
    numbers = [part.lstrip(b"\0") for part in (signature[64:], signature[:32], signature[32:64])]
    raw = TYPE + bytes(rlp.encode([*rlp.decode(unsigned[1:]), *numbers], infer_serializer=False))
    transaction = decode_transaction(raw)
    if keccak(transaction.unsigned) != keccak(unsigned):
        raise NotRegistryCallError("the evidence is no transaction in canonical form")
    return read_signed_call(transaction, genesis)
