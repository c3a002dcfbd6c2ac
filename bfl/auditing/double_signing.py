"""A server that endorsed two blocks of one round (Q1): both signatures are recovered here, nobody's word is needed."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from chain.audit.archive import Archive
from chain.client.posts import Flag
from chain.errors import ChainError, EndorsementError, NotRegistryCallError
from chain.protocol.contract import Call
from chain.protocol.endorsements import Domain, Endorsement
from chain.wire.address import Address
from edge_servers.founding.network import Network
from edge_servers.replay.audit import DerivedRound
from edge_servers.replay.offences import FALSE_FLAG, Offence, double_endorsement


def judged_double_endorsement(flag: Flag, derived: DerivedRound) -> Offence:
    """What the evidence in a flag shows."""
    offender = Address(flag.offender)
    told = double_endorsement(offender, flag.transaction_hash, flag.expected, derived.founding.network)
    told = replace(told, found=flag.transaction_hash)
    try:
        first, second = _endorsements(_evidence(flag, derived), Domain.of(derived.genesis))
        is_proven = first.signer == offender and first.contradicts(second)
    except ChainError as error:
        detail = f"the evidence against {told.name} cannot be read: {error}"
        return replace(told, verdict=FALSE_FLAG, detail=detail)
    if not is_proven:
        detail = f"the evidence is not two blocks of one round signed by {told.name}"
        return replace(told, verdict=FALSE_FLAG, detail=detail)
    return replace(told, detail=f"{told.detail} (round {first.round})")


def _endorsements(call: Call, domain: Domain) -> list[Endorsement]:
    place = int(call["signed_round"]), int(call["attempt"])
    signed = zip(call["blocks"], call["times"], (call["first_signature"], call["second_signature"]), strict=True)
    return [Endorsement(*place, bytes(block), int(time), domain, bytes(signature)) for block, time, signature in signed]


def _evidence(flag: Flag, derived: DerivedRound) -> Call:
    expected = [flag.transaction_hash, flag.expected]
    for post in derived.posts:
        call = post.call
        if call is None or call.name != "flag_double_endorsement" or post.sender != flag.server:
            continue
        if list(map(bytes, call["blocks"])) == expected:
            return call
    raise NotRegistryCallError(f"found no flag with the evidence 0x{expected[0].hex()}")


def signed_twice(archive: Archive, members: Mapping[bytes, bytes], network: Network) -> list[Offence]:
    """Servers that signed two blocks of one round, as the signatures beside the chain show; flags need not say it."""
    found: dict[tuple[Address, int], Offence] = {}
    for first, second in archive.double_endorsements():
        with suppress(EndorsementError):  # of nobody
            if first.contradicts(second) and members.get(first.signer) == first.signer:
                told = double_endorsement(first.signer, first.block_hash, second.block_hash, network)
                detail = f"{told.detail} (round {first.round}; the signatures lie beside the chain)"
                found[first.signer, first.round] = replace(
                    told, round=first.round, found=first.block_hash, detail=detail
                )
    return list(found.values())
