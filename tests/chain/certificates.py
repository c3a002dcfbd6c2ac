"""A certificate authority for tests, and what it issues."""

import datetime
import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from chain.client.tls import TlsFiles

_NOW = datetime.datetime.now(datetime.UTC)
_DAY = datetime.timedelta(days=1)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


@dataclass
class Authority:
    """Issues certificates in a folder."""

    folder: Path
    name: str = "authority"
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        builder = self._builder(self.name, self.key.public_key())
        ca = x509.BasicConstraints(ca=True, path_length=0)
        made = builder.add_extension(ca, critical=True).sign(self.key, hashes.SHA256())
        self.file = self.folder / "ca.crt"
        self.file.write_bytes(made.public_bytes(Encoding.PEM))

    def _builder(self, name: str, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder().subject_name(_named(name)).issuer_name(_named(self.name))
        builder = builder.public_key(public).serial_number(x509.random_serial_number())
        return builder.not_valid_before(_NOW - _DAY).not_valid_after(_NOW + _DAY)

    def issue(self, name: str, *uris: str, host: str = "127.0.0.1") -> TlsFiles:
        """A certificate of a host with these names."""
        key = ec.generate_private_key(ec.SECP256R1())
        names: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address(host))]
        names += [x509.UniformResourceIdentifier(uri) for uri in uris]
        builder = self._builder(name, key.public_key())
        made = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        files = TlsFiles(self.folder / f"{name}.crt", self.folder / f"{name}.key", self.file)
        files.certificate.write_bytes(made.sign(self.key, hashes.SHA256()).public_bytes(Encoding.PEM))
        files.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return files
