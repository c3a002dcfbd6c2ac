"""Rounds on a node: what it asks of a block before it takes it, how a block ends a round, where a chain stands."""

import logging
from collections.abc import Callable
from typing import Any

from chain.errors import ChainError, RoundRefusedError
from chain.node.node import Node
from chain.node.vm import call_registry
from chain.protocol.consensus import read_signed_call
from chain.protocol.round_check import RoundBody, check_published
from chain.wire.blocks import Block
from chain.wire.headers import Header
from edge_servers.errors import EdgeError, FederationError, ReplayError
from edge_servers.founding.parameters import FoundingParameters, read_founding_parameters
from edge_servers.learning.aggregation import divergence
from edge_servers.replay.block_record import FOUNDING_BLOCK, model_in, parameters_in, record_of
from edge_servers.replay.replay import Before, Replayed, aggregates, replay_round

_LOG = logging.getLogger(__name__)


class RoundChecker:
    """`check_round` of a node (P13): a block is good if its plan may be and its model follows from its own posts and
    what was before. Whatever was replayed once is not replayed again.
    """

    _KEPT = 8

    def __init__(self, founding: FoundingParameters, before: Callable[[Header], Before]) -> None:
        self.founding = founding
        self._before = before
        self._replayed: dict[tuple[Any, ...], Replayed] = {}

    def __call__(self, body: RoundBody) -> None:
        """Raise `RoundRefusedError` for a block that must not be mined or imported."""
        check_published(body)
        try:
            self.replayed(body)
        except (EdgeError, ChainError) as error:
            raise RoundRefusedError(f"block {body.header.block_number}: {error}") from error

    def find(self, body: RoundBody) -> Replayed | None:
        """The round of a block, if it was replayed lately."""
        return self._replayed.get(_name_of(body))

    def replayed(self, body: RoundBody) -> Replayed:
        """The round of a block, derived again."""
        key = _name_of(body)
        if key not in self._replayed:
            record = record_of(body.header.block_number - FOUNDING_BLOCK, zip(body.posts, body.statuses, strict=True))
            self._replayed[key] = replay_round(record, self._before(body.parent), self.founding)
            for old in list(self._replayed)[: -self._KEPT]:
                del self._replayed[old]
        return self._replayed[key]


def _name_of(body: RoundBody) -> tuple[Any, ...]:
    """A body: the same transactions may have other statuses at another time."""
    return (body.parent.hash, body.statuses, *(post.transaction.hash for post in body.posts))


class NodeHistory:
    """What a round on a node starts from: model, divergence and exclusions after a block. The last few are kept."""

    _KEPT = 4

    def __init__(self, founding: FoundingParameters) -> None:
        self._node: Node | None = None
        self._checker: RoundChecker | None = None
        self._founding = founding
        self._found: dict[bytes, Before] = {}

    def follow(self, node: Node, checker: RoundChecker) -> None:
        """Read this node; what its checker has replayed need not be replayed again."""
        self._node, self._checker = node, checker

    def __call__(self, parent: Header) -> Before:
        """After the block `parent`."""
        if parent.hash not in self._found:
            self._found[parent.hash] = self._read(parent)
            for old in list(self._found)[: -self._KEPT]:
                del self._found[old]
        return self._found[parent.hash]

    def _read(self, parent: Header) -> Before:
        block = None if self._node is None else self._node.block(parent.hash)
        if block is None or self._node is None:
            raise ReplayError(f"the node has no block {parent.block_number}")
        model = model_in(block, self._founding)
        if parent.block_number == FOUNDING_BLOCK:
            return Before(model, 0.0)
        return Before(model, self._divergence(block, self._node), self._excluded(parent, self._node))

    def _divergence(self, block: Block, node: Node) -> float:
        body = body_of(block, node)
        known = None if self._checker is None else self._checker.find(body)
        if known is not None:
            return divergence(known.iterates[0])
        record = record_of(block.header.block_number - FOUNDING_BLOCK, zip(body.posts, body.statuses, strict=True))
        return divergence(aggregates(record, self._founding))

    def _excluded(self, parent: Header, node: Node) -> tuple[str, ...]:
        """Who may not post in the round after `parent`; flags of that round must not count yet."""
        servers = {server: bytes.fromhex(server[2:]) for server in self._founding.network.servers}
        is_ours = node.header(parent.block_number) == parent  # the state of now says nothing about another branch
        if is_ours and not any(int(node.ask("excluded_through", address)) for address in servers.values()):
            return ()  # nobody ever was; the state of now is at hand
        state = node.state(parent)
        through = {s: int(call_registry(state, node.genesis, "excluded_through", a)) for s, a in servers.items()}
        return tuple(sorted(server for server, last in through.items() if last >= parent.block_number))


class FoundedChecker:
    """`check_round` of a node that may know a network of ours or another one: it finds out from the founding block."""

    def __init__(self) -> None:
        self.node: Node | None = None
        self._checker: RoundChecker | None = None
        self._is_ours = True

    def __call__(self, body: RoundBody) -> None:
        """Replay the round where the founding parameters say how; its builder's model is demanded in any case."""
        checker = self._found()
        if checker is None:
            check_published(body)
        else:
            checker(body)

    def _found(self) -> RoundChecker | None:
        block = None if self.node is None else self.node.block(FOUNDING_BLOCK)
        if self._checker is None and self._is_ours and block is not None:
            try:
                founding = read_founding_parameters(parameters_in(block))
            except FederationError:
                self._is_ours = False
                return None
            self._checker = RoundChecker(founding, history := NodeHistory(founding))
            if self.node is not None:
                history.follow(self.node, self._checker)
        return self._checker


def body_of(block: Block, node: Node) -> RoundBody:
    """A stored block as `check_round` sees one."""
    parent = node.header(block.header.parent_hash)
    if parent is None:
        raise ReplayError(f"the node has no parent of block {block.header.block_number}")
    posts = tuple(read_signed_call(transaction, node.genesis) for transaction in block.transactions)
    return RoundBody(block.header, parent, posts, tuple(receipt.status for receipt in block.receipts))
