"""The plan that an order carries: a server's signed post of this network and round, and the payload it names (Q5)."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chain.client.keys import new_account
from chain.errors import CodecError
from chain.protocol.contract import encode_call
from chain.wire.documents import canonical_json
from chain.wire.plan import Plan
from chain.wire.sidecar import payload_digest
from clients.errors import OrderError
from clients.order_check import read_signed_plan
from clients.orders import Order
from clients.wallet import Wallet
from tests.clients.chain_device import refusal
from tests.clients.lying_server import home_key, planned, signed_call
from tests.edge_servers.small_network import SmallChain


def test_a_plan_that_no_server_has_signed_is_refused(chain: SmallChain, order: Order, plan: Plan) -> None:
    for signer in (new_account(), chain.hosting.account("device", 3), chain.hosting.account("founder", 0)):
        assert "found the signature of 0x" in refusal(chain, planned(chain, order, plan, signer))


def test_a_plan_that_one_json_reader_takes_and_another_does_not_is_refused(
    chain: SmallChain, order: Order, plan: Plan
) -> None:
    deep: Any = 1.0
    for _ in range(300):
        deep = [deep]
    lying = replace(plan, latency_s={"T": deep})
    assert "recursion limit exceeded" in refusal(chain, planned(chain, order, lying))


def posts(chain: SmallChain, plan: Plan) -> dict[str, tuple[bytes, str]]:
    """Posts that are not the plan's, and what a device says of them."""
    key, payload = home_key(chain, 3), plan.payload
    digest, size = payload_digest(payload), len(payload)
    right = encode_call("plan", plan.round, 0, digest, size)
    return {
        "another round": (signed_call(chain, key, encode_call("plan", 2, 0, digest, size)), "in a post of round 2"),
        "another attempt": (
            signed_call(chain, key, encode_call("plan", 1, 1, digest, size)),
            "found attempt 0, the plan says 1",
        ),
        "no attempt": (
            signed_call(chain, key, encode_call("plan", 1, 2**32, digest, size)),
            "expected a plan at an attempt below",
        ),
        "another payload": (signed_call(chain, key, encode_call("plan", 1, 0, bytes(32), size)), "beside the post of"),
        "another size": (signed_call(chain, key, encode_call("plan", 1, 0, digest, size + 1)), "bytes, expected"),
        "another call": (signed_call(chain, key, encode_call("close", 1, 0, digest, digest, size)), "another call"),
        "another chain": (signed_call(chain, key, right, chain_id=1), "found chain id 1"),
        "another registry": (signed_call(chain, key, right, to=bytes(20)), "found a call to 0x00"),
        "a creation": (signed_call(chain, key, right, to=b""), "found a contract creation"),
        "a fee": (signed_call(chain, key, right, max_fee=1), "found a value or a fee"),
        "no call": (signed_call(chain, key, b"\x01\x02\x03\x04"), "its plan is none of this network"),
        "cut": (signed_call(chain, key, right)[:-1], "its plan is none of this network"),
        "no transaction": (b"\x02", "its plan is none of this network"),
        "deep": (b"\x02" + b"\xc1" * 900, "its plan is none of this network"),
    }


def test_a_post_that_is_not_this_plans_is_refused(
    subtests: pytest.Subtests, chain: SmallChain, order: Order, plan: Plan
) -> None:
    for name, (post, message) in posts(chain, plan).items():
        with subtests.test(name):
            assert message in refusal(chain, replace(order, plan_post=post))


def test_a_payload_that_is_no_plan_of_this_network_is_refused(
    subtests: pytest.Subtests, chain: SmallChain, order: Order, plan: Plan
) -> None:
    short = replace(plan, assignment=plan.assignment[:2])
    cases: list[tuple[bytes, str]] = [
        (b"{}", "found a plan with other fields"),
        (b"[" * 8_000, "found no JSON"),
        (canonical_json("x" * 20_000), "at most"),
        (short.payload, "found a plan for [2, 6] devices, expected 6"),
        (replace(plan, assignment=(-1, -1, -1, 3, -1, -1)).payload, "found data for a server that is none of 3"),
        (replace(plan, assignment=(-1, -1, -1, -2, -1, -1)).payload, "found data for a server that is none of 3"),
    ]
    for payload, message in cases:
        with subtests.test(message):
            call = encode_call("plan", 1, 0, payload_digest(payload), len(payload))
            post = signed_call(chain, home_key(chain, 3), call)
            assert message in refusal(chain, replace(order, plan_post=post, plan_payload=payload))


def test_a_plan_may_be_as_large_as_was_founded_and_no_larger(chain: SmallChain, order: Order) -> None:
    known, size = chain.hosted.known_chain(), len(order.plan_payload)
    read = partial(read_signed_plan, order.plan_post, order.plan_payload, known.genesis, known.servers)
    assert read(replace(known.work, plan_bytes=size)).digest == order.plan_digest
    with pytest.raises(CodecError, match=f"found {size} bytes, expected {size}, at most {size - 1}"):
        read(replace(known.work, plan_bytes=size - 1))


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_flipped_bit_of_the_plan_or_its_post_is_refused(
    data: st.DataObject, chain: SmallChain, order: Order
) -> None:
    """Also in the signature: other numbers in it are another key's, and that key is no server's."""
    part = data.draw(st.sampled_from(["plan_post", "plan_payload"]))
    spoiled = bytearray(getattr(order, part))
    spoiled[data.draw(st.integers(0, len(spoiled) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    changes: dict[str, Any] = {part: bytes(spoiled)}
    wallet = Wallet(chain.hosting.account("device", 3), chain.hosted.known_chain())
    with pytest.raises(OrderError):
        wallet.accept(replace(order, **changes))


@given(post=st.binary(max_size=1_024), payload=st.binary(max_size=300))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_bytes_in_the_place_of_a_plan_are_refused(
    post: bytes, payload: bytes, chain: SmallChain, order: Order
) -> None:
    wallet = Wallet(chain.hosting.account("device", 3), chain.hosted.known_chain())
    for prefix in (b"", b"\x02", b"\x02\xf8"):
        with pytest.raises(OrderError):
            wallet.accept(replace(order, plan_post=prefix + post, plan_payload=payload))
