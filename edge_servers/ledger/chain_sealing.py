"""Ends rounds on a node: what a leader proposes, devices mine, and everybody reads back from the block."""

import logging
from collections.abc import Mapping
from math import ceil
from typing import Protocol

from chain.errors import ChainError
from chain.node.node import Node
from chain.protocol.round_check import ChainReader
from chain.protocol.turns import FOUNDING_BLOCK
from chain.wire.address import Address
from chain.wire.headers import Header
from chain.wire.plan import Plan
from clients.models import Vector
from edge_servers.errors import ReplayError
from edge_servers.founding.parameters import FoundingParameters
from edge_servers.founding.standing import Standing, Tenure
from edge_servers.learning.aggregation import divergence
from edge_servers.ledger.block_check import RoundChecker, body_of
from edge_servers.ledger.board import Clock
from edge_servers.ledger.sealing import Seal
from edge_servers.replay.record import model_in

_LOG = logging.getLogger(__name__)


class SealedChain(ChainReader, Protocol):
    """A chain whose blocks end rounds: of a node at hand, or of one in another process."""

    @property
    def final(self) -> Header:
        """The last block that a strict majority of the servers signed."""

    @property
    def head(self) -> Header:
        """The last sealed block."""

    def attempt_of(self, block_hash: bytes) -> int | None:
        """The attempt at its round that a block has the posts of."""

    def block_bytes(self, block_hash: bytes) -> int:
        """What a block takes."""


class BlockReader:
    """How rounds ended, as the final blocks of a chain say (D3.5)."""

    def __init__(self, chain: SealedChain, checker: RoundChecker) -> None:
        self._chain, self._checker, self._founding = chain, checker, checker.founding
        self._last: Seal | None = None
        self._standing: Standing | None = None

    def find(self, round_: int) -> Seal | None:
        """The block of a round, if it is final."""
        header = self._final(round_)
        if header is not None and (self._last is None or self._last.block_hash != header.hash):
            self._last = seal_of(self._chain, header, self._founding)
        return None if header is None else self._last

    def standing(self, round_: int) -> Standing | None:
        """Where a final block leaves everybody: model, leader, divergence and exclusions are what it says (D3.5)."""
        header = self._final(round_)
        if header is not None and (self._standing is None or self._standing.block_hash != header.hash):
            self._standing = standing_at(self._chain, header, self._checker)
        return None if header is None else self._standing

    def standing_after(self, header: Header) -> Standing:
        """Where a block leaves everybody."""
        return standing_at(self._chain, header, self._checker)

    def _final(self, round_: int) -> Header | None:
        number = round_ + FOUNDING_BLOCK
        return self._chain.header(number) if self._chain.final.block_number >= number else None


class ChainSealer(BlockReader):
    """Ends a round with a block: the leader proposes, a device drawn by its hash rate mines it for real (C6).

    Simulated time passes as the plan says it should: a block's time is that of its parent plus the round's T_wall.
    """

    def __init__(self, node: Node, checker: RoundChecker, clock: Clock) -> None:
        super().__init__(node, checker)
        self._node, self._clock = node, clock

    def seal(
        self, parent: bytes, leader: Address, plan: Plan, models: Mapping[Address, Vector], until_s: float
    ) -> None:
        """Propose what is pending as `leader`'s block, and have it mined."""
        head = self._node.head
        now = self._clock.now()
        due = max(head.timestamp + max(1, ceil(plan.latency_s.get("T_wall", 1.0))), ceil(now))
        self._clock.sleep(due - now)  # to a whole second: whoever resumes starts from the block's time
        try:
            self._node.propose(leader)
        except ChainError as error:  # without a block the attempt fails, and the next in rank tries
            _LOG.warning("%s cannot propose a block: %s", self._founding.network.name(leader), error)
            return
        self._node.seal_by_draw(self._miners(plan), head.hash)

    def _miners(self, plan: Plan) -> dict[bytes, float]:
        """Hash rates by address, of the devices that are there; of all where none is, because somebody has to mine."""
        network, conditions = self._founding.network, self._founding.settings.devices
        there = conditions.there(plan.round, len(network.devices))
        rates = zip(network.devices, plan.hash_rate, there, strict=True)
        return {device.address: rate for device, rate, is_there in rates if is_there or not any(there)}


def seal_of(node: SealedChain, header: Header, founding: FoundingParameters) -> Seal:
    """A block as the end of its round."""
    network = founding.network
    winner = network.find_device(header.winner)
    if winner is None:
        raise ReplayError(f"block {header.block_number} is sealed by nobody of the founding")
    then = None if header.hash == node.head.hash else header  # the state of now is at hand
    asked = {server: node.ask("excluded_through", server, header=then) for server in network.servers}
    return Seal(
        round=header.block_number - FOUNDING_BLOCK,
        block_hash=header.hash,
        leader=Address(header.coinbase),
        winner=winner.index,
        attempt=node.attempt_of(header.hash) or 0,
        time_s=header.timestamp,
        excluded={server: int(last) for server, last in asked.items() if last},
        block_bytes=node.block_bytes(header.hash),
    )


def standing_at(node: SealedChain, head: Header, checker: RoundChecker) -> Standing:
    """Where a network stands after a block: what a server goes on from, also one that starts again."""
    founding = checker.founding
    block = node.block(head.hash)
    if block is None:
        raise ReplayError(f"the node has no block {head.block_number}")
    model = model_in(block, founding, node)
    if head.block_number == FOUNDING_BLOCK:
        return Standing(0, model, head.hash)
    seal = seal_of(node, head, founding)
    replayed = checker.replayed(body_of(block, node), node)
    measured, tenure = divergence(replayed.iterates.first), tenure_at(node, head)
    return Standing(
        seal.round, model, head.hash, seal.winner, tenure, measured, seal.excluded_next, replayed.reputation
    )


def tenure_at(node: SealedChain, head: Header) -> Tenure:
    """Who led last when `head` was the last block, and for how many rounds in a row."""
    terms, header = 0, head
    while header.block_number > FOUNDING_BLOCK and header.coinbase == head.coinbase:
        terms += 1
        parent = node.header(header.parent_hash)
        if parent is None:
            break
        header = parent
    return Tenure(Address(head.coinbase), terms) if terms else Tenure()
