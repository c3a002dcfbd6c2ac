"""A device on a chain: what it signs, for whom, and on what model it trains. The chain is real, and in memory."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message
from torch import nn

from chain.client.keys import address_of
from chain.node.access import LocalLedger
from chain.protocol.contract import decode_call
from chain.wire.codec import decode_floats
from chain.wire.sidecar import payload_digest
from chain.wire.transactions import decode_transaction
from clients.device import Device, answer_orders
from clients.errors import ClientError, OrderError
from clients.orders import LedgerTerms, Order, vector_digest
from clients.replies import SignedReply, read_reply
from clients.signing import signed_gradient
from clients.training import LocalUpdate, Recipe, TrainingNode
from clients.wallet import FinalBlock, Wallet
from clients.wallet_memory import Start
from edge_servers.replay.record import model_in
from edge_servers.round import begin, plan
from tests.clients.messages import over_the_wire, sent
from tests.edge_servers.small_network import SHARE, SmallChain, small_chain


def orders_of(chain: SmallChain, server: int = 0) -> list[Order]:
    """What the devices of a cluster are told in the running round."""
    return chain.federation.servers[server].orders()


@pytest.fixture(scope="module")
def third() -> Iterator[SmallChain]:
    """A network that is in its third round; no device has looked at the second model yet."""
    chain = small_chain()
    for _ in range(2):
        chain.federation.run_round()
    begin(chain.federation.servers)
    plan(chain.federation.servers)
    yield chain
    chain.hosted.close()


@pytest.fixture
def order(third: SmallChain) -> Order:
    """To device 3, which trains; it belongs to server 0."""
    return orders_of(third)[1]


@pytest.fixture
def terms(order: Order) -> LedgerTerms:
    """Of the same order."""
    assert order.ledger is not None
    return order.ledger


@pytest.fixture
def wallet(third: SmallChain) -> Wallet:
    """Device 3's, as it was when the network was founded."""
    return Wallet(third.hosting.account("device", 3), third.hosted.known_chain())


@pytest.fixture
def device(third: SmallChain, wallet: Wallet) -> Device:
    """Device 3, which has answered nothing yet."""
    return replace(third.devices[3], wallet=wallet)


def sizes_of(device: Device) -> list[int]:
    return [parameter.numel() for parameter in device.network.parameters()]


# --- what it signs ----------------------------------------------------------------------------------------------------


def test_a_trained_device_answers_with_a_transaction_of_its_own(
    third: SmallChain, device: Device, order: Order
) -> None:
    (answer,) = answer_orders([(device, sent(order))], "auto", 10)
    reply = read_reply(over_the_wire(answer))
    assert isinstance(reply, SignedReply)
    assert (reply.device, reply.round) == (3, 3)
    transaction = decode_transaction(reply.transaction)
    network = third.federation.servers[0].network
    assert transaction.sender == network.devices[3].address
    call = decode_call(transaction.data)
    assert (call.name, call["round"], call["attempt"], call["samples"], call["iterations"]) == (
        "gradient", 3, 0, SHARE, 3,
    )  # fmt: skip
    assert (payload_digest(reply.payload), len(reply.payload)) == (call["digest"], call["size"])


def test_the_transaction_names_the_values_the_weight_and_what_they_were_made_from(
    third: SmallChain, order: Order, terms: LedgerTerms
) -> None:
    device, genesis = third.devices[3], third.hosted.nodes[0].genesis
    values = np.linspace(-2, 2, len(order.model), dtype=np.float32)
    signed, payload = signed_gradient(third.wallets[3].account, terms, 3, 40, 3, values, sizes_of(device))
    transaction = decode_transaction(signed)
    call = decode_call(transaction.data)
    assert transaction.sender == address_of(third.wallets[3].account)
    assert (transaction.chain_id, transaction.to, transaction.nonce) == (genesis.chain_id, genesis.registry, 2)
    assert bytes(call["base_model"]).hex() == terms.base_model
    assert bytes(call["plan_digest"]).hex() == terms.plan
    assert (call["attempt"], call["samples"], call["iterations"]) == (0, 40, 3)
    later, _ = signed_gradient(third.wallets[3].account, replace(terms, attempt=5), 3, 40, 3, values, sizes_of(device))
    assert decode_call(decode_transaction(later).data)["attempt"] == 5
    assert (call["digest"], call["size"]) == (payload_digest(payload), len(payload))
    np.testing.assert_array_equal(decode_floats(payload), values.astype(np.float16))
    assert len(signed) < 600 < len(payload)  # the values are beside the transaction (B8)


def test_the_digests_are_those_on_the_ledger(third: SmallChain, order: Order, terms: LedgerTerms) -> None:
    leader = third.federation.servers[0]
    assert bytes.fromhex(terms.plan) == payload_digest(leader.current.plan.payload)
    assert bytes.fromhex(terms.base_model) == bytes(third.hosted.nodes[0].ask("model_digest"))


def test_terms_that_nobody_can_sign_are_refused(
    subtests: pytest.Subtests, third: SmallChain, order: Order, terms: LedgerTerms
) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"codec": "fp8"}, "found codec 'fp8', expected one of fp32, fp16, int8"),
        ({"registry": "no hex"}, "non-hexadecimal"),
        ({"plan": "é"}, "non-hexadecimal"),
        ({"base_model": "ab" * 33}, "arguments of gradient that do not fit"),
    ]
    for change, message in cases:
        with subtests.test(change=change, message=message):
            values = np.zeros(len(order.model), np.float32)
            with pytest.raises(ClientError, match=f"the gradient cannot be posted: .*{message}"):
                signed_gradient(
                    third.wallets[3].account, replace(terms, **change), 3, 40, 3, values, sizes_of(third.devices[3])
                )


def test_a_gradient_that_its_codec_cannot_hold_is_a_failure_of_the_device_alone(device: Device, order: Order) -> None:
    def wild(nodes: Sequence[TrainingNode], _: nn.Module, __: Recipe) -> list[LocalUpdate]:
        return [LocalUpdate(len(node), 3, np.full_like(node.model, 1e30)) for node in nodes]  # fp16 ends at 65,504

    (answer,) = answer_orders([(device, sent(order))], "auto", 10, wild)
    assert answer.has_error()
    assert "ClientError: the gradient cannot be posted" in str(answer.error.reason)


def answered(device: Device, order: Order) -> Message:
    (answer,) = answer_orders([(device, sent(order))], "auto", 10)
    return answer


def test_a_device_repeats_the_same_bytes_for_the_same_order(device: Device, order: Order) -> None:
    first, second = (read_reply(answered(device, order)) for _ in range(2))
    assert isinstance(first, SignedReply)
    assert isinstance(second, SignedReply)
    assert (first.transaction, first.payload) == (second.transaction, second.payload)


def test_a_key_signs_again_in_the_next_round_and_never_in_an_earlier_one(wallet: Wallet) -> None:
    first, other, later = (b"first", b"payload"), (b"other", b"payload"), (b"later", b"payload")
    assert wallet.signed_once(3, 0, "one", lambda: first) == first
    assert wallet.signed_once(3, 0, "one", lambda: other) == first
    assert wallet.signed_once(4, 0, "one", lambda: later) == later
    with pytest.raises(OrderError, match="found round 3, this device has signed for round 4"):
        wallet.signed_once(3, 0, "one", lambda: first)


def test_a_key_signs_once_for_every_attempt(wallet: Wallet) -> None:
    first, second, other = (b"first", b"payload"), (b"second", b"payload"), (b"other", b"payload")
    assert wallet.signed_once(3, 1, "one", lambda: first) == first
    assert wallet.signed_once(3, 2, "two", lambda: second) == second
    assert wallet.signed_once(3, 1, "one", lambda: other) == first
    with pytest.raises(OrderError, match="has signed another gradient for round 3, attempt 1 already"):
        wallet.signed_once(3, 1, "two", lambda: second)


def test_what_cannot_be_signed_does_not_take_the_place_of_what_can(wallet: Wallet) -> None:
    def broken() -> tuple[bytes, bytes]:
        raise ClientError("no")

    with pytest.raises(ClientError):
        wallet.signed_once(3, 0, "wild", broken)
    right = b"right", b"payload"
    assert wallet.signed_once(3, 0, "mild", lambda: right) == right


# --- for whom ---------------------------------------------------------------------------------------------------------


def test_a_device_that_has_joined_nothing_refuses_every_order_for_a_chain(third: SmallChain, order: Order) -> None:
    stranger = replace(third.devices[3], wallet=None)
    with pytest.raises(OrderError, match="this device has joined no network"):
        stranger.accept(sent(order))
    assert stranger.accept(sent(replace(order, ledger=None))).round == order.round


def test_devices_that_have_joined_nothing_are_out_and_named() -> None:
    chain = small_chain(joins=False)
    report = chain.federation.run_round()
    assert {(refusal.node, refusal.reason) for refusal in report.refused} == {
        (f"device {n}", "failed") for n in range(6)
    }
    assert report.training_nodes == 0
    chain.hosted.close()


def test_a_key_signs_for_its_own_network_alone(
    subtests: pytest.Subtests, wallet: Wallet, order: Order, terms: LedgerTerms
) -> None:
    cases: list[dict[str, Any]] = [{"chain_id": 1}, {"registry": "ab" * 20}, {"registry": ""}]
    for change in cases:
        refused = pytest.raises(OrderError, match=r"found chain \d+ and registry \w*, expected")
        with subtests.test(change=change), refused:
            wallet.check(replace(order, ledger=replace(terms, **change)))


def test_a_key_does_not_sign_that_its_gradient_was_made_from_another_model(
    wallet: Wallet, order: Order, terms: LedgerTerms
) -> None:
    with pytest.raises(OrderError, match="found base model abababababab, expected the one that is proven"):
        wallet.check(replace(order, ledger=replace(terms, base_model="ab" * 32)))


# --- on what model ----------------------------------------------------------------------------------------------------


def test_the_first_model_is_that_of_the_founding_block(chain: SmallChain) -> None:
    order = orders_of(chain)[0]
    assert order.proof == b""
    chain.wallets[0].check(order)
    other = order.model + np.float32(1)
    with pytest.raises(OrderError, match="the founding block has another"):
        chain.wallets[0].check(replace(order, model=other, model_digest=vector_digest(other)))


def test_a_later_model_is_proven_also_to_a_device_that_was_away_and_as_often_as_it_is_asked(
    wallet: Wallet, third: SmallChain, order: Order
) -> None:
    for _ in range(2):
        wallet.check(order)
        assert wallet.known == head_of(third)


def head_of(chain: SmallChain) -> FinalBlock:
    head = chain.hosted.nodes[0].head
    return FinalBlock(head.block_number, head.hash)


def earlier(chain: SmallChain, order: Order) -> Order:
    """An order of round 2 with the proof of model 1."""
    node = chain.hosted.nodes[0]
    block, founding = node.block(2), chain.hosted.founding
    assert block is not None
    model = model_in(block, founding, node)
    proof = json.dumps(LocalLedger(node).model_proof(1).to_json()).encode()
    return replace(order, round=2, model=model, model_digest=vector_digest(model), proof=proof, ledger=None)


def test_a_wallet_goes_forward_only(wallet: Wallet, third: SmallChain, order: Order) -> None:
    old = earlier(third, order)
    wallet.check(old)
    wallet.check(order)
    for stale in (old, replace(order, round=1)):
        with pytest.raises(OrderError, match=f"found round {stale.round}, block 3 is final already"):
            wallet.check(stale)
    assert wallet.known == head_of(third)


def test_a_wallet_that_joined_late_does_not_go_back_before_the_block_it_knows(third: SmallChain, order: Order) -> None:
    (late,) = third.hosted.wallets([third.hosting.account("device", 3)])
    assert late.known == head_of(third)
    with pytest.raises(OrderError, match="found round 2, block 3 is final already"):
        late.check(earlier(third, order))
    with pytest.raises(OrderError, match="found round 1, block 3 is final already"):
        late.check(replace(order, round=1, model_digest=third.hosted.known_chain().model_digest))
    late.check(order)
    assert late.known == head_of(third)


def test_a_proof_of_another_round_is_refused(wallet: Wallet, order: Order) -> None:
    with pytest.raises(OrderError, match="found a proof of model 2, expected 3"):
        wallet.check(replace(order, round=4))


def test_a_model_that_is_not_the_proven_one_is_refused(wallet: Wallet, order: Order) -> None:
    other = order.model + np.float32(1)
    with pytest.raises(OrderError, match="the model is not the one that is proven"):
        wallet.check(replace(order, model=other, model_digest=vector_digest(other)))


def test_a_refused_proof_does_not_change_what_a_wallet_knows(wallet: Wallet, order: Order) -> None:
    before = wallet.known
    with pytest.raises(OrderError):
        wallet.check(replace(order, round=4))
    assert wallet.known == before


def test_two_final_blocks_of_one_number_are_refused_with_both_names(third: SmallChain, order: Order) -> None:
    known = FinalBlock(3, b"\1" * 32)
    wallet = Wallet(third.hosting.account("device", 3), third.hosted.known_chain(), known)
    told = f"two final blocks 3: 0x{'01' * 32} is known, found 0x{head_of(third).hash.hex()}: servers have signed twice"
    with pytest.raises(OrderError, match=told):
        wallet.check(order)
    assert wallet.known == known


def spoiled(proof: bytes) -> dict[str, bytes]:
    content = json.loads(proof)
    model = content["model"]
    whole = {
        "votes of the wrong kind": {**content, "joined": 3},
        "a strange vote": {**content, "joined": [3]},
        "no model": {**content, "model": {}},
        "no hex": {**content, "model": {**model, "header": "zz"}},
        "no header": {**content, "model": {**model, "header": "0x"}},
        "another transaction": {**content, "model": {**model, "index": 0}},
        "no signatures": {**content, "model": {**model, "endorsements": []}},
        "one signature": {**content, "model": {**model, "endorsements": model.get("endorsements", [])[:1] * 9}},
        "signatures of the wrong kind": {**content, "model": {**model, "endorsements": 3}},
    }
    return {
        "nothing": b"",
        "no text": b"\xff",
        "a number": b"3",
        "null": b"null",
        "a list": b"[]",
        "an object": b"{}",
        "deep": b"[" * 100_000,
        "many digits": b"1" * 5_000,
        "cut": proof[:-3],
        **{name: json.dumps(each).encode() for name, each in whole.items()},
    }


def test_a_proof_that_is_none_is_refused(subtests: pytest.Subtests, wallet: Wallet, order: Order) -> None:
    for name in list(spoiled(b'{"model": {}}')):
        with subtests.test(name=name), pytest.raises(OrderError, match="the model is not proven: "):
            wallet.check(replace(order, proof=spoiled(order.proof)[name]))


def test_a_device_that_lost_its_memory_waits_for_a_round_that_begins_from_now_on(
    third: SmallChain, order: Order
) -> None:
    account, chain = third.hosting.account("device", 3), third.hosted.known_chain()
    parent_s = float(third.hosted.nodes[0].head.timestamp)
    asleep = Wallet(account, chain, lost=started(parent_s))
    with pytest.raises(OrderError, match="has lost its memory, and waits for a round that begins from now on"):
        asleep.accept(order)
    awake = Wallet(account, chain, lost=started(parent_s - 1))
    awake.accept(order)


def started(now_s: float) -> Start:
    return Start(lambda: now_s, lambda: 0.0)


def test_a_device_that_lost_its_memory_still_waits_when_it_is_started_again(
    third: SmallChain, order: Order, tmp_path: Path
) -> None:
    account, chain, path = third.hosting.account("device", 3), third.hosted.known_chain(), tmp_path / "device.json"
    parent_s = float(third.hosted.nodes[0].head.timestamp)
    asleep = Wallet(account, chain, memory=path, lost=started(parent_s))
    asleep.begin_memory()
    with pytest.raises(OrderError, match="waits for a round"):
        asleep.accept(order)
    assert not path.exists(), "who finds one signs at once"
    awake = Wallet(account, chain, memory=path, lost=started(parent_s - 1))
    awake.accept(order)
    assert path.exists()


def test_a_clock_that_is_put_right_after_the_start_wakes_no_device_too_early(third: SmallChain, order: Order) -> None:
    account, chain = third.hosting.account("device", 3), third.hosted.known_chain()
    parent_s = float(third.hosted.nodes[0].head.timestamp)
    now_s, elapsed_s = 0.0, 0.0  # as a Raspberry Pi begins
    wallet = Wallet(account, chain, lost=Start(lambda: now_s, lambda: elapsed_s))
    with pytest.raises(OrderError, match=r"its clock is \d+ s behind a sealed block: set the clock"):
        wallet.accept(order)
    now_s, elapsed_s = parent_s + 30.0, 20.0
    with pytest.raises(OrderError, match="waits for a round"):
        wallet.accept(order)
    elapsed_s = 31.0
    wallet.accept(order)


def test_a_memory_that_is_begun_is_there_for_the_next_start(third: SmallChain, tmp_path: Path) -> None:
    path = tmp_path / "device.json"
    Wallet(third.hosting.account("device", 3), third.hosted.known_chain(), memory=path).begin_memory()
    written = path.read_bytes()
    Wallet(third.hosting.account("device", 3), third.hosted.known_chain(), memory=path).begin_memory()
    assert path.read_bytes() == written
