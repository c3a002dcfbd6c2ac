"""On start, first (D5): what a key has signed for the open round goes out again, in the same bytes.

A post may never have left the machine, or its node may have been put back to an older state. What is there already is
no matter. What is refused is left (its nonce is taken, or what it builds on is not here yet): its step comes to that
slot again, and the key says nothing else there.
"""

from contextlib import suppress

from chain.client.access import ChainAccess
from chain.errors import EndorsementError, PassError, TransactionRefusedError
from chain.protocol.endorsements import Domain, decode_endorsement
from chain.protocol.passes import decode_pass
from chain.signer.memory import SignedMemory
from chain.signer.statements import ENDORSE, PASS


def post_votes_again(access: ChainAccess, memory: SignedMemory, round_: int) -> None:
    """Endorsements and passes of all attempts at a round: they have no payload, and count whenever they come."""
    domain = Domain(access.chain_id, access.registry)
    for signed in memory.pending(round_):
        with suppress(EndorsementError, PassError):
            if signed.slot == ENDORSE:
                access.send_endorsement(decode_endorsement(signed.raw, domain))
            elif signed.slot == PASS:
                access.send_pass(decode_pass(signed.raw, domain))


def post_again(access: ChainAccess, memory: SignedMemory, round_: int, attempt: int) -> None:
    """Posts of one attempt, without the payloads beside them, which a key does not keep. The node may have them still,
    or another one; else whoever computes the slot again comes to the same digest, and brings them.
    """
    for signed in memory.pending(round_, attempt):
        if signed.slot not in (ENDORSE, PASS):
            with suppress(TransactionRefusedError):
                access.send_raw(signed.raw)
