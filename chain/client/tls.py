"""TLS between nodes and devices: both sides show a certificate of the network's own authority.

Names are checked twice: the host as everywhere, so that no member poses as another machine, and the identity
(`chain.wire.identity`), so that a certificate speaks for an address of the registry.
"""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from chain.errors import LedgerError
from chain.wire.identity import Identity

CheckIdentity = Callable[[Identity], None]
"""Raises `IdentityError` for somebody who is not expected at the other end"""


@dataclass(frozen=True)
class TlsFiles:
    """PEM files of one participant: its certificate, its key, and the authority that it believes."""

    certificate: Path
    key: Path
    authority: Path

    def server_context(self, asks_visitors: bool = True) -> ssl.SSLContext:
        """For a node's port; `asks_visitors`: whether they show a certificate too."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED if asks_visitors else ssl.CERT_NONE
        return self._filled(context)

    def client_context(self) -> ssl.SSLContext:
        """For whoever asks a node."""
        return self._filled(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    def _filled(self, context: ssl.SSLContext) -> ssl.SSLContext:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        try:
            context.load_cert_chain(self.certificate, self.key, password="")
            context.load_verify_locations(self.authority)
        except (OSError, ssl.SSLError) as error:
            raise LedgerError(
                f"{self.certificate}, {self.key}, {self.authority}: cannot be used for TLS "
                f"({error.strerror or error}); expected a certificate, its key and the authority, as PEM files"
            ) from error
        return context


@dataclass(frozen=True)
class TlsClient:
    """How whoever asks a node shows itself, and whom it expects there."""

    files: TlsFiles
    check: CheckIdentity = lambda _: None
