"""The ledger of a node in another process. Posts of the running round are fetched once, by the hash of their
transaction: a server reads them again and again while it waits.
"""

import itertools
from collections.abc import Sequence
from typing import Any

from eth_account.signers.local import LocalAccount

from chain.client.asking import read_bytes
from chain.client.connection import Connection
from chain.client.ledger import Ledger
from chain.client.network_reader import PoolReader
from chain.errors import ChainError
from chain.protocol.genesis import Genesis
from chain.protocol.posts import Post, read_signed_call
from chain.signer.memory import SignedMemory
from chain.wire.transactions import decode_transaction

_TOGETHER = 50
"""Posts that are asked for in one request"""


class RemoteLedger(PoolReader, Ledger):
    """A `Ledger` over JSON-RPC that reads the pool of a node of ours."""

    def __init__(
        self,
        connection: Connection,
        genesis: Genesis,
        account: LocalAccount | None = None,
        memory: SignedMemory | None = None,
        known: dict[bytes, Post | None] | None = None,
    ) -> None:
        super().__init__(connection, account, memory=memory)
        self._connection, self._genesis = connection, genesis
        self._known: dict[bytes, Post | None] = {} if known is None else known

    def signed_by(self, account: LocalAccount, memory: SignedMemory | None = None) -> "RemoteLedger":
        """The same ledger, written by somebody else."""
        return RemoteLedger(self._connection, self._genesis, account, memory, self._known)

    def _pending(self) -> list[Post]:
        hashes = [read_bytes(each) for each in self._connection.request("bfl_pendingTransactions")]
        self._read([each for each in hashes if each not in self._known])
        for gone in self._known.keys() - set(hashes):
            del self._known[gone]
        posts = [self._known.get(each) for each in hashes]
        return [post for post in posts if post is not None]

    def _read(self, hashes: Sequence[bytes]) -> None:
        """Many in one request; those that are too much for one answer, in the next."""
        left = list(hashes)
        while left:
            asked = [("bfl_getPending", "0x" + each.hex()) for each in left[:_TOGETHER]]
            answers = self._connection.request_all(asked)
            if isinstance(answers[0], ChainError):
                raise answers[0]
            read = list(itertools.takewhile(lambda found: not isinstance(found, ChainError), answers))
            for transaction_hash, found in zip(left, read, strict=False):
                if found is not None:  # else it has just left the pool
                    self._keep(transaction_hash, found)
            left = left[len(read) :]

    def _keep(self, transaction_hash: bytes, found: Any) -> None:
        post = read_signed_call(decode_transaction(read_bytes(found["raw"])), self._genesis).post
        self._known[transaction_hash] = None if post is None else post.beside(self._connection)
        for payload in found["sidecars"]:
            self._connection.take_payload(read_bytes(payload))
