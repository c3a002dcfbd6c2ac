"""Documents on the chain: one content has one canonical form, and every other form of it is refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chain.errors import CodecError
from chain.wire.documents import ClosedList, canonical_json, read_canonical_json

HASHES = [bytes([i]) * 32 for i in range(4)]
EMPTY: dict[str, Any] = {"kind": "close", "round": 1, "accepted": [], "refused": [], "unavailable": [], "rolls": []}
NO_LIST = "found no closed list: expected the keys accepted, kind, refused, rolls, round, unavailable"
_CONTENT = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


# --- canonical JSON


def test_keys_are_sorted_and_nothing_is_spaced() -> None:
    assert canonical_json({"b": [1, 2.5, None, True], "a": {"z": "é", "y": ""}}) == (
        '{"a":{"y":"","z":"é"},"b":[1,2.5,null,true]}'.encode()
    )


@given(_CONTENT)
def test_what_is_written_is_read_again(content: Any) -> None:
    try:
        payload = canonical_json(content)
    except CodecError:
        assert any(0xD800 <= ord(each) < 0xE000 for each in json.dumps(content, ensure_ascii=False))
        return
    assert read_canonical_json(payload) == content
    assert canonical_json(read_canonical_json(payload)) == payload


@pytest.mark.parametrize(
    "payload",
    [
        b'{"a": 1}',
        b'{"a":1}\n',
        b' {"a":1}',
        b'{"b":1,"a":2}',
        b'{"a":1,"a":1}',
        b'{"a":1e0}',
        b'{"a":01}',
        b'{"a":1.50}',
        b'{"a":-0}',
        b'"\\u0041"',
        b'"\\/"',
        b'\xef\xbb\xbf{"a":1}',
        '{"a":1}'.encode("utf-16"),
        b"[1,]",
    ],
)
def test_another_form_of_a_content_is_refused(payload: bytes) -> None:
    with pytest.raises(CodecError):
        read_canonical_json(payload)


@pytest.mark.parametrize("payload", [b"", b"{", b"NaN", b"[Infinity]", b"1e999", b"\xff", b"9" * 5000, b"[" * 100_000])
def test_what_is_no_json_is_refused(payload: bytes) -> None:
    with pytest.raises(CodecError, match=r"found no JSON|not in canonical form|has no canonical JSON"):
        read_canonical_json(payload)


@pytest.mark.parametrize(
    "content", [float("nan"), float("inf"), b"bytes", {1, 2}, {(1, 2): 3}, {1: 2, "a": 3}, "\ud800"]
)
def test_what_has_no_canonical_form_is_not_written(content: Any) -> None:
    with pytest.raises(CodecError, match="found content that has no canonical JSON"):
        canonical_json(content)


def test_content_without_an_end_is_not_written() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(CodecError, match="no canonical JSON"):
        canonical_json(endless)


@given(st.binary(max_size=60))
def test_random_bytes_are_refused_or_canonical(payload: bytes) -> None:
    try:
        content = read_canonical_json(payload)
    except CodecError:
        return
    assert canonical_json(content) == payload


# --- the closed list (P4)


def test_a_closed_list_is_accepted_hashes_in_order_and_refusals_with_reasons() -> None:
    closed = ClosedList(7, (HASHES[2], HASHES[0]), (("0xabc", "norm"), ("device 3", "unavailable")), (HASHES[3],))
    assert closed.encode() == (
        b'{"accepted":["0x' + b"02" * 32 + b'","0x' + b"00" * 32 + b'"],"kind":"close",'
        b'"refused":[["0xabc","norm"],["device 3","unavailable"]],"rolls":[],"round":7,"unavailable":["0x'
        + b"03" * 32
        + b'"]}'
    )


@given(
    st.integers(0, 2**64),
    st.lists(st.binary(min_size=32, max_size=32), unique=True, max_size=5),
    st.integers(0, 5),
    st.lists(st.tuples(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8"))), max_size=3),
)
def test_a_closed_list_is_read_as_it_was_written(
    round_: int, named: list[bytes], accepted: int, refused: list[tuple[str, str]]
) -> None:
    closed = ClosedList(round_, tuple(named[:accepted]), tuple(refused), tuple(named[accepted:]))
    assert ClosedList.decode(closed.encode()) == closed


def test_an_empty_closed_list_is_one() -> None:
    assert ClosedList.decode(canonical_json(EMPTY)) == ClosedList(1, ())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], NO_LIST),
        ({"kind": "close", "round": 1, "accepted": [], "refused": []}, NO_LIST),
        (EMPTY | {"more": 1}, NO_LIST),
        (EMPTY | {"kind": "plan"}, NO_LIST),
        (EMPTY | {"round": "1"}, "expected round to be a whole number"),
        (EMPTY | {"round": True}, "expected round to be a whole number"),
        (EMPTY | {"round": 1.5}, "expected round to be a whole number"),
        (EMPTY | {"accepted": {}}, "expected accepted to be a list of transaction hashes"),
        (EMPTY | {"accepted": [5]}, "expected accepted to be a list of transaction hashes"),
        (EMPTY | {"accepted": ["0x" + "ab" * 31]}, "expected accepted to be a list of transaction hashes"),
        (EMPTY | {"accepted": ["0x" + "AB" * 32]}, "expected accepted to be a list of transaction hashes"),
        (EMPTY | {"accepted": ["0x" + "ab" * 32 + "\n"]}, "expected accepted to be a list of transaction"),
        (EMPTY | {"unavailable": ["ab" * 32]}, "expected unavailable to be a list of transaction hashes"),
        (EMPTY | {"accepted": ["0x" + "ab" * 32] * 2}, "a gradient that is named twice"),
        (EMPTY | {"unavailable": ["0x" + "ab" * 32] * 2}, "a gradient that is named twice"),
        (EMPTY | {key: ["0x" + "ab" * 32] for key in ("accepted", "unavailable")}, "a gradient that is named twice"),
        (EMPTY | {"refused": {}}, r"expected refused to be a list of \[who, reason\]"),
        (EMPTY | {"refused": [["who"]]}, r"expected refused to be a list of \[who, reason\]"),
        (EMPTY | {"refused": [["who", 5]]}, r"expected refused to be a list of \[who, reason\]"),
        (EMPTY | {"refused": ["ab"]}, r"expected refused to be a list of \[who, reason\]"),
    ],
)
def test_what_is_no_closed_list_is_refused(content: Any, message: str) -> None:
    with pytest.raises(CodecError, match=message):
        ClosedList.decode(canonical_json(content))


def test_a_closed_list_that_could_not_be_read_is_not_made() -> None:
    with pytest.raises(CodecError, match="hashes of 32 bytes"):
        ClosedList(1, (b"short",))
    with pytest.raises(CodecError, match="hashes of 32 bytes"):
        ClosedList(1, (), unavailable=(b"short",))
    with pytest.raises(CodecError, match="named twice"):
        ClosedList(1, (HASHES[0],), unavailable=(HASHES[0],))


def test_a_closed_list_in_another_form_is_refused() -> None:
    with pytest.raises(CodecError, match="not in canonical form"):
        ClosedList.decode(b'{"kind":"close","accepted":[],"refused":[],"round":1,"unavailable":[]}')
