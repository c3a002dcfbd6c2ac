"""The registry contract as calls: its build, and calldata <-> named arguments; neither web3 nor py-evm."""

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, NamedTuple

import eth_abi
from eth_abi.exceptions import DecodingError, EncodingError
from eth_hash.auto import keccak

from chain.errors import ContractError, LedgerError, NotRegistryCallError, SidecarSizeError
from chain.wire.address import Address

BOUNDED = ("plan", "roll", "close")
"""Posts whose payloads have at most the founded size; all others have exactly it"""
TERMS_BYTES = 5 * 32
"""Of the arguments of the registry's creation"""
_GAS_PER_BYTE = 16  # of non-zero calldata
_LATER_GAS_PER_BYTE = 40  # since EIP-7623, which London does not have
_GAS_PER_CALL = 1_000_000  # checks, storage, log; the certificate of 64 servers is the dearest
_LONGEST_CALL = 4 + 32 * 202  # endorsements of 64 servers: a time and 65 bytes each
# As registry.vy has it; eth_abi takes 30 us for each address, and a stranger's call is decoded before he is refused.
MAX_BATCH = 64
_LONGEST_BATCH = 4 + 32 * (2 + 2 * (1 + MAX_BATCH))
_WORD = 32
_WORDS = {"uint256", "bytes32"}
_ABI_ERRORS = (DecodingError, EncodingError, OverflowError, UnicodeDecodeError)


@dataclass(frozen=True)
class Function:
    """A function of the registry."""

    name: str
    types: tuple[str, ...]
    arguments: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def selector(self) -> bytes:
        """First four bytes of its calls."""
        return keccak(f"{self.name}({','.join(self.types)})".encode())[:4]


@dataclass(frozen=True)
class Event:
    """An event of the registry."""

    name: str
    indexed: tuple[tuple[str, str], ...]
    """(name, type) of the topics behind the first."""
    data: tuple[tuple[str, str], ...]

    @property
    def topic(self) -> bytes:
        """Its first topic; the registry declares indexed fields first."""
        return keccak(f"{self.name}({','.join(kind for _, kind in self.indexed + self.data)})".encode())


@dataclass(frozen=True)
class Call:
    """A call of the registry, decoded."""

    name: str
    arguments: Mapping[str, Any]

    def __getitem__(self, argument: str) -> Any:
        return self.arguments[argument]

    def __contains__(self, argument: str) -> bool:
        return argument in self.arguments


@functools.cache
def build() -> dict[str, Any]:
    """The content of registry.json: the ABI, and the creation code."""
    text = resources.files("chain.protocol").joinpath("registry.json").read_text(encoding="utf-8")
    built: dict[str, Any] = json.loads(text)
    return built


@functools.cache
def functions() -> dict[str, Function]:
    """The registry's functions by name."""
    return {
        entry["name"]: Function(
            entry["name"],
            tuple(i["type"] for i in entry["inputs"]),
            tuple(i["name"] for i in entry["inputs"]),
            tuple(o["type"] for o in entry["outputs"]),
        )
        for entry in build()["abi"]
        if entry["type"] == "function"
    }


@functools.cache
def events() -> dict[str, Event]:
    """The registry's events by name."""
    return {
        entry["name"]: Event(
            entry["name"],
            tuple((i["name"], i["type"]) for i in entry["inputs"] if i["indexed"]),
            tuple((i["name"], i["type"]) for i in entry["inputs"] if not i["indexed"]),
        )
        for entry in build()["abi"]
        if entry["type"] == "event"
    }


@functools.cache
def _by_selector() -> dict[bytes, Function]:
    return {function.selector: function for function in functions().values()}


@functools.cache
def _by_topic() -> dict[bytes, Event]:
    return {event.topic: event for event in events().values()}


@dataclass(frozen=True)
class RegistryTerms:
    """What the registry is deployed with."""

    contract_seal: bool = False
    """Rounds are sealed by calls (external networks) instead of blocks (C7)."""
    term_cap: int = 3
    flag_window: int = 3
    exclusion_rounds: int = 10
    seal_difficulty: int = 1
    """Difficulty of the puzzle that `seal` checks; counts where rounds are sealed by calls."""


class RegistrySettings(NamedTuple):
    """What a registry was deployed with, in the order of its view `settings`."""

    founder: Address
    contract_seal: bool
    """Rounds are sealed by calls: an external network (C7)."""
    term_cap: int
    flag_window: int
    exclusion_rounds: int
    seal_difficulty: int


def registry_settings(values: Sequence[Any]) -> RegistrySettings:
    """The answer of the view `settings` by name."""
    founder, contract_seal, *numbers = values
    return RegistrySettings(founder, bool(contract_seal), *map(int, numbers))


class PayloadSizes(NamedTuple):
    """Bytes of the payloads of a network, fixed at its founding (B2), in the order of the registry's view."""

    gradient: int
    iterate: int
    model: int
    plan: int
    """At most."""
    close: int
    """At most; of a roll too."""

    def of(self, kind: str) -> int:
        """The size of a kind of post: exact, at most for plan, roll and close."""
        return int(getattr(self, "close" if kind == "roll" else kind))

    def fits(self, kind: str, size: int) -> bool:
        """Whether a post of this kind may name a payload of this size."""
        return 0 < size <= self.of(kind) if kind in BOUNDED else size == self.of(kind)

    def check(self, kind: str, size: int) -> None:
        """Raise `SidecarSizeError` for a post of this kind that names a payload of another size."""
        if not self.fits(kind, size):
            most = "at most " if kind in BOUNDED else ""
            raise SidecarSizeError(f"found {size} bytes of {kind}, this network was founded with {most}{self.of(kind)}")


def creation_code() -> bytes:
    """What creates the registry, before its terms."""
    return bytes.fromhex(build()["bytecode"].removeprefix("0x"))


def deployment(terms: RegistryTerms) -> bytes:
    """Creation code of the registry with its terms."""
    arguments = (
        terms.contract_seal,
        terms.term_cap,
        terms.flag_window,
        terms.exclusion_rounds,
        terms.seal_difficulty,
    )
    try:
        return creation_code() + eth_abi.encode(["bool"] + ["uint256"] * 4, arguments)
    except EncodingError as error:
        raise ContractError(f"terms of the registry that do not fit: {terms}: {error}") from error


def call_gas(data_bytes: int = _LONGEST_CALL, is_embedded: bool = True) -> int:
    """Gas that is enough for a call with so much calldata (of any, if it is not said); what is left over is given back.

    Payloads are beside the chain (B1), so it is small, and the same for every model.
    """
    return _GAS_PER_CALL + data_bytes * (_GAS_PER_BYTE if is_embedded else _LATER_GAS_PER_BYTE)


def encode_call(name: str, *arguments: Any) -> bytes:
    """The bytes that call a function of the registry with these arguments."""
    function = functions()[name]
    try:
        return function.selector + eth_abi.encode(function.types, arguments)
    except EncodingError as error:
        raise ContractError(f"arguments of {name} that do not fit {function.types}: {error}") from error


def begins_attempt(data: bytes) -> bool:
    """Whether this calls `begin_attempt`: what is pending of lower attempts goes, so its nonce is the sealed one."""
    return bytes(data[:4]) == functions()["begin_attempt"].selector


def decode_call(data: bytes) -> Call:
    """The call behind calldata; `NotRegistryCallError` if it is none."""
    function = _by_selector().get(bytes(data[:4]))
    if function is None:
        raise NotRegistryCallError(f"found selector 0x{data[:4].hex()}, expected a function of the registry")
    if len(data) > (longest := _LONGEST_BATCH if "address[]" in function.types else _LONGEST_CALL):
        raise NotRegistryCallError(f"found {len(data)} bytes of {function.name}, expected at most {longest}")
    if set(function.types) <= _WORDS:
        return Call(function.name, dict(zip(function.arguments, _words(function, data), strict=True)))
    try:
        values = eth_abi.decode(function.types, data[4:])
        canonical = eth_abi.encode(function.types, values)
    except _ABI_ERRORS as error:
        raise NotRegistryCallError(f"the arguments of {function.name} do not decode: {error}") from error
    if canonical != data[4:]:  # two readers could disagree about what it says
        raise NotRegistryCallError(f"the arguments of {function.name} are not in the ABI's canonical form")
    return Call(function.name, dict(zip(function.arguments, _with_addresses(function.types, values), strict=True)))


def _words(function: Function, data: bytes) -> list[Any]:
    """The arguments of a call with numbers and digests only: the posts. Each form has one place."""
    if len(data) != 4 + _WORD * len(function.types):
        raise NotRegistryCallError(
            f"the arguments of {function.name} have {len(data) - 4} bytes, expected {_WORD * len(function.types)}"
        )
    words = (data[4 + _WORD * i : 4 + _WORD * (i + 1)] for i in range(len(function.types)))
    return [
        bytes(word) if kind == "bytes32" else int.from_bytes(word, "big")
        for kind, word in zip(function.types, words, strict=True)
    ]


def _with_addresses(kinds: Sequence[str], values: Sequence[Any]) -> list[Any]:
    """What eth_abi decodes, with its texts of addresses as addresses."""
    return [_with_address(kind, value) for kind, value in zip(kinds, values, strict=True)]


def _with_address(kind: str, value: Any) -> Any:
    if kind == "address[]":
        return tuple(Address(each) for each in value)
    return Address(value) if kind == "address" else value


def decode_result(name: str, data: bytes) -> Any:
    """What a view returned; `LedgerError` if it cannot be the registry's answer."""
    try:
        outputs = functions()[name].outputs
        values = _with_addresses(outputs, eth_abi.decode(outputs, data))
    except _ABI_ERRORS as error:
        raise LedgerError(f"found {len(data)} bytes as the answer of {name}; is this the registry? {error}") from error
    return values[0] if len(values) == 1 else tuple(values)


def decode_log(topics: tuple[bytes, ...], data: bytes) -> Call | None:
    """A log of the registry as a named event; None if it is none of its events."""
    event = _by_topic().get(topics[0]) if topics else None
    if event is None or len(topics) != 1 + len(event.indexed):
        return None
    fields = event.indexed + event.data
    kinds = [kind for _, kind in fields]
    try:
        values = _with_addresses(kinds, eth_abi.decode(kinds, b"".join(topics[1:]) + data))
    except _ABI_ERRORS:
        return None
    return Call(event.name, {name: value for (name, _), value in zip(fields, values, strict=True)})


def revert_reason(output: bytes) -> str:
    """The registry's reason behind a reverted call's output; empty if it gave none."""
    if output[:4] != bytes.fromhex("08c379a0"):
        return ""
    try:
        return str(eth_abi.decode(["string"], output[4:])[0])
    except _ABI_ERRORS:
        return ""
