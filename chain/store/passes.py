"""Passes beside the chain (D3.2), in a table of its database: kept until their round is final, and a while longer."""

from itertools import islice

from chain.protocol.endorsements import Domain, Endorsement
from chain.protocol.passes import Pass, Signed, decode_pass
from chain.store.database import Database
from chain.store.endorsements import Endorsements
from chain.wire.address import Address

SCHEMA = """
CREATE TABLE pass (
    round INTEGER NOT NULL, attempt INTEGER NOT NULL, signer BLOB NOT NULL, raw BLOB NOT NULL,
    PRIMARY KEY (round, attempt, signer, raw)
) WITHOUT ROWID;
"""


_MOST_COMPARED = 64
"""Signatures of one server in one round: in a file that somebody made up there may be thousands (Q4)"""


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

    def _read(self, found: str, *values: bytes | int) -> list[Pass]:
        return [decode_pass(row[0], self._domain) for row in self._db.rows(found, *values)]

    def forget_before(self, round_: int) -> None:
        """Passes of long ago accuse nobody any more."""
        self._db.write("DELETE FROM pass WHERE round < ?", round_)


def contradictions(endorsements: Endorsements, passes: Passes, first_round: int = 0) -> list[tuple[Signed, Signed]]:
    """Two things that one server signed and no honest one signs both of: evidence that convicts it (Q1, D3.2)."""
    found: list[tuple[Signed, Signed]] = list(endorsements.doubles(first_round))
    given: dict[tuple[int, Address], list[Pass]] = {}
    for each in passes.since(first_round):
        given.setdefault((each.round, each.signer), []).append(each)
    endorsed: dict[int, list[Endorsement]] = {round_: endorsements.of_round(round_) for round_, _ in given}
    for (round_, signer), all_of_it in given.items():
        own = list(islice((each for each in endorsed[round_] if each.signer == signer), _MOST_COMPARED))
        some = all_of_it[:_MOST_COMPARED]
        found += [(one, other) for i, one in enumerate(some) for other in some[i + 1 :] if one.contradicts(other)]
        found += [(each, one) for one in some for each in own if one.hides(each)]
    return found
