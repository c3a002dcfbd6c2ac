"""To whom a device hands its data."""

from dataclasses import dataclass

from clients.errors import ClientError

ANY_SERVER = "any"
NEVER = "never"


@dataclass(frozen=True)
class Consent:
    """To whom a device hands its data (P25): `any` server, `never`, or the listed ones, as in "0,2"."""

    text: str = ANY_SERVER

    def __post_init__(self) -> None:
        listed = all(part.strip().isdecimal() for part in self.text.split(","))
        if self.text not in (ANY_SERVER, NEVER) and not listed:
            raise ClientError(f'offload: found "{self.text}", expected any, never, or server numbers such as 0,2')

    def allows(self, server: int) -> bool:
        """Whether data may go to this server."""
        if self.text in (ANY_SERVER, NEVER):
            return self.text == ANY_SERVER
        return server in [int(part) for part in self.text.split(",")]
