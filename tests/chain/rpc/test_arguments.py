"""JSON-RPC parameters: what is taken, what is refused, and that a refusal is short whatever was sent."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chain.rpc import arguments as parsing
from chain.rpc.arguments import ArgumentError
from tests.chain.rpc.json_values import JSON

PARSERS = [
    lambda value: parsing.number(value, "x"),
    lambda value: parsing.data(value, "x"),
    lambda value: parsing.sized_bytes(value, 8, "x"),
    parsing.address,
    parsing.hash32,
    lambda value: parsing.flag(value, "x"),
    lambda value: parsing.mapping(value, "x"),
    lambda value: parsing.bounded_list(value, "x", 2),
]


@given(st.integers(0, 2**256 - 1))
def test_a_quantity_is_read_as_hex_and_as_a_number(value: int) -> None:
    assert parsing.number(hex(value), "x") == parsing.number(value, "x") == value
    assert parsing.number(f"0x{value:064X}", "x") == value


@pytest.mark.parametrize(
    "value", [-1, 2**256, 10**4000, True, 1.0, None, "", "1", "0x", "0X1", "0xg", "0x" + "1" * 65, "0x1 ", "0x1\n", []]
)
def test_what_is_no_quantity_of_256_bits_is_refused(value: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^block: found .*, expected a quantity such as 0x1f$"):
        parsing.number(value, "block")


@given(st.binary(max_size=100))
def test_bytes_survive_as_hex_of_either_case(value: bytes) -> None:
    assert parsing.data("0x" + value.hex(), "x") == value
    assert parsing.data("0x" + value.hex().upper(), "x") == value


@pytest.mark.parametrize(
    "value", ["", "00", "0x0", "0x0g", "0x 00", "0x00 11", "0x00\n", "0x\t00", "0x00\x0b11", "0xé0", "0x٠٠", b"\0", 0]
)
def test_what_is_not_exactly_hex_is_refused(value: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^data: found .*, expected bytes such as 0x00ff$"):
        parsing.data(value, "data")


def test_a_wrong_length_is_told() -> None:
    with pytest.raises(ArgumentError, match=r"^to: found 19 bytes, expected 20$"):
        parsing.address("0x" + "00" * 19, "to")
    with pytest.raises(ArgumentError, match=r"^hash: found 33 bytes, expected 32$"):
        parsing.hash32("0x" + "00" * 33)


@pytest.mark.parametrize("value", [0, 1, "true", None, []])
def test_only_true_and_false_are_flags(value: Any) -> None:
    with pytest.raises(ArgumentError, match="expected true or false"):
        parsing.flag(value, "full")


def test_a_list_has_a_bound() -> None:
    assert parsing.bounded_list([1, 2], "topics", 2) == [1, 2]
    with pytest.raises(ArgumentError, match=r"^topics: found a list of 3, expected at most 2$"):
        parsing.bounded_list([1, 2, 3], "topics", 2)
    with pytest.raises(ArgumentError, match=r"^topics: found 'abc', expected a list$"):
        parsing.bounded_list("abc", "topics", 5)


@pytest.mark.parametrize("parse", PARSERS)
@given(value=JSON)
def test_any_json_is_read_or_refused_in_a_short_sentence(parse: Any, value: Any) -> None:
    refusal = ""
    try:
        parse(value)
    except ArgumentError as error:
        refusal = str(error)
    assert len(refusal) < 200


def test_a_refusal_shows_neither_megabytes_nor_depths() -> None:
    deep: list[Any] = []
    for _ in range(3000):
        deep = [deep]
    for value in ("0x" + "z" * 10**7, "\0" * 10**7, deep, {"a": deep}, 10**4000):
        with pytest.raises(ArgumentError) as refused:
            parsing.data(value, "x")
        assert len(str(refused.value)) < 200
