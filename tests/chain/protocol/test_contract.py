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
    RegistryTerms,
    build,
    call_gas,
    decode_call,
    decode_log,
    decode_result,
    deployment,
    encode_call,
    events,
    functions,
    revert_reason,
    size_class,
)
from chain.protocol.slots import MAX_STEP, Slot

SOURCE = Path(contract.__file__).with_name("registry.vy").read_text(encoding="utf-8")
WORDS = st.integers(0, 2**256 - 1)
ADDRESSES = st.binary(min_size=20, max_size=20).map(lambda address: "0x" + address.hex())
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "uint256": WORDS,
    "bool": st.booleans(),
    "address": ADDRESSES,
    "bytes32": st.binary(min_size=32, max_size=32),
    "bytes8": st.binary(min_size=8, max_size=8),
    "bytes": st.binary(max_size=200),
    "address[]": st.lists(ADDRESSES, max_size=8).map(tuple),
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

    for slot in Slot:
        assert slot == (2**256 - 1 if slot is Slot.EQUIVOCATION else constant(slot.name)), slot.name
    assert (constant("MAX_STEP"), constant("MAX_BATCH")) == (MAX_STEP, contract.MAX_BATCH)
    assert constant("MAX_CHUNK") == contract.CHUNK_BYTES
    (system,) = re.findall(r"^SYSTEM: constant\(address\) = 0x(\w+)$", SOURCE, re.MULTILINE)
    assert bytes.fromhex(system) == SYSTEM


@pytest.mark.parametrize(
    ("payload_bytes", "expected"),
    [
        (0, 1 << 17),
        (1 << 17, 1 << 17),
        ((1 << 17) + 1, 1 << 19),
        (1 << 19, 1 << 19),
        ((1 << 19) + 1, 1 << 20),
        (1 << 20, 1 << 20),
        ((1 << 20) + 1, 1 << 22),
        (1 << 22, 1 << 22),
    ],
)
def test_a_network_takes_the_smallest_frame_that_holds_its_payloads(payload_bytes: int, expected: int) -> None:
    assert size_class(payload_bytes) == expected


def test_a_payload_beyond_every_frame_is_refused_with_the_way_out() -> None:
    with pytest.raises(ContractError, match=r"4194305 bytes; the largest registry takes 4194304: send it in chunks"):
        size_class((1 << 22) + 1)
    with pytest.raises(ContractError, match="send it in chunks"):
        deployment(1 << 23, RegistryTerms())


def test_a_deployment_is_code_and_terms() -> None:
    terms = RegistryTerms(True, 1, 2, 3, 4, 5)
    words = [1, 1, 2, 3, 4, 5]
    creation = deployment(1, terms)
    assert creation[-192:] == b"".join(word.to_bytes(32, "big") for word in words)
    assert "0x" + creation[:-192].hex() == build()["bytecode"]["131072"]
    assert len({deployment(size, terms) for size in (1 << 17, 1 << 19, 1 << 20, 1 << 22)}) == 4


@pytest.mark.parametrize("terms", [RegistryTerms(term_cap=-1), RegistryTerms(turn_s=2**256)])
def test_terms_that_fit_no_word_are_refused(terms: RegistryTerms) -> None:
    with pytest.raises(ContractError, match="terms of the registry that do not fit"):
        deployment(1, terms)


def test_a_byte_more_costs_gas_and_costs_more_elsewhere() -> None:
    assert call_gas(101, 1 << 17) - call_gas(100, 1 << 17) == 17
    assert call_gas(101, 1 << 17, is_embedded=False) - call_gas(100, 1 << 17, is_embedded=False) == 41
    # Two frames of 4096 words and a word: 3 per word and the square / 512.
    assert call_gas(0, 1 << 17) - call_gas(0, 0) == 3 * (8194 - 2) + 8194**2 // 512


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
    call = decode_call(encode_call("chunk", 5, 1, 0, b"data"))
    assert (call["round"], call["slot"], call["index"], call["data"]) == (5, 1, 0, b"data")
    assert "data" in call
    assert "payload" not in call


def test_addresses_are_written_as_bytes_or_text_and_read_as_lower_case_text() -> None:
    checksummed = "0x00000000000000000000000000000000DeaDBeef"
    for address in (checksummed, checksummed.lower(), bytes.fromhex(checksummed[2:])):
        assert decode_call(encode_call("credit", address))["arg0"] == checksummed.lower()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("plan", (1,)),
        ("plan", (1, bytes(32), 0, b"", 0)),
        ("plan", (-1, bytes(32), 0, b"")),
        ("plan", (2**256, bytes(32), 0, b"")),
        ("plan", (1, bytes(33), 0, b"")),
        ("plan", (1, bytes(32), 0, "text")),
        ("plan", ("1", bytes(32), 0, b"")),
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
    canonical = encode_call("plan", 1, bytes(32), 0, b"payload")
    head, offset, length, data = canonical[:100], canonical[100:132], canonical[132:164], canonical[164:]
    assert (offset, length, len(data)) == (word(128), word(7), 32)
    others = {
        "a byte more": canonical + b"\0",
        "a word more": canonical + bytes(32),
        "a byte less": canonical[:-1],
        "no padding": head + offset + length + data[:7],
        "padding that is not zero": head + offset + length + data[:-1] + b"\x01",
        "a gap before the payload": head + word(160) + bytes(32) + length + data,
        "an offset into the head": head + word(0) + length + data,
        "an offset beyond the end": head + word(2**255) + length + data,
        "a length beyond the end": head + offset + word(33) + data,
        "a length that wraps": head + offset + word(2**256 - 1) + data,
    }
    assert decode_call(canonical)["payload"] == b"payload"
    for what, calldata in others.items():
        with pytest.raises(NotRegistryCallError):
            pytest.fail(f"{what} was read as {decode_call(calldata)}")


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
    found = contract.registry_settings(("0x" + "0a" * 20, True, 2, 7, 4, 5, 9, 1 << 17))
    assert found == (b"\x0a" * 20, True, 2, 7, 4, 5, 9, 1 << 17)
    assert (str(found.founder), found.contract_seal, found.term_cap, found.turn_s) == ("0x" + "0a" * 20, True, 2, 7)
    assert (found.flag_window, found.exclusion_rounds) == (4, 5)
    assert (found.seal_difficulty, found.payload_bytes) == (9, 1 << 17)
