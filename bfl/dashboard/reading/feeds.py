"""Where a chain is read from: a database file beside its writer, or nodes over JSON-RPC. Both are believed nothing more
than what fits together.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from chain.audit.archive import DATABASE, Archive, FileArchive, RemoteArchive
from chain.client.asking import request, web3_over_http
from chain.client.tls import TlsClient, TlsFiles
from chain.errors import ChainError, StoreError
from chain.wire.headers import Header

NODE_TIMEOUT_S = 5.0


class Feed(Protocol):
    """A chain to follow."""

    archive: Archive

    def final(self) -> int:
        """Number of the last final block (Q1), as the source says."""

    def is_stale(self) -> bool:
        """Whether it must be opened anew."""

    def close(self) -> None:
        """Give back what is open."""


class FileFeed:
    """A chain.db; whoever writes it may go on."""

    def __init__(self, path: Path) -> None:
        self._file = path / DATABASE if path.is_dir() else path
        self._inode = self._inode_now()
        self._opened = FileArchive(self._file)
        self.archive: Archive = self._opened

    def final(self) -> int:
        """As its node has noted it."""
        store = self._opened.state
        last = store.endorsements.final_hash()
        header = None if last is None else store.find_header(last)
        return 1 if header is None else header.block_number

    def is_stale(self) -> bool:
        """Whether another file is there now, or none."""
        return self._inode_now() != self._inode

    def _inode_now(self) -> int:
        try:
            return self._file.stat().st_ino
        except OSError:
            return 0

    def close(self) -> None:
        """Close the file."""
        self._opened.close()


class NodeFeed:
    """A node of ours; its token stays in this process."""

    def __init__(self, url: str, token: str = "", tls: TlsFiles | None = None) -> None:
        client = None if tls is None else TlsClient(tls)
        self._web3 = web3_over_http(url, token, NODE_TIMEOUT_S, client)
        self.archive: Archive = RemoteArchive(self._web3)

    def final(self) -> int:
        """As it says."""
        try:
            raw = request(self._web3, "bfl_getRawHeader", "finalized")
            return Header.from_bytes(bytes.fromhex(str(raw).removeprefix("0x"))).block_number
        except ValueError as error:
            raise StoreError(f"found {raw!r:.80} as the last final header of a node") from error

    def is_stale(self) -> bool:
        """Requests need nothing that stays open."""
        return False

    def close(self) -> None:
        """Nothing is open."""


def first_that_answers(ways: Sequence[Callable[[], Feed]]) -> Feed:
    """The first of several nodes; the last one's error where none answers."""
    for open_feed in ways[:-1]:
        with suppress(ChainError):
            return open_feed()
    return ways[-1]()
