"""What one key has signed on one chain (`signed.db`): the same request gives the same bytes, a contradicting one none.

Every statement is on the disk before its bytes are returned, so whatever a crash leaves, the key says nothing else. How
it is used, by whoever holds the key (a server's ledger, a device's wallet):

    with SignedMemory.open(folder / "signed.db", address, chain_id) as memory:
        post_votes_again(access, memory, round_)  # on start, first (`edge_servers.ledger.posting_again`)
        post_again(access, memory, round_, attempt)
        memory.round_began(round_, parent_sealed_s)  # at every round; a new memory waits for it
        data = encode_call("plan", ...)
        statement = Statement.post(chain_id, round_, attempt, "plan", data)
        raw = memory.sign(statement, lambda: signed_transaction(account, envelope, data).raw)
        # where the chain has moved on and the nonce is taken, the same thing with another one:
        raw = memory.resign(statement, lambda: ...)

Endorsements and passes: `Statement.endorsement`, `Statement.to_pass(..., memory.highest_endorsement(round_))`. Flags,
votes and calls that post the signatures of others are not limited and do not come here. What is kept is signed bytes:
the payload beside a post is the caller's to keep.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from sqlite3 import Connection
from types import TracebackType

from chain.errors import FreshMemoryError, SignedMemoryError, SigningRefusedError
from chain.signer.disk import Disk, Mark, write_new
from chain.signer.rules import check_new, check_place, highest_endorsement
from chain.signer.statements import ENDORSE, PASS, Endorsed, Signed, Statement
from chain.signer.travelling import Exported, read_exported
from chain.wire.address import Address

ROUNDS_OF_BYTES, ROUNDS_OF_MARKS = 16, 1000
"""How many rounds back signed bytes are kept, and what was endorsed and passed"""
MOST_AHEAD_S = 15.0
"""By how much a block may be sealed in the future of this machine's clock; beyond it, the clock is wrong"""
_TABLES = (
    "CREATE TABLE kept (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE signed (place INTEGER PRIMARY KEY, round INTEGER NOT NULL, attempt INTEGER NOT NULL, "
    "slot TEXT NOT NULL, said BLOB NOT NULL, raw BLOB NOT NULL, UNIQUE (round, attempt, slot))",
)
_FORM = "1"
_KEEP = "INSERT INTO signed SELECT coalesce(max(place), 0) + 1, ?, ?, ?, ?, ? FROM signed"
Signer = Callable[[], bytes]
Clock = Callable[[], float]


class SignedMemory:
    """The open memory of one key; `open` makes it. Threads may share it, processes may not."""

    def __init__(
        self,
        disk: Disk,
        address: Address,
        chain_id: int,
        clock: Clock = time.time,
        elapsed: Clock = time.monotonic,
    ) -> None:
        self._disk, self._address, self._chain_id = disk, address, chain_id
        self._clock, self._elapsed, self._opened_s = clock, elapsed, elapsed()

    @classmethod
    def open(
        cls,
        path: Path,
        address: Address,
        chain_id: int,
        is_founding: bool = False,
        clock: Clock = time.time,
        elapsed: Clock = time.monotonic,
    ) -> "SignedMemory":
        """Open the memory of a key, or begin one, which signs nothing until a new round.

        `is_founding`: this key was made just now and has never signed, so that it need not wait. `clock` is epoch time,
        which may be put right while a machine starts: `elapsed` tells how long ago that was.
        """
        only_new = "its key may have signed before; open it without is_founding" if is_founding else ""
        memory = cls(Disk(path, only_new), address, chain_id, clock, elapsed)
        with ExitStack() as undo:
            undo.callback(memory.close)
            memory._start(is_founding)
            undo.pop_all()
        return memory

    @classmethod
    def import_from(cls, exported: Path, path: Path, address: Address, chain_id: int) -> None:
        """Make a memory of what `export_to` wrote. That may be old, so the key waits for a new round."""
        found = read_exported(exported, address, chain_id)
        memory = cls(Disk(path, "a memory is never overwritten"), address, chain_id)
        try:
            memory._begin(f"was imported from {exported}", found)
        finally:
            memory.close()

    def close(self) -> None:
        """Give the key back to whoever opens its memory next."""
        self._disk.close()

    def __enter__(self) -> "SignedMemory":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- signing

    def sign(self, statement: Statement, sign: Signer) -> bytes:
        """The signed bytes of a statement: those that there are, or what `sign` makes, which is on the disk by then.

        `SigningRefusedError` where this key must not say it, `FreshMemoryError` while it may say nothing.
        """
        with self._disk.transaction() as rows:
            stored = self._find(rows, statement)
            if stored is not None:
                return self._bytes_of(statement, stored)
            self._check_awake(rows, statement)
            check_new(statement, int(_kept(rows, "lowest_round")), _signed(rows, statement.round))
            raw = _made(statement, sign)
            rows.execute(_KEEP, (statement.round, statement.attempt, statement.slot, statement.said, raw))
            _keep(rows, "lowest_round", max(statement.round, int(_kept(rows, "lowest_round"))))
        return raw

    def resign(self, statement: Statement, sign: Signer) -> bytes:
        """New bytes for a post that is signed already, because its nonce has to change; they replace the old ones."""
        with self._disk.transaction() as rows:
            stored = self._find(rows, statement)
            if stored is None:
                raise SigningRefusedError(f"{statement}: found nothing to sign again; sign it first")
            check_place(statement, stored)
            if statement.slot in (ENDORSE, PASS):
                raise SigningRefusedError(f"{statement}: it has no nonce and is signed once; use the bytes there are")
            self._check_awake(rows, statement)
            raw, place = _made(statement, sign), (statement.round, statement.attempt, statement.slot)
            rows.execute("DELETE FROM signed WHERE (round, attempt, slot) = (?, ?, ?)", place)
            rows.execute(_KEEP, (*place, statement.said, raw))
        return raw

    def pending(self, round_: int, attempt: int | None = None) -> list[Signed]:
        """What this key has signed in an attempt (None: in any), in the order of signing: to be posted again on
        start.
        """
        with self._disk.transaction() as rows:
            return [each for each in _signed(rows, round_) if attempt in (None, each.attempt) and each.raw]

    def highest_endorsement(self, round_: int) -> Endorsed | None:
        """What a pass of this key in this round has to name."""
        with self._disk.transaction() as rows:
            return highest_endorsement(_signed(rows, round_))

    def _find(self, rows: Connection, statement: Statement) -> Signed | None:
        if statement.chain_id != self._chain_id:
            raise SigningRefusedError(
                f"{statement}: found chain {statement.chain_id}, expected {self._chain_id}, the only one it signs for"
            )
        here = (statement.attempt, statement.slot)
        return next((each for each in _signed(rows, statement.round) if (each.attempt, each.slot) == here), None)

    def _bytes_of(self, statement: Statement, stored: Signed) -> bytes:
        check_place(statement, stored)
        if not stored.raw:
            raise SigningRefusedError(
                f"{statement}: it was signed, and its bytes are forgotten; read it from the chain"
            )
        return stored.raw

    # --- waiting

    @property
    def fresh_because(self) -> str:
        """Why this memory signs nothing yet; empty once it does."""
        with self._disk.transaction() as rows:
            return _kept(rows, "fresh_because")

    def may_sign(self, parent_sealed_s: float) -> bool:
        """Whether this key signs in a round whose parent was sealed then (epoch time; less what clocks may differ)."""
        return not self.fresh_because or self._is_after_start(parent_sealed_s)

    def round_began(self, round_: int, parent_sealed_s: float) -> None:
        """Tell of a round's beginning: old bytes are forgotten, and a new memory wakes if it may; one of the founding
        that is told of a later round first sleeps. What was forgotten was signed before. Lower rounds stay closed.
        """
        with self._disk.transaction() as rows:
            if rows.execute("SELECT 1 FROM kept WHERE name = 'is_founding' AND value = '1'").fetchone():
                if round_ > 1 and not self._is_after_start(parent_sealed_s):  # the kit of a key that was made long ago
                    _keep(rows, "fresh_because", "was begun for the first round")
                _keep(rows, "is_founding", "0")
            if _kept(rows, "fresh_because") and self._is_after_start(parent_sealed_s):
                _keep(rows, "fresh_because", "")
                _keep(rows, "lowest_round", max(round_, int(_kept(rows, "lowest_round"))))
        self.forget_below(round_)

    def _is_after_start(self, sealed_s: float) -> bool:
        now_s = self._clock()
        if sealed_s > now_s + MOST_AHEAD_S:
            raise FreshMemoryError(
                f"found a block sealed {sealed_s - now_s:.0f} s ahead of this machine's clock, expected at most "
                f"{MOST_AHEAD_S:.0f}; set the clock (install chrony)"
            )
        return sealed_s > now_s - (self._elapsed() - self._opened_s)

    def _check_awake(self, rows: Connection, statement: Statement) -> None:
        why = _kept(rows, "fresh_because")
        if why:
            raise FreshMemoryError(
                f"{statement}: {self._disk.path} {why}; what its key has signed is unknown, so it signs once a round "
                "begins whose parent was sealed after this start"
            )

    # --- forgetting, moving

    def forget_below(self, round_: int) -> None:
        """Bound the size, this round being the one that runs: bytes go after 16 rounds, endorsements and passes after
        1,000. In rounds below those that were signed in nothing is signed anyway.
        """
        with self._disk.transaction() as rows:
            newest = min(round_, int(_kept(rows, "lowest_round")))
            oldest = newest - ROUNDS_OF_BYTES
            rows.execute("DELETE FROM signed WHERE round < ? AND slot NOT IN (?, ?)", (oldest, ENDORSE, PASS))
            rows.execute("UPDATE signed SET raw = x'' WHERE round < ? AND raw != x''", (oldest,))
            rows.execute("DELETE FROM signed WHERE round < ?", (newest - ROUNDS_OF_MARKS,))

    def export_to(self, path: Path) -> None:
        """Write all of it as JSON. Whoever has this memory open has the key alone: its owner is stopped."""
        with self._disk.transaction() as rows:
            signed = rows.execute("SELECT round, attempt, slot, said, raw FROM signed ORDER BY place").fetchall()
            lowest = int(_kept(rows, "lowest_round"))
        write_new(path, Exported.of(self._address, self._chain_id, lowest, signed).encode())

    # --- opening

    def _start(self, is_founding: bool) -> None:
        with self._disk.transaction() as rows:
            is_empty = not rows.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if is_empty:
            lost = "was lost, only its mark is there" if self._disk.found_mark() else "is new"
            self._begin(lost)
        else:
            self._continue()
        if is_founding:
            with self._disk.transaction() as rows:
                _keep(rows, "fresh_because", "")
                _keep(rows, "is_founding", "1")

    def _begin(self, why: str, exported: Exported | None = None) -> None:
        mark = Mark.new()
        first = {"form": _FORM, "address": str(self._address), "chain_id": str(self._chain_id), "fresh_because": why}
        lowest = str(exported.lowest_round if exported else 0)
        first |= {"lowest_round": lowest, "instance": mark.instance, "is_founding": "0"}
        with self._disk.transaction() as rows:
            for table in _TABLES:
                rows.execute(table)
            for name, value in (first | {"opens": str(mark.opens), "inode": str(self._disk.inode)}).items():
                rows.execute("INSERT INTO kept VALUES (?, ?)", (name, value))
            rows.executemany(_KEEP, exported.rows() if exported else [])
        self._disk.count_opening(mark)

    def _continue(self) -> None:
        with self._disk.transaction() as rows:
            found = tuple(_kept(rows, name) for name in ("form", "address", "chain_id"))
            expected = (_FORM, str(self._address), str(self._chain_id))
            if found != expected:
                raise SignedMemoryError(
                    f"{self._disk.path}: found the memory (form, key, chain) {found}, expected {expected}; "
                    "every key has one of its own on every chain"
                )
            mark = Mark(_kept(rows, "instance"), int(_kept(rows, "opens")))
            beside = self._disk.found_mark()
            if beside is None or not beside.is_of(mark) or _kept(rows, "inode") != str(self._disk.inode):
                mark = Mark.new()  # no copy of what is there now belongs to it any more
                changed = {"instance": mark.instance, "opens": str(mark.opens), "inode": str(self._disk.inode)}
                for name, value in (changed | {"fresh_because": "is a copy: it and its mark do not fit"}).items():
                    _keep(rows, name, value)
        self._disk.count_opening(mark)


def _made(statement: Statement, sign: Signer) -> bytes:
    raw = bytes(sign())
    if not raw:
        raise SigningRefusedError(f"{statement}: found no signed bytes, expected some")
    return raw


def _signed(rows: Connection, round_: int) -> Sequence[Signed]:
    query = "SELECT attempt, slot, said, raw FROM signed WHERE round = ? ORDER BY place"
    return [Signed(*row) for row in rows.execute(query, (round_,))]


def _kept(rows: Connection, name: str) -> str:
    found = rows.execute("SELECT value FROM kept WHERE name = ?", (name,)).fetchone()
    if found is None:
        raise SignedMemoryError(f"found no {name} in a key's memory, expected one: it is damaged; move it away")
    return str(found[0])


def _keep(rows: Connection, name: str, value: str | int) -> None:
    rows.execute("UPDATE kept SET value = ? WHERE name = ?", (str(value), name))
