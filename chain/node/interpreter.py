"""py-evm's loop over a contract's code, made quick: what only moves numbers about is done here, all else by py-evm.

A call of the registry is some hundred opcodes, nine in ten of which push, copy, compare, add or jump; py-evm takes
10 us for each. Here code is decoded once, those opcodes work on the stack directly, and every opcode that reads or
writes state, calls, hashes much or makes memory grow is py-evm's own. Gas, results, logs and errors are the same: a
test executes whatever the registry can do both ways, with every amount of gas.
"""

import functools
from collections.abc import Callable
from typing import Any

from eth.exceptions import FullStack, Halt, InsufficientStack, InvalidJumpDestination, OutOfGas
from eth.vm.forks.london.computation import LondonComputation
from eth.vm.logic.invalid import InvalidOpcode
from eth_hash.auto import keccak

_WORD = 2**256
_TOP = _WORD - 1
_SIGN = 2**255
_MOST_ITEMS = 1023
_SHA3_WORD_GAS = 6
_PLAIN, _JUMP, _JUMPI, _MLOAD, _MSTORE, _SHA3, _CALLDATALOAD, _SLOW = range(8)

Stack = list[Any]
Work = Callable[[Stack, Any], None]
Step = tuple[int, int, Any, Any, int]
"""(what kind, gas, work or opcode, argument, where the next one is)"""


def _push(stack: Stack, value: int) -> None:
    if len(stack) > _MOST_ITEMS:
        raise FullStack("Stack limit reached")
    stack.append(value)


def _dup(stack: Stack, position: int) -> None:
    if len(stack) > _MOST_ITEMS:
        raise FullStack("Stack limit reached")
    stack.append(stack[position])


def _swap(stack: Stack, position: int) -> None:
    stack[-1], stack[position] = stack[position], stack[-1]


def _pop(stack: Stack, _: None) -> None:
    stack.pop()


def _nothing(_: Stack, __: None) -> None:
    return


def _add(stack: Stack, _: None) -> None:
    left = stack.pop()
    stack[-1] = (left + stack[-1]) & _TOP


def _mul(stack: Stack, _: None) -> None:
    left = stack.pop()
    stack[-1] = (left * stack[-1]) & _TOP


def _sub(stack: Stack, _: None) -> None:
    left = stack.pop()
    stack[-1] = (left - stack[-1]) & _TOP


def _div(stack: Stack, _: None) -> None:
    left = stack.pop()
    stack[-1] = left // stack[-1] if stack[-1] else 0


def _lt(stack: Stack, _: None) -> None:
    left = stack.pop()
    stack[-1] = 1 if left < stack[-1] else 0


def _gt(stack: Stack, _: None) -> None:
    left = stack.pop()
    stack[-1] = 1 if left > stack[-1] else 0


def _slt(stack: Stack, _: None) -> None:
    left = stack.pop()
    stack[-1] = 1 if left ^ _SIGN < stack[-1] ^ _SIGN else 0


def _sgt(stack: Stack, _: None) -> None:
    left = stack.pop()
    stack[-1] = 1 if left ^ _SIGN > stack[-1] ^ _SIGN else 0


def _eq(stack: Stack, _: None) -> None:
    left = stack.pop()
    stack[-1] = 1 if left == stack[-1] else 0


def _iszero(stack: Stack, _: None) -> None:
    stack[-1] = 0 if stack[-1] else 1


def _and(stack: Stack, _: None) -> None:
    left = stack.pop()
    stack[-1] = left & stack[-1]


def _or(stack: Stack, _: None) -> None:
    left = stack.pop()
    stack[-1] = left | stack[-1]


def _xor(stack: Stack, _: None) -> None:
    left = stack.pop()
    stack[-1] = left ^ stack[-1]


def _not(stack: Stack, _: None) -> None:
    stack[-1] = _TOP - stack[-1]


def _shl(stack: Stack, _: None) -> None:
    shift = stack.pop()
    stack[-1] = (stack[-1] << shift) & _TOP if shift < 256 else 0


def _shr(stack: Stack, _: None) -> None:
    shift = stack.pop()
    stack[-1] = stack[-1] >> shift if shift < 256 else 0


_WORKS: dict[int, tuple[Work, Any]] = {
    0x01: (_add, None), 0x02: (_mul, None), 0x03: (_sub, None), 0x04: (_div, None),
    0x10: (_lt, None), 0x11: (_gt, None), 0x12: (_slt, None), 0x13: (_sgt, None), 0x14: (_eq, None),
    0x15: (_iszero, None), 0x16: (_and, None), 0x17: (_or, None), 0x18: (_xor, None), 0x19: (_not, None),
    0x1B: (_shl, None), 0x1C: (_shr, None), 0x50: (_pop, None), 0x5B: (_nothing, None),
    **{0x80 + n: (_dup, -1 - n) for n in range(16)},
    **{0x90 + n: (_swap, -2 - n) for n in range(16)},
}  # fmt: skip
_KINDS = {0x56: _JUMP, 0x57: _JUMPI, 0x51: _MLOAD, 0x52: _MSTORE, 0x20: _SHA3, 0x35: _CALLDATALOAD}
_PUSH1, _PUSH32, _JUMPDEST, _STOP = 0x60, 0x7F, 0x5B, 0x00
_GAS = {code: int(opcode.gas_cost) for code, opcode in LondonComputation.opcodes.items()}


@functools.lru_cache(maxsize=8)
def _decoded(code: bytes) -> tuple[list[Step | None], frozenset[int]]:
    """What there is to do at each position (None within the bytes of a PUSH), and where may be jumped to."""
    steps: list[Step | None] = [None] * len(code)
    targets, at = set(), 0
    while at < len(code):
        opcode = code[at]
        following = at + 1
        if _PUSH1 <= opcode <= _PUSH32:
            following += opcode - _PUSH1 + 1
            pushed = code[at + 1 : following].ljust(opcode - _PUSH1 + 1, b"\0")
            steps[at] = (_PLAIN, _GAS[opcode], _push, int.from_bytes(pushed, "big"), following)
        elif opcode in _WORKS:
            work, argument = _WORKS[opcode]
            steps[at] = (_PLAIN, _GAS[opcode], work, argument, following)
            if opcode == _JUMPDEST:
                targets.add(at)
        else:
            steps[at] = (_KINDS.get(opcode, _SLOW), _GAS.get(opcode, 0), opcode, None, following)
        at = following
    return steps, frozenset(targets)


def run_code(computation: Any) -> None:
    """Execute a computation's code, as the loop in py-evm's `apply_computation` does."""
    steps, targets = _decoded(bytes(computation.msg.code))
    meter, memory, stack = computation._gas_meter, computation._memory, computation._stack.values
    opcodes, length, at, gas = computation.opcodes, len(steps), 0, meter.gas_remaining
    try:
        while True:
            step: Step | None = steps[at] if at < length else (_SLOW, 0, _STOP, None, at + 1)
            if step is None:
                raise InvalidJumpDestination("within the bytes of a PUSH")
            kind, cost, work, argument, following = step
            if kind == _PLAIN:
                gas -= cost
                if gas < 0:
                    raise OutOfGas("Out of gas")
                work(stack, argument)
                at = following
                continue
            if kind in (_JUMP, _JUMPI):
                gas -= cost
                if gas < 0:
                    raise OutOfGas("Out of gas")
                target = stack.pop()
                if kind == _JUMP or stack.pop():
                    if target not in targets:
                        raise InvalidJumpDestination("Invalid Jump Destination")
                    at = target
                else:
                    at = following
                continue
            if kind == _CALLDATALOAD:
                gas -= cost
                if gas < 0:
                    raise OutOfGas("Out of gas")
                start = stack[-1]
                stack[-1] = int.from_bytes(computation.msg.data_as_bytes[start : start + 32].ljust(32, b"\0"), "big")
                at = following
                continue
            if kind == _MLOAD and gas >= cost and stack[-1] + 32 <= len(memory._bytes):
                gas -= cost
                stack[-1] = int.from_bytes(memory._bytes[stack[-1] : stack[-1] + 32], "big")
                at = following
                continue
            if kind == _MSTORE and gas >= cost and stack[-1] + 32 <= len(memory._bytes):
                gas -= cost
                start, value = stack.pop(), stack.pop()
                memory._bytes[start : start + 32] = value.to_bytes(32, "big")
                at = following
                continue
            if kind == _SHA3 and stack[-1] + stack[-2] <= len(memory._bytes):
                total = cost + _SHA3_WORD_GAS * ((stack[-2] + 31) // 32)
                if gas >= total:
                    gas -= total
                    start, size = stack.pop(), stack.pop()
                    stack.append(int.from_bytes(keccak(bytes(memory._bytes[start : start + size])), "big"))
                    at = following
                    continue
            # Everything else is py-evm's: it sees the position, the gas and the stack that its own loop would show it.
            computation.code.program_counter = following
            meter.gas_remaining = gas
            opcode = opcodes.get(work)
            try:
                (InvalidOpcode(work) if opcode is None else opcode)(computation=computation)
            finally:
                gas = meter.gas_remaining
            if stack and type(stack[-1]) is not int:
                stack[-1] = int.from_bytes(stack[-1], "big")
            at = following
    except Halt:
        return
    except IndexError as error:
        raise InsufficientStack("Insufficient stack items") from error
    finally:
        meter.gas_remaining = max(0, gas)
