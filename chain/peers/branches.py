"""The blocks of a peer that are missing here, from a common ancestor on, forwards and a few at a time (Q6).

Backwards from its head a peer could lead us along any chain it makes up. Forwards every header follows one that this
node has: it is sealed, with the difficulty of the rule, and the first block that is wrong ends the walk.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator

from web3 import Web3

from chain.client.asking import read_bytes, request
from chain.errors import ChainError, InvalidBlockError, TimestampError, TransactionRefusedError, UnknownParentError
from chain.node.node import Node
from chain.protocol.consensus import check_header
from chain.wire.headers import Header

MOST_BLOCKS = 1024
"""Of one walk; the next poll goes on where it ended"""
_REMEMBERED, _FORGOTTEN_S = 1024, 600.0
_MAY_PASS = (TimestampError, UnknownParentError)


def missing_headers(node: Node, web3: Web3, head: Header) -> Iterator[Header]:
    """Headers of a peer's chain up to its head that this node does not have, each checked against the one before it.

    The one before must have become known here, or the next one is not asked for.
    """
    if node.header(head.hash) is not None:
        return
    before = _common_ancestor(node, web3, head)
    last = min(head.block_number, before.block_number + MOST_BLOCKS)
    for number in range(before.block_number + 1, last + 1):
        header = _numbered(web3, head, number)
        check_header(header, before, node.genesis)
        yield header
        if node.header(header.hash) is None:
            return
        before = header


def _common_ancestor(node: Node, web3: Web3, head: Header) -> Header:
    """The last block of a peer's chain that is known here: steps back that double, then halves in between."""
    number = unknown = min(head.block_number, node.head.block_number)
    step = 1
    while node.header((found := _numbered(web3, head, number)).hash) is None:
        if number == 0:
            raise UnknownParentError(
                f"the peer is of another network: found genesis 0x{found.hash.hex()}, "
                f"expected 0x{node.genesis.header.hash.hex()}; leave it out, or start from its genesis"
            )
        unknown, number, step = number, max(0, number - step), 2 * step
    while unknown - found.block_number > 1:
        middle = _numbered(web3, head, (found.block_number + unknown) // 2)
        if node.header(middle.hash) is None:
            unknown = middle.block_number
        else:
            found = middle
    return found


def _numbered(web3: Web3, head: Header, number: int) -> Header:
    """A header of the peer's chain by number."""
    if number == head.block_number:
        return head
    header = _header(web3, hex(number))
    if header.block_number != number:
        raise UnknownParentError(f"the peer answers with header {header.block_number}, expected {number}")
    return header


def _header(web3: Web3, which: str) -> Header:
    return Header.from_bytes(read_bytes(request(web3, "bfl_getRawHeader", which)))


class Refusals:
    """Blocks of one peer that were refused: it is not asked for them at every poll. Forgotten after a while, because
    what refuses a block here may have been a mistake of ours.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._refused: OrderedDict[bytes, tuple[float, ChainError]] = OrderedDict()

    def check(self, block_hash: bytes) -> None:
        """Raise what was raised when this block came the last time."""
        until_s, error = self._refused.get(block_hash, (0.0, None))
        if error is not None and self._now() < until_s:
            raise type(error)(str(error))

    def note(self, block_hash: bytes, error: ChainError) -> None:
        """A block was refused; time and missing parents are no fault that stays."""
        if isinstance(error, InvalidBlockError | TransactionRefusedError) and not isinstance(error, _MAY_PASS):
            self._refused[block_hash] = (self._now() + _FORGOTTEN_S, error)
            if len(self._refused) > _REMEMBERED:
                self._refused.popitem(last=False)
