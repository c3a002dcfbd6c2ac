"""Who a TLS certificate speaks for: its SAN has one URI `bfl:<chain id>:<address>`, an address of the registry."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chain.errors import IdentityError
from chain.wire.address import Address

_URI = re.compile(r"bfl:(0|[1-9][0-9]{0,18}):0x([0-9a-f]{40})")
_SCHEME = "bfl:"


@dataclass(frozen=True)
class Identity:
    """A participant of a network."""

    chain_id: int
    address: Address

    @property
    def uri(self) -> str:
        """As a certificate has it."""
        return f"{_SCHEME}{self.chain_id}:0x{self.address.hex()}"


def read_identity(uri: str) -> Identity:
    """The identity in a URI, which has one spelling."""
    found = _URI.fullmatch(uri)
    if found is None:
        raise IdentityError(f"found the name {uri!r:.80}, expected bfl:CHAIN-ID:0x... with 40 lower-case digits")
    return Identity(int(found[1]), Address(bytes.fromhex(found[2])))


def identity_in(certificate: Mapping[str, Any] | None) -> Identity:
    """The identity in a certificate that `ssl` has checked, as it shows it."""
    names = (certificate or {}).get("subjectAltName", ())
    found = [name for kind, name in names if kind == "URI" and str(name).startswith(_SCHEME)]
    if len(found) != 1:
        raise IdentityError(f"found {len(found)} names bfl:CHAIN-ID:ADDRESS in a certificate, expected one")
    return read_identity(str(found[0]))
