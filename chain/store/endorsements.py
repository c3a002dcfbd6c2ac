"""Endorsements beside the chain (Q1), in a table of its database: outside every block's hash, copied with the file."""

from chain.protocol.endorsements import Domain, Endorsement, decode_endorsement
from chain.store.database import Database
from chain.wire.address import Address

SCHEMA = """
CREATE TABLE endorsement (
    round INTEGER NOT NULL, attempt INTEGER NOT NULL, signer BLOB NOT NULL, block BLOB NOT NULL, raw BLOB NOT NULL,
    PRIMARY KEY (round, attempt, signer, block)
) WITHOUT ROWID;
CREATE INDEX endorsement_block ON endorsement (block);
"""


class Endorsements:
    """The endorsements in one database, by whoever signed them; the last word on them is `chain.node.finality`'s."""

    def __init__(self, database: Database, domain: Domain) -> None:
        self._db, self._domain = database, domain

    def add(self, endorsement: Endorsement) -> None:
        """Keep an endorsement; one that is there stays."""
        key = (endorsement.round, endorsement.attempt, endorsement.signer, endorsement.block_hash)
        self._db.write("INSERT OR IGNORE INTO endorsement VALUES (?, ?, ?, ?, ?)", *key, endorsement.encode())

    def of(self, block_hash: bytes) -> list[Endorsement]:
        """All of a block, by address of the signer."""
        rows = self._db.rows("SELECT raw FROM endorsement WHERE block = ? ORDER BY attempt, signer", block_hash)
        return [decode_endorsement(row[0], self._domain) for row in rows]

    def by(self, signer: Address, round_: int, attempt: int) -> list[Endorsement]:
        """What a server signed for one (round, attempt): two are one too many."""
        found = "SELECT raw FROM endorsement WHERE round = ? AND attempt = ? AND signer = ?"
        return [decode_endorsement(row[0], self._domain) for row in self._db.rows(found, round_, attempt, signer)]

    def of_round(self, round_: int) -> list[Endorsement]:
        """All of a round, under any block."""
        rows = self._db.rows("SELECT raw FROM endorsement WHERE round = ? ORDER BY attempt, signer", round_)
        return [decode_endorsement(row[0], self._domain) for row in rows]

    def doubles(self, first_round: int = 0) -> list[tuple[Endorsement, Endorsement]]:
        """Two blocks of one (round, attempt), signed by one server: evidence that convicts it. Of more than two each
        with the first: in a file that somebody made up there may be thousands (Q4).
        """
        found = (
            "SELECT raw_0, raw FROM (SELECT round, signer, block, raw, first_value(block) OVER own AS block_0, "
            "first_value(raw) OVER own AS raw_0 FROM endorsement WHERE round >= ? "
            "WINDOW own AS (PARTITION BY round, attempt, signer ORDER BY block)) "
            "WHERE block_0 < block ORDER BY round, signer"
        )
        pairs = self._db.rows(found, first_round)
        return [(decode_endorsement(a, self._domain), decode_endorsement(b, self._domain)) for a, b in pairs]

    def unknown_since(self, round_: int) -> dict[tuple[int, int, bytes], set[Address]]:
        """Who signed blocks that are not here, of rounds after this one, by (round, attempt, block hash)."""
        found = (
            "SELECT round, attempt, endorsement.block, signer FROM endorsement WHERE round > ? AND NOT EXISTS "
            "(SELECT 1 FROM block WHERE block.hash = endorsement.block)"
        )
        signers: dict[tuple[int, int, bytes], set[Address]] = {}
        for number, attempt, block_hash, signer in self._db.rows(found, round_):
            signers.setdefault((number, attempt, block_hash), set()).add(Address(signer))
        return signers

    # --- what they have made final

    def final_hash(self) -> bytes | None:
        """Hash of the last final block; None where nothing was endorsed."""
        row = self._db.row("SELECT value FROM meta WHERE name = 'final'")
        return bytes(row[0]) if row else None

    def set_final(self, block_hash: bytes) -> None:
        """Remember the last final block."""
        self._db.write("INSERT OR REPLACE INTO meta VALUES ('final', ?)", block_hash)

    def conflict(self) -> str:
        """Why the node of this chain has stopped; empty while it has not."""
        row = self._db.row("SELECT value FROM meta WHERE name = 'conflict'")
        return str(row[0]) if row else ""

    def set_conflict(self, told: str) -> None:
        """Remember why it has stopped."""
        self._db.write("INSERT OR REPLACE INTO meta VALUES ('conflict', ?)", told)
