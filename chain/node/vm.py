"""The one place that executes: blocks and calls on py-evm's London state.

We use py-evm's STATE (accounts, storage, EVM, London's gas rules) and keep headers, bodies and receipts ourselves: its
chain database keeps stale transaction lookups after a reorganisation and whole blocks in caches.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from eth.abc import ComputationAPI
from eth.vm.execution_context import ExecutionContext
from eth.vm.forks.london.transactions import DynamicFeeTransaction, LondonTypedTransaction
from eth.vm.message import Message
from eth_utils import ValidationError

from chain.errors import GasError, NonceError, RevertedError, StateRootError
from chain.node.evm import ChainState, NodeDatabase
from chain.protocol import contract
from chain.protocol.contract import revert_reason
from chain.protocol.genesis import Genesis
from chain.store.store import Store
from chain.wire.address import Address
from chain.wire.headers import Header
from chain.wire.receipts import Log, Receipt
from chain.wire.transactions import Transaction

SYSTEM = Address("0xfffffffffffffffffffffffffffffffffffffffe")
_SYSTEM_GAS = 30_000_000


@dataclass(frozen=True)
class Outcome:
    """What executing one transaction did."""

    gas: int
    status: int
    logs: tuple[Log, ...]
    reason: str
    """Why the registry refused; empty on success."""

    def receipt(self, gas_before: int) -> Receipt:
        """Its receipt, after `gas_before` of the same block."""
        return Receipt(self.status, gas_before + self.gas, self.logs)


class _Readable:
    """A state that can be asked and called without changing it."""

    _state: ChainState

    def call(self, sender: bytes, to: bytes, data: bytes, gas: int) -> bytes:
        """What a call would return here; nothing is kept."""
        with ExitStack() as undo:
            self._undone_by(undo)
            computation = _message(self._state, sender, to, data, gas)
            output = bytes(computation.output)
            if computation.is_error:
                raise RevertedError(revert_reason(output) or f"the call fails: {computation.error}")
            return output

    def _undone_by(self, undo: ExitStack) -> Any:
        """Let `undo` put everything back to what it is now; returns py-evm's name of this moment."""
        snapshot, saw_block = self._state.snapshot(), self._state.saw_block

        def go_back() -> None:
            self._state.revert(snapshot)
            self._state.saw_block = saw_block

        undo.callback(go_back)
        return snapshot

    def nonce(self, address: bytes) -> int:
        """The nonce of the address' next transaction."""
        return int(self._state.get_nonce(address))

    def code(self, address: bytes) -> bytes:
        """The code of the contract at an address; empty where there is none."""
        return bytes(self._state.get_code(address))

    def storage(self, address: bytes, slot: int) -> int:
        """The word that a contract keeps at a slot of its storage."""
        return int(self._state.get_storage(address, slot))


class Execution(_Readable):
    """The state while one block is executed: the system call first (P12), then its transactions."""

    def __init__(self, store: Store, parent: Header, coinbase: bytes, timestamp: int, difficulty: int) -> None:
        self.parent, self.coinbase, self.timestamp, self.difficulty = parent, coinbase, timestamp, difficulty
        self._store, self._genesis = store, store.genesis
        context = _context(store, parent, parent.block_number + 1, coinbase, timestamp, difficulty)
        self._state = ChainState(NodeDatabase(store), context, parent.state_root)
        if self._state.get_code(self._genesis.registry):
            self._begin_block()
        self._state.saw_block = False

    def advance(self, timestamp: int) -> None:
        """Let time pass; what was executed stays, and may depend on the time it was executed at."""
        if timestamp > self.timestamp:
            self.timestamp = timestamp
            self._state.execution_context = _context(
                self._store, self.parent, self.parent.block_number + 1, self.coinbase, timestamp, self.difficulty
            )

    @property
    def depends_on_builder(self) -> bool:
        """Whether anything executed so far looked at the coinbase, the time or the difficulty."""
        return bool(self._state.saw_block)

    def _begin_block(self) -> None:
        winner = self.parent.winner or bytes(20)
        data = contract.encode_call("begin_block", winner, self.parent.coinbase, self.parent.hash)
        computation = _message(self._state, SYSTEM, self._genesis.registry, data, _SYSTEM_GAS)
        if computation.is_error:
            raise StateRootError(f"the registry refuses to begin a block: {revert_reason(computation.output)}")
        self._state.lock_changes()

    def apply(self, transaction: Transaction, sender: Address, gas_left: int) -> Outcome:
        """Execute a transaction; one the registry refuses still counts, with status 0."""
        self._state.lock_changes()  # py-evm's border between transactions
        return self._run(transaction, sender, gas_left)

    def _run(self, transaction: Transaction, sender: Address, gas_left: int) -> Outcome:
        if transaction.gas > gas_left:
            raise GasError(f"found a gas allowance of {transaction.gas}, the block has {gas_left} left")
        expected = self.nonce(sender)
        if transaction.nonce != expected:
            raise NonceError(f"found nonce {transaction.nonce} of {sender}, expected {expected}")
        try:
            computation = self._state.apply_transaction(signed_for_evm(transaction, sender))
        except ValidationError as error:  # nonce, value and fees are right: what is left is the gas
            raise GasError(f"found a gas allowance of {transaction.gas}, which does not even pay its bytes") from error
        return _outcome(transaction.gas, computation)

    def try_apply(
        self, transaction: Transaction, sender: Address, gas_left: int, then: Callable[[], None] = lambda: None
    ) -> Outcome:
        """As `apply`, but a transaction that the registry refuses, or else `then`, leaves no trace and raises."""
        self._state.lock_changes()
        with ExitStack() as undo:
            snapshot = self._undone_by(undo)
            outcome = self._run(transaction, sender, gas_left)
            if not outcome.status:
                raise RevertedError(outcome.reason or "the call fails without a reason; is its gas allowance enough?")
            then()
            undo.pop_all()
        self._state.commit(snapshot)
        return outcome

    def state_root(self) -> bytes:
        """Root of the state as it is now. Ends the execution: apply nothing afterwards."""
        return bytes(self._state.make_state_root())

    def persist(self) -> bytes:
        """Write the state's new nodes to the store; returns the root."""
        self._state.persist()
        return bytes(self._state.state_root)


class StateView(_Readable):
    """The state after a block."""

    def __init__(self, store: Store, header: Header) -> None:
        parent = store.find_header(header.parent_hash) or header
        context = _context(store, parent, header.block_number, header.coinbase, header.timestamp, header.difficulty)
        self._state = ChainState(NodeDatabase(store), context, header.state_root)


def _context(
    store: Store, parent: Header, number: int, coinbase: bytes, timestamp: int, difficulty: int
) -> ExecutionContext:
    return ExecutionContext(
        coinbase=coinbase,
        timestamp=timestamp,
        block_number=number,
        difficulty=difficulty,
        mix_hash=bytes(32),
        gas_limit=store.genesis.gas_limit,
        prev_hashes=_previous_hashes(store, parent),
        chain_id=store.genesis.chain_id,
        base_fee_per_gas=0,
        excess_blob_gas=None,
    )


def _previous_hashes(store: Store, parent: Header) -> Iterator[bytes]:
    header: Header | None = parent
    for _ in range(256):
        if header is None:
            return
        yield header.hash
        header = store.find_header(header.parent_hash)


def _outcome(allowance: int, computation: ComputationAPI) -> Outcome:
    refund = min(computation.get_gas_refund(), (allowance - computation.get_gas_remaining()) // 5)
    logs = tuple(
        Log(address, tuple(topic.to_bytes(32, "big") for topic in topics), data)
        for address, topics, data in computation.get_log_entries()
    )
    return Outcome(
        gas=allowance - computation.get_gas_remaining() - refund,
        status=0 if computation.is_error else 1,
        logs=logs,
        reason=revert_reason(computation.output) if computation.is_error else "",
    )


def _message(state: ChainState, sender: bytes, to: bytes, data: bytes, gas: int) -> ComputationAPI:
    message = Message(gas=gas, to=to, sender=sender, value=0, data=data, code=state.get_code(to))
    context = state.get_transaction_context_class()(gas_price=0, origin=sender)
    return state.computation_class.apply_message(state, message, context)


def call_registry(view: "Execution | StateView", genesis: Genesis, name: str, *arguments: Any) -> Any:
    """The answer of a view of the registry."""
    data = contract.encode_call(name, *arguments)
    output = view.call(bytes(20), genesis.registry, data, _SYSTEM_GAS)
    if not output:
        raise RevertedError(f"there is no registry at {genesis.registry}: the network is not founded yet")
    return contract.decode_result(name, output)


class _Signed(DynamicFeeTransaction):  # type: ignore[misc]
    """A transaction whose sender is recovered already."""

    known_sender: bytes = b""

    def get_sender(self) -> bytes:
        return self.known_sender


def signed_for_evm(transaction: Transaction, sender: bytes) -> LondonTypedTransaction:
    """Our transaction as py-evm's."""
    inner = _Signed(
        transaction.chain_id,
        transaction.nonce,
        transaction.max_priority_fee,
        transaction.max_fee,
        transaction.gas,
        transaction.to,
        transaction.value,
        transaction.data,
        (),
        transaction.parity,
        transaction.r,
        transaction.s,
    )
    inner.known_sender = sender
    return LondonTypedTransaction(2, inner)
