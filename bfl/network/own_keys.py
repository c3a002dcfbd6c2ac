"""The keys of one machine, which never leave it: of the chain, of its certificate and, on a device, of Flower."""

from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from eth_account.signers.local import LocalAccount

from bfl.errors import BflError
from bfl.network.certificates import pem_of, write_private
from chain.client.keys import address_of, load_key, new_account, public_key_of, save_key
from chain.errors import ChainError
from chain.wire.address import Address

KEY, TLS_KEY, FLOWER_KEY = "key.json", "tls.key", "flower.key"


@dataclass(frozen=True)
class PublicKeys:
    """What the others know of them."""

    address: Address
    tls: ec.EllipticCurvePublicKey
    chain: str
    """Public key of the address, compressed, in hex: what data are sealed to."""
    flower: str = ""
    """PEM; empty for an edge."""


@dataclass(frozen=True)
class OwnKeys:
    """Made once, kept in the machine's kit."""

    account: LocalAccount
    tls: ec.EllipticCurvePrivateKey
    flower: ec.EllipticCurvePrivateKey | None = None

    @classmethod
    def create(cls, is_device: bool) -> "OwnKeys":
        """New ones, from the operating system's randomness."""
        flower = ec.generate_private_key(ec.SECP384R1()) if is_device else None
        return cls(new_account(), ec.generate_private_key(ec.SECP256R1()), flower)

    @property
    def public(self) -> PublicKeys:
        """What may be told."""
        told = "" if self.flower is None else flower_text(self.flower.public_key())
        return PublicKeys(address_of(self.account), self.tls.public_key(), public_key_of(self.account).hex(), told)

    def save(self, folder: Path, password: str, work: int | None = None) -> None:
        """Into a kit; `password` is that of the chain's key."""
        save_key(folder / KEY, self.account, password, work)
        write_private(folder / TLS_KEY, pem_of(self.tls))
        if self.flower is not None:  # Flower reads it as OpenSSH writes it
            raw = self.flower.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
            write_private(folder / FLOWER_KEY, raw)


def open_key(path: Path, password: str) -> LocalAccount:
    """A kit's key of the chain."""
    try:
        return load_key(path, password)
    except ChainError as error:
        raise BflError(f"{error}; without its password a key is lost: then this machine joins anew") from error


def flower_text(public: ec.EllipticCurvePublicKey) -> str:
    """A Flower key as a SuperLink knows it."""
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode("ascii")
