"""Passes beside the chain (D3.2), in a table of its database: kept until their round is final, and a while longer."""

from chain.protocol.endorsements import Domain
from chain.protocol.passes import Pass, decode_pass
from chain.store.database import Database
from chain.wire.address import Address

SCHEMA = """
CREATE TABLE pass (
    round INTEGER NOT NULL, attempt INTEGER NOT NULL, signer BLOB NOT NULL, raw BLOB NOT NULL,
    PRIMARY KEY (round, attempt, signer, raw)
) WITHOUT ROWID;
"""


class Passes:
    """The passes in one database, by whoever signed them."""

    def __init__(self, database: Database, domain: Domain) -> None:
        self._db, self._domain = database, domain

    def add(self, given: Pass) -> None:
        """Keep a pass; one that is there stays."""
        key = (given.round, given.attempt, given.signer)
        self._db.write("INSERT OR IGNORE INTO pass VALUES (?, ?, ?, ?)", *key, given.encode())

    def of(self, round_: int) -> list[Pass]:
        """All of a round, by attempt and address of the signer."""
        return self._read("SELECT raw FROM pass WHERE round = ? ORDER BY attempt, signer", round_)

    def since(self, round_: int) -> list[Pass]:
        """All of this round and later ones."""
        return self._read("SELECT raw FROM pass WHERE round >= ? ORDER BY round, attempt, signer", round_)

    def by(self, signer: Address, round_: int, attempt: int) -> list[Pass]:
        """What a server signed for one (round, attempt): two that differ are one too many."""
        found = "SELECT raw FROM pass WHERE round = ? AND attempt = ? AND signer = ?"
        return self._read(found, round_, attempt, signer)

    def _read(self, found: str, *values: object) -> list[Pass]:
        return [decode_pass(row[0], self._domain) for row in self._db.rows(found, *values)]

    def forget_before(self, round_: int) -> None:
        """Passes of long ago accuse nobody any more."""
        self._db.write("DELETE FROM pass WHERE round < ?", round_)
