"""A server that endorsed two blocks of one round (Q1): both signatures are recovered here, nobody's word is needed."""

from dataclasses import replace

from chain.client.posts import Flag
from chain.errors import ChainError, NotRegistryCallError
from chain.protocol.contract import Call
from chain.protocol.endorsements import Domain, Endorsement
from chain.wire.address import Address
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
