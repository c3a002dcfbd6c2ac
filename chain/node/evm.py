"""py-evm fitted to our chain: its state on our store, our transactions as its own, a watch on what code reads."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from eth.abc import ComputationAPI, MessageAPI, SignedTransactionAPI, StateAPI, TransactionContextAPI
from eth.db.atomic import AtomicDBWriteBatch
from eth.db.backends.base import BaseAtomicDB
from eth.vm.forks.london.computation import LondonComputation
from eth.vm.forks.london.state import LondonState, LondonTransactionExecutor
from eth.vm.interrupt import EVMMissingData
from eth.vm.message import Message
from trie.exceptions import MissingTrieNode

from chain import limit_recursion
from chain.node.interpreter import run_code
from chain.store.store import Store

limit_recursion()
# Its errors print whole batches: megabytes of payload.
logging.getLogger("eth.db.AtomicDBWriteBatch").setLevel(logging.CRITICAL + 1)
_COINBASE, _TIMESTAMP, _DIFFICULTY = 0x41, 0x42, 0x44
MISSING_STATE = (EVMMissingData, MissingTrieNode)
"""What is raised where a state lacks a node that is needed"""


class NodeDatabase(BaseAtomicDB):  # type: ignore[misc]
    """The store's state nodes as py-evm's key-value database."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getitem__(self, key: bytes) -> bytes:
        value = self._store.node(key)
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self._store.put_nodes([(key, value)])

    def __delitem__(self, key: bytes) -> None:
        """State nodes stay: older blocks need them."""

    def _exists(self, key: bytes) -> bool:
        return self._store.node(key) is not None

    @contextmanager
    def atomic_batch(self) -> Iterator[AtomicDBWriteBatch]:
        """py-evm's batches are part of the block's one transaction."""
        with self._store.transaction(), AtomicDBWriteBatch._commit_unless_raises(self) as batch:
            yield batch


class _Computation(LondonComputation):  # type: ignore[misc]
    """Notes when a contract looks at what the builder of a block may still change, and runs the registry's code in the
    quick loop.
    """

    @classmethod
    def apply_computation(
        cls,
        state: StateAPI,
        message: MessageAPI,
        transaction_context: TransactionContextAPI,
        parent_computation: ComputationAPI | None = None,
    ) -> ComputationAPI:
        """As py-evm's own; plain calls of a contract in the quick loop."""
        if not message.code or message.is_create or message.code_address in cls._precompiles:
            return super().apply_computation(state, message, transaction_context, parent_computation)
        with cls(state, message, transaction_context) as computation:
            computation.contracts_created = [] if parent_computation is None else parent_computation.contracts_created
            run_code(computation)
        return computation


def _watch(opcode: Any) -> Any:
    def look(computation: ComputationAPI) -> None:
        computation.state.saw_block = True
        opcode(computation=computation)

    look.mnemonic = opcode.mnemonic  # type: ignore[attr-defined]
    look.gas_cost = opcode.gas_cost  # type: ignore[attr-defined]
    return look


_Computation.opcodes = LondonComputation.opcodes | {
    code: _watch(LondonComputation.opcodes[code]) for code in (_COINBASE, _TIMESTAMP, _DIFFICULTY)
}


class _Executor(LondonTransactionExecutor):  # type: ignore[misc]
    """London's executor without its debug line, which hashes all calldata even when nobody logs."""

    def build_evm_message(self, transaction: SignedTransactionAPI) -> MessageAPI:
        if not transaction.to:  # a contract's creation: rare
            return super().build_evm_message(transaction)
        self.vm_state.delta_balance(transaction.sender, -transaction.gas * self.vm_state.get_gas_price(transaction))
        self.vm_state.increment_nonce(transaction.sender)
        return Message(
            gas=transaction.gas - transaction.intrinsic_gas,
            to=transaction.to,
            sender=transaction.sender,
            value=transaction.value,
            data=transaction.data,
            code=self.vm_state.get_code(transaction.to),
        )


class ChainState(LondonState):  # type: ignore[misc]
    """London's state; `saw_block` is set once code looked at time, coinbase or difficulty."""

    computation_class = _Computation
    transaction_executor_class = _Executor
    saw_block = False

    def delta_balance(self, address: bytes, delta: int) -> None:
        """No money, no touching: EIP-161 would delete the empty account again."""
        if delta:
            super().delta_balance(address, delta)
