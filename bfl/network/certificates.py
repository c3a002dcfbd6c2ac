"""The authority of a network, and the certificates it gives to the machines of its participants (D4).

A certificate speaks for one address of the registry (`chain.wire.identity`) at one host. The authority's key stays with
the operator: who has it can pose as any machine, though never sign for a key of the chain.
"""

import datetime
import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bfl.errors import BflError
from chain.wire.identity import Identity
from policy.clock import epoch_s

AUTHORITY_DAYS, MACHINE_DAYS = 3650, 825
_EARLIER = datetime.timedelta(hours=1)
"""Clocks of machines differ a little"""


@dataclass(frozen=True)
class Authority:
    """Who issues the certificates of one network."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(cls, network: str) -> "Authority":
        """A new one."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"bfl authority of {network}")
        builder = _builder(name, name, key.public_key(), AUTHORITY_DAYS)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        usage = _usage(signs_certificates=True)
        return cls(builder.add_extension(usage, critical=True).sign(key, hashes.SHA256()), key)

    @classmethod
    def load(cls, folder: Path) -> "Authority":
        """The one in a folder of the operator."""
        try:
            certificate = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
            key = load_pem_private_key((folder / "ca.key").read_bytes(), None)
        except (OSError, ValueError, TypeError) as error:
            raise BflError(f"{folder}: found no authority (ca.crt, ca.key): {error}") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise BflError(f"{folder}: ca.key is not the key of ca.crt")
        return cls(certificate, key)

    def save(self, folder: Path) -> None:
        """For the operator alone."""
        write_private(folder / "ca.key", pem_of(self.key))
        (folder / "ca.crt").write_bytes(self.pem)

    @property
    def pem(self) -> bytes:
        """What everybody believes."""
        return self.certificate.public_bytes(Encoding.PEM)

    def sign(self, content: bytes) -> bytes:
        """Stand for some bytes."""
        return self.key.sign(content, ec.ECDSA(hashes.SHA256()))

    def certify(self, name: str, hosts: list[str], identity: Identity, public: ec.EllipticCurvePublicKey) -> bytes:
        """A certificate (PEM) for the key of a machine."""
        names = [_host(host) for host in hosts] + [x509.UniformResourceIdentifier(identity.uri)]
        builder = _builder(_name(name), self.certificate.subject, public, MACHINE_DAYS)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(Encoding.PEM)


def check_issued(certificate: x509.Certificate, authority: x509.Certificate, uri: str, path: Path) -> None:
    """Raise `BflError` unless a machine's certificate is of this authority, speaks for `uri` and has not run out."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature) as error:
        raise BflError(f"{path} is not of the authority beside it: another network's, or an older one's") from error
    now = datetime.datetime.fromtimestamp(epoch_s(), datetime.UTC)
    if now > certificate.not_valid_after_utc:
        raise BflError(
            f"{path} ran out on {certificate.not_valid_after_utc:%Y-%m-%d}, and this machine's clock says "
            f"{now:%Y-%m-%d}; if that is right, the operator founds the network anew: bfl network found --continue"
        )
    if now < certificate.not_valid_before_utc:
        raise BflError(
            f"{path} is valid from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC on, and this machine's clock "
            f"says {now:%Y-%m-%d %H:%M}; set the clock (install chrony)"
        )
    names = [each.value for each in certificate.extensions if isinstance(each.value, x509.SubjectAlternativeName)]
    if not any(uri in each.get_values_for_type(x509.UniformResourceIdentifier) for each in names):
        raise BflError(f"{path} is for another participant than {uri}; ask the operator for its own")


def check_signed(authority: x509.Certificate, content: bytes, signature: bytes) -> None:
    """Raise `BflError` unless the authority stands for these bytes."""
    public = authority.public_key()
    try:
        if not isinstance(public, ec.EllipticCurvePublicKey):
            raise InvalidSignature
        public.verify(signature, content, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature as error:
        raise BflError("found no signature of the network's authority: it was changed on its way") from error


def write_private(path: Path, content: bytes) -> None:
    """A file that only its owner can read, from its first byte on, and on the disk; never over another one."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())  # who pulls the plug finds no empty config under its right name


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - _EARLIER).not_valid_after(now + datetime.timedelta(days=days))


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A key as a file has it."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
