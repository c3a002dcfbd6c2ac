"""Data sealed to one edge server (D7): whoever carries them learns how many bytes they are, and nothing else.

An ephemeral key of secp256k1, ECDH with the server's own key, HKDF, ChaCha20-Poly1305: 49 bytes more than the data.
What they are of (chain, round, device, server, plan) is associated data: sealed for one round, they open in no other.
"""

from coincurve import PrivateKey, PublicKey
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from chain.wire.documents import canonical_json
from clients.errors import ReplyError

_KEY_BYTES, _TAG_BYTES = 33, 16
MORE_BYTES = _KEY_BYTES + _TAG_BYTES
"""Of what is sealed, beside the data"""
_NONCE = bytes(12)  # a key is used once
_PURPOSE = b"bfl offloaded data 1"


def associated(chain_id: int, round_: int, device: int, server: int, plan: str) -> bytes:
    """What sealed data are of; `plan` is its digest on the ledger."""
    return canonical_json({"chain": chain_id, "round": round_, "device": device, "server": server, "plan": plan})


def seal(data: bytes, server_key: bytes, about: bytes) -> bytes:
    """For the owner of this public key alone."""
    own = PrivateKey()
    shared = own.ecdh(server_key)
    public = own.public_key.format()
    return public + ChaCha20Poly1305(_key(shared, public, server_key)).encrypt(_NONCE, data, about)


def open_sealed(sealed: bytes, private_key: bytes, about: bytes) -> bytes:
    """The data; `ReplyError` where they are for somebody else, of another round, or changed."""
    if len(sealed) < MORE_BYTES:
        raise ReplyError(f"found {len(sealed)} bytes, expected sealed data of at least {MORE_BYTES}")
    own, public = PrivateKey(private_key), sealed[:_KEY_BYTES]
    try:
        PublicKey(public)
        key = _key(own.ecdh(public), public, own.public_key.format())
        return ChaCha20Poly1305(key).decrypt(_NONCE, sealed[_KEY_BYTES:], about)
    except (ValueError, InvalidTag) as error:
        raise ReplyError("found data that are not sealed to this server for this round, or were changed") from error


def _key(shared: bytes, public: bytes, server_key: bytes) -> bytes:
    compressed = PublicKey(server_key).format()
    return HKDF(algorithm=SHA256(), length=32, salt=public + compressed, info=_PURPOSE).derive(shared)
