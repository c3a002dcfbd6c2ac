"""What is read from the chain when somebody opens it. It blocks for some milliseconds: it is called in a thread."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bfl.dashboard.decoded import AuditState, BlockDetail, Evidence, TransactionDetail
from bfl.dashboard.errors import DashboardError, NotFoundError
from bfl.dashboard.facts import OffenceFact, Snapshot
from bfl.dashboard.index.sources import Source
from bfl.dashboard.reading.clean import hex_text

if TYPE_CHECKING:  # the page is served before it is imported, which takes a second
    from chain.audit.archive import Archive

_HASH_DIGITS = 64


class Details:
    """`NotFoundError` (404) says what was found and expected; a source without a chain refuses with it too."""

    def __init__(self, source: Source, snapshot: Callable[[], Snapshot], audit: Callable[[], AuditState]) -> None:
        self._source, self._snapshot, self._audit = source, snapshot, audit

    @contextmanager
    def _archive(self) -> Iterator["Archive"]:
        from chain.errors import ChainError

        try:
            archive = self._source.open_archive()
            try:
                yield archive
            finally:
                archive.close()
        except ChainError as error:
            raise DashboardError(f"the chain cannot be read: {error!s:.300}") from error

    def block(self, which: str) -> BlockDetail:
        """By number or by hash with 0x."""
        number = self.block_number(which)
        with self._archive() as archive:
            from bfl.dashboard.index.opened_block import opened_block

            return opened_block(archive, number, self._snapshot())

    def block_number(self, which: str) -> int:
        """Of a block that is named by its number or its hash."""
        blocks = self._snapshot().blocks
        wanted = hex_text(which, _HASH_DIGITS) if which.startswith("0x") else ""
        if wanted:
            found = next((block.number for block in blocks if block.hash == wanted), None)
            if found is not None:
                return found
            raise NotFoundError(f"found block {wanted}, which is none of this chain")
        if not (which.isascii() and which.isdigit() and len(which) <= 12):
            raise NotFoundError(f"found block {which!r:.80}, expected a number, or 0x and 64 hexadecimal digits")
        if int(which) >= len(blocks):
            last = f"expected 0 to {len(blocks) - 1}" if blocks else "there is no chain here (yet)"
            raise NotFoundError(f"found block {int(which)}, {last}")
        return int(which)

    def transaction(self, transaction_hash: str) -> TransactionDetail:
        """By hash with 0x."""
        wanted = hex_text(transaction_hash, _HASH_DIGITS)
        if not wanted or not transaction_hash.startswith("0x"):
            raise NotFoundError(f"found transaction {transaction_hash!r:.80}, expected 0x and 64 hexadecimal digits")
        with self._archive() as archive:
            from bfl.dashboard.index.opened_block import opened_transaction

            found = archive.find_transaction(bytes.fromhex(wanted[2:]))
            if found is None:
                raise NotFoundError(f"transaction {wanted} is in no sealed block of this chain")
            return opened_transaction(archive, *found)

    def evidence(self, offence_id: str) -> Evidence:
        """Of an offence of the snapshot, by its id: from the metrics, the flags of its block, the audit if one ran."""
        offence = self._offence(offence_id)
        from bfl.dashboard.index.evidence import evidence_in_block, evidence_of_metrics, with_finding

        evidence = evidence_of_metrics(offence)
        if offence.round + 1 < len(self._snapshot().blocks):
            with self._archive() as archive:
                evidence = evidence_in_block(archive, offence)
        return with_finding(evidence, self._audit())

    def _offence(self, offence_id: str) -> OffenceFact:
        begin = offence_id.partition("-")[0]
        rounds = self._snapshot().rounds
        if begin.isascii() and begin.isdigit() and len(begin) <= 9 and 1 <= int(begin) <= len(rounds):
            for offence in rounds[int(begin) - 1].offences:
                if offence.id == offence_id:
                    return offence
        raise NotFoundError(f"found offence {offence_id!r:.80}, expected the id of one, such as 8-server-1-3")

    def model_file(self, round_: int) -> bytes:
        """The model after a round as torch.save makes it; 0: the one that training began with."""
        if round_ < 0 or round_ + 1 >= len(self._snapshot().blocks):
            last = len(self._snapshot().blocks) - 2
            told = f"expected 0 to {last}" if last >= 0 else "this run has no chain that models could be taken from"
            raise NotFoundError(f"found model {round_}, {told}")
        from bfl.dashboard.index.children import model_by_child

        return model_by_child(self._source.where, self._source.secrets, round_)
