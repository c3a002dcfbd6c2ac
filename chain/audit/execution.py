"""Blocks that an auditor executes (Q3): status, gas, events and state root follow from the posts, or it says where not.

A whole chain is executed from genesis on in a state of the auditor's own: nothing that a file or a node says of its
state is looked at. One block alone is executed on the state that its parent names, read from a file node by node, each
held against its hash. Payloads are not needed. This module needs py-evm; no other one of this room does.
"""

from chain.audit.checked_state import CheckedStore
from chain.audit.inspection import InspectedBlock
from chain.audit.misfit import misfit_at
from chain.errors import ReceiptRootError, StateRootError, UnregisteredSenderError
from chain.node.admission import check_body
from chain.node.body import Body
from chain.node.evm import MISSING_STATE
from chain.node.vm import Execution, Outcome, call_registry
from chain.protocol.genesis import Genesis
from chain.protocol.posts import SignedCall
from chain.store.database import IN_MEMORY
from chain.store.store import Store
from chain.wire.address import Address
from chain.wire.blocks import Block
from chain.wire.headers import Header
from chain.wire.receipts import Receipt


class Executor:
    """Executes a chain from genesis on, each block once, as soon as it is inspected."""

    def __init__(self, genesis: Genesis) -> None:
        self._store, self._parent = Store.create(IN_MEMORY, genesis), genesis.header
        self._registered: set[Address] = set()
        self.blocks = 0
        """How many were executed."""

    def execute(self, inspected: InspectedBlock) -> None:
        """Execute the next block; `InspectionError` where it does not give what it says."""
        header = inspected.block.header
        if header.block_number:
            with misfit_at(f"block {header.block_number}, executed here"):
                body = _executed(inspected, self._store, self._parent, self._registered)
                with self._store.transaction():
                    body.execution.persist()
                    self._store.add_block(Block(header, (), (), 0))  # the EVM can ask for hashes of blocks
            self._parent = header
            self.blocks += 1

    def close(self) -> None:
        """Forget the state."""
        self._store.close()


def execute_block(inspected: InspectedBlock, parent: Header, state: CheckedStore) -> None:
    """Execute one block on the state that its parent names; `InspectionError` where it does not give what it says."""
    with misfit_at(f"block {inspected.number}, executed here"):
        try:
            _executed(inspected, state, parent, set())
        except MISSING_STATE as error:
            raise StateRootError(f"the state after block {parent.block_number} is not whole in this file") from error


def _executed(inspected: InspectedBlock, store: Store, parent: Header, registered: set[Address]) -> Body:
    """A block's posts, executed; everything in its header and its receipts must follow from them."""
    block, gas = inspected.block, 0
    header, genesis = block.header, store.genesis
    execution = Execution(store, parent, header.coinbase, header.timestamp, header.difficulty)
    for index, (post, receipt) in enumerate(zip(inspected.calls, block.receipts, strict=True)):
        with misfit_at(f"transaction {index} (0x{post.transaction.hash.hex()})"):
            _check_sender(post, execution, genesis, registered)
            outcome = execution.apply(post.transaction, post.sender, header.gas_limit - gas)
            _check_receipt(outcome, gas, receipt)
        gas = receipt.gas_used
    body = Body(inspected.calls, block.receipts, execution)
    check_body(header, body, genesis)
    return body


def _check_sender(post: SignedCall, execution: Execution, genesis: Genesis, registered: set[Address]) -> None:
    """Reverted posts are of participants too. Nobody who is registered ever leaves: each is asked for once."""
    if post.sender == genesis.founder_address or post.sender in registered:
        return
    if execution.parent.block_number == 0 or not any(call_registry(execution, genesis, "home", post.sender)):
        raise UnregisteredSenderError(f"{post.sender} is not registered in this network")
    registered.add(post.sender)


def _check_receipt(outcome: Outcome, gas_before: int, receipt: Receipt) -> None:
    derived = outcome.receipt(gas_before)
    if derived == receipt:
        return
    if derived.logs != receipt.logs and (derived.status, derived.gas_used) == (receipt.status, receipt.gas_used):
        raise ReceiptRootError("it has other events than its receipt says")
    reason = f" ({outcome.reason})" if outcome.reason else ""
    raise ReceiptRootError(
        f"it has status {derived.status}{reason} and gas {derived.gas_used} with {len(derived.logs)} events, "
        f"its receipt says status {receipt.status} and gas {receipt.gas_used} with {len(receipt.logs)}"
    )
