"""Calls, answers, events and reverts of the registry as bytes: there and back, and nothing else."""

import contextlib
import re
from pathlib import Path
from typing import Any

import eth_abi
import pytest
from eth_hash.auto import keccak
from eth_utils.abi import event_abi_to_log_topic, function_abi_to_4byte_selector
from hypothesis import given
from hypothesis import strategies as st

from chain.errors import ContractError, LedgerError, NotRegistryCallError
from chain.node.vm import SYSTEM
from chain.protocol import contract
from chain.protocol.contract import (
    Call,
    PayloadSizes,
    RegistryTerms,
    build,
    call_gas,
    creation_code,
    decode_call,
    decode_log,
    decode_result,
    deployment,
    encode_call,
    events,
    functions,
    revert_reason,
)
from chain.protocol.slots import MAX_STEP, Slot
from chain.protocol.turns import DORMANT_AFTER, MOST_DOUBLINGS, MOST_SERVERS
from chain.wire.address import Address

SOURCE = Path(contract.__file__).with_name("registry.vy").read_text(encoding="utf-8")
WORDS = st.integers(0, 2**256 - 1)
ADDRESSES = st.binary(min_size=20, max_size=20).map(Address)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "uint256": WORDS,
    "bool": st.booleans(),
    "address": ADDRESSES,
    "bytes32": st.binary(min_size=32, max_size=32),
    "bytes8": st.binary(min_size=8, max_size=8),
    "bytes": st.binary(max_size=200),
    "address[]": st.lists(ADDRESSES, max_size=8).map(tuple),
    "uint256[5]": st.tuples(*[WORDS] * 5),
    "uint256[2]": st.tuples(*[WORDS] * 2),
    "uint256[]": st.lists(WORDS, max_size=8).map(tuple),
    "bytes32[2]": st.tuples(*[st.binary(min_size=32, max_size=32)] * 2),
}
# Numbers an attacker would try as offset, length or value.
LIKELY = (0, 1, 31, 32, 33, 64, 96, 128, 256, 2**31, 2**32, 2**63 - 1, 2**63, 2**64, 2**160, 2**255, 2**256 - 1)
BODIES = st.tuples(st.lists(st.sampled_from(LIKELY) | WORDS, max_size=14), st.binary(max_size=33)).map(
    lambda body: b"".join(word.to_bytes(32, "big") for word in body[0]) + body[1]
)
NAMES = st.sampled_from(sorted(functions()))
REVERT = bytes.fromhex("08c379a0")


def word(number: int) -> bytes:
    return number.to_bytes(32, "big")


def values_of(kinds: tuple[str, ...]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(*(VALUES[kind] for kind in kinds))


# --- the build


def test_selectors_and_topics_are_those_of_the_abi() -> None:
    for entry in build()["abi"]:
        if entry["type"] == "function":
            assert functions()[entry["name"]].selector == function_abi_to_4byte_selector(entry)
        elif entry["type"] == "event":
            assert events()[entry["name"]].topic == event_abi_to_log_topic(entry)
    assert len({function.selector for function in functions().values()}) == len(functions())
    assert len({event.topic for event in events().values()}) == len(events())


def test_indexed_fields_are_declared_first_as_decoding_assumes() -> None:
    for entry in build()["abi"]:
        if entry["type"] == "event":
            indexed = [field["indexed"] for field in entry["inputs"]]
            assert indexed == sorted(indexed, reverse=True), entry["name"]


def test_this_side_and_the_contract_number_things_alike() -> None:
    def constant(name: str) -> int:
        (value,) = re.findall(rf"^{name}: constant\(uint256\) = (\d+)$", SOURCE, re.MULTILINE)
        return int(value)

    for slot in (each for each in Slot if each < 2**128):
        assert slot == constant(slot.name), slot.name
    evidence = re.findall(r"^([A-Z_]+): constant\(uint256\) = max_value\(uint256\)(?: - (\d+))?$", SOURCE, re.MULTILINE)
    assert {name: 2**256 - 1 - int(less or 0) for name, less in evidence} == {
        slot.name: slot for slot in Slot if slot > 2**128
    }
    assert (constant("DORMANT_AFTER"), constant("MOST_DOUBLINGS")) == (DORMANT_AFTER, MOST_DOUBLINGS)
    assert constant("MAX_SERVERS") == MOST_SERVERS
    assert (constant("MAX_STEP"), constant("MAX_BATCH")) == (MAX_STEP, contract.MAX_BATCH)
    for place, name in enumerate(PayloadSizes._fields):
        assert constant(f"{name.upper()}_SIZE") == place, name
    assert constant("SIZES") == len(PayloadSizes._fields)
    (system,) = re.findall(r"^SYSTEM: constant\(address\) = 0x(\w+)$", SOURCE, re.MULTILINE)
    assert bytes.fromhex(system) == SYSTEM


def test_a_deployment_is_code_and_terms() -> None:
    terms = RegistryTerms(True, 1, 2, 3, 4)
    words = [1, 1, 2, 3, 4]
    creation = deployment(terms)
    assert creation[-160:] == b"".join(word.to_bytes(32, "big") for word in words)
    assert creation[:-160] == creation_code()
    assert "0x" + creation_code().hex() == build()["bytecode"]
    assert len(creation) - len(creation_code()) == contract.TERMS_BYTES


@pytest.mark.parametrize("terms", [RegistryTerms(term_cap=-1), RegistryTerms(flag_window=2**256)])
def test_terms_that_fit_no_word_are_refused(terms: RegistryTerms) -> None:
    with pytest.raises(ContractError, match="terms of the registry that do not fit"):
        deployment(terms)


def test_a_byte_more_costs_gas_and_costs_more_elsewhere() -> None:
    assert call_gas(101) - call_gas(100) == 16
    assert call_gas(101, is_embedded=False) - call_gas(100, is_embedded=False) == 40
    assert call_gas() == call_gas(4 + 32 * 202)


def test_a_call_of_any_length_is_no_longer_than_the_gas_for_any_call_reckons_with() -> None:
    """Endorsements of 64 servers are the longest but for registrations, whose gas the founder names."""
    most = 512  # MAX_SIGNED
    evidence = (1, bytes(20), bytes(most), bytes(65), bytes(most), bytes(65))
    endorsed = (1, 0, bytes(32), [0] * MOST_SERVERS, bytes(65 * MOST_SERVERS))
    for name, arguments in (("flag_equivocation", evidence), ("endorse", endorsed)):
        calldata = encode_call(name, *arguments)
        assert call_gas(len(calldata)) <= call_gas()
        assert decode_call(calldata).name == name


@pytest.mark.parametrize(
    ("kind", "fitting", "others"),
    [
        ("gradient", [10], [0, 9, 11]),
        ("iterate", [20], [10]),
        ("model", [30], [29]),
        ("plan", [1, 39, 40], [0, -1, 41]),
        ("close", [1, 50], [0, 51]),
    ],
)
def test_gradient_iterate_and_model_have_one_size_plan_and_close_a_largest(
    kind: str, fitting: list[int], others: list[int]
) -> None:
    sizes = PayloadSizes(10, 20, 30, 40, 50)
    assert sizes.of(kind) == max(fitting)
    assert [sizes.fits(kind, size) for size in fitting] == [True] * len(fitting)
    assert [sizes.fits(kind, size) for size in others] == [False] * len(others)


# --- calls


@given(st.data(), NAMES)
def test_a_call_is_read_as_it_was_written(data: st.DataObject, name: str) -> None:
    function = functions()[name]
    said = data.draw(values_of(function.types))
    calldata = encode_call(name, *said)
    assert calldata[:4] == function.selector
    call = decode_call(calldata)
    assert (call.name, dict(call.arguments)) == (name, dict(zip(function.arguments, said, strict=True)))


def test_a_call_is_asked_for_its_arguments_by_name() -> None:
    call = decode_call(encode_call("plan", 5, 0, b"d" * 32, 7))
    assert (call["round"], call["attempt"], call["digest"], call["size"]) == (5, 0, b"d" * 32, 7)
    assert "size" in call
    assert "payload" not in call


def test_addresses_are_written_as_bytes_or_text_and_read_as_lower_case_text() -> None:
    checksummed = "0x00000000000000000000000000000000DeaDBeef"
    for address in (checksummed, checksummed.lower(), bytes.fromhex(checksummed[2:])):
        assert decode_call(encode_call("credit", address))["arg0"] == Address(checksummed)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("plan", (1,)),
        ("plan", (1, 0, bytes(32), 1, 0)),
        ("plan", (-1, 0, bytes(32), 1)),
        ("plan", (2**256, 0, bytes(32), 1)),
        ("plan", (1, 0, bytes(33), 1)),
        ("plan", (1, 0, bytes(32), "text")),
        ("found", (bytes(32), 1, bytes(32), (1, 1, 1, 1))),
        ("vote", (bytes(19), bytes(20))),
        ("vote", (bytes(21), bytes(20))),
        ("vote", ("server", bytes(20))),
        ("seal", (1, bytes(9))),
    ],
)
def test_arguments_that_do_not_fit_are_refused(name: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ContractError, match=f"arguments of {name} that do not fit"):
        encode_call(name, *arguments)


def test_one_call_has_one_form() -> None:
    """Else two readers could disagree about what was said, and one hash would have two meanings."""
    canonical = encode_call("flag_equivocation", 1, bytes(20), b"payload", b"", b"", b"")
    head, offset, offsets, length = canonical[:68], canonical[68:100], canonical[100:196], canonical[196:228]
    data, behind = canonical[228:260], canonical[260:]
    assert (offset, length, behind) == (word(192), word(7), bytes(96))
    others = {
        "a byte more": canonical + b"\0",
        "a word more": canonical + bytes(32),
        "a byte less": canonical[:-1],
        "no padding": head + offset + offsets + length + data[:7],
        "padding that is not zero": head + offset + offsets + length + data[:-1] + b"\x01" + behind,
        "an offset into the head": head + word(0) + offsets + length + data + behind,
        "an offset to another's place": head + word(256) + offsets + length + data + behind,
        "an offset beyond the end": head + word(2**255) + offsets + length + data + behind,
        "a length beyond the end": head + offset + offsets + word(2**20) + data + behind,
        "a length that wraps": head + offset + offsets + word(2**256 - 1) + data + behind,
    }
    assert decode_call(canonical)["first"] == b"payload"
    for what, calldata in others.items():
        with pytest.raises(NotRegistryCallError):
            pytest.fail(f"{what} was read as {decode_call(calldata)}")


@pytest.mark.parametrize("name", ["plan", "gradient", "close", "iterate", "model"])
def test_a_post_has_exactly_its_words(name: str) -> None:
    """Posts are read without eth_abi: word by word, and nothing behind them."""
    function = functions()[name]
    said = tuple(bytes([i]) * 32 if kind == "bytes32" else i for i, kind in enumerate(function.types, start=1))
    calldata = encode_call(name, *said)
    assert tuple(decode_call(calldata).arguments.values()) == said
    for other in (calldata[:-1], calldata[:-32], calldata + b"\0", calldata + bytes(32), calldata[:4]):
        expected = rf"of {name} have {len(other) - 4} bytes, expected {32 * len(said)}"
        with pytest.raises(NotRegistryCallError, match=expected):
            decode_call(other)


def test_an_address_with_something_before_it_is_refused() -> None:
    vote = encode_call("vote", bytes(20), bytes(20))
    with pytest.raises(NotRegistryCallError, match="do not decode"):
        decode_call(vote[:4] + b"\x01" + vote[5:])


@given(st.binary(max_size=100))
def test_random_bytes_are_no_call(data: bytes) -> None:
    with pytest.raises(NotRegistryCallError):
        decode_call(data)


@given(NAMES, BODIES)
def test_bytes_behind_a_selector_are_a_call_or_refused(name: str, body: bytes) -> None:
    calldata = functions()[name].selector + body
    try:
        call = decode_call(calldata)
    except NotRegistryCallError:
        return
    assert encode_call(call.name, *call.arguments.values()) == calldata


def test_an_unknown_selector_is_shown() -> None:
    with pytest.raises(NotRegistryCallError, match="found selector 0xdeadbeef, expected a function of the registry"):
        decode_call(bytes.fromhex("deadbeef") + bytes(64))
    with pytest.raises(NotRegistryCallError, match="found selector 0x,"):
        decode_call(b"")


def test_a_registration_beyond_a_batch_is_refused_unread() -> None:
    """A stranger's megabytes of addresses would take seconds to decode."""
    batch = ["0x" + bytes(20).hex()] * 64
    assert len(decode_call(encode_call("register", batch, batch))["homes"]) == 64
    with pytest.raises(NotRegistryCallError, match=r"found \d+ bytes of register, expected at most 4228"):
        decode_call(encode_call("register", [*batch, *batch], [*batch, *batch]))


# --- answers, events, reverts


@given(st.data(), NAMES)
def test_an_answer_is_one_value_or_all_of_them(data: st.DataObject, name: str) -> None:
    outputs = functions()[name].outputs
    values = data.draw(values_of(outputs))
    answer = decode_result(name, eth_abi.encode(outputs, values))
    assert answer == (values[0] if len(values) == 1 else values)


@given(NAMES, BODIES)
def test_no_answer_is_too_strange_to_be_refused(name: str, body: bytes) -> None:
    with contextlib.suppress(LedgerError):
        decode_result(name, body)


@pytest.mark.parametrize(("name", "answer"), [("round", b""), ("founded", word(2)), ("server_list", word(2**255))])
def test_an_answer_that_cannot_be_the_registry_s_says_so(name: str, answer: bytes) -> None:
    with pytest.raises(
        LedgerError, match=rf"found {len(answer)} bytes as the answer of {name}; is this the registry\?"
    ):
        decode_result(name, answer)


@given(st.data(), st.sampled_from(sorted(events())))
def test_an_event_is_read_field_by_field(data: st.DataObject, name: str) -> None:
    event = events()[name]
    indexed = data.draw(values_of(tuple(kind for _, kind in event.indexed)))
    values = data.draw(values_of(tuple(kind for _, kind in event.data)))
    topics = [eth_abi.encode([kind], [value]) for (_, kind), value in zip(event.indexed, indexed, strict=True)]
    log = eth_abi.encode([kind for _, kind in event.data], values)
    names = [field for field, _ in event.indexed + event.data]
    expected = Call(name, dict(zip(names, indexed + values, strict=True)))
    assert decode_log((event.topic, *topics), log) == expected


@given(st.sampled_from(sorted(events())), st.lists(WORDS.map(word), max_size=4), BODIES)
def test_a_log_that_does_not_decode_is_no_event(name: str, topics: list[bytes], body: bytes) -> None:
    event = events()[name]
    decoded = decode_log((event.topic, *topics), body)
    if len(topics) != len(event.indexed) or len(body) < 32 * len(event.data):
        assert decoded is None


def test_a_log_of_somebody_else_is_no_event() -> None:
    assert decode_log((), b"") is None
    assert decode_log((keccak(b"Transfer(address,address,uint256)"), bytes(32), bytes(32)), bytes(32)) is None
    sealed = events()["Sealed"]
    assert decode_log((sealed.topic, bytes(32), bytes(32)), bytes(32)) is not None
    assert decode_log((sealed.topic, bytes(32)), bytes(32)) is None
    assert decode_log((sealed.topic, bytes(32), b"\xff" * 32), bytes(32)) is None


@given(st.text(max_size=100))
def test_a_reason_is_read_from_a_revert(reason: str) -> None:
    assert revert_reason(REVERT + eth_abi.encode(["string"], [reason])) == reason


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"\x08\xc3",
        REVERT,
        REVERT + word(32),
        bytes.fromhex("4e487b71") + word(17),
        REVERT + word(32) + word(2) + b"\xff\xfe".ljust(32, b"\0"),
        REVERT + word(32) + word(2**64) + bytes(32),
        REVERT + word(2**255) + word(1) + bytes(32),
    ],
    ids=["nothing", "half", "no string", "no length", "a panic", "no UTF-8", "too long", "out of bounds"],
)
def test_a_revert_without_a_reason_has_none(output: bytes) -> None:
    assert revert_reason(output) == ""


@given(BODIES)
def test_no_revert_is_too_strange_to_be_read(body: bytes) -> None:
    assert isinstance(revert_reason(REVERT + body), str)
    assert isinstance(revert_reason(body), str)


def test_the_settings_of_a_registry_are_read_by_name() -> None:
    found = contract.registry_settings((Address("0x" + "0a" * 20), True, 2, 4, 5, 9))
    assert found == (b"\x0a" * 20, True, 2, 4, 5, 9)
    assert (str(found.founder), found.contract_seal, found.term_cap) == ("0x" + "0a" * 20, True, 2)
    assert (found.flag_window, found.exclusion_rounds, found.seal_difficulty) == (4, 5, 9)
