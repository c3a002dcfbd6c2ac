"""Execution on our store, measured against py-evm's own London state; and that looking changes nothing."""

import subprocess
import sys
from pathlib import Path

import pytest
from eth.constants import BLANK_ROOT_HASH
from eth.db.atomic import AtomicDB
from eth.vm.forks.london import LondonVM
from eth.vm.forks.london.state import LondonState
from eth.vm.forks.london.transactions import DynamicFeeTransaction, LondonTypedTransaction

from chain.client.keys import address_of
from chain.errors import GasError, NonceError, RevertedError, StateRootError, StoreError
from chain.node.evm import NodeDatabase
from chain.node.node import Node
from chain.node.vm import SYSTEM, Execution, StateView, _context, call_registry
from chain.protocol.contract import encode_call, functions
from chain.store.database import IN_MEMORY
from chain.store.store import Store
from chain.wire.receipts import EMPTY_TRIE_ROOT
from chain.wire.transactions import Envelope, Transaction, decode_transaction, sign_transaction
from tests.chain.network import CHAIN_ID, START, Clock, Network, account, founded_node, genesis

REPOSITORY = Path(__file__).parents[3]
ALICE = account("alice")
GAS = 10_000_000
# push1 1, push1 0, sstore | push1 length, push1 offset, push1 0, codecopy, push1 length, push1 0, return
_SET_SLOT_0 = bytes.fromhex("6001600055")


def creation_code(runtime: bytes, setup: bytes = b"") -> bytes:
    """Code that runs `setup` and then becomes `runtime`."""
    head = len(setup) + 12
    copy = bytes([0x60, len(runtime), 0x60, head, 0x60, 0, 0x39, 0x60, len(runtime), 0x60, 0, 0xF3])
    return setup + copy + runtime


def contract_of(sender: bytes = address_of(ALICE)) -> bytes:
    """Where the first contract of a sender is."""
    return genesis(founder="0x" + sender.hex()).registry


def creation(runtime: bytes, setup: bytes = b"") -> Transaction:
    return decode_transaction(sign_transaction(ALICE, Envelope(CHAIN_ID, 0, GAS, b""), creation_code(runtime, setup)))


def called(nonce: int, data: bytes = b"", gas: int = GAS) -> Transaction:
    return decode_transaction(sign_transaction(ALICE, Envelope(CHAIN_ID, nonce, gas, contract_of()), data))


def empty_execution(coinbase: bytes = bytes(20), difficulty: int = 1) -> Execution:
    store = Store.create(IN_MEMORY, genesis())
    return Execution(store, store.head(), coinbase, START, difficulty)


def apply_all(execution: Execution, *transactions: Transaction) -> list[int]:
    return [execution.apply(each, each.sender, 10 * GAS).gas for each in transactions]


# --- against py-evm


def oracle(node: Node, coinbase: bytes) -> LondonState:
    context = _context(node._store, node.genesis.header, 1, coinbase, START, 1)
    return LondonState(AtomicDB(), context, BLANK_ROOT_HASH)


def oracle_gas(state: LondonState, transaction: Transaction) -> tuple[int, bool, list[tuple[bytes, list[int], bytes]]]:
    """Gas, success and logs as py-evm's LondonVM puts them into receipts."""
    state.lock_changes()
    typed = LondonTypedTransaction(
        2,
        DynamicFeeTransaction(
            transaction.chain_id, transaction.nonce, 0, 0, transaction.gas, transaction.to, 0, transaction.data, (),
            transaction.parity, transaction.r, transaction.s,
        ),
    )  # fmt: skip
    computation = state.apply_transaction(typed)
    gas = LondonVM.finalize_gas_used(typed, computation)
    return gas, not computation.is_error, list(computation.get_log_entries())


def test_a_founding_has_the_gas_logs_and_state_root_of_py_evm() -> None:
    network, founder = Network(), address_of(account("founder"))
    node = founded_node(network)
    block = node.block(1)
    assert block is not None
    state, before = oracle(node, founder), 0
    for transaction, receipt in zip(block.transactions, block.receipts, strict=True):
        gas, succeeded, logs = oracle_gas(state, transaction)
        assert (receipt.gas_used - before, receipt.status) == (gas, int(succeeded))
        assert [(log.address, [int.from_bytes(t, "big") for t in log.topics], log.data) for log in receipt.logs] == [
            (address, list(topics), data) for address, topics, data in logs
        ]
        before = receipt.gas_used
    assert state.make_state_root() == block.header.state_root


def test_refunds_are_londons() -> None:
    """Clearing a slot gives back 4,800 gas, a fifth of what was used at most (EIP-3529)."""
    clear = bytes.fromhex("600060005500")
    transactions = [creation(clear, _SET_SLOT_0), called(1), called(2)]
    execution, state = empty_execution(), oracle(Node.in_memory(genesis(), now=Clock()), bytes(20))
    ours = apply_all(execution, *transactions)
    assert ours == [oracle_gas(state, each)[0] for each in transactions]
    assert execution.state_root() == state.make_state_root()
    # 21,000 + two pushes of 3 + sstore of 2,900 + cold slot 2,100 - 4,800
    assert ours[1] == 21_000 + 6 + 5_000 - 4_800


def test_a_failed_call_uses_its_gas_and_leaves_only_the_nonce() -> None:
    transactions = [creation(b"\xfe", _SET_SLOT_0), called(1, gas=50_000)]
    execution, state = empty_execution(), oracle(Node.in_memory(genesis(), now=Clock()), bytes(20))
    execution.apply(transactions[0], address_of(ALICE), GAS)
    outcome = execution.apply(transactions[1], address_of(ALICE), GAS)
    assert (outcome.status, outcome.gas, outcome.logs) == (0, 50_000, ())
    for each in transactions:
        oracle_gas(state, each)
    assert execution.nonce(address_of(ALICE)) == 2
    assert execution.state_root() == state.make_state_root()


def test_the_builder_is_not_touched_by_fees_of_zero() -> None:
    """Else the same transactions would have another state root under another leader."""
    roots = {empty_execution(coinbase).state_root() for coinbase in (bytes(20), b"\x01" * 20, address_of(ALICE))}
    assert roots == {EMPTY_TRIE_ROOT}
    after = set()
    for coinbase in (bytes(20), b"\x01" * 20, address_of(ALICE)):
        execution = empty_execution(coinbase)
        apply_all(execution, creation(b"\x00"))
        after.add(execution.state_root())
    assert len(after) == 1


# --- what depends on the builder


@pytest.mark.parametrize(
    ("opcode", "depends"),
    [(0x41, True), (0x42, True), (0x44, True), (0x43, False), (0x45, False), (0x46, False), (0x48, False)],
    ids=["coinbase", "timestamp", "difficulty", "number", "gas limit", "chain id", "base fee"],
)
def test_a_look_at_what_the_builder_sets_is_noted(opcode: int, depends: bool) -> None:
    execution = empty_execution()
    apply_all(execution, creation(bytes([opcode, 0x50, 0x00])))
    assert not execution.depends_on_builder
    execution.call(bytes(20), contract_of(), b"", GAS)
    assert not execution.depends_on_builder, "a call leaves nothing behind"
    apply_all(execution, called(1))
    assert execution.depends_on_builder == depends


def test_a_refused_look_is_forgotten() -> None:
    execution = empty_execution()
    apply_all(execution, creation(bytes.fromhex("42fe")))  # timestamp, invalid
    with pytest.raises(RevertedError):
        execution.try_apply(called(1), address_of(ALICE), GAS)
    assert not execution.depends_on_builder


def test_watched_opcodes_answer_as_ever() -> None:
    """timestamp, coinbase and difficulty, returned as three words."""
    store_word = [bytes([code, 0x60, 32 * i, 0x52]) for i, code in enumerate((0x42, 0x41, 0x44))]
    execution = empty_execution(coinbase=b"\x07" * 20, difficulty=9)
    apply_all(execution, creation(b"".join(store_word) + bytes.fromhex("60606000f3")))
    output = execution.call(bytes(20), contract_of(), b"", GAS)
    words = [output[i : i + 32] for i in (0, 32, 64)]
    assert words == [START.to_bytes(32, "big"), b"\x07".rjust(13, b"\x00")[:12] + b"\x07" * 20, (9).to_bytes(32, "big")]


def test_time_passes_forwards_only() -> None:
    execution = empty_execution()
    apply_all(execution, creation(bytes.fromhex("4260005260206000f3")))
    seen = []
    for seconds in (0, 5, 3, 6):
        execution.advance(START + seconds)
        seen.append(int.from_bytes(execution.call(bytes(20), contract_of(), b"", GAS), "big") - START)
    assert seen == [0, 5, 5, 6]


def test_a_contract_sees_the_hashes_of_earlier_blocks() -> None:
    """blockhash(calldata word)."""
    network = Network()
    node = founded_node(network)
    network.run_round(node)
    execution = Execution(node._store, node.head, bytes(20), START, 1)
    apply_all(execution, creation(bytes.fromhex("6000354060005260206000f3")))
    for number in range(5):
        found = execution.call(bytes(20), contract_of(), number.to_bytes(32, "big"), GAS)
        header = node.header(number)
        assert found == (bytes(32) if header is None else header.hash)


# --- trying and looking


def test_what_was_tried_and_refused_leaves_no_trace() -> None:
    with_tries, without = (empty_execution() for _ in range(2))
    code = creation(bytes.fromhex("600160015560006000fd"))  # sstore(1, 1), revert
    for execution in (with_tries, without):
        execution.apply(code, address_of(ALICE), GAS)
    for _ in range(3):
        with pytest.raises(RevertedError, match="without a reason; is its gas allowance enough"):
            with_tries.try_apply(called(1), address_of(ALICE), GAS)
    with pytest.raises(NonceError, match=r"found nonce 7 of 0x.*, expected 1"):
        with_tries.try_apply(called(7), address_of(ALICE), GAS)
    with pytest.raises(GasError, match="allowance of 10000000, the block has 9999999 left"):
        with_tries.try_apply(called(1), address_of(ALICE), GAS - 1)
    with pytest.raises(GasError, match="allowance of 20000, which does not even pay its bytes"):
        with_tries.try_apply(called(1, gas=20_000), address_of(ALICE), GAS)
    assert with_tries.nonce(address_of(ALICE)) == 1
    assert with_tries.state_root() == without.state_root()


def test_calls_between_transactions_change_neither_gas_nor_state() -> None:
    """Warm and cold slots (EIP-2929) are counted per transaction, not per call."""
    counter = bytes.fromhex("6000546001016000556000545000")  # slot 0 += 1
    quiet, noisy = (empty_execution() for _ in range(2))
    transactions = [creation(counter), called(1), called(2)]
    gas = apply_all(quiet, *transactions)
    noisy_gas = []
    for each in transactions:
        noisy.call(bytes(20), contract_of(), b"", GAS)
        noisy_gas += apply_all(noisy, each)
        noisy.call(SYSTEM, contract_of(), b"", GAS)
    assert noisy_gas == gas
    assert noisy.storage(contract_of(), 0) == 2
    assert noisy.state_root() == quiet.state_root()


def test_the_state_can_still_be_read_after_its_root_was_taken() -> None:
    execution = empty_execution()
    apply_all(execution, creation(b"\x42", _SET_SLOT_0))
    root = execution.state_root()
    assert execution.storage(contract_of(), 0) == 1
    assert execution.code(contract_of()) == b"\x42"
    execution.call(bytes(20), contract_of(), b"", GAS)
    assert execution.persist() == root


def test_a_call_that_fails_says_why_and_one_to_nowhere_returns_nothing() -> None:
    network = Network()
    node = founded_node(network)
    with pytest.raises(RevertedError, match="only the founder registers"):
        node.call(encode_call("register", [], []))
    with pytest.raises(RevertedError, match="the call fails"):
        node.call(b"")
    with pytest.raises(RevertedError, match="the call fails: Out of gas"):
        StateView(node._store, node.head).call(bytes(20), node.genesis.registry, encode_call("round"), 10)
    assert node.call(encode_call("round"), to=b"\x01" * 19 + b"\x99") == b""


def test_a_registry_that_is_not_there_is_named() -> None:
    node = Node.in_memory(genesis(), now=Clock())
    with pytest.raises(RevertedError, match=r"no registry at 0x.*: the network is not founded yet"):
        node.ask("round")


# --- the system call (P12)


def test_a_block_begins_with_winner_leader_and_round() -> None:
    network, clock = Network(), Clock()
    node = founded_node(network, clock)
    clock.pass_s(10)
    leader = network.leader(node)
    header = network.run_round(node, winner=network.devices[1])
    execution = Execution(node._store, header, bytes(20), START + 20, 1)
    answers = {
        name: call_registry(execution, node.genesis, name)
        for name in ("round", "parent_hash", "attempt", "winner_home", "reign_leader", "reign_terms")
    }
    assert answers == {
        "round": 2,
        "parent_hash": header.hash,
        "attempt": 0,
        "winner_home": address_of(network.servers[1]),
        "reign_leader": address_of(leader),
        "reign_terms": 1,
    }
    assert call_registry(execution, node.genesis, "credit", address_of(network.devices[1])) == 1
    assert StateView(node._store, header).call(bytes(20), node.genesis.registry, encode_call("round"), GAS)[-1] == 1
    assert not execution.depends_on_builder


def test_nobody_else_begins_a_block() -> None:
    network = Network()
    node = founded_node(network)
    data = encode_call("begin_block", bytes(20), bytes(20), bytes(32))
    with pytest.raises(RevertedError, match="only the chain itself"):
        node.call(data, sender=address_of(network.founder))
    assert "begin_block" in functions()


def test_a_registry_that_begins_no_block_is_an_error() -> None:
    """One made for external networks, put where the founder's first contract is."""
    store = Store.create(IN_MEMORY, genesis(founder="0x" + address_of(ALICE).hex()))
    execution = Execution(store, store.head(), bytes(20), START, 1)
    execution.apply(creation(bytes.fromhex("60006000fd")), address_of(ALICE), GAS)
    with store.transaction():
        root = execution.persist()
    parent = genesis(founder="0x" + address_of(ALICE).hex()).header
    changed = type(parent)(**{**parent.__dict__, "state_root": root})
    with pytest.raises(StateRootError, match="refuses to begin a block"):
        Execution(store, changed, bytes(20), START, 1)


# --- the database


def test_state_nodes_are_a_key_value_database_that_forgets_nothing() -> None:
    database = NodeDatabase(Store.create(IN_MEMORY, genesis()))
    assert b"key" not in database
    with pytest.raises(KeyError):
        database[b"key"]
    database[b"key"] = b"value"
    del database[b"key"]
    assert database[b"key"] == b"value"
    assert b"key" in database


def test_a_batch_is_part_of_the_blocks_transaction() -> None:
    store = Store.create(IN_MEMORY, genesis())
    database = NodeDatabase(store)

    def write_and_fail() -> None:
        with store.transaction():
            with database.atomic_batch() as batch:
                batch[b"key"] = b"value"
            assert database[b"key"] == b"value"
            raise StoreError("stop")

    with pytest.raises(StoreError, match="stop"):
        write_and_fail()
    assert b"key" not in database
    with database.atomic_batch() as batch:
        batch[b"key"] = b"value"
    assert database[b"key"] == b"value"


def test_importing_py_evm_leaves_the_stack_guarded() -> None:
    """It raises the recursion limit; then 100,000 brackets in a text end the process with a segmentation fault."""
    code = "import chain.node.vm, json; json.loads('[' * 99_000)"
    shown = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert shown.returncode == 1
    assert "RecursionError" in shown.stderr
