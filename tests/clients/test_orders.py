"""Orders through real Flower messages: sound ones arrive as they were, all others are refused."""

import hashlib
import io
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy
from numpy.typing import NDArray

from clients.errors import OrderError
from clients.models import Vector
from clients.orders import (
    LedgerTerms,
    Order,
    order_messages,
    read_order,
    vector_digest,
)
from tests.clients.messages import EVIL_BYTES, an_order, evil_array, message_with, over_the_wire, sent

GOLDEN = "ee4ac73c2bd27756ab82780f27c73a7bc4d3f0bb6acb37e008bc27eccd7e588b"

quick = settings(max_examples=60, deadline=None)
vectors = st_numpy.arrays(np.float32, st.integers(1, 30), elements=st.floats(-100, 100, width=32))


def test_a_digest_is_the_sha256_of_the_little_endian_bytes() -> None:
    """1.0 is 0000803f, -2.0 is 000000c0; the golden value is from sha256sum."""
    assert hashlib.sha256(bytes.fromhex("0000803f000000c0")).hexdigest() == GOLDEN
    assert vector_digest(np.array([1.0, -2.0], np.float32)) == GOLDEN


def test_a_digest_is_of_the_values_and_not_of_how_they_lie_in_memory() -> None:
    vector = np.arange(10, dtype=np.float32)
    assert vector_digest(vector[::2]) == vector_digest(vector[::2].copy())
    assert vector_digest(vector.astype(">f4")) == vector_digest(vector)
    assert vector_digest(vector[::-1]) != vector_digest(vector)


@given(
    model=vectors,
    round_=st.integers(1, 10**9),
    device=st.integers(0, 10**6),
    samples=st.integers(1, 10**6),
    learning_rate=st.floats(1e-9, 10),
    optimizer=st.sampled_from(["sgd", "adam"]),
    seed=st.integers(0, 2**62),
    offload_to=st.integers(-1, 100),
)
@quick
def test_an_order_arrives_as_it_was_sent(model: Vector, round_: int, **changes: Any) -> None:
    order = an_order(model, round=round_, **changes)
    assert_same_order(read_order(over_the_wire(sent(order))), order)


def assert_same_order(found: Order, expected: Order) -> None:
    np.testing.assert_array_equal(found.model, expected.model)
    plain = {key: value for key, value in vars(expected).items() if key != "model"}
    assert {key: value for key, value in vars(found).items() if key != "model"} == plain


TERMS = LedgerTerms(
    chain_id=2**31 + 5, registry="ab" * 20, nonce=0, codec="fp16", base_model="cd" * 32,
    plan="ef" * 32, attempt=2**32 - 1,
)  # fmt: skip


def test_an_order_on_a_chain_arrives_with_its_terms_its_plan_and_its_proof(subtests: pytest.Subtests) -> None:
    cases: list[bytes] = [b"", b"\x00\xff" * 30_000]
    for proof in cases:
        with subtests.test(proof=proof):
            order = an_order(ledger=TERMS, proof=proof, plan_post=b"signed", plan_payload=proof + b"{}")
            assert_same_order(read_order(over_the_wire(sent(order))), order)


def test_what_is_beside_the_terms_is_measured_before_it_is_read(subtests: pytest.Subtests) -> None:
    for name, most in {"proof": 16 << 20, "plan_post": 1 << 10, "plan_payload": 16 << 20}.items():
        with subtests.test(name):
            changes: dict[str, Any] = {name: bytes(most)}
            read_order(sent(an_order(ledger=TERMS, **changes)))
            changes = {name: bytes(most + 1)}
            with pytest.raises(OrderError, match=f"found {most + 1} bytes of {name}, expected at most {most} bytes"):
                read_order(sent(an_order(ledger=TERMS, **changes)))


def test_an_order_without_a_chain_carries_no_terms() -> None:
    assert "ledger" not in sent(an_order()).content
    assert (read_order(sent(an_order())).ledger, read_order(sent(an_order())).proof) == (None, b"")


def test_malformed_ledger_terms_are_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"chain_id": "5"}, "ledger chain_id is '5', expected int"),
        ({"chain_id": True}, "ledger chain_id is True, expected int"),
        ({"nonce": -1}, "ledger nonce is -1, expected int"),
        ({"nonce": 1.5}, "ledger nonce is 1.5, expected int"),
        ({"attempt": -1}, "ledger attempt is -1, expected int"),
        ({"attempt": True}, "ledger attempt is True, expected int"),
        ({"attempt": 1.0}, "ledger attempt is 1.0, expected int"),
        ({"attempt": 2**32}, "ledger attempt is 4294967296, expected less than 4294967296"),
        ({"attempt": None}, "found ledger terms"),
        ({"registry": b"ab"}, "ledger registry is b'ab', expected str"),
        ({"codec": 16}, "ledger codec is 16, expected str"),
        ({"plan": ["ef"]}, r"ledger plan is \['ef'\], expected str"),
        ({"proof": "text"}, "found str of proof, expected at most"),
        ({"plan_post": 3}, "found int of plan_post, expected at most"),
        ({"plan_payload": None}, "found ledger terms .*, a plan and a proof"),
        ({"proof": None}, "found ledger terms .* and a proof"),
        ({"nonce": None}, "found ledger terms"),
        ({"gas": 3}, "found ledger terms .*'gas'"),
    ]
    for change, message in cases:
        with subtests.test(change=change, message=message):
            spoiled = sent(an_order(ledger=TERMS))
            ledger: Any = spoiled.content["ledger"]
            for key, value in change.items():
                if value is not None:
                    ledger[key] = value
                else:
                    del ledger[key]
            with pytest.raises(OrderError, match=message):
                read_order(over_the_wire(spoiled))


def test_an_order_goes_to_its_node_in_its_round_by_its_type() -> None:
    messages = order_messages([(an_order(), 1_002), (an_order(offload_to=0), 1_003)])
    assert [m.metadata.dst_node_id for m in messages] == [1_002, 1_003]
    assert [m.metadata.message_type for m in messages] == ["train", "query.offload"]
    assert {m.metadata.group_id for m in messages} == {"4"}


def test_an_order_lives_as_long_as_its_deadline_but_never_less_than_a_minute(subtests: pytest.Subtests) -> None:
    cases: list[tuple[float, float]] = [(600.0, 600.0), (60.5, 60.5), (60.0, 60.0), (0.5, 60.0)]
    for deadline_s, lifetime_s in cases:
        with subtests.test(deadline_s=deadline_s, lifetime_s=lifetime_s):
            assert sent(an_order(deadline_s=deadline_s)).metadata.ttl == lifetime_s


def test_orders_on_the_same_model_share_its_record_and_others_do_not() -> None:
    other = an_order(np.array([3.0], np.float32))
    first, second, third = order_messages([(an_order(), 1), (an_order(device=3), 2), (other, 3)])
    assert first.content["model"] is second.content["model"]
    assert first.content["model"] is not third.content["model"]
    assert_same_order(read_order(third), other)


def spoiled(key: str, value: Any) -> Message:
    """An order with one field changed; None leaves it out."""
    message = sent(an_order())
    fields: dict[str, Any] = dict(message.content["order"])
    fields[key] = value
    kept = {k: v for k, v in fields.items() if v is not None}
    return message_with(RecordDict({"order": ConfigRecord(kept), "model": message.content["model"]}))


def refusal(message: Message) -> str:
    with pytest.raises(OrderError) as caught:
        read_order(message)
    return str(caught.value)


KINDS = {
    "round": "int",
    "device": "int",
    "model-digest": "str",
    "plan-digest": "str",
    "samples": "int",
    "iterations": "int",
    "batch": "int",
    "learning-rate": "float",
    "optimizer": "str",
    "seed": "int",
    "deadline-s": "float",
    "offload-to": "int",
}


def test_an_order_without_a_field_is_refused_by_its_name(subtests: pytest.Subtests) -> None:
    for key in list(KINDS):
        with subtests.test(key=key):
            assert refusal(spoiled(key, None)) == f"order: {key} is None, expected {KINDS[key]}"


def test_a_field_of_the_wrong_type_is_refused_with_found_and_expected(subtests: pytest.Subtests) -> None:
    all_values: list[Any] = [True, b"bytes", [1, 2]]
    for value in all_values:
        for key in list(KINDS):
            with subtests.test(value=value, key=key):
                assert refusal(spoiled(key, value)) == f"order: {key} is {value!r}, expected {KINDS[key]}"


def test_a_field_of_a_similar_type_is_refused_too(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, Any]] = [
        ("round", "4"),
        ("samples", 8.0),
        ("learning-rate", 1),
        ("optimizer", 1),
        ("deadline-s", "60"),
    ]
    for key, value in cases:
        with subtests.test(key=key, value=value):
            assert refusal(spoiled(key, value)) == f"order: {key} is {value!r}, expected {KINDS[key]}"


def test_a_count_that_is_not_positive_is_refused(subtests: pytest.Subtests) -> None:
    all_values: list[int] = [0, -1, -(2**62)]
    all_keys: list[str] = ["round", "samples", "iterations", "batch"]
    for value in all_values:
        for key in all_keys:
            with subtests.test(value=value, key=key):
                assert refusal(spoiled(key, value)) == f"order: {key} is {value}, expected more than 0"


def test_a_rate_or_deadline_that_is_no_positive_number_is_refused(subtests: pytest.Subtests) -> None:
    all_values: list[float] = [0.0, -0.1, float("nan"), float("inf"), float("-inf")]
    all_keys: list[str] = ["learning-rate", "deadline-s"]
    for value in all_values:
        for key in all_keys:
            with subtests.test(value=value, key=key):
                assert refusal(spoiled(key, value)) == f"order: {key} is {value}, expected more than 0"


def test_an_unknown_optimiser_is_refused() -> None:
    assert refusal(spoiled("optimizer", "lbfgs")) == "order: optimizer is 'lbfgs', expected sgd or adam"


def test_a_negative_seed_is_refused() -> None:
    assert refusal(spoiled("seed", -1)) == "order: seed is -1, expected 0 or more"


def test_a_model_that_is_not_the_one_of_the_digest_is_refused_with_both() -> None:
    found, expected = vector_digest(an_order().model), "0" * 64
    assert refusal(spoiled("model-digest", expected)) == f"order: model has digest {found[:12]}, expected {'0' * 12}"


def test_an_order_without_a_record_is_refused_by_its_name(subtests: pytest.Subtests) -> None:
    cases: list[str] = ["order", "model"]
    for missing in cases:
        with subtests.test(missing=missing):
            content = sent(an_order()).content
            kept = RecordDict({key: record for key, record in content.items() if key != missing})
            assert refusal(message_with(kept)) == (
                f"expected records 'order' and 'model' with a model: found no record '{missing}'"
            )


def with_model(record: Any) -> Message:
    return message_with(RecordDict({"order": sent(an_order()).content["order"], "model": record}))


def test_a_model_that_is_no_array_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[Any] = [
        ConfigRecord({"model": "weights"}),
        MetricRecord({"model": [1.0, -2.0, 0.5]}),
        ArrayRecord({"weights": Array(an_order().model)}),
        ArrayRecord({}),
    ]
    for label, record in zip(["configuration", "metrics", "another name", "no array"], cases, strict=True):
        with subtests.test(label):
            assert refusal(with_model(record)) == (
                "expected records 'order' and 'model' with a model: found no array 'model'"
            )


def test_a_model_of_evil_bytes_is_refused(subtests: pytest.Subtests) -> None:
    for name in list(EVIL_BYTES):
        with subtests.test(name=name):
            message = refusal(with_model(ArrayRecord({"model": evil_array(name)})))
            assert message.startswith("expected records 'order' and 'model' with a model: array 'model' ")


def test_a_model_that_is_no_flat_float32_vector_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[NDArray[Any], str]] = [
        (np.zeros((3, 1), np.float32), "float32 of shape (3, 1)"),
        (np.zeros(3, np.float64), "float64 of shape (3,)"),
        (np.zeros(3, np.int32), "int32 of shape (3,)"),
        (np.zeros((), np.float32), "float32 of shape ()"),
    ]
    for model, found in cases:
        with subtests.test(model=model, found=found):
            assert refusal(with_model(ArrayRecord({"model": Array(model)}))) == (
                f"order: model is {found}, expected a flat float32 vector"
            )


def test_fields_in_the_wrong_kind_of_record_are_refused() -> None:
    content = RecordDict({"order": MetricRecord({"round": 4}), "model": sent(an_order()).content["model"]})
    assert refusal(message_with(content)) == "order: device is None, expected int"


def test_a_message_that_is_an_error_is_no_order() -> None:
    reply = Message(Error(1, "lost"), reply_to=sent(an_order()))
    assert refusal(reply) == "expected records 'order' and 'model' with a model: found no record 'order'"


def test_fields_nobody_knows_are_left_alone() -> None:
    assert_same_order(read_order(spoiled("colour", "blue")), an_order())


@given(data=st.binary(max_size=300))
@settings(max_examples=150, deadline=None)
def test_random_bytes_in_the_place_of_the_model_are_refused(data: bytes) -> None:
    refusal(with_model(ArrayRecord({"model": Array("float32", (3,), "numpy.ndarray", data)})))


def serialised(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


@given(position=st.integers(0, 11), bit=st.integers(0, 7))
@quick
def test_one_flipped_bit_of_the_model_is_refused(position: int, bit: int) -> None:
    data = bytearray(serialised(an_order().model))
    data[len(data) - 12 + position] ^= 1 << bit
    message = refusal(with_model(ArrayRecord({"model": Array("float32", (3,), "numpy.ndarray", bytes(data))})))
    assert message.startswith("order: model has digest ")


@given(kept=st.integers(0, len(serialised(an_order().model)) - 1))
@quick
def test_a_model_cut_off_anywhere_is_refused(kept: int) -> None:
    data = serialised(an_order().model)[:kept]
    refusal(with_model(ArrayRecord({"model": Array("float32", (3,), "numpy.ndarray", data)})))
