"""What a machine is told before it joins, and what it tells of itself."""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from pydantic import ConfigDict

from bfl.errors import BflError
from bfl.network.kits import DEVICE, EDGE
from bfl.network.own_keys import PublicKeys, flower_text
from chain.client.keys import address_of_key
from chain.errors import ChainError
from chain.wire.documents import canonical_json, read_record
from chain.wire.signatures import recover_signer_of

_PREFIX = "bfl1."
MOST_REQUEST = 1 << 16
MOST_SAMPLES = 10_000_000
SIGNATURE = "grant.sig"
"""Of the authority, for all other files of a grant"""
SHARED = -1
"""Samples of a device that has a part of the network's data set: the operator counts them"""


@dataclass(frozen=True)
class Token:
    """What a machine is told before it joins."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    network: str
    role: str
    name: str
    authority: str
    """sha256 of the authority's certificate."""
    secret: str
    dataset: str
    seed: int

    def encode(self) -> str:
        """As it is sent: one word."""
        return _PREFIX + base64.urlsafe_b64encode(canonical_json(asdict(self))).decode().rstrip("=")


def read_token(text: str) -> Token:
    """`BflError` where it is none."""
    word = text.strip()
    try:
        raw = base64.urlsafe_b64decode(word.removeprefix(_PREFIX) + "=" * (-len(word.removeprefix(_PREFIX)) % 4))
        found = read_record(Token, raw)
    except (ValueError, ChainError) as error:
        raise BflError(
            f"found {word!r:.24}, expected a token of `bfl network init --tokens`: copy all of it"
        ) from error
    if not word.startswith(_PREFIX) or found.role not in (EDGE, DEVICE):
        raise BflError(f"found a token of another version, expected one that begins with {_PREFIX}")
    return found


@dataclass(frozen=True)
class Request:
    """What a machine tells of itself, signed with its key of the chain."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    network: str
    role: str
    name: str
    software: str
    address: str
    chain_key: str
    flower_key: str
    certificate_request: str
    """PEM: signed with the key that the certificate will be of."""
    samples: int
    offload: str
    proof: str = ""
    """HMAC with the token's secret, which stays where it is."""
    signature: str = ""

    @property
    def digest(self) -> bytes:
        """What is signed."""
        said = {key: value for key, value in asdict(self).items() if key not in ("signature", "proof")}
        return hashlib.sha256(b"bfl request to join\n" + canonical_json(said)).digest()

    def proof_with(self, secret: str) -> str:
        """What whoever has the token's secret comes to."""
        return hmac.new(secret.encode(), self.digest, "sha256").hexdigest()

    def keys(self) -> PublicKeys:
        """Its public keys, if it holds the private ones; `BflError` where it does not."""
        try:
            asked = x509.load_pem_x509_csr(self.certificate_request.encode())
            public = asked.public_key()
            signer = recover_signer_of(self.digest, bytes.fromhex(self.signature))
            is_own = asked.is_signature_valid and signer == address_of_key(bytes.fromhex(self.chain_key))
            if self.role == DEVICE:
                flower: Any = load_pem_public_key(self.flower_key.encode())
                is_own = is_own and isinstance(flower.curve, ec.SECP384R1) and flower_text(flower) == self.flower_key
        except (ValueError, AttributeError, UnsupportedAlgorithm, ChainError) as error:
            raise BflError(f"the request of {self.name} is damaged: {error}") from error
        if not is_own or str(signer) != self.address or not isinstance(public, ec.EllipticCurvePublicKey):
            raise BflError(f"the request of {self.name} is not signed with its own keys: it was changed on its way")
        if self.samples != SHARED and not 1 <= self.samples <= MOST_SAMPLES:
            raise BflError(f"{self.name}: found {self.samples} samples, expected 1 to {MOST_SAMPLES:,}")
        return PublicKeys(signer, public, self.chain_key, self.flower_key)


def manifest_of(files: Mapping[str, bytes]) -> bytes:
    """What the authority signs of a grant: every file by its digest."""
    named = {name: hashlib.sha256(content).hexdigest() for name, content in files.items() if name != SIGNATURE}
    return b"bfl grant\n" + canonical_json(named)
