"""What a device brings to a chain: its key, and the last final block it knows. It trains on nothing unproven (Q2)."""

import functools
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from eth_account.signers.local import LocalAccount

from chain.client.keys import address_of
from chain.errors import ChainError
from chain.protocol.genesis import Genesis
from chain.protocol.proof import ModelProof, ProvenModel, check_model
from chain.protocol.turns import FOUNDING_BLOCK
from chain.wire.codec import PayloadKind, encode_floats
from chain.wire.sidecar import payload_digest
from clients.errors import OrderError
from clients.founded_work import FoundedWork
from clients.order_check import SignedPlan, check_order, order_digest, read_signed_plan, work_digest
from clients.orders import LedgerTerms, Order
from clients.parameters import DeviceParams
from clients.remembered import Remembered
from clients.wallet_memory import Start, WalletMemory

if TYPE_CHECKING:
    from clients.training import LocalUpdate


class FinalBlock(NamedTuple):
    """A block that a strict majority of the servers signed."""

    number: int
    hash: bytes

    @classmethod
    def of_round(cls, round_: int, block_hash: bytes) -> "FinalBlock":
        """Round k is block k + 1 (P1)."""
        return cls(round_ + FOUNDING_BLOCK, block_hash)

    @property
    def round(self) -> int:
        """Whose model is in it."""
        return self.number - FOUNDING_BLOCK


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
    work: FoundedWork
    """What devices do, and nothing else (Q5)."""
    server_keys: tuple[bytes, ...] = ()
    """Public keys by number, to which data are sealed (D7); empty where all servers are of one process."""


def _ignore(_: SignedPlan) -> None:
    """A plan that means nothing beyond its orders."""


class Wallet:
    """A device's key and what it trusts. It lives across rounds, and goes forward only."""

    def __init__(
        self,
        account: LocalAccount,
        chain: KnownChain,
        known: FinalBlock | None = None,
        memory: Path | None = None,
        answers_per_round: int = DeviceParams.answers_per_round,
        lost: Start | None = None,
        on_plan: Callable[[SignedPlan], None] = _ignore,
    ) -> None:
        """`known`: a block later than the founding that is known to be final. `memory`: the file that keeps what this
        device knows and what it answered over a restart; without one it forgets with its process. `lost`: its memory
        was lost before this start: it signs nothing until a round whose parent was sealed later (D5). `on_plan` hears
        the plan of each order that is accepted.
        """
        self._lost, self._on_plan = lost, on_plan
        self.account, self.chain, self._most_answers = account, chain, answers_per_round
        known = known or FinalBlock(FOUNDING_BLOCK, chain.founding_hash)
        fresh = Remembered(chain.founding_hash.hex(), str(address_of(account)), known.hash.hex(), known.round)
        self._memory = WalletMemory(fresh, memory)
        remembered = FinalBlock.of_round(self._memory.now.proven_round, bytes.fromhex(self._memory.now.proven_hash))
        self.known = max(known, remembered, key=lambda block: block.number)
        self._servers = chain.servers | {bytes.fromhex(each) for each in self._memory.now.joined}
        self._signed: dict[tuple[int, int], tuple[object, tuple[bytes, bytes]]] = {}
        self._computed: tuple[int, str, LocalUpdate] | None = None

    def accept(self, order: Order) -> None:
        """Raise `OrderError` unless this device owes the order an answer (Q5); from here on it is counted as given.

        That is: a server's signed plan says it, the founding allows it, its model is proven, and there was no other.
        """
        if order.ledger is None or not order.plan_post:
            raise OrderError("order: found no ledger terms with a signed plan; this device answers for its chain alone")
        signed = signed_plan(order.plan_post, order.plan_payload, self.chain)
        check_order(order, signed, self.chain.work)
        self.check(order)
        if order.round == 1:  # of a later one the proof says it
            self._check_first_model(order, order.ledger)
        attempt, digest, work, most = order.ledger.attempt, order_digest(order), work_digest(order), self._most_answers

        def answer(known: Remembered) -> Remembered:
            joined = (each.hex() for each in self._servers - self.chain.servers)
            answered = known.answering(order.round, attempt, digest, work, most)
            return answered.knowing(self.known.round, self.known.hash.hex(), joined)

        self._memory.change(answer)
        if self._computed is not None and self._computed[0] < order.round:
            self._computed = None  # before this round's is computed: a process may be a thousand devices
        self._on_plan(signed)

    def check(self, order: Order) -> None:
        """Raise `OrderError` unless the order is for this chain and its model in a block that is final (Q2)."""
        if order.ledger is not None:
            _check_terms(order.ledger, self.chain.genesis)
        if order.round < self.known.number:  # the model of block k is that of round k - 1
            raise OrderError(f"order: found round {order.round}, block {self.known.number} is final already")
        if order.round == 1:
            self._check_awake(0)
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
        self._check_awake(proven.sealed_s)
        self.known, self._servers = proven.block, proven.servers

    def _check_awake(self, sealed_s: int) -> None:
        """Raise `OrderError` while it may have signed in the order's round before its memory was lost."""
        if self._lost is not None and not self._lost.is_before(sealed_s):
            raise OrderError("order: this device has lost its memory, and waits for a round that begins from now on")
        self._lost = None

    def begin_memory(self) -> None:
        """Write its memory now: from here on a missing file means that it was lost. One that was lost is not written
        before it wakes, or the next start would take it for whole.
        """
        if self._lost is None:
            self._memory.write()

    def _check_first_model(self, order: Order, terms: LedgerTerms) -> None:
        posted = _posted_digest(order.model.astype("<f4").tobytes(), self.chain.sizes).hex()
        if terms.base_model != posted:
            raise OrderError(
                f"order: found base model {terms.base_model:.12}, expected the founding block's {posted:.12}"
            )

    def computed(self, order: Order) -> "LocalUpdate | None":
        """The update that an earlier attempt of the round has made it compute; None where it has to train (D3.1)."""
        if self._computed is None or self._computed[:2] != (order.round, work_digest(order)):
            return None
        return self._computed[2]

    def keep(self, order: Order, update: "LocalUpdate") -> None:
        """Keep what was computed for an order until the next round; with the process it is gone."""
        if self._computed is None or self._computed[0] <= order.round:
            self._computed = (order.round, work_digest(order), update)

    def give_data(self, order: Order) -> bool:
        """Whether the data of the order's round may go where it says; if so, they count as gone from here on.

        They go to one server, and to none once a gradient is signed: whoever asks at a later attempt gets a gradient.
        """
        self._memory.change(lambda known: known.giving(order.round, order.offload_to))
        return self._memory.now.has_given(order.round, order.offload_to)

    def signed_once(
        self, round_: int, attempt: int, says: object, sign: Callable[[], tuple[bytes, bytes]]
    ) -> tuple[bytes, bytes]:
        """What `sign` makes, transaction and payload, once per attempt: two different posts for one slot would be this
        device's crime (P15).
        """
        slot = round_, attempt
        if slot in self._signed:
            said, signed = self._signed[slot]
            if says != said:
                raise OrderError(
                    f"order: this device has signed another gradient for round {round_}, attempt {attempt} already"
                )
            return signed
        signed = sign()
        digest = hashlib.sha256(signed[0]).hexdigest()
        self._memory.change(lambda known: known.signing(round_, attempt, digest))  # before anybody sees it
        self._signed = {each: what for each, what in self._signed.items() if each[0] == round_}
        self._signed[slot] = says, signed
        return signed


def _check_terms(terms: LedgerTerms, genesis: Genesis) -> None:
    """A key signs for its own network alone: elsewhere the same bytes could mean anything."""
    found, own = (terms.chain_id, terms.registry), (genesis.chain_id, genesis.registry.hex())
    if found != own:
        raise OrderError(f"order: found chain {found[0]} and registry {found[1]:.40}, expected {own[0]} and {own[1]}")


def signed_plan(post: bytes, payload: bytes, chain: KnownChain) -> SignedPlan:
    """The plan that an order carries; `OrderError` says what is wrong. Many devices of a process read it once."""
    try:
        return _signed_plan(post, payload, chain)
    except ChainError as error:
        raise OrderError(f"order: its plan is none of this network: {error}") from error


@functools.lru_cache(maxsize=8)
def _signed_plan(post: bytes, payload: bytes, chain: KnownChain) -> SignedPlan:
    return read_signed_plan(post, payload, chain.genesis, chain.servers, chain.work)


@dataclass(frozen=True)
class ProvenHead:
    """What a proof proves, as a device needs it."""

    round: int
    digest: bytes
    """The model's name on the ledger."""
    block: FinalBlock
    sealed_s: int
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
    return ProvenHead(found.round, found.digest, block, int(found.header.timestamp), found.servers)
