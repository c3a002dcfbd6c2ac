"""The quick loop against py-evm's own: whatever code does, both do it, for the same gas."""

import functools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pytest
from eth.abc import ComputationAPI
from eth.constants import BLANK_ROOT_HASH
from eth.db.atomic import AtomicDB
from eth.exceptions import (
    FullStack,
    InsufficientStack,
    InvalidInstruction,
    InvalidJumpDestination,
    OutOfGas,
    Revert,
    VMError,
)
from eth.vm.forks.london.computation import LondonComputation
from eth.vm.message import Message
from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak

from chain.client.keys import address_of
from chain.errors import RevertedError
from chain.node.evm import ChainState
from chain.node.vm import SYSTEM
from chain.protocol.contract import RegistryTerms, encode_call, functions, revert_reason
from chain.protocol.passes import begun_call, sign_pass
from chain.protocol.slots import Slot
from chain.wire.sidecar import payload_digest
from chain.wire.transactions import Envelope, decode_transaction, sign_transaction
from tests.chain.endorsing import BARE, endorse_call, signed
from tests.chain.network import CHAIN_ID, MODEL_0, SIZES, START, TERMS, BareRegistry, account, named

GAS = 10**7
SERVERS = [account(f"server {i}") for i in range(3)]
DEVICES = [account(f"device {i}") for i in range(3)]
STRANGER = address_of(account("stranger"))
NOBODY = bytes(20)
PLAN, CLOSE, ITERATE, GRADIENT, MODEL = (payload_digest(b"%d" % i) for i in range(5))
ONE, TWO, THREE = (address_of(each) for each in SERVERS)
DEVICE = address_of(DEVICES[0])
TOP = 2**256 - 1


class PyEvmLoop(LondonComputation):  # type: ignore[misc]
    """py-evm's own loop, with the watch on time, coinbase and difficulty that our chain's has."""

    opcodes: ClassVar[dict[int, Any]] = ChainState.computation_class.opcodes


class SlowState(ChainState):
    """The chain's state, its code run by py-evm."""

    computation_class = PyEvmLoop


@dataclass(frozen=True)
class Outcome:
    """All that is to be seen of a computation."""

    gas: int
    refund: int
    output: bytes
    return_data: bytes
    is_error: bool
    is_reverted: bool
    """An error that gives back the gas that is left."""
    logs: tuple[Any, ...]
    state_root: bytes
    saw_block: bool
    error: type[VMError] | None = field(compare=False)
    """py-evm calls some failures otherwise than we do: what they do is the same."""


class BothLoops(BareRegistry):
    """A registry each of whose calls is executed on the same state by both loops, and must come to the same."""

    def __init__(self, terms: RegistryTerms = TERMS) -> None:
        self._db, self._root, self._code = AtomicDB(), BLANK_ROOT_HASH, b""
        super().__init__(terms)

    def outcome(self, state_class: type[ChainState], message: Message, keep: bool = False) -> Outcome:
        """What a message does to the state as it is."""
        state = state_class(self._db, self._context(), self._root)
        context = state.get_transaction_context_class()(gas_price=0, origin=message.sender)
        loop = state.computation_class
        apply = loop.apply_create_message if message.is_create else loop.apply_message
        found: ComputationAPI = apply(state, message, context)
        root = state.make_state_root()
        if keep:
            state.persist()
            self._root = root
        return Outcome(
            found.get_gas_used(),
            found.get_gas_refund(),
            bytes(found.output),
            bytes(found.return_data),
            found.is_error,
            found.is_error and isinstance(found.error, Revert),
            tuple(found.get_log_entries()),
            root,
            state.saw_block,
            type(found.error) if found.is_error else None,
        )

    def same(self, message: Message, keep: bool = False) -> Outcome:
        """What a message does, if it is the same in both loops."""
        slow = self.outcome(SlowState, message)
        assert self.outcome(ChainState, message, keep) == slow
        return slow

    def message(self, sender: bytes, data: bytes, gas: int = GAS, code: bytes | None = None) -> Message:
        """A call of the registry, or of `code` in its place."""
        if code is None:
            code = self._code = self._code or SlowState(self._db, self._context(), self._root).get_code(self.address)
        return Message(gas, self.address, sender, 0, data, code)

    def is_accepted(self, sender: bytes, name: str, *arguments: Any) -> bool:
        """Whether the registry would accept a call; nothing is kept."""
        return self.same(self.message(sender, encode_call(name, *arguments))).error is None

    def _run(self, sender: bytes, data: bytes, is_creation: bool = False) -> Any:
        if is_creation:
            message = Message(GAS, b"", sender, 0, b"", data, create_address=self.address)
        else:
            message = self.message(sender, data)
        found = self.same(message, keep=True)
        self.gas = found.gas
        if found.error is not None:
            raise RevertedError(revert_reason(found.output) or f"no reason: {found.error}")
        return _Answer(found)


@dataclass(frozen=True)
class _Answer:
    """As much of a computation as `BareRegistry` looks at."""

    outcome: Outcome

    @property
    def output(self) -> bytes:
        return self.outcome.output

    def get_log_entries(self) -> tuple[Any, ...]:
        return self.outcome.logs


# --- the registry


def unposted(sender: LocalAccount, payload: bytes, nonce: int = 0) -> tuple[bytes, bytes]:
    """An iterate that is signed and not posted: half of the evidence of an equivocation."""
    envelope = Envelope(CHAIN_ID, nonce, 10**6, BareRegistry.address)
    data = encode_call("iterate", 1, 0, 0, CLOSE, *named(payload))
    sent = decode_transaction(sign_transaction(sender, envelope, data))
    return sent.unsigned, sent.signature


EVIDENCE = (*unposted(SERVERS[2], b"yes"), *unposted(SERVERS[2], b"no"))
SAME_TWICE = (*unposted(SERVERS[2], b"yes"), *unposted(SERVERS[2], b"yes", nonce=1))
SENDERS = {"begin_block": SYSTEM, "register": BareRegistry.founder, "found": BareRegistry.founder, "seal": DEVICE}
"""Who else than a server may make a call"""
_SIGNED = [signed([SERVERS[2]], 1, block, BARE)[0] for block in (b"a" * 32, b"b" * 32)]
DOUBLE = tuple(part for each in _SIGNED for part in (each.said, each.signature))
_PASS = sign_pass(SERVERS[2], BARE, 1, 1, None, 0)
BROKEN = (*DOUBLE[:2], _PASS.said, _PASS.signature)
ATTEMPT = 3
"""That the first in the ranking leads again"""
_SENT = b"\x01" * 32


def begun(attempt: int, servers: int = 2) -> tuple[Any, ...]:
    """A certificate of the first servers."""
    passes = [sign_pass(each, BARE, 1, attempt, None, START) for each in SERVERS[:servers]]
    return ("begin_attempt", *begun_call(passes))


CALLS: list[tuple[Any, ...]] = [
    ("begin_block", DEVICE, ONE, b"\x01" * 32),
    ("register", [THREE, DEVICE], [THREE, THREE]),
    ("register", [NOBODY], [NOBODY]),
    ("found", *named(b"{}"), payload_digest(MODEL_0), SIZES),
    ("found", *named(b"{}"), payload_digest(MODEL_0), (0, 0, 0, 0, 0)),
    ("vote", STRANGER, ONE),
    ("vote", STRANGER, STRANGER),
    ("endorse", 1, 0, bytes(32), [], b""),
    *(("flag_signatures", 1, who, *pair) for who in (THREE, TWO) for pair in (DOUBLE, BROKEN)),
    ("flag_signatures", 1, THREE, *DOUBLE[:2], *DOUBLE[:2]),
    *(begun(attempt, servers) for attempt in (1, 2, ATTEMPT, 4, 5, 6) for servers in (1, 2)),
    ("plan", 1, 0, PLAN, 1),
    ("plan", 1, 1, PLAN, 1),
    ("plan", 1, 0, PLAN, SIZES.plan + 1),
    ("gradient", 1, 0, payload_digest(MODEL_0), PLAN, 1, 1, GRADIENT, SIZES.gradient),
    ("gradient", 1, 0, payload_digest(MODEL_0), PLAN, 0, 1, GRADIENT, SIZES.gradient),
    ("gradient", 1, 0, MODEL, PLAN, 1, 1, GRADIENT, SIZES.gradient),
    ("roll", 1, 0, PLAN, CLOSE, SIZES.close),
    ("roll", 1, 0, CLOSE, CLOSE, SIZES.close),
    ("close", 1, 0, PLAN, CLOSE, SIZES.close),
    ("close", 1, 0, CLOSE, CLOSE, SIZES.close),
    ("iterate", 1, 0, 0, CLOSE, ITERATE, SIZES.iterate),
    ("iterate", 1, 0, 101, CLOSE, ITERATE, SIZES.iterate),
    ("model", 1, 0, CLOSE, MODEL, SIZES.model),
    ("model", 2, 0, CLOSE, MODEL, SIZES.model),
    ("flag", 1, THREE, Slot.ITERATE, _SENT, MODEL),
    ("flag", 1, STRANGER, Slot.ITERATE, _SENT, MODEL),
    ("flag_equivocation", 1, THREE, *EVIDENCE),
    ("flag_equivocation", 1, THREE, *SAME_TWICE),
    ("flag_equivocation", 1, TWO, *EVIDENCE),
    ("flag_equivocation", 1, THREE, b"\x02\xc0", bytes(65), b"", b""),
    ("seal", 1, bytes(8)),
]
VIEWS = [
    ("credit", DEVICE),
    ("excluded_through", THREE),
    ("has_posted", ONE, Slot.PLAN),
    ("has_posted", ONE, TOP),
    ("home", DEVICE),
    ("is_device", DEVICE),
    ("is_excluded", THREE),
    ("is_lawful", TWO),
    ("is_dormant", TWO),
    *(("rank", who) for who in (ONE, TWO, THREE, DEVICE)),
    *(
        (name,)
        for name, function in functions().items()
        if not function.arguments and name not in ("begin_block",)
    ),
]  # fmt: skip
STORY: list[tuple[bytes, Any]] = [
    (ONE, ("plan", 1, 0, PLAN, 1)),
    (TWO, ("roll", 1, 0, PLAN, CLOSE, SIZES.close)),
    (DEVICE, ("gradient", 1, 0, payload_digest(MODEL_0), PLAN, 1, 1, GRADIENT, SIZES.gradient)),
    (ONE, ("close", 1, 0, PLAN, CLOSE, SIZES.close)),
    (TWO, ("iterate", 1, 0, 0, CLOSE, ITERATE, SIZES.iterate)),
    (ONE, ("flag", 1, THREE, Slot.ITERATE, _SENT, MODEL)),
    (TWO, ("flag_equivocation", 1, THREE, *EVIDENCE)),
    (ONE, ("vote", STRANGER, ONE)),
    (TWO, ("vote", STRANGER, ONE)),
    (ONE, ("model", 1, 0, CLOSE, MODEL, SIZES.model)),
]


CALLS_ATTEMPT = 2
"""That the first server leads where rounds are sealed by calls"""


def in_attempt(posts: list[tuple[bytes, Any]], attempt: int) -> list[tuple[bytes, Any]]:
    """The same posts of this attempt."""
    return [(sender, calls_in([call], attempt)[0]) for sender, call in posts]


def calls_in(calls: list[tuple[Any, ...]], attempt: int) -> list[tuple[Any, ...]]:
    """The same calls of this attempt, where they are of attempt 0."""
    posts = ("plan", "gradient", "roll", "close", "iterate", "model")
    return [(*call[:2], attempt, *call[3:]) if call[0] in posts and call[2] == 0 else call for call in calls]


def states(is_sealed_by_calls: bool) -> Iterator[BothLoops]:
    """A registry in the states of a network's first round: before its founding, and after each of its posts."""
    world = BothLoops(replace(TERMS, contract_seal=is_sealed_by_calls))
    world.send(world.founder, "register", [ONE, TWO], [ONE, TWO])
    yield world
    world.found({THREE: THREE, DEVICE: ONE})
    if not is_sealed_by_calls:
        world.begin(DEVICE, NOBODY, bytes(32))
    yield world
    if is_sealed_by_calls:  # here the first server is the last in the ranking, and leads attempt 2
        assert world.ask("rank", ONE) == CALLS_ATTEMPT
        world.send(ONE, *begun(CALLS_ATTEMPT))
        yield world
    for sender, (name, *arguments) in in_attempt(STORY, CALLS_ATTEMPT if is_sealed_by_calls else 0):
        world.send(sender, name, *arguments)
        yield world
    if is_sealed_by_calls:
        world.send(ONE, "endorse", *endorse_call(SERVERS[:2], 1, world.ask("result"), BARE, CALLS_ATTEMPT))
        world.number += 1
        yield world
        world.send(DEVICE, "seal", 1, bytes(8))
        yield world
    else:
        world.number += 1
        world.begin(DEVICE, ONE, world.block_hash(2))
        yield world


@pytest.mark.slow
@pytest.mark.parametrize("is_sealed_by_calls", [False, True], ids=["blocks", "calls"])
def test_every_call_of_the_registry_does_the_same_in_every_state_of_a_round(is_sealed_by_calls: bool) -> None:
    accepted: set[str] = set()
    refused: set[str] = set()
    for place, world in enumerate(states(is_sealed_by_calls)):
        endorsed = world.ask("result") if is_sealed_by_calls else world.block_hash(2)
        attempt = CALLS_ATTEMPT if is_sealed_by_calls else 0
        said = ("endorse", *endorse_call(SERVERS[:2], 1, endorsed, BARE, attempt))
        calls = [*calls_in(CALLS, attempt), said, *(VIEWS if place % 5 == 0 else ())]
        for name, *arguments in calls:
            for sender in (SENDERS.get(name, ONE), *(() if functions()[name].outputs else (DEVICE,))):
                (accepted if world.is_accepted(sender, name, *arguments) else refused).add(name)
    never = {"begin_block"} if is_sealed_by_calls else {"seal"}
    assert accepted == set(functions()) - never
    assert refused == {name for name, *_ in CALLS}


def test_calldata_that_is_no_call_is_refused_alike() -> None:
    world = BothLoops()
    plan = encode_call("plan", 1, 0, PLAN, 1)
    for data in (b"", b"\x00", plan[:3], b"\xff" * 4, plan[:-1], plan + b"\0", plan[:4] + b"\xff" * 128):
        assert world.same(world.message(ONE, data)).error is Revert


# --- every amount of gas


def thresholds(world: BothLoops, message: Message) -> list[int]:
    """What a call has spent before each of its opcodes, those of the calls within it included."""
    seen: set[int] = set()

    class Traced(PyEvmLoop):
        opcodes: ClassVar[dict[int, Any]] = {
            code: functools.partial(_traced, opcode, seen, message.gas) for code, opcode in PyEvmLoop.opcodes.items()
        }

    class TracedState(ChainState):
        computation_class = Traced

    whole = world.outcome(TracedState, message)
    return sorted({*seen, whole.gas})


def _traced(opcode: Any, seen: set[int], allowance: int, computation: Any) -> None:
    if computation.msg.depth == 0:
        seen.add(allowance - computation._gas_meter.gas_remaining)
    opcode(computation=computation)


def founded() -> BothLoops:
    """Sealed by blocks, in the first round; the plan is posted."""
    every = states(is_sealed_by_calls=False)
    return [next(every) for _ in range(3)][-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sender", "call", "most"),
    [
        (ONE, ("founded",), 1000),
        (ONE, ("rank", TWO), 100),
        (DEVICE, ("gradient", 1, 0, payload_digest(MODEL_0), PLAN, 1, 1, GRADIENT, SIZES.gradient), 200),
        (DEVICE, ("gradient", 1, 0, MODEL, PLAN, 1, 1, GRADIENT, SIZES.gradient), 100),
        (TWO, ("flag_equivocation", 1, THREE, *EVIDENCE), 20),
    ],
    ids=["a view", "a rank", "a gradient", "a refused gradient", "evidence"],
)
def test_a_call_comes_to_the_same_with_any_allowance(sender: bytes, call: Any, most: int) -> None:
    """A unit less than it needs for every opcode (or every few of them), just enough, and one more."""
    world = founded()
    name, *arguments = call
    data = encode_call(name, *arguments)
    message = functools.partial(world.message, sender, data)
    spent = thresholds(world, message())
    whole = spent[-1]
    around = {gas + more for gas in [*spent[:: len(spent) // most + 1], whole] for more in (-1, 0, 1)}
    errors = {gas: world.same(message(gas=gas)).error for gas in sorted({*range(8), *around}) if gas >= 0}
    assert errors[whole - 1] is OutOfGas
    assert errors[whole] is errors[whole + 1]
    assert errors[whole] in (None, Revert)
    assert {error for gas, error in errors.items() if gas < whole} <= {OutOfGas, Revert}


# --- by hand

CODES = {opcode.mnemonic: code for code, opcode in LondonComputation.opcodes.items()}
MEMORY_0 = bytes([CODES["PUSH1"], 0, CODES["MSTORE"]])
RETURN_WORD = bytes([CODES["PUSH1"], 32, CODES["PUSH1"], 0, CODES["RETURN"]])


def assembled(*parts: str | int) -> bytes:
    """Names of opcodes, and numbers to push."""
    code = b""
    for part in parts:
        if isinstance(part, str):
            code += bytes([CODES[part]])
        else:
            size = max(1, (part.bit_length() + 7) // 8)
            code += bytes([CODES["PUSH1"] + size - 1]) + part.to_bytes(size, "big")
    return code


@functools.cache
def empty_world() -> BothLoops:
    """Code needs a state to run in; none here changes it."""
    return BothLoops()


def run(code: bytes, data: bytes = b"", gas: int = 10**6) -> Outcome:
    """What bare code does, in both loops."""
    world = empty_world()
    return world.same(world.message(ONE, data, gas, code))


def result(*parts: str | int, data: bytes = b"") -> int:
    """The word on top of the stack behind this code."""
    found = run(assembled(*parts) + MEMORY_0 + RETURN_WORD, data)
    assert found.error is None
    return int.from_bytes(found.output, "big")


UNARY = ["ISZERO", "NOT", "POP", "MLOAD", "CALLDATALOAD", "JUMP", "SLOAD", "BALANCE"]
BINARY = [
    *("ADD", "MUL", "SUB", "DIV", "LT", "GT", "SLT", "SGT", "EQ", "AND", "OR", "XOR", "SHL", "SHR"),
    *("MSTORE", "SHA3", "JUMPI", "SWAP1", "SSTORE", "RETURN", "LOG0"),
]


@pytest.mark.parametrize(
    ("name", "items"),
    [
        *((name, 1) for name in [*UNARY, "DUP1"]),
        *((name, 2) for name in BINARY),
        *((name, items) for name, items in (("DUP16", 16), ("SWAP16", 17), ("LOG4", 6), ("ADDMOD", 3))),
    ],
)
def test_an_opcode_that_finds_too_little_on_the_stack_fails(name: str, items: int) -> None:
    for found in range(items):
        code = assembled("JUMPDEST", *[0] * found, name, "STOP")
        assert run(code).error is InsufficientStack, (name, found)
        in_memory = assembled(1, 0, "MSTORE", *[0] * found, name, "STOP")  # memory need not grow for it
        assert run(in_memory).error is InsufficientStack, (name, found)
    enough = run(assembled("JUMPDEST", *[0] * items, name, "STOP"))
    assert enough.error is (OutOfGas if name == "JUMP" else None)  # the jump is a loop


@pytest.mark.parametrize("name", ["PUSH1", "DUP1", "DUP16", "ADDRESS"])
def test_the_stack_holds_1024_items_and_not_one_more(name: str) -> None:
    last = bytes([CODES[name], *([7] if name == "PUSH1" else [])])
    assert run(assembled(*[1] * 1023) + last).error is None
    assert run(assembled(*[1] * 1024) + last).error is FullStack
    assert run(assembled(*[1] * 1024, "SWAP16", "POP", "POP") + last * 2).error is None


def jump_to(target: int, *behind: str | int) -> bytes:
    return bytes([CODES["PUSH32"]]) + target.to_bytes(32, "big") + assembled("JUMP", *behind)


@pytest.mark.parametrize("target", [0, 33, 35, 36, 37, 38, 39, 2**64, TOP])
def test_a_jump_leads_to_a_jumpdest_only(target: int) -> None:
    """Behind the jump at 33: PUSH2 with two JUMPDESTs as its data, a JUMPDEST, a STOP, the end."""
    code = jump_to(target) + bytes([CODES["PUSH2"], CODES["JUMPDEST"], CODES["JUMPDEST"]])
    code += assembled("JUMPDEST", "STOP")
    assert code[34:38] == bytes.fromhex("615b5b5b")
    assert run(code).is_error == (target != 37)
    conditional = assembled(1) + code.replace(assembled("JUMP"), assembled("JUMPI"), 1)
    assert run(conditional).is_error == (target != 39), "two bytes further on"


def test_a_jump_that_is_not_taken_may_lead_anywhere() -> None:
    assert result(5, 0, TOP, "JUMPI") == 5
    assert run(assembled(0, 1, "JUMPI")).error is None
    assert run(assembled(TOP, 1, "JUMPI")).error is InvalidJumpDestination


def test_a_loop_spends_its_gas_to_the_last() -> None:
    found = run(assembled("JUMPDEST", 0, "JUMP"), gas=9999)
    assert (found.error, found.gas) == (OutOfGas, 9999)
    counted = run(assembled(20, "JUMPDEST", 1, "SWAP1", "SUB", "DUP1", 2, "JUMPI"))
    assert (counted.error, counted.gas) == (None, 3 + 20 * (1 + 3 + 3 + 3 + 3 + 3 + 10))


@pytest.mark.parametrize("size", [1, 2, 32])
def test_code_may_end_within_a_push_and_zeros_follow(size: int) -> None:
    push = CODES["PUSH1"] + size - 1
    for given in range(size + 1):
        found = run(bytes([push]) + b"\xff" * given)
        assert (found.error, found.gas) == (None, 3)


@pytest.mark.parametrize("opcode", [0x0C, 0x1E, 0x21, 0x49, 0x5C, 0x5F, 0xA5, 0xEF, 0xFE])
def test_an_opcode_that_london_does_not_have_burns_all_gas(opcode: int) -> None:
    found = run(assembled(1, 2) + bytes([opcode]), gas=5000)
    assert (found.error, found.gas) == (InvalidInstruction, 5000)


def test_no_code_and_code_that_just_ends_do_nothing() -> None:
    for code in (b"", assembled("STOP"), assembled("JUMPDEST", "JUMPDEST")):
        found = run(code)
        assert (found.error, found.output, found.gas) == (None, b"", len(code.replace(b"\0", b"")))


@pytest.mark.parametrize("start", [0, 1, 31, 32, 33, 1000, 10**5])
def test_memory_grows_and_costs_alike(start: int) -> None:
    for name, said in (("MLOAD", (start,)), ("MSTORE", (7, start))):
        grown = run(assembled(*said, name, "MSIZE", 0, "MSTORE") + RETURN_WORD)
        assert grown.error is None
        assert int.from_bytes(grown.output, "big") == (start + 32 + 31) // 32 * 32
        assert run(assembled(*said, name), gas=8).error is (OutOfGas if grown.gas > 8 else None)
    assert result(TOP, start, "MSTORE", start, "MLOAD") == TOP
    for over in (1, 16, 31, 32):  # reading and writing across the end of what is there
        assert result(TOP, start, "MSTORE", start + over, "MLOAD") == (TOP << 8 * over) & TOP
        assert result(TOP, start, "MSTORE", TOP, start + over, "MSTORE", start + over, "MLOAD") == TOP
    assert result(TOP, start, "MSTORE", 0, start, "MSTORE", start, "MLOAD") == 0


@pytest.mark.parametrize("name", ["MLOAD", "MSTORE", "SHA3"])
def test_memory_without_end_is_out_of_gas(name: str) -> None:
    for start in (2**40, 2**255, TOP, TOP - 31):
        assert run(assembled(1, 0, "MSTORE", 1, start, name)).error is OutOfGas


def test_hashes_of_nothing_of_fresh_and_of_written_memory() -> None:
    assert result(0, 0, "SHA3") == int.from_bytes(keccak(b""), "big")
    assert result(0, 10**9, "SHA3", "MSIZE", "POP") == int.from_bytes(keccak(b""), "big")
    assert result(0, TOP, "SHA3") == int.from_bytes(keccak(b""), "big")
    for size in (1, 32, 33, 64, 1000):
        fresh = int.from_bytes(keccak(bytes(size)), "big")
        assert result(size, 5, "SHA3") == fresh
        assert result(1, 2000, "MSTORE", size, 5, "SHA3") == fresh, "memory that is there already"
    assert result(TOP, 0, "MSTORE", 7, 3, "SHA3") == int.from_bytes(keccak(b"\xff" * 7), "big")


@pytest.mark.parametrize(
    ("parts", "spent"),
    [
        ((1,), 3),
        ((1, "DUP1"), 6),
        ((1, 2, "ADD"), 9),
        ((1, 2, "MUL"), 11),
        ((1, "POP"), 5),
        (("JUMPDEST",), 1),
        ((3, "JUMP", "JUMPDEST"), 12),
        ((1, 5, "JUMPI", "JUMPDEST"), 17),
        ((0, 5, "JUMPI"), 16),
        ((0, "CALLDATALOAD"), 6),
        ((1, 0, "MSTORE"), 12),
        ((1, 0, "MSTORE", 0, "MLOAD"), 18),
        ((1, 0, "MSTORE", 1, 0, "MSTORE"), 21),
        (("ADDRESS",), 2),
    ],
)
def test_what_code_costs_is_enough_and_a_unit_less_is_not(parts: tuple[str | int, ...], spent: int) -> None:
    code = assembled(*parts)
    assert (run(code).error, run(code).gas) == (None, spent)
    assert run(code, gas=spent).error is None
    for less in range(spent):
        found = run(code, gas=less)
        assert (found.error, found.gas) == (OutOfGas, less)


@pytest.mark.parametrize("size", [0, 1, 32, 33])
def test_a_hash_costs_by_the_word(size: int) -> None:
    code = assembled(1, 32, "MSTORE", size, 0, "SHA3")
    spent = run(code).gas
    assert spent == 3 + 3 + 3 + 6 + 3 + 3 + 30 + 6 * ((size + 31) // 32)
    assert run(code, gas=spent).error is None
    assert run(code, gas=spent - 1).error is OutOfGas


@pytest.mark.parametrize("start", [0, 1, 31, 32, 35, 36, 100, 2**64, TOP])
def test_calldata_ends_in_zeros(start: int) -> None:
    data = bytes(range(1, 37))
    expected = (data + bytes(100))[start : start + 32] if start < 100 else bytes(32)
    assert result(start, "CALLDATALOAD", data=data) == int.from_bytes(expected, "big")


# The first operand is on top of the stack.
EDGES = (0, 1, 2, 255, 256, 257, 2**128, 2**255 - 1, 2**255, 2**255 + 1, TOP - 1, TOP)


def signed_(word: int) -> int:
    return word - 2**256 if word >= 2**255 else word


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ADD", lambda a, b: (a + b) % 2**256),
        ("MUL", lambda a, b: (a * b) % 2**256),
        ("SUB", lambda a, b: (a - b) % 2**256),
        ("DIV", lambda a, b: a // b if b else 0),
        ("LT", lambda a, b: a < b),
        ("GT", lambda a, b: a > b),
        ("SLT", lambda a, b: signed_(a) < signed_(b)),
        ("SGT", lambda a, b: signed_(a) > signed_(b)),
        ("EQ", lambda a, b: a == b),
        ("AND", lambda a, b: a & b),
        ("OR", lambda a, b: a | b),
        ("XOR", lambda a, b: a ^ b),
        ("SHL", lambda a, b: (b << a) % 2**256 if a < 256 else 0),
        ("SHR", lambda a, b: b >> a if a < 256 else 0),
    ],
)
def test_numbers_are_reckoned_with_to_their_edges(name: str, expected: Any) -> None:
    """All pairs in one run, each result stored behind the last; against Python's own numbers."""
    pairs = [(a, b) for a in EDGES for b in EDGES]
    code = b"".join(assembled(b, a, name, 32 * i, "MSTORE") for i, (a, b) in enumerate(pairs))
    found = run(code + assembled(32 * len(pairs), 0, "RETURN"))
    words = [int.from_bytes(found.output[at : at + 32], "big") for at in range(0, len(found.output), 32)]
    assert words == [int(expected(a, b)) for a, b in pairs]


def test_one_number_is_reckoned_with_to_its_edges() -> None:
    for edge in EDGES:
        assert result(edge, "NOT") == TOP - edge
        assert result(edge, "ISZERO") == (edge == 0)


@pytest.mark.parametrize("place", range(1, 17))
def test_dup_and_swap_reach_their_item(place: int) -> None:
    assert result(*range(100, 117), f"DUP{place}") == 117 - place
    assert result(*range(100, 117), f"SWAP{place}") == 116 - place
    assert result(*range(100, 117), f"SWAP{place}", *["POP"] * place) == 116


# --- anything


def program(rng: random.Random) -> bytes:
    """Code that a compiler would not write: any opcode, small numbers, jumps that sometimes lead somewhere."""
    code = b""
    for _ in range(rng.randrange(5, 60)):
        kind = rng.random()
        if kind < 0.5:
            code += assembled(rng.choice((0, 1, 2, 4, 32, 64, 255, 256, 2**16, 2**255, TOP, rng.randrange(60))))
        elif kind < 0.6:
            code += assembled("JUMPDEST")
        elif kind < 0.97:
            code += assembled(rng.choice(sorted(CODES)))
        else:
            code += rng.randbytes(rng.randrange(4))
    return code


@pytest.mark.slow
def test_random_code_does_the_same() -> None:
    """On the state of a registry, with little gas and with much; most of it fails, each in its own way."""
    rng, world, errors = random.Random(5), founded(), set()
    for _ in range(1000):
        code, data, gas = program(rng), rng.randbytes(rng.randrange(70)), rng.choice((100, 3000, 10**6))
        message = world.message(ONE, data, gas, code)
        errors.add(world.same(message).error)
    assert errors >= {None, Revert, InsufficientStack, InvalidInstruction, InvalidJumpDestination, OutOfGas}
