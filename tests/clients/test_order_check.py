"""A device on a chain answers what a server's signed plan says, within the founding, and nothing else (Q5)."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, RecordDict

from chain.wire.plan import Plan
from clients import wallet as wallets
from clients.consent import Consent
from clients.errors import OrderError
from clients.founded_work import FoundedWork
from clients.order_check import order_digest, read_signed_plan
from clients.orders import LedgerTerms, Order
from clients.parameters import DataParams
from clients.replies import SignedReply, read_reply
from clients.wallet import Wallet
from edge_servers.founding.network import DeviceRecord, Network
from edge_servers.learning.graph import Graph
from edge_servers.planning.state import round_samples
from tests.clients.chain_device import answer, joined, order_to, refusal
from tests.clients.lying_server import for_all, planned
from tests.clients.messages import message_with
from tests.edge_servers.addresses import address
from tests.edge_servers.small_network import SHARE, SmallChain


@pytest.fixture
def offloading(chain: SmallChain) -> Order:
    """To device 0, which hands its data to server 0."""
    return order_to(chain, 0)


def test_the_leaders_orders_are_answered(chain: SmallChain) -> None:
    for n in range(len(chain.devices)):
        assert not answer(joined(chain, n), order_to(chain, n)).has_error()


def test_another_servers_plan_within_the_founding_is_answered(chain: SmallChain, order: Order, plan: Plan) -> None:
    """Whoever leads after a failed leader plans anew: a device cannot know whose turn it is."""
    other = replace(plan, phi=plan.phi + 1)
    reply = read_reply(answer(joined(chain, 3), planned(chain, order, other)))
    assert isinstance(reply, SignedReply)


# --- orders without a plan --------------------------------------------------------------------------------------------


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
        (replace(order, ledger=replace(order.ledger, attempt=1)), "found attempt 1, the plan says 0"),
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
    known, right = chain.hosted.known_chain(), read_signed_plan

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
        replace(order, ledger=replace(order.ledger or TERMS, attempt=1)),
    ]  # fmt: skip
    assert len({order_digest(each) for each in (order, *others)}) == 9


TERMS = LedgerTerms(1, "", 0, "fp16", "", "")


def test_what_is_refused_changes_nothing(chain: SmallChain, order: Order) -> None:
    wallet = Wallet(chain.hosting.account("device", 3), chain.hosted.known_chain())
    with pytest.raises(OrderError):
        wallet.accept(replace(order, seed=1))
    wallet.accept(order)
    np.testing.assert_array_equal(order.model, order_to(chain, 3).model)
