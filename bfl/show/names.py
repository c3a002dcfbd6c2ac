"""Whose address it is, for people: "server 1", "device 3", where the founding parameters of a chain tell."""

from collections.abc import Mapping
from typing import Any

from chain.audit.archive import Archive
from chain.audit.payloads import CheckedPayloads
from chain.errors import ChainError, LedgerError
from chain.protocol.contract import decode_call
from chain.protocol.turns import FOUNDING_BLOCK
from chain.wire.address import Address
from chain.wire.documents import read_canonical_json

_SHORT_BYTES = 4


def short_hex(value: bytes) -> str:
    """The first bytes of a hash or an address."""
    return f"0x{value[:_SHORT_BYTES].hex()}…" if len(value) > 6 else f"0x{value.hex()}"


def full_hex(value: bytes) -> str:
    """A hash or an address in full."""
    return f"0x{value.hex()}"


class Names:
    """Names of participants by address; empty where nobody tells. The address always stands beside the name."""

    def __init__(self, names: Mapping[bytes, str] | None = None) -> None:
        self._names = names or {}

    def __bool__(self) -> bool:
        return bool(self._names)

    def find(self, address: bytes) -> str:
        """The name alone; empty where there is none."""
        return self._names.get(address, "")

    def short(self, address: bytes) -> str:
        """Name, and the beginning of the address."""
        return f"{self.find(address)} {short_hex(address)}".lstrip()

    def full(self, address: bytes) -> str:
        """Name, and the whole address."""
        return f"{self.find(address)} {full_hex(address)}".lstrip()


def names_in(archive: Archive) -> Names:
    """The names that the founding block of a chain gives; none where it is not founded, damaged, or of another kind.

    For tables alone: that the registry knows the same participants is checked by an audit.
    """
    return names_of(founding_content(archive))


def names_of(content: Mapping[str, Any]) -> Names:
    """The names that founding parameters give."""
    return Names(_names(content))


def founding_content(archive: Archive) -> Mapping[str, Any]:
    """The founding parameters of a chain as they are written; empty where there are none that fit their digest."""
    try:
        block = archive.block(FOUNDING_BLOCK)
        calls = [decode_call(each.data) for each in block.transactions if each.to]
        digests = [bytes(call["parameters"]) for call in calls if call.name == "found"]
        payload = CheckedPayloads(archive).payload(digests[0]) if digests else None
        content = read_canonical_json(payload or b"")
    except LedgerError:
        raise
    except ChainError:
        return {}
    return content if isinstance(content, dict) else {}


def _names(content: Mapping[str, Any]) -> dict[bytes, str]:
    """As `FoundingParameters` has them: servers by number, devices by number with their home; torch is not loaded."""
    found: dict[bytes, str] = {}
    for key, role in (("servers", "server"), ("devices", "device")):
        listed = content.get(key)
        for index, each in enumerate(listed if isinstance(listed, list) else []):
            text = each[0] if isinstance(each, list) and each else each
            try:
                found[Address(text)] = f"{role} {index}"
            except (ChainError, TypeError):
                return {}
    return found
