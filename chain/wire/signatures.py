"""Signatures of secp256k1 over a hash: whose they are, and made with a key. One form each: low s, parity 0 or 1."""

from functools import lru_cache
from typing import Any

from eth_account.signers.local import LocalAccount
from eth_keys import keys
from eth_keys.exceptions import BadSignature, ValidationError

from chain.errors import SignatureError
from chain.wire.address import Address

SIGNATURE_BYTES = 65
_SECP256K1_N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def recover_signer(message: bytes, r: int, s: int, parity: int) -> Address:
    """Whose signature of a message's hash it is; `SignatureError` if nobody's."""
    if not (0 < r < _SECP256K1_N and 0 < s <= _SECP256K1_N // 2 and 0 <= parity <= 1):
        raise SignatureError("the signature's numbers are out of range (low s, parity 0 or 1 expected)")
    try:
        key = keys.Signature(vrs=(parity, r, s)).recover_public_key_from_msg_hash(message)
        return Address(key.to_canonical_address())
    except (BadSignature, ValidationError) as error:
        raise SignatureError(f"the signature belongs to no key: {error}") from error


@lru_cache(maxsize=1024)
def recover_signer_of(message: bytes, signature: bytes) -> Address:
    """The same from bytes: r, s, parity. One signature is looked at by several readers: the last ones are known."""
    if len(signature) != SIGNATURE_BYTES:
        raise SignatureError(f"found a signature of {len(signature)} bytes, expected {SIGNATURE_BYTES}")
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:64], "big")
    return recover_signer(message, r, s, signature[64])


def sign(account: LocalAccount, message: bytes) -> Any:
    """A signature of a message's hash; the same key and hash give the same one (RFC 6979)."""
    return keys.PrivateKey(bytes(account.key)).sign_msg_hash(message)
