"""Rounds and blocks: what a node asks of a block before it takes it, how a block ends a round, where a chain stands."""

from collections.abc import Callable, Iterator, Mapping
from math import ceil

from eth_hash.auto import keccak

from chain import contract
from chain.consensus import Post as NodePost
from chain.consensus import read_post
from chain.contract import decode_call
from chain.errors import CodecError, RoundRefusedError
from chain.headers import Header
from chain.local_ledger import read_whole, slot_of
from chain.node import Node
from chain.posts import Post
from chain.rounds import RoundBody, check_published
from chain.store import Block
from clients.models import Vector
from edge_servers.aggregation import divergence
from edge_servers.articles import Articles
from edge_servers.board import Clock
from edge_servers.errors import EdgeError, ReplayError
from edge_servers.leader import Reign
from edge_servers.posts import Plan
from edge_servers.record import Accusation, RoundRecord, model_of, text
from edge_servers.replay import Replayed, replay_round
from edge_servers.seal import Seal
from edge_servers.standing import Standing

FOUNDING_BLOCK = 1
_POLL_S = 0.5


def record_of(round_: int, posts: Iterator[tuple[NodePost, int]]) -> RoundRecord:
    """A block's posts with their receipts' statuses as the record of its round; what was reverted says nothing."""
    whole: list[Post] = []
    accusations: list[Accusation] = []
    chunks: dict[bytes, list[bytes]] = {}
    for post, status in posts:
        call = post.call
        if status != 1 or call is None:
            continue
        if call.name == "chunk":
            chunks.setdefault(post.sender, []).append(bytes(call["data"]))
        elif slot_of(post) is not None:
            count = int(call["chunks"])
            joined = b"".join(chunks.get(post.sender, [])[-count:]) if count else None
            whole.append(read_whole(post, joined))
        elif call.name in ("flag", "flag_equivocation"):
            accusations.append(_accusation(post))
    return RoundRecord.of(round_, whole, accusations)


def _accusation(post: NodePost) -> Accusation:
    call = post.call
    if call is None:
        raise CodecError("found no call")
    offender = str(call["offender"]).lower()
    if call.name == "flag_equivocation":
        first, second = bytes(keccak(call["first"])), bytes(keccak(call["second"]))
        return Accusation(text(post.sender), offender, contract.EQUIVOCATION, first, second)
    return Accusation(
        text(post.sender), offender, int(call["slot"]), bytes(call["transaction_hash"]), bytes(call["expected"])
    )


class RoundChecker:
    """`check_round` of a node (P13): a block is good if its model follows from its own posts and the model before.

    Models by block hash are kept for the last few blocks; whatever was replayed once is not replayed again.
    """

    _KEPT = 8

    def __init__(self, articles: Articles, model_before: Callable[[Header], Vector]) -> None:
        self.articles = articles
        self._model_before = model_before
        self._replayed: dict[tuple[bytes, ...], Replayed] = {}

    def __call__(self, body: RoundBody) -> None:
        """Raise `RoundRefusedError` for a block that must not be mined or imported."""
        check_published(body)
        try:
            self.replayed(body)
        except EdgeError as error:
            raise RoundRefusedError(f"block {body.header.block_number}: {error}") from error

    def replayed(self, body: RoundBody) -> Replayed:
        """The round of a block, derived again."""
        key = (body.parent.hash, *(post.transaction.hash for post in body.posts))
        if key not in self._replayed:
            record = record_of(body.header.block_number - FOUNDING_BLOCK, zip(body.posts, body.statuses, strict=True))
            model = self._model_before(body.parent)
            self._replayed[key] = replay_round(record, model, self.articles, self.articles.network.servers)
            for old in list(self._replayed)[: -self._KEPT]:
                del self._replayed[old]
        return self._replayed[key]


def model_in(block: Block, articles: Articles) -> Vector:
    """The model that a block publishes; the founding block publishes model 0."""
    posts: list[bytes] = []
    for transaction, receipt in zip(block.transactions, block.receipts, strict=True):
        if receipt.status != 1 or not transaction.to:
            continue
        call = decode_call(transaction.data)
        if call.name == "chunk" and int(call["slot"]) == contract.MODEL:
            posts.append(bytes(call["data"]))
        elif call.name in ("model", "found"):
            count = int(call["chunks"])
            payload = b"".join(posts[-count:]) if count else bytes(call["payload"])
            return model_of(payload, articles)
    raise ReplayError(f"block {block.header.block_number} publishes no model")


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
        self._node.propose(bytes.fromhex(leader[2:]))
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
    excluded = tuple(sorted(who for who, last in (seal.excluded or {}).items() if last > seal.round))
    iterates = checker.replayed(_body_of(block, node)).iterates
    return Standing(seal.round, model, head.hash, seal.winner, _reign(node, head), divergence(iterates[0]), excluded)


def _body_of(block: Block, node: Node) -> RoundBody:
    parent = node.header(block.header.parent_hash)
    if parent is None:
        raise ReplayError(f"the node has no parent of block {block.header.block_number}")
    posts = tuple(read_post(transaction, node.genesis) for transaction in block.transactions)
    return RoundBody(block.header, parent, posts, tuple(receipt.status for receipt in block.receipts))


def _reign(node: Node, head: Header) -> Reign:
    """Who led last, and for how many rounds in a row."""
    terms, header = 0, head
    while header.block_number > FOUNDING_BLOCK and header.coinbase == head.coinbase:
        terms += 1
        parent = node.header(header.parent_hash)
        if parent is None:
            break
        header = parent
    return Reign(text(head.coinbase), terms)
