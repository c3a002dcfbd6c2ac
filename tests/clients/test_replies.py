"""Replies through real Flower messages: sound ones arrive as they were, all others are refused."""

from typing import Any

import numpy as np
import pytest
from flwr.app import Array, Message, RecordDict
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from clients.errors import OrderError, ReplyError
from clients.models import Vector
from clients.replies import (
    FAILED,
    DataReply,
    GradientReply,
    SignedReply,
    data_message,
    error_message,
    gradient_message,
    read_reply,
    signed_message,
)
from tests.clients.messages import EVIL_BYTES, NODE_ID, an_order, evil_array, over_the_wire, sent

quick = settings(max_examples=60, deadline=None)
vectors = st_numpy.arrays(np.float32, st.integers(1, 30), elements=st.floats(-100, 100, width=32))


@given(values=vectors, samples=st.integers(1, 10**6), iterations=st.integers(1, 100))
@quick
def test_a_gradient_arrives_with_its_weight_and_what_it_was_made_from(
    values: Vector, samples: int, iterations: int
) -> None:
    order = an_order()
    reply = read_reply(over_the_wire(gradient_message(order, samples, iterations, values, sent(order))))
    assert isinstance(reply, GradientReply)
    assert (reply.device, reply.round, reply.samples, reply.iterations) == (2, 4, samples, iterations)
    assert (reply.model_digest, reply.plan_digest) == (order.model_digest, "plan-digest")
    assert reply.values.dtype == np.float32
    np.testing.assert_array_equal(reply.values, values)


@given(count=st.integers(1, 5), as_bytes=st.booleans())
@quick
def test_offloaded_data_arrives_as_it_was_sent(count: int, as_bytes: bool) -> None:
    images = np.arange(count * 6).reshape(count, 1, 2, 3).astype(np.uint8 if as_bytes else np.float32)
    labels = np.arange(count)
    reply = read_reply(over_the_wire(data_message(an_order(offload_to=1), images, labels, sent(an_order()))))
    assert isinstance(reply, DataReply)
    assert (reply.device, reply.round) == (2, 4)
    assert reply.inputs.dtype == images.dtype
    np.testing.assert_array_equal(reply.inputs, images)
    np.testing.assert_array_equal(reply.labels, labels)


@given(transaction=st.binary(max_size=300), payload=st.binary(max_size=300))
@quick
def test_a_signed_gradient_arrives_with_its_payload_byte_for_byte(transaction: bytes, payload: bytes) -> None:
    reply = read_reply(over_the_wire(signed_message(an_order(), (transaction, payload), sent(an_order()))))
    assert reply == SignedReply(2, 4, transaction, payload)


def test_a_signed_gradient_that_is_no_bytes_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, Any]] = [
        *(("transaction", value) for value in ("0xab", 5, [1, 2], None)),
        ("payload", "0xab"),
        ("payload", None),
    ]
    for name, value in cases:
        with subtests.test(name=name, value=value):
            reply = signed_message(an_order(), (b"\x02", b"\x03"), sent(an_order()))
            about: Any = reply.content["about"]
            if value is None:
                del about[name]
            else:
                about[name] = value
            with pytest.raises(ReplyError, match=name):
                read_reply(over_the_wire(reply))


def test_a_reply_goes_back_to_the_sender_of_the_order() -> None:
    order = sent(an_order())
    reply = gradient_message(an_order(), 1, 1, np.zeros(3, np.float32), order)
    assert reply.metadata.src_node_id == NODE_ID
    assert reply.metadata.dst_node_id == order.metadata.src_node_id


def test_an_error_reply_carries_the_code_and_the_reason_for_people() -> None:
    reply = over_the_wire(error_message(OrderError("order: round is 0"), sent(an_order()), FAILED))
    assert reply.has_error()
    assert (reply.error.code, reply.error.reason) == (500, "OrderError: order: round is 0")


def spoiled_reply(kind: str, record: str, key: str = "", value: Any = None) -> Message:
    """A reply without a record, or with one entry of it changed (None: left out)."""
    order = an_order()
    if kind == "data":
        sound = data_message(order, np.zeros((2, 1, 1, 1), np.uint8), np.zeros(2, np.int64), sent(order))
    else:
        sound = gradient_message(order, 8, 3, np.zeros(3, np.float32), sent(order))
    records: dict[str, Any] = dict(sound.content.items())
    if key:
        entries = {k: v for k, v in {**records[record], key: value}.items() if v is not None}
        records[record] = type(records[record])(entries)
    else:
        del records[record]
    return Message(RecordDict(records), reply_to=sent(order))


def reply_refusal(message: Message) -> str:
    with pytest.raises(ReplyError) as caught:
        read_reply(message)
    return str(caught.value)


def test_a_reply_without_a_record_is_refused_by_its_name(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str]] = [
        ("gradient", "about"),
        ("gradient", "weight"),
        ("gradient", "arrays"),
        ("data", "about"),
        ("data", "arrays"),
    ]
    for kind, record in cases:
        with subtests.test(kind=kind, record=record):
            assert reply_refusal(spoiled_reply(kind, record)) == (
                f"expected a gradient with its weight, or data: found no record '{record}'"
            )


def test_a_reply_without_an_entry_is_refused_by_its_name(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str, str]] = [
        ("gradient", "about", "kind"),
        ("gradient", "about", "device"),
        ("gradient", "about", "round"),
        ("gradient", "about", "model-digest"),
        ("gradient", "about", "plan-digest"),
        ("gradient", "weight", "samples"),
        ("gradient", "weight", "iterations"),
        ("data", "about", "device"),
        ("data", "about", "round"),
    ]
    for kind, record, key in cases:
        with subtests.test(kind=kind, record=record, key=key):
            assert reply_refusal(spoiled_reply(kind, record, key)) == (
                f"expected a gradient with its weight, or data: '{key}'"
            )


def test_a_reply_without_an_array_is_refused_by_its_name(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str]] = [("gradient", "gradient"), ("data", "inputs"), ("data", "labels")]
    for kind, key in cases:
        with subtests.test(kind=kind, key=key):
            assert reply_refusal(spoiled_reply(kind, "arrays", key)) == (
                f"expected a gradient with its weight, or data: found no array '{key}'"
            )


def test_a_count_that_is_no_whole_number_is_refused_and_not_rounded(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str, Any]] = [
        ("about", "device", "two"),
        ("about", "device", "8"),
        ("about", "device", [1, 2]),
        ("about", "round", True),
        ("about", "round", 2.7),
        ("about", "round", float("nan")),
        ("about", "round", float("inf")),
        ("weight", "samples", [8, 8]),
        ("weight", "samples", 8.0),
        ("weight", "samples", float("inf")),
        ("weight", "iterations", float("nan")),
    ]
    for record, key, value in cases:
        with subtests.test(record=record, key=key, value=value):
            assert reply_refusal(spoiled_reply("gradient", record, key, value)) == (
                f"expected a gradient with its weight, or data: {key} is {value!r}, expected a whole number"
            )


def test_an_array_of_evil_bytes_is_refused(subtests: pytest.Subtests) -> None:
    all_cases: list[tuple[str, str]] = [("gradient", "gradient"), ("data", "inputs"), ("data", "labels")]
    for name in list(EVIL_BYTES):
        for kind, key in all_cases:
            with subtests.test(name=name, kind=kind, key=key):
                assert reply_refusal(spoiled_reply(kind, "arrays", key, evil_array(name))).startswith(
                    f"expected a gradient with its weight, or data: array '{key}' "
                )


def test_an_error_is_no_reply() -> None:
    assert reply_refusal(error_message(OrderError("no"), sent(an_order()), FAILED)) == (
        "expected a gradient with its weight, or data: found no record 'about'"
    )


@given(kind=st.sampled_from([("gradient", "gradient"), ("data", "inputs"), ("data", "labels")]), data=st.binary())
@settings(max_examples=150, deadline=None)
def test_random_bytes_in_the_place_of_an_array_are_refused(kind: tuple[str, str], data: bytes) -> None:
    array = Array("float32", (3,), "numpy.ndarray", data)
    assert f"array '{kind[1]}' " in reply_refusal(spoiled_reply(kind[0], "arrays", kind[1], array))
