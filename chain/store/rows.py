"""What the blobs of a chain database say; one that does not decode is damage, and is told as such."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from rlp.exceptions import RLPException

from chain.errors import ChainError, StoreError
from chain.protocol.genesis import Genesis, read_genesis
from chain.store.database import Database
from chain.wire.blocks import decode_transactions
from chain.wire.receipts import Receipt, unpack_receipts
from chain.wire.transactions import Transaction

FORMAT = 4
_OLD_FORMATS = {
    1: "0.4 or 0.5.0, which had payloads in its transactions",
    2: "0.6.0, which knew no endorsements beside the chain",
    3: "0.7.0, which knew one attempt at a round",
}
T = TypeVar("T")


def transactions_in(blob: bytes) -> tuple[Transaction, ...]:
    return decode_transactions(blob)


def receipts_in(blob: bytes) -> tuple[Receipt, ...]:
    return unpack_receipts(blob)


def read_row(decode: Callable[[bytes], T], blob: bytes, what: str) -> T:
    """What a blob of the database says; SQLite notices damaged pages, not damaged blobs."""
    try:
        return decode(blob)
    except (ChainError, RLPException, TypeError) as error:
        raise StoreError(f"{what} is damaged in the chain database: {error}") from error


def genesis_in(database: Database, path: Path | str) -> Genesis:
    """Which network the file is of."""
    meta = {row[0]: row[1] for row in database.rows("SELECT name, value FROM meta")}
    found = meta.get("format")
    if found in _OLD_FORMATS:
        raise StoreError(
            f"{path} is a chain of version {_OLD_FORMATS[found]}; "
            "read it with that version (git checkout, or pip install, of its tag), or start a new run"
        )
    if found != FORMAT:
        raise StoreError(f"{path} has format {found!r}, expected {FORMAT}")
    return read_genesis(meta.get("genesis", ""))
