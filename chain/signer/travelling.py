"""A key's memory as one JSON document, to move it to another machine."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from chain.errors import CodecError, SignedMemoryError
from chain.signer.statements import is_slot
from chain.wire.address import Address
from chain.wire.documents import canonical_json, read_record

Count = Annotated[int, Field(ge=0, lt=2**63)]
Hex = Annotated[str, Field(pattern=r"^([0-9a-f]{2})*$")]
Row = tuple[Count, Count, str, Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")], Hex]
_MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class Exported:
    """Everything that a key has signed and not forgotten."""

    form: Literal[1]
    address: str
    chain_id: str
    lowest_round: Count
    """The highest round that it has signed in; it signs in no lower one."""
    signed: tuple[Row, ...]
    """Round, attempt, slot, digest of what is said, signed bytes; in the order of signing."""

    @classmethod
    def of(cls, address: Address, chain_id: int, lowest_round: int, signed: Iterable[Sequence[Any]]) -> "Exported":
        """The rows of a database as a document."""
        rows = tuple((round_, attempt, slot, said.hex(), raw.hex()) for round_, attempt, slot, said, raw in signed)
        return cls(1, str(address), str(chain_id), lowest_round, rows)

    def encode(self) -> bytes:
        """As canonical JSON."""
        return canonical_json(asdict(self))

    def rows(self) -> Iterator[tuple[int, int, str, bytes, bytes]]:
        """The reverse of `of`."""
        for round_, attempt, slot, said, raw in self.signed:
            yield round_, attempt, slot, bytes.fromhex(said), bytes.fromhex(raw)

    def check(self, address: Address, chain_id: int) -> None:
        """Raise `CodecError` unless it is a memory of this key on this chain."""
        if (self.address, self.chain_id) != (str(address), str(chain_id)):
            raise CodecError(
                f"found the key {self.address:.42} on chain {self.chain_id:.80}, expected {address} on {chain_id}"
            )
        places = [row[:3] for row in self.signed]
        if len(set(places)) != len(places) or not all(is_slot(slot) for _, _, slot in places):
            raise CodecError("found a slot that is named twice, or is none")
        highest = max((round_ for round_, _, _ in places), default=0)
        if highest > self.lowest_round:
            raise CodecError(f"found a signature of round {highest}, expected none above {self.lowest_round}")


def read_exported(path: Path, address: Address, chain_id: int) -> Exported:
    """What `SignedMemory.export_to` wrote, of this key on this chain."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:  # a pipe would wait
            content = file.read(_MOST_BYTES)
        found = read_record(Exported, content)
        found.check(address, chain_id)
        if found.encode() != content:
            raise CodecError("found something more in it: it would be written otherwise")
    except (OSError, CodecError) as error:
        raise SignedMemoryError(f"{path} is no exported memory of this key: {error}") from error
    return found
