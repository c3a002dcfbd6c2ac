"""What a device brings to a chain: its key, and the last final block it knows. It trains on nothing unproven (Q2)."""

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from eth_account.signers.local import LocalAccount

from chain.errors import ChainError
from chain.protocol.genesis import Genesis
from chain.protocol.proof import ModelProof, ProvenModel, check_model
from chain.protocol.turns import FOUNDING_BLOCK
from chain.wire.codec import PayloadKind, encode_floats
from chain.wire.sidecar import payload_digest
from clients.errors import OrderError
from clients.orders import LedgerTerms, Order


class FinalBlock(NamedTuple):
    """A block that a strict majority of the servers signed."""

    number: int
    hash: bytes


@dataclass(frozen=True, eq=False)  # itself a key of the cache below
class KnownChain:
    """What a device knows of its network without asking: the rules, the servers, the founding block and its model."""

    genesis: Genesis
    servers: frozenset[bytes]
    """Of the founding; whoever joins later is proven by them."""
    founding_hash: bytes
    model_digest: str
    """sha256 of model 0's values."""
    sizes: tuple[int, ...]
    """Of the model's tensors."""


class Wallet:
    """A device's key and what it trusts. It lives across rounds, and goes forward only."""

    def __init__(self, account: LocalAccount, chain: KnownChain, known: FinalBlock | None = None) -> None:
        """`known`: a block later than the founding that is known to be final."""
        self.account, self.chain = account, chain
        self.known = known or FinalBlock(FOUNDING_BLOCK, chain.founding_hash)
        self._servers = chain.servers  # with those that are known to have joined
        self._signed: tuple[int, object, tuple[bytes, bytes]] = (0, None, (b"", b""))

    def check(self, order: Order) -> None:
        """Raise `OrderError` unless the order is for this chain and its model in a block that is final (Q2)."""
        if order.ledger is not None:
            _check_terms(order.ledger, self.chain.genesis)
        if order.round < self.known.number:  # the model of block k is that of round k - 1
            raise OrderError(f"order: found round {order.round}, block {self.known.number} is final already")
        if order.round == 1:
            if order.model_digest != self.chain.model_digest:
                raise OrderError(f"order: found model 0 {order.model_digest[:12]}, the founding block has another")
            return
        proven = proven_model(order.proof, self.chain)
        if proven.round != order.round - 1:
            raise OrderError(f"order: found a proof of model {proven.round}, expected {order.round - 1}")
        if proven.block.number == self.known.number and proven.block != self.known:
            raise OrderError(
                f"order: two final blocks {self.known.number}: 0x{self.known.hash.hex()} is known, "
                f"found 0x{proven.block.hash.hex()}: servers have signed twice"
            )
        if not self._servers <= proven.servers:
            raise OrderError(f"order: the proof leaves out {len(self._servers - proven.servers)} servers that joined")
        if proven.digest != _posted_digest(order.model.astype("<f4").tobytes(), self.chain.sizes):
            raise OrderError("order: the model is not the one that is proven")
        if order.ledger is not None and order.ledger.base_model != proven.digest.hex():
            raise OrderError(f"order: found base model {order.ledger.base_model:.12}, expected the one that is proven")
        self.known, self._servers = proven.block, proven.servers

    def signed_once(self, round_: int, says: object, sign: Callable[[], tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
        """What `sign` makes, transaction and payload, once per round: two different posts for one slot would be this
        device's crime (P15).
        """
        last, said, transaction = self._signed
        if round_ < last or (round_ == last and says != said):
            raise OrderError(f"order: this device has signed another gradient for round {last} already")
        if round_ > last:
            transaction = sign()
            self._signed = (round_, says, transaction)
        return transaction


def _check_terms(terms: LedgerTerms, genesis: Genesis) -> None:
    """A key signs for its own network alone: elsewhere the same bytes could mean anything."""
    found, own = (terms.chain_id, terms.registry), (genesis.chain_id, genesis.registry.hex())
    if found != own:
        raise OrderError(f"order: found chain {found[0]} and registry {found[1]:.40}, expected {own[0]} and {own[1]}")


@dataclass(frozen=True)
class ProvenHead:
    """What a proof proves, as a device needs it."""

    round: int
    digest: bytes
    """The model's name on the ledger."""
    block: FinalBlock
    servers: frozenset[bytes]
    """Whose signatures counted."""


@functools.lru_cache(maxsize=8)
def _posted_digest(values: bytes, sizes: tuple[int, ...]) -> bytes:
    """The digest that a model has on the ledger, from its values (B8)."""
    try:
        return payload_digest(encode_floats(np.frombuffer(values, "<f4"), sizes, "fp32", PayloadKind.MODEL))
    except ChainError as error:
        raise OrderError(f"order: the model cannot be posted: {error}") from error


def proven_model(proof: bytes, chain: KnownChain) -> ProvenHead:
    """Check a proof; `OrderError` says what is wrong. A process that is many devices checks the same bytes once."""
    try:
        return _proven_model(proof, chain)
    except (ChainError, ValueError, RecursionError) as error:
        raise OrderError(f"order: the model is not proven: {error}") from error


@functools.lru_cache(maxsize=8)
def _proven_model(proof: bytes, chain: KnownChain) -> ProvenHead:
    given = ModelProof.from_json(json.loads(proof), chain.genesis)
    found: ProvenModel = check_model(given, chain.genesis, chain.servers)
    block = FinalBlock(found.header.block_number, found.header.hash)
    return ProvenHead(found.round, found.digest, block, found.servers)
