"""A device on a chain answers what a server's signed plan says, within the founding, and nothing else (Q5, T8)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, RecordDict

from chain.client.keys import new_account
from chain.protocol.contract import encode_call
from chain.wire.documents import canonical_json
from chain.wire.plan import Plan
from chain.wire.sidecar import payload_digest
from clients import wallet as wallets
from clients.consent import Consent
from clients.device import Device, answer_orders
from clients.errors import OrderError
from clients.founded_work import FoundedWork
from clients.order_check import order_digest
from clients.orders import LedgerTerms, Order, SignedReply, read_reply
from clients.parameters import DataParams
from clients.wallet import Wallet
from edge_servers.founding.network import DeviceRecord, Network
from edge_servers.learning.graph import Graph
from edge_servers.planning.state import round_samples
from edge_servers.round import plan as plan_round
from tests.clients.lying_server import for_all, home_key, planned, signed_call
from tests.clients.messages import message_with, sent
from tests.edge_servers.addresses import address
from tests.edge_servers.small_network import SHARE, SmallChain, small_chain


@pytest.fixture(scope="module")
def chain() -> Iterator[SmallChain]:
    """A network whose first round is planned: devices 0 and 4 offload, the others train."""
    made = small_chain()
    plan_round(made.federation.servers)
    yield made
    made.hosted.close()


@pytest.fixture
def plan(chain: SmallChain) -> Plan:
    """The leader's."""
    return chain.federation.servers[0].current.plan


@pytest.fixture
def order(chain: SmallChain) -> Order:
    """To device 3, which trains; its home is server 0."""
    return order_to(chain, 3)


@pytest.fixture
def offloading(chain: SmallChain) -> Order:
    """To device 0, which hands its data to server 0."""
    return order_to(chain, 0)


def order_to(chain: SmallChain, device: int) -> Order:
    orders = [order for server in chain.federation.servers for order in server.orders()]
    return next(order for order in orders if order.device == device)


def joined(chain: SmallChain, device: int, **options: Any) -> Device:
    """A device that has answered nothing yet."""
    wallet = Wallet(chain.hosting.account("device", device), chain.hosted.known_chain(), **options)
    return replace(chain.devices[device], wallet=wallet)


def answer(device: Device, order: Order) -> Message:
    return answer_orders([(device, sent(order))], "auto", 10)[0]


def refusal(chain: SmallChain, order: Order) -> str:
    """Why a device that has answered nothing yet refuses an order; the leader's it answers all the same."""
    device = joined(chain, order.device)
    refused = answer(device, order)
    assert refused.has_error()
    assert not answer(device, order_to(chain, order.device)).has_error()
    return str(refused.error.reason).removeprefix("OrderError: order: ")


def test_the_leaders_orders_are_answered(chain: SmallChain) -> None:
    for n in range(len(chain.devices)):
        assert not answer(joined(chain, n), order_to(chain, n)).has_error()


def test_another_servers_plan_within_the_founding_is_answered(chain: SmallChain, order: Order, plan: Plan) -> None:
    """Whoever leads after a failed leader plans anew: a device cannot know whose turn it is."""
    other = replace(plan, phi=plan.phi + 1)
    reply = read_reply(answer(joined(chain, 3), planned(chain, order, other)))
    assert isinstance(reply, SignedReply)


# --- orders without a plan (T8) ---------------------------------------------------------------------------------------


def test_an_order_without_ledger_terms_is_refused_for_training_and_for_data(
    chain: SmallChain, order: Order, offloading: Order
) -> None:
    for asked in (order, offloading, replace(order, samples=1, iterations=1, batch=1)):
        bare = replace(asked, ledger=None, proof=b"", plan_post=b"", plan_payload=b"")
        assert refusal(chain, bare).startswith("found no ledger terms with a signed plan")


def test_an_order_without_the_plan_is_refused_for_training_and_for_data(
    chain: SmallChain, order: Order, offloading: Order
) -> None:
    for asked in (order, offloading):
        assert refusal(chain, replace(asked, plan_post=b"")).startswith("found no ledger terms with a signed plan")
        assert "found 0 bytes, expected" in refusal(chain, replace(asked, plan_payload=b""))


def test_a_device_on_a_chain_evaluates_no_model_for_anybody(chain: SmallChain, order: Order) -> None:
    """Accuracy and loss of any model, as often as asked, tell the labels of a share one by one."""
    message = message_with(RecordDict({"model": ArrayRecord({"model": Array(order.model)})}), "evaluate")
    assert "evaluates nothing" in str(joined(chain, 3).evaluate(message).error.reason)
    assert not replace(chain.devices[3], wallet=None).evaluate(message).has_error()


# --- the plan's post --------------------------------------------------------------------------------------------------


def test_a_plan_that_no_server_has_signed_is_refused(chain: SmallChain, order: Order, plan: Plan) -> None:
    for signer in (new_account(), chain.hosting.account("device", 3), chain.hosting.account("founder", 0)):
        assert "found the signature of 0x" in refusal(chain, planned(chain, order, plan, signer))


def posts(chain: SmallChain, plan: Plan) -> dict[str, tuple[bytes, str]]:
    """Posts that are not the plan's, and what a device says of them."""
    key, payload = home_key(chain, 3), plan.payload
    digest, size = payload_digest(payload), len(payload)
    right = encode_call("plan", plan.round, 0, digest, size)
    return {
        "another round": (signed_call(chain, key, encode_call("plan", 2, 0, digest, size)), "in a post of round 2"),
        "another attempt": (signed_call(chain, key, encode_call("plan", 1, 1, digest, size)), "a plan at attempt 0"),
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


# --- the order against its plan, the plan against the founding --------------------------------------------------------


def test_an_order_that_says_other_than_its_plan_is_refused(
    subtests: pytest.Subtests, chain: SmallChain, order: Order, offloading: Order
) -> None:
    assert order.ledger is not None
    cases: list[tuple[Order, str]] = [
        (replace(order, samples=1), "found samples 1, the plan says 40"),
        (replace(order, iterations=1), "found iterations 1, the plan says 3"),
        (replace(order, deadline_s=1e9), "found deadline 1000000000.0, the plan says 30.0"),
        (replace(order, offload_to=0), "found server to offload to 0, the plan says -1"),
        (replace(offloading, offload_to=1), "found server to offload to 1, the plan says 0"),
        (replace(offloading, offload_to=-1), "found server to offload to -1, the plan says 0"),
        (replace(order, round=2), "found round 2 of device 3, the plan is of round 1"),
        (replace(order, plan_digest="ab" * 32), "found plan ababab"),
        (replace(order, ledger=replace(order.ledger, plan="ab" * 32)), "found plan of the gradient ababab"),
    ]
    for asked, message in cases:
        with subtests.test(message):
            assert message in refusal(chain, asked)


def test_an_order_that_says_other_than_the_founding_is_refused(
    subtests: pytest.Subtests, chain: SmallChain, order: Order
) -> None:
    assert order.ledger is not None
    cases: list[tuple[Order, str]] = [
        (replace(order, batch=1), "found batch 1, the founding says 10"),
        (replace(order, learning_rate=1e-9), "found learning rate 1e-09, the founding says 0.1"),
        (replace(order, optimizer="adam"), "found optimizer adam, the founding says sgd"),
        (replace(order, seed=99), "found seed 99, the founding says 0"),
        (replace(order, ledger=replace(order.ledger, codec="fp32")), "found codec fp32, the founding says fp16"),
        (replace(order, ledger=replace(order.ledger, chain_id=1)), "found chain 1 and registry"),
        (replace(order, ledger=replace(order.ledger, base_model="ab" * 32)), "found base model abababababab"),
    ]
    for asked, message in cases:
        with subtests.test(message):
            assert message in refusal(chain, asked)


def test_a_signed_plan_outside_the_founding_is_refused(
    subtests: pytest.Subtests, chain: SmallChain, order: Order, plan: Plan
) -> None:
    """One server's signature under a plan of one image, one iteration or a hundred years."""
    cases: list[tuple[dict[str, Any], str]] = [
        ({"samples": 1}, "found samples 1, the founding says 40"),
        ({"samples": 41}, "found samples 41, the founding says 40"),
        ({"iterations": 1}, "found iterations 1, the founding says 3"),
        ({"iterations": 10**9}, "found iterations 1000000000, the founding says 3"),
        ({"deadline_s": 3e9}, "found deadline 3000000000.0, the founding says 30.0"),
    ]
    for change, message in cases:
        with subtests.test(message):
            assert message in refusal(chain, planned(chain, order, for_all(plan, **change)))


def test_a_device_that_the_network_does_not_know_has_no_plan(chain: SmallChain, order: Order) -> None:
    stranger = replace(joined(chain, 3), index=6)
    assert "found round 1 of device 6" in str(answer(stranger, replace(order, device=6)).error.reason)


@pytest.mark.parametrize("data_per_round", ["state", "all"])
def test_a_device_counts_the_samples_of_a_round_as_everybody_does(data_per_round: str) -> None:
    """P22: shares of 10 to 4,000 samples of 784 bytes, so that some are drawn and some are capped."""
    shares = (10, 700, 1_500, 4_000)
    devices = tuple(DeviceRecord(n, address(10 + n), 0, share, Consent()) for n, share in enumerate(shares))
    network = Network((address(1),), devices, Graph(1, frozenset()), 0)
    data = DataParams(devices=4, seed=7, data_per_round=data_per_round)
    work = FoundedWork(7, 1, 1, 0.1, "sgd", "fp16", 1.0, shares, 784, data_per_round == "state", 1)
    for round_ in range(1, 30):
        assert tuple(work.samples(round_, n) for n in range(4)) == round_samples(round_, network, data, 784)


# --- what it costs ----------------------------------------------------------------------------------------------------


def test_devices_of_one_process_read_a_plan_once(chain: SmallChain, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    known, right = chain.hosted.known_chain(), wallets.read_signed_plan

    def counted(post: bytes, payload: bytes, *rest: Any) -> Any:
        read.append(post)
        return right(post, payload, *rest)

    monkeypatch.setattr(wallets, "read_signed_plan", counted)
    for n in range(6):
        Wallet(chain.hosting.account("device", n), known).accept(order_to(chain, n))
    assert len(read) == 1


def test_the_digest_of_an_order_names_all_that_it_asks_for(order: Order) -> None:
    """Another proof of the same model, another signature under the same plan: the same order."""
    same = replace(order, proof=b"longer", plan_post=b"another server's")
    assert order_digest(same) == order_digest(order)
    others: list[Order] = [
        replace(order, samples=SHARE - 1), replace(order, seed=1), replace(order, offload_to=0),
        replace(order, model_digest="ab" * 32), replace(order, plan_digest="ab" * 32),
        replace(order, ledger=replace(order.ledger or TERMS, nonce=9)), replace(order, ledger=None),
    ]  # fmt: skip
    assert len({order_digest(each) for each in (order, *others)}) == 8


TERMS = LedgerTerms(1, "", 0, "fp16", "", "")


def test_what_is_refused_changes_nothing(chain: SmallChain, order: Order) -> None:
    wallet = Wallet(chain.hosting.account("device", 3), chain.hosted.known_chain())
    with pytest.raises(OrderError):
        wallet.accept(replace(order, seed=1))
    wallet.accept(order)
    np.testing.assert_array_equal(order.model, order_to(chain, 3).model)
