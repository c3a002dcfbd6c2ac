"""The chain of a run, to look at from Python; web3 and py-evm are not needed to see blocks."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfl.api.rich_html import as_html

if TYPE_CHECKING:
    from chain.audit.archive import Archive


class RunChain:
    """The chain in a run folder. It is opened for each look, so that a run may go on writing it."""

    def __init__(self, folder: Path, run: object = None) -> None:
        self._folder = folder
        self._run = run
        """Whose temporary folder goes when nobody has it any more"""

    @contextmanager
    def open(self) -> "Iterator[Archive]":
        """Everything that can be read: headers, blocks with transactions and receipts, payloads."""
        from chain.audit.archive import open_archive

        with closing(open_archive(self._folder)) as archive:
            yield archive

    @property
    def head(self) -> str:
        """Hash of the last sealed block, as metrics and summary have it."""
        with self.open() as archive:
            return archive.head().hash.hex()

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """One flat dict per block, the genesis first: for pandas."""
        from bfl.show.chain_tables import count_kinds

        with self.open() as archive:
            rows = []
            for number in range(archive.head().block_number + 1):
                block = archive.block(number)
                rows.append({
                    "number": number,
                    "round": number - 1 if number else None,
                    "hash": block.header.hash.hex(),
                    "timestamp": block.header.timestamp,
                    "difficulty": block.header.difficulty,
                    "gas_used": block.header.gas_used,
                    "transactions": len(block.transactions),
                    **{f"posts_{kind}": count for kind, count in count_kinds(block, archive.genesis).items()},
                })  # fmt: skip
        keys = dict.fromkeys(key for row in rows for key in row)
        return [{key: row.get(key, 0) for key in keys} for row in rows]

    def __repr__(self) -> str:
        with self.open() as archive:
            head = archive.head()
        return f"<chain of {head.block_number + 1} blocks, head 0x{head.hash.hex()[:16]}... in {self._folder}>"

    def _repr_html_(self) -> str:
        from bfl.show.chain_tables import chain_table

        with self.open() as archive:
            return as_html(chain_table(archive))
