"""What a visitor may ask of a node with a block that is none (Q6): bytes, items, seal and place come first."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from chain.client.keys import address_of
from chain.errors import (
    ChainError,
    InvalidSealError,
    MalformedBlockError,
    MalformedTransactionError,
    TimestampError,
    UnknownParentError,
)
from chain.node import node as node_module
from chain.node.node import Node
from chain.node.pool import MAX_POOL_TRANSACTIONS
from chain.wire.blocks import MAX_BLOCK_BYTES, MAX_BLOCK_TRANSACTIONS, decode_block, encode_block
from chain.wire.headers import Header
from tests.chain.headers_made import sealed, unsealed
from tests.chain.network import START, Network, founded_node, genesis
from tests.chain.rlp_made import listed

AT_ONCE_S = 1.0
BOMB = b"\x01" * (4 << 20)
DIFFICULTY = 50


@pytest.fixture(scope="module")
def node() -> Node:
    """Of tests that change nothing."""
    return founded_node(Network(), rules=genesis(difficulty=DIFFICULTY))


@pytest.fixture(scope="module")
def header(node: Node) -> Header:
    """Of a block that would follow: lawful as far as a header tells."""
    network = Network()
    leader = network.post_round(node)
    node.propose(address_of(leader))
    return sealed(node.work(address_of(network.devices[0])))


def block_of(header: Header, body: bytes) -> bytes:
    return listed(header.to_bytes() + body + b"\xc0")


def refused_at_once(node: Node, raw: bytes, error: type[ChainError], message: str) -> None:
    before_s = time.process_time()
    with pytest.raises(error, match=message):
        node.import_block(raw)
    assert time.process_time() - before_s < AT_ONCE_S


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda _: listed(BOMB), "found more than 4 items"),
        (lambda _: BOMB, "found no RLP list"),
        (lambda of: block_of(of, listed(BOMB)), f"found more than {MAX_BLOCK_TRANSACTIONS} items"),
        (lambda of: block_of(of, listed(b"\xc0" * (4 << 20))), "no list of EIP-1559 transactions"),
        (lambda of: listed(listed(BOMB) + b"\xc0\xc0"), "found no header"),
        (lambda of: bytes(MAX_BLOCK_BYTES + 1), f"expected at most {MAX_BLOCK_BYTES}"),
    ],
    ids=["items", "no list", "transactions", "lists as transactions", "fields", "bytes"],
)
def test_megabytes_of_items_are_refused_at_once(
    node: Node, header: Header, make: Callable[[Header], bytes], message: str
) -> None:
    refused_at_once(node, make(header), MalformedBlockError, message)


def test_an_access_list_of_megabytes_is_refused_at_once(node: Node, header: Header) -> None:
    fields = b"\x80" * 8 + listed(BOMB) + b"\x80" * 3
    transaction = b"\x02" + listed(fields)
    size = len(transaction).to_bytes(3, "big")
    raw = block_of(header, listed(bytes([0xB7 + 3]) + size + transaction))
    refused_at_once(node, raw, MalformedTransactionError, "found more than 64 items")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (unsealed, InvalidSealError),
        (lambda of: sealed(replace(of, parent_hash=b"\7" * 32)), UnknownParentError),
        (lambda of: sealed(replace(of, block_number=7)), UnknownParentError),
        (lambda of: sealed(replace(of, timestamp=START + 10**6)), TimestampError),
    ],
    ids=["seal", "parent", "number", "time"],
)
def test_a_header_is_judged_before_a_transaction_is_decoded(
    node: Node,
    header: Header,
    change: Callable[[Header], Header],
    error: type[ChainError],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(node_module, "decode_transactions", None)
    with pytest.raises(error):
        node.import_block(block_of(change(header), listed(BOMB)))


def test_who_has_not_worked_is_refused_while_the_node_is_busy(node: Node, header: Header) -> None:
    """The lock is not even asked for."""
    refusals: list[ChainError] = []

    def visit() -> None:
        for raw in (listed(BOMB), encode_block(unsealed(header), ())):
            try:
                node.import_block(raw)
            except ChainError as error:
                refusals.append(error)

    visitor = threading.Thread(target=visit)
    with node._lock:
        visitor.start()
        visitor.join(20)
        assert [type(each) for each in refusals] == [MalformedBlockError, InvalidSealError]


def test_a_block_takes_what_a_pool_holds() -> None:
    assert MAX_POOL_TRANSACTIONS <= MAX_BLOCK_TRANSACTIONS
    header = Header.from_bytes(genesis().header.to_bytes())
    most, more = (block_of(header, listed(b"\x01" * count)) for count in (4096, 4097))
    with pytest.raises(MalformedTransactionError):
        decode_block(most)
    with pytest.raises(MalformedBlockError, match="found more than 4096 items"):
        decode_block(more)
