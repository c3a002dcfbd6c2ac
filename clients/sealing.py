"""Data sealed to one edge server (D7): whoever carries them learns how many bytes they are, and nothing else, and puts
nothing in their place.

Their device signs them, inside; around it an ephemeral key of secp256k1, ECDH with the server's own key, HKDF,
ChaCha20-Poly1305: 65 and 49 bytes more than the data. What they are of (chain, round, device, server, plan) is signed,
and associated data: sealed for one round, they open in no other.
"""

import hashlib

from coincurve import PrivateKey, PublicKey
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from eth_account.signers.local import LocalAccount

from chain.errors import SignatureError
from chain.wire.documents import canonical_json
from chain.wire.signatures import SIGNATURE_BYTES, recover_signer_of, sign
from clients.errors import ReplyError

_KEY_BYTES, _TAG_BYTES = 33, 16
MORE_BYTES = _KEY_BYTES + _TAG_BYTES + SIGNATURE_BYTES
"""Of what is sealed, beside the data"""
_NONCE = bytes(12)  # a key is used once
_PURPOSE, _SIGNED = b"bfl offloaded data 2", b"bfl signed data\n"


def associated(chain_id: int, round_: int, device: int, server: int, plan: str) -> bytes:
    """What sealed data are of; `plan` is its digest on the ledger."""
    return canonical_json({"chain": chain_id, "round": round_, "device": device, "server": server, "plan": plan})


def seal(data: bytes, account: LocalAccount, server_key: bytes, about: bytes) -> bytes:
    """For the owner of this public key alone, signed by the device's account."""
    own = PrivateKey()
    shared = own.ecdh(server_key)
    public, signed = own.public_key.format(), bytes(sign(account, digest_to_sign(data, about)).to_bytes()) + data
    return public + ChaCha20Poly1305(_key(shared, public, server_key)).encrypt(_NONCE, signed, about)


def open_sealed(sealed: bytes, private_key: bytes, about: bytes, sender: bytes) -> bytes:
    """The data; `ReplyError` where they are for somebody else, of another round, not of this address, or changed."""
    if len(sealed) < MORE_BYTES:
        raise ReplyError(f"found {len(sealed)} bytes, expected sealed data of at least {MORE_BYTES}")
    own, public = PrivateKey(private_key), sealed[:_KEY_BYTES]
    try:
        PublicKey(public)
        key = _key(own.ecdh(public), public, own.public_key.format())
        signed = ChaCha20Poly1305(key).decrypt(_NONCE, sealed[_KEY_BYTES:], about)
    except (ValueError, InvalidTag) as error:
        raise ReplyError("found data that are not sealed to this server for this round, or were changed") from error
    signature, data = signed[:SIGNATURE_BYTES], signed[SIGNATURE_BYTES:]
    try:
        signer = recover_signer_of(digest_to_sign(data, about), signature)
    except SignatureError as error:
        raise ReplyError(f"found data that nobody has signed: {error}") from error
    if signer != sender:
        raise ReplyError(f"found data that {signer} has signed, expected the device's own signature")
    return data


def digest_to_sign(data: bytes, about: bytes) -> bytes:
    """What a device signs of its data."""
    return hashlib.sha256(_SIGNED + hashlib.sha256(about).digest() + hashlib.sha256(data).digest()).digest()


def _key(shared: bytes, public: bytes, server_key: bytes) -> bytes:
    compressed = PublicKey(server_key).format()
    return HKDF(algorithm=SHA256(), length=32, salt=public + compressed, info=_PURPOSE).derive(shared)
