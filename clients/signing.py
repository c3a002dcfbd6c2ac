"""A device's word on the ledger: it signs its own gradient; whoever carries it cannot change it."""

from collections.abc import Sequence

from eth_account.signers.local import LocalAccount

from chain.errors import ChainError
from chain.protocol.contract import call_gas, encode_call
from chain.wire.codec import encode_floats
from chain.wire.sidecar import payload_digest
from chain.wire.transactions import Envelope, sign_transaction
from clients.errors import ClientError
from clients.models import Vector
from clients.orders import LedgerTerms


def signed_gradient(
    account: LocalAccount,
    terms: LedgerTerms,
    round_: int,
    samples: int,
    iterations: int,
    values: Vector,
    sizes: Sequence[int],
) -> tuple[bytes, bytes]:
    """The transaction that posts C_y with its weight, for this chain, this registry, this model, this plan and its
    attempt (P3, D3.1), and the payload beside it (B8).
    """
    try:
        payload = encode_floats(values, sizes, terms.codec)
        base, plan = bytes.fromhex(terms.base_model), bytes.fromhex(terms.plan)
        named = payload_digest(payload), len(payload)
        call = encode_call("gradient", round_, terms.attempt, base, plan, samples, iterations, *named)
        envelope = Envelope(terms.chain_id, terms.nonce, call_gas(len(call)), bytes.fromhex(terms.registry))
        return sign_transaction(account, envelope, call), payload
    except (ChainError, ValueError) as error:
        raise ClientError(f"the gradient cannot be posted: {error}") from error
