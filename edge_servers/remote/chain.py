"""The chain of a node in another process, as replay and sealing read it: blocks, headers, payloads, registry views.

What has a hash has one content, and is asked for once.
"""

from collections import OrderedDict
from typing import Any

from web3 import Web3

from chain.client.asking import read_bytes
from chain.client.connection import Connection
from chain.protocol.genesis import Genesis, read_genesis
from chain.wire.blocks import Block, decode_block
from chain.wire.headers import Header
from chain.wire.receipts import unpack_receipts

_KEPT = 8


class RemoteChain:
    """Implements `edge_servers.ledger.chain_sealing.SealedChain` over JSON-RPC."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.genesis: Genesis = read_genesis(connection.request("bfl_genesis"))
        self._blocks: OrderedDict[bytes, tuple[Block, int]] = OrderedDict()

    @property
    def head(self) -> Header:
        """Of the last sealed block."""
        return self._header("latest")

    @property
    def final(self) -> Header:
        """Of the last final block."""
        return self._header("finalized")

    def _header(self, which: str) -> Header:
        return Header.from_bytes(self._connection.request_bytes("bfl_getRawHeader", which))

    def header(self, which: int | bytes) -> Header | None:
        """A canonical header by number, or any header by hash."""
        if isinstance(which, bytes) and which in self._blocks:
            return self._blocks[which][0].header
        found = self._connection.request("bfl_getRawHeader", _name(which))
        return None if found is None else Header.from_bytes(read_bytes(found))

    def block(self, which: int | bytes) -> Block | None:
        """A canonical block by number, or any block by hash."""
        found = self._read_block(which)
        return None if found is None else found[0]

    def block_bytes(self, block_hash: bytes) -> int:
        """What a block takes, without the payloads beside it."""
        found = self._read_block(block_hash)
        return 0 if found is None else found[1]

    def _read_block(self, which: int | bytes) -> tuple[Block, int] | None:
        header = self.header(which)
        if header is None:
            return None
        if header.hash not in self._blocks:
            ask, name = self._connection.request, _name(header.hash)
            raw, receipts = ask("bfl_getRawBlock", name), ask("bfl_getRawReceipts", name)
            if raw is None or receipts is None:
                return None
            encoded = read_bytes(raw)
            opened, transactions = decode_block(encoded)
            self._blocks[header.hash] = (
                Block(opened, transactions, unpack_receipts(read_bytes(receipts)), 0),
                len(encoded),
            )
            while len(self._blocks) > _KEPT:
                self._blocks.popitem(last=False)
        return self._blocks[header.hash]

    def ask(self, name: str, *arguments: Any, header: Header | None = None) -> Any:
        """The answer of a view of the registry, after `header` or (None) in the pending state."""
        block = None if header is None else header.block_number
        return self._connection.ask(name, *arguments, block=block)

    def attempt_of(self, block_hash: bytes) -> int | None:
        """The attempt at its round that a block has the posts of."""
        return self._connection.attempt_of(block_hash)

    def payload(self, digest: bytes) -> bytes | None:
        """The payload with this digest, if the node has it."""
        return self._connection.payload(digest)

    def has_payload(self, digest: bytes) -> bool:
        """Whether the node has a payload."""
        return self._connection.has_payload(digest)


def _name(which: int | bytes) -> str:
    return hex(which) if isinstance(which, int) else str(Web3.to_hex(which))
