"""What a node asks of a block before it takes it (P13): that the round in it follows from its own posts."""

from typing import Any

from chain.errors import ChainError, RoundRefusedError
from chain.protocol.posts import read_signed_call
from chain.protocol.round_check import ChainReader, RoundBody
from chain.protocol.turns import FOUNDING_BLOCK
from chain.wire.address import Address
from chain.wire.blocks import Block
from chain.wire.headers import Header
from edge_servers.errors import EdgeError, FederationError, ForeignCodeError, ReplayError
from edge_servers.founding.parameters import FoundingParameters, read_founding_parameters
from edge_servers.learning.aggregation import divergence
from edge_servers.replay.record import GradientReader, RoundRecord, model_in, parameters_in
from edge_servers.replay.replay import Before, Replayed, aggregates, replay_round

_KEPT = 2
"""Blocks of which is remembered what was worked out"""


class RoundChecker:
    """`check_round` of a node whose network is known: a block is good if its plan may be and its model follows from its
    own posts and what was before. Whatever was replayed once is not replayed again.
    """

    def __init__(self, reader: GradientReader) -> None:
        self.reader = reader
        self._replayed: dict[tuple[Any, ...], Replayed] = {}
        self._before: dict[bytes, Before] = {}

    @property
    def founding(self) -> FoundingParameters:
        """What was fixed at founding."""
        return self.reader.founding

    def __call__(self, body: RoundBody, chain: ChainReader) -> None:
        """Raise `RoundRefusedError` for a block that must not be mined or imported."""
        body.check_published()
        try:
            self.replayed(body, chain)
        except (EdgeError, ChainError) as error:
            raise RoundRefusedError(f"block {body.header.block_number}: {error}") from error

    def replayed(self, body: RoundBody, chain: ChainReader) -> Replayed:
        """The round of a block, derived again."""
        key = body.name
        if key not in self._replayed:
            record = RoundRecord.of_block(body.round, body.executed, body.source)
            before = self.before(body.parent, chain)
            while len(self._replayed) >= _KEPT:
                del self._replayed[next(iter(self._replayed))]
            self._replayed[key] = replay_round(record, before, self.reader)
        return self._replayed[key]

    def before(self, parent: Header, chain: ChainReader) -> Before:
        """What the round after the block `parent` starts from: model, divergence and exclusions."""
        if parent.hash not in self._before:
            while len(self._before) >= _KEPT:
                del self._before[next(iter(self._before))]
            self._before[parent.hash] = self._read_before(parent, chain)
        return self._before[parent.hash]

    def _read_before(self, parent: Header, chain: ChainReader) -> Before:
        block = chain.block(parent.hash)
        if block is None:
            raise ReplayError(f"the node has no block {parent.block_number}")
        model = model_in(block, self.founding, chain)
        if parent.block_number == FOUNDING_BLOCK:
            return Before(model, 0.0)
        return Before(model, self._divergence(block, chain), excluded_after(parent, self.founding, chain))

    def _divergence(self, block: Block, chain: ChainReader) -> float:
        body = body_of(block, chain)
        known = self._replayed.get(body.name)
        if known is not None:
            return divergence(known.iterates.first)
        return divergence(aggregates(RoundRecord.of_block(body.round, body.executed, chain), self.reader))


def excluded_after(parent: Header, founding: FoundingParameters, chain: ChainReader) -> tuple[Address, ...]:
    """Who may not post in the round after `parent`; flags of that round must not count yet."""
    servers = founding.network.servers
    is_ours = chain.header(parent.block_number) == parent  # the state of now says nothing about another branch
    if is_ours and not any(int(chain.ask("excluded_through", server)) for server in servers):
        return ()  # nobody ever was; the state of now is at hand
    through = {server: int(chain.ask("excluded_through", server, header=parent)) for server in servers}
    return tuple(sorted(server for server, last in through.items() if last >= parent.block_number))


class FoundedChecker:
    """`check_round` of a node that may know a network of ours or another one: the founding block tells which."""

    def __init__(self) -> None:
        self._known: dict[bytes, RoundChecker | None] = {}

    def __call__(self, body: RoundBody, chain: ChainReader) -> None:
        """Replay the round where the founding parameters say how; its builder's model is demanded in any case."""
        checker = self._checker(chain)
        if checker is None:
            body.check_published()
        else:
            checker(body, chain)

    def _checker(self, chain: ChainReader) -> RoundChecker | None:
        """By founding block, which a node that is yet to be founded may still change; None for a foreign network."""
        block = chain.block(FOUNDING_BLOCK)
        if block is None:
            return None
        if block.header.hash not in self._known:
            try:
                reader = GradientReader(read_founding_parameters(parameters_in(block, chain)))
                self._known[block.header.hash] = RoundChecker(reader)
            except FederationError:
                self._known[block.header.hash] = None
            except ForeignCodeError as error:
                raise RoundRefusedError(f"this node cannot replay rounds of its network: {error}") from error
        return self._known[block.header.hash]


def body_of(block: Block, chain: ChainReader) -> RoundBody:
    """A stored block as `check_round` sees one."""
    parent = chain.header(block.header.parent_hash)
    if parent is None:
        raise ReplayError(f"the node has no parent of block {block.header.block_number}")
    posts = tuple(read_signed_call(transaction, chain.genesis) for transaction in block.transactions)
    return RoundBody(block.header, parent, posts, tuple(receipt.status for receipt in block.receipts), chain)
