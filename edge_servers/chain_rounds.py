"""Rounds on a node: what it asks of a block before it takes it, how a block ends a round, where a chain stands."""

import logging
from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

from chain.consensus import read_post
from chain.errors import ChainError, RoundRefusedError
from chain.headers import Header
from chain.node import Node
from chain.rounds import RoundBody, check_published
from chain.store import Block
from chain.vm import call_registry
from clients.models import Vector
from edge_servers.aggregation import divergence
from edge_servers.articles import Articles, read_articles
from edge_servers.block_record import FOUNDING_BLOCK, model_in, parameters_in, record_of
from edge_servers.board import Clock
from edge_servers.errors import EdgeError, FederationError, ReplayError
from edge_servers.leader import Reign
from edge_servers.posts import Plan
from edge_servers.record import text
from edge_servers.replay import Before, Replayed, aggregates, replay_round
from edge_servers.seal import Seal
from edge_servers.standing import Standing

_LOG = logging.getLogger(__name__)
_POLL_S = 0.5


class RoundChecker:
    """`check_round` of a node (P13): a block is good if its plan may be and its model follows from its own posts and
    what was before. Whatever was replayed once is not replayed again.
    """

    _KEPT = 8

    def __init__(self, articles: Articles, before: Callable[[Header], Before]) -> None:
        self.articles = articles
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
            self._replayed[key] = replay_round(record, self._before(body.parent), self.articles)
            for old in list(self._replayed)[: -self._KEPT]:
                del self._replayed[old]
        return self._replayed[key]


def _name_of(body: RoundBody) -> tuple[Any, ...]:
    """A body: the same transactions may have other statuses at another time."""
    return (body.parent.hash, body.statuses, *(post.transaction.hash for post in body.posts))


class NodeHistory:
    """What a round on a node starts from: model, divergence and exclusions after a block. The last few are kept."""

    _KEPT = 4

    def __init__(self, articles: Articles) -> None:
        self._node: Node | None = None
        self._checker: RoundChecker | None = None
        self._articles = articles
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
        model = model_in(block, self._articles)
        if parent.block_number == FOUNDING_BLOCK:
            return Before(model, 0.0)
        return Before(model, self._divergence(block, self._node), self._excluded(parent, self._node))

    def _divergence(self, block: Block, node: Node) -> float:
        body = body_of(block, node)
        known = None if self._checker is None else self._checker.find(body)
        if known is not None:
            return divergence(known.iterates[0])
        record = record_of(block.header.block_number - FOUNDING_BLOCK, zip(body.posts, body.statuses, strict=True))
        return divergence(aggregates(record, self._articles))

    def _excluded(self, parent: Header, node: Node) -> tuple[str, ...]:
        """Who may not post in the round after `parent`; flags of that round must not count yet."""
        servers = {server: bytes.fromhex(server[2:]) for server in self._articles.network.servers}
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
        founding = None if self.node is None else self.node.block(FOUNDING_BLOCK)
        if self._checker is None and self._is_ours and founding is not None:
            try:
                articles = read_articles(parameters_in(founding))
            except FederationError:
                self._is_ours = False
                return None
            self._checker = RoundChecker(articles, history := NodeHistory(articles))
            if self.node is not None:
                history.follow(self.node, self._checker)
        return self._checker


class ChainSealer:
    """Ends a round with a block: the leader proposes, a device drawn by its hash rate mines it for real (C6).

    Simulated time passes as the plan says it should: a block's time is that of its parent plus the round's T_wall.
    """

    def __init__(self, node: Node, articles: Articles, clock: Clock) -> None:
        self._node, self._articles, self._clock = node, articles, clock
        self._last: Seal | None = None

    def seal(self, parent: bytes, leader: str, plan: Plan, models: Mapping[str, Vector]) -> None:
        """Propose what is pending as `leader`'s block, and have it mined."""
        head = self._node.head
        now = self._clock.now()
        due = max(head.timestamp + max(1, ceil(plan.latency_s.get("T_wall", 1.0))), ceil(now))
        self._clock.sleep(due - now)  # to a whole second: whoever resumes starts from the block's time
        try:
            self._node.propose(bytes.fromhex(leader[2:]))
        except ChainError as error:  # without a block the leader has failed, and the next in rank tries
            _LOG.warning("%s cannot propose a block: %s", self._articles.network.name(leader), error)
            return
        shares = {
            bytes.fromhex(device.address[2:]): rate
            for device, rate in zip(self._articles.network.devices, plan.hash_rate, strict=True)
        }
        self._node.seal_by_draw(shares, head.hash)

    def wait_for(self, round_: int, deadline_s: float) -> Seal | None:
        """The block of a round, waited for at most so long."""
        end = self._clock.now() + deadline_s
        while (seal := self.find(round_)) is None and self._clock.now() < end:
            self._clock.sleep(_POLL_S)
        return seal

    def find(self, round_: int) -> Seal | None:
        """The block of a round, if it is sealed."""
        head = self._node.head
        if head.block_number != round_ + FOUNDING_BLOCK:
            return None
        if self._last is None or self._last.block_hash != head.hash:
            self._last = seal_of(self._node, head, self._articles)
        return self._last


def seal_of(node: Node, header: Header, articles: Articles) -> Seal:
    """A block as the end of its round."""
    network = articles.network
    winner = network.find_device(text(header.winner or b""))
    if winner is None:
        raise ReplayError(f"block {header.block_number} is sealed by nobody of the founding")
    then = None if header.hash == node.head.hash else header  # the state of now is at hand
    asked = {server: node.ask("excluded_through", bytes.fromhex(server[2:]), header=then) for server in network.servers}
    excluded = {server: int(last) for server, last in asked.items() if last}
    return Seal(
        round=header.block_number - FOUNDING_BLOCK,
        block_hash=header.hash,
        leader=text(header.coinbase),
        winner=winner.index,
        time_s=header.timestamp,
        excluded=excluded,
        block_bytes=node.block_bytes(header.hash),
    )


def standing_of(node: Node, articles: Articles, checker: RoundChecker) -> Standing:
    """Where a chain stands after its head: what a server that starts or starts again goes on from."""
    head = node.head
    block = node.block(head.hash)
    if block is None:
        raise ReplayError(f"the node has no block {head.block_number}")
    model = model_in(block, articles)
    if head.block_number == FOUNDING_BLOCK:
        return Standing(0, model, head.hash)
    seal = seal_of(node, head, articles)
    measured = divergence(checker.replayed(body_of(block, node)).iterates[0])
    return Standing(seal.round, model, head.hash, seal.winner, reign_at(node, head), measured, seal.excluded_next)


def body_of(block: Block, node: Node) -> RoundBody:
    """A stored block as `check_round` sees one."""
    parent = node.header(block.header.parent_hash)
    if parent is None:
        raise ReplayError(f"the node has no parent of block {block.header.block_number}")
    posts = tuple(read_post(transaction, node.genesis) for transaction in block.transactions)
    return RoundBody(block.header, parent, posts, tuple(receipt.status for receipt in block.receipts))


def reign_at(node: Node, head: Header) -> Reign:
    """Who led last when `head` was the last block, and for how many rounds in a row."""
    terms, header = 0, head
    while header.block_number > FOUNDING_BLOCK and header.coinbase == head.coinbase:
        terms += 1
        parent = node.header(header.parent_hash)
        if parent is None:
            break
        header = parent
    return Reign(text(head.coinbase), terms) if terms else Reign()
