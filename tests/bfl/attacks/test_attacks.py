"""`--attack`: who misbehaves when is read exactly, done exactly, and done in no other round."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Message
from flwr.supercore.task_identity import TaskIdentity

from bfl.attacks.conduct import WITHHELD, Conduct, Twice, conduct_of, honest
from bfl.attacks.devices import LARGEST_VALUE, PoisonedDevice, poison_device
from bfl.attacks.kinds import DEVICE_KINDS, KINDS, SERVER_KINDS, Attack
from bfl.attacks.text import check_possible, read_attacks
from bfl.errors import BflError
from chain.client.keys import address_of, simulated_account
from chain.wire.address import Address
from chain.wire.transactions import decode_transaction
from clients.device import Device, answer_orders
from clients.founded_work import FoundedWork
from clients.models import network_for, to_vector
from clients.orders import LedgerTerms, Order, vector_digest
from clients.parameters import DataParams, TrainingParams
from clients.replies import DataReply, GradientReply, SignedReply, read_reply
from clients.training import LocalUpdate
from clients.wallet import KnownChain, Wallet
from edge_servers.learning.aggregation import global_update
from edge_servers.learning.gradients import Close, Gradient
from edge_servers.ledger.board import RoundSlot
from edge_servers.parameters import RoundParams, Settings
from tests.chain.network import genesis
from tests.clients.messages import an_order, sent
from tests.edge_servers.addresses import address
from tests.edge_servers.small_network import SHARE, small_dataset

EDGES, DEVICES, CLASSES = 3, 10, 3
ROUND = 20
SIZE = 20_000


@pytest.fixture(scope="module", autouse=True)
def _flower_identity() -> None:
    """Flower stamps every message with who runs; a real process is told so at its start."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1


def read(text: str) -> tuple[Attack, ...]:
    return read_attacks(text, EDGES, DEVICES)


def settings(scheme: str = "bfl", seed: int = 5) -> Settings:
    return Settings(
        RoundParams(scheme=scheme, edges=EDGES),
        DataParams(devices=DEVICES, seed=seed),
        TrainingParams(learning_rate=0.1, iterations=10),
    )


def conduct(text: str, server: int = 1, scheme: str = "bfl", seed: int = 5) -> Conduct:
    return conduct_of(read(text), server, settings(scheme, seed), name)


def name(who: Address) -> str:
    return f"device {int.from_bytes(who, 'big')}"


def iterate() -> np.ndarray[Any, np.dtype[np.int32]]:
    return np.random.default_rng(0).integers(-(2**20), 2**20, SIZE).astype(np.int32)


def model() -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(1).normal(size=SIZE).astype(np.float32)


def gradient() -> Gradient:
    return Gradient(address(5), "server 1", 1, 40, 10, "model", "plan", np.array([1.0, -2.0, 0.5], np.float32))


CLOSE = Close((address(1), address(4), address(7)), ())


# --- the text


def test_nobody_attacks_by_default() -> None:
    assert read("") == ()
    assert read(" ; ") == ()


def test_a_text_names_kind_rounds_and_options() -> None:
    noise, flip = read("iterate-noise@20,60:server=1,step=2,strength=0.5; sign-flip@all:device=3")
    assert noise == Attack("iterate-noise", (range(20, 21), range(60, 61)), 0.5, server=1, step=2)
    assert flip == Attack("sign-flip", None, 1.0, devices=frozenset({3}))


def test_spaces_do_not_matter() -> None:
    assert read(" noise @ 2 , 5 - 7 : device = 3 + 7 , strength = 2 ") == read("noise@2,5-7:device=3+7,strength=2")


def test_rounds_are_numbers_and_ranges() -> None:
    (attack,) = read("sign-flip@2,5-7:device=0")
    assert [round_ for round_ in range(1, 12) if attack.is_on(round_)] == [2, 5, 6, 7]
    (always,) = read("sign-flip@all:device=0")
    assert all(always.is_on(round_) for round_ in (1, 50, 10**6))


def test_a_list_of_devices_is_joined_with_plus() -> None:
    assert read("label-flip@all:device=3+7+0")[0].devices == {0, 3, 7}


@pytest.mark.parametrize("kind", SERVER_KINDS)
def test_every_server_attack_has_defaults_for_everything(kind: str) -> None:
    (attack,) = read(f"{kind}@all")
    assert attack.server == (0 if KINDS[kind]["server"] == "0" else None)


@pytest.mark.parametrize(
    ("text", "strength", "step"),
    [
        ("iterate-noise@1", 0.08, 3),
        ("lying-aggregate@1", 1, 0),
        ("poisoned-gradient@1", 5, 0),
        ("noise@1:device=0", 10, 0),
    ],
)
def test_the_defaults_are_those_of_the_document(text: str, strength: float, step: int) -> None:
    (attack,) = read(text)
    assert (attack.strength, attack.step) == (strength, step)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("iterate-nose@20", 'found "iterate-nose", expected one of .*did you mean "iterate-noise"'),
        ("sign-flip", 'found "sign-flip", expected sign-flip@ROUNDS'),
        ("@20", 'found "", expected one of iterate-noise'),
        ("sign-flip@0:device=1", 'sign-flip: found rounds "0", expected numbers from 1'),
        ("sign-flip@:device=1", 'found rounds "", expected'),
        ("sign-flip@20,:device=1", 'found rounds "", expected'),
        ("sign-flip@19-10:device=1", 'found rounds "19-10", expected'),
        ("sign-flip@ever:device=1", 'found rounds "ever", expected'),
        ("sign-flip@-3:device=1", 'found rounds "-3", expected'),
        (f"sign-flip@{'9' * 5000}:device=1", "found rounds"),
        ("sign-flip@1", "sign-flip: found no device, expected device=n"),
        ("sign-flip@1:device=10", "found device=10, expected 0 to 9$"),
        ("sign-flip@1:device=3+10", "found device=10, expected 0 to 9$"),
        ("sign-flip@1:device=", 'found "device=", expected device=value'),
        ("sign-flip@1:devise=1", 'found "devise", expected device, strength .did you mean "device"'),
        ("sign-flip@1:server=1,device=1", 'found "server", expected device, strength'),
        ("sign-flip@1:device=1,device=2", "found device twice, expected it once"),
        ("sign-flip@1:device=1,strength=0", "found strength=0, expected more than 0"),
        ("sign-flip@1:device=1,strength=nan", "found strength=nan, expected more than 0"),
        ("sign-flip@1:device=1,strength=inf", "found strength=inf, expected more than 0"),
        ("sign-flip@1:device=1,strength=much", "found strength=much, expected more than 0"),
        ("iterate-noise@1:server=3", "found server=3, expected 0 to 2$"),
        ("iterate-noise@1:server=leader", "found server=leader, expected 0 to 2$"),
        ("wrong-model@1:server=3", "found server=3, expected 0 to 2 or leader$"),
        ("iterate-noise@1:step=-1", "found step=-1, expected 0 to"),
        ("silent-leader@1:phase=modle", 'found phase=modle, expected one of plan, .*did you mean "model"'),
    ],
)  # fmt: skip
def test_a_wrong_text_is_refused_with_found_and_expected(text: str, message: str) -> None:
    with pytest.raises(BflError, match=message):
        read(text)


# --- servers


def test_whom_no_attack_concerns_is_honest() -> None:
    assert conduct("iterate-noise@20:server=1; sign-flip@all:device=1", server=2) is honest
    assert conduct("sign-flip@all:device=1") is honest


BODIES: dict[str, Callable[[], Any]] = {
    "iterate": iterate, "model": model, "gradient": gradient, "close": lambda: CLOSE, "plan": object, "seal": object,
}  # fmt: skip


@pytest.mark.parametrize("kind", SERVER_KINDS)
def test_other_rounds_are_left_as_they_are(kind: str) -> None:
    attacker = conduct(f"{kind}@10-19,21:server=1")
    for post, make in BODIES.items():
        body = make()
        assert attacker(RoundSlot(ROUND, post, 3 if post == "iterate" else 0), body) is body


@pytest.mark.parametrize("kind", SERVER_KINDS)
def test_an_attack_changes_its_own_kind_of_post_only(kind: str) -> None:
    target = {
        "poisoned-gradient": "gradient", "inflated-weight": "gradient", "withheld-gradient": "gradient",
        "wrong-model": "model", "omitted-gradient": "close", "silent-leader": "model", "slow-leader": "seal",
        "double-signing": "endorsement", "broken-pass": "endorsement",
    }.get(kind, "iterate")  # fmt: skip
    attacker = conduct(f"{kind}@all:server=1")
    step = 0 if kind == "lying-aggregate" else 3
    for post, make in BODIES.items():
        body = make()
        changed = attacker(RoundSlot(ROUND, post, step if post == "iterate" else 0), body) is not body
        assert changed == (post == target)


def test_noise_in_an_iterate_has_the_promised_deviation_in_the_model() -> None:
    x, w = iterate(), model()
    noisy = conduct("iterate-noise@20:server=1,strength=0.08")(RoundSlot(ROUND, "iterate", 3), x)
    assert noisy.dtype == np.int32
    made, honestly = (global_update(w, each, EDGES, 10.0, 0.1) for each in (noisy, x))
    assert np.std(made - honestly) == pytest.approx(0.08, rel=0.03)
    assert np.mean(made - honestly) == pytest.approx(0, abs=0.003)


def test_noise_comes_at_its_step_alone() -> None:
    attacker, x = conduct("iterate-noise@20:server=1,step=2"), iterate()
    assert [attacker(RoundSlot(ROUND, "iterate", step), x) is x for step in range(5)] == [True, True, False, True, True]


def test_noise_is_cut_to_the_fixed_point_range() -> None:
    noisy = conduct("iterate-noise@20:server=1,strength=100000")(RoundSlot(ROUND, "iterate", 3), iterate())
    assert noisy.min() == -(2**31)
    assert noisy.max() == 2**31 - 1


@pytest.mark.parametrize("scheme", ["bfl-no-consensus", "no-consensus-no-chain", "traditional", "fedavg"])
def test_where_nobody_gossips_the_noise_goes_into_the_model(scheme: str) -> None:
    attacker = conduct("iterate-noise@20:server=1,step=0,strength=0.2", scheme=scheme)
    x, w = iterate(), model()
    assert attacker(RoundSlot(ROUND, "iterate", 0), x) is x
    noisy = attacker(RoundSlot(ROUND, "model"), w)
    assert noisy.dtype == np.float32
    assert np.std(noisy - w) == pytest.approx(0.2, rel=0.03)


def test_the_noise_of_a_model_is_that_which_the_iterate_would_have_brought() -> None:
    x, w = iterate(), model()
    noisy_x = conduct("iterate-noise@20:server=1")(RoundSlot(ROUND, "iterate", 3), x)
    noisy_w = conduct("iterate-noise@20:server=1", scheme="traditional")(RoundSlot(ROUND, "model"), w)
    through_x = global_update(w, noisy_x, EDGES, 10.0, 0.1) - global_update(w, x, EDGES, 10.0, 0.1)
    np.testing.assert_allclose(noisy_w - w, through_x, atol=1e-5)


def test_the_same_seed_gives_the_same_attack_and_another_another() -> None:
    text, slot, x = "iterate-noise@all:server=1; iterate-noise@all:server=2", RoundSlot(ROUND, "iterate", 3), iterate()
    first = conduct(text)(slot, x)
    np.testing.assert_array_equal(conduct(text)(slot, x), first)
    attacker = conduct(text)
    attacker(RoundSlot(ROUND - 1, "iterate", 3), x)
    np.testing.assert_array_equal(attacker(slot, x), first)
    np.testing.assert_array_equal(attacker(slot, x), first)
    others = [
        conduct(text, seed=6)(slot, x),
        conduct(text, server=2)(slot, x),
        attacker(RoundSlot(21, "iterate", 3), x),
    ]
    assert not any(np.array_equal(other, first) for other in others)


def test_a_lying_aggregate_is_the_right_one_turned_round() -> None:
    x = np.array([5, -7, 2**31 - 1, -(2**31)], np.int32)
    slot = RoundSlot(ROUND, "iterate", 0)
    assert conduct("lying-aggregate@20:server=1")(slot, x).tolist() == [-5, 7, -(2**31) + 1, 2**31 - 1]
    assert conduct("lying-aggregate@20:server=1,strength=2")(slot, x)[:2].tolist() == [-10, 14]
    later = RoundSlot(ROUND, "iterate", 1)
    assert conduct("lying-aggregate@20:server=1")(later, x) is x


def test_a_poisoned_gradient_keeps_its_weight() -> None:
    mine = gradient()
    said = conduct("poisoned-gradient@20:server=1")(RoundSlot(ROUND, "gradient"), mine)
    assert said.values.tolist() == [-5.0, 10.0, -2.5]
    assert said.values.dtype == np.float32
    assert (said.samples, said.iterations, said.sender) == (40, 10, address(5))
    assert mine.values.tolist() == [1.0, -2.0, 0.5]


def test_a_poisoned_gradient_can_always_be_posted() -> None:
    said = conduct("poisoned-gradient@20:server=1,strength=1e6")(RoundSlot(ROUND, "gradient"), gradient())
    assert said.values.tolist() == [-LARGEST_VALUE, LARGEST_VALUE, -LARGEST_VALUE]
    assert np.isfinite(said.values.astype(np.float16)).all()


def test_an_inflated_weight_keeps_its_gradient() -> None:
    mine = gradient()
    said = conduct("inflated-weight@20:server=1")(RoundSlot(ROUND, "gradient"), mine)
    assert said == replace(mine, samples=400, values=said.values)
    assert said.values is mine.values


def test_a_wrong_model_is_noisy() -> None:
    w = model()
    said = conduct("wrong-model@20:server=1,strength=0.3")(RoundSlot(ROUND, "model"), w)
    assert np.std(said - w) == pytest.approx(0.3, rel=0.03)


@pytest.mark.parametrize(
    ("options", "left"),
    [("", (4, 7)), (",device=4", (1, 7)), (",device=1+7", (4,)), (",device=2", (1, 4, 7))],
)
def test_a_leader_leaves_out_the_first_or_whom_it_was_told(options: str, left: tuple[int, ...]) -> None:
    said = conduct(f"omitted-gradient@20:server=1{options}")(RoundSlot(ROUND, "close"), CLOSE)
    assert said == Close(tuple(map(address, left)), ())


def test_from_an_empty_list_nobody_is_left_out() -> None:
    assert conduct("omitted-gradient@20:server=1")(RoundSlot(ROUND, "close"), Close((), ())) == Close((), ())


def test_whoever_withholds_an_iterate_stays_silent() -> None:
    attacker, x = conduct("withheld-iterate@20:server=1,step=2"), iterate()
    said = [attacker(RoundSlot(ROUND, "iterate", step), x) for step in range(5)]
    assert said[0] is x
    assert said[1] is x
    assert all(each is WITHHELD for each in said[2:])


def test_an_equivocator_posts_the_right_iterate_and_one_that_differs_in_one_value() -> None:
    x = iterate()
    said = conduct("equivocation@20:server=1")(RoundSlot(ROUND, "iterate", 3), x)
    assert isinstance(said, Twice)
    assert said.first is x
    assert said.second.dtype == np.int32
    assert (said.second != x).sum() == 1


@pytest.mark.parametrize("phase", ["plan", "close", "model", "seal"])
def test_a_silent_leader_is_silent_in_one_phase(phase: str) -> None:
    attacker = conduct(f"silent-leader@20:server=1,phase={phase}")
    silent = [post for post in ("plan", "close", "model", "seal") if attacker(RoundSlot(ROUND, post), None) is WITHHELD]
    assert silent == [phase]


@pytest.mark.parametrize("phase", ["model", "seal"])
def test_where_every_server_has_its_own_model_no_leader_can_withhold_it(phase: str) -> None:
    with pytest.raises(BflError, match="silent-leader: found scheme traditional, expected one in which"):
        conduct(f"silent-leader@20:phase={phase}", scheme="traditional")
    assert conduct("silent-leader@20:phase=plan", scheme="traditional")(RoundSlot(ROUND, "plan"), None) is WITHHELD


@pytest.mark.parametrize("kind", ["wrong-model", "silent-leader", "omitted-gradient"])
def test_the_leader_is_the_first_to_lead_and_its_successor_is_honest(kind: str) -> None:
    attacks = read(f"{kind}@all:server=leader")
    servers = [conduct_of(attacks, m, settings(), name) for m in range(EDGES)]
    post, body = ("close", CLOSE) if kind == "omitted-gradient" else ("model", model())
    assert servers[2](RoundSlot(ROUND, post), body) is not body
    assert servers[0](RoundSlot(ROUND, post), body) is body
    assert servers[2](RoundSlot(ROUND, post), body) is not body
    assert servers[0](RoundSlot(ROUND + 1, post), body) is not body


def test_attacks_on_one_post_follow_each_other_until_one_is_silent() -> None:
    slot = RoundSlot(ROUND, "gradient")
    said = conduct("poisoned-gradient@all:server=1; inflated-weight@20:server=1")(slot, gradient())
    assert (said.samples, said.values[0]) == (400, -5.0)
    both = conduct("withheld-iterate@20:server=1; iterate-noise@20:server=1")
    assert both(RoundSlot(ROUND, "iterate", 3), iterate()) is WITHHELD


# --- devices


DATASET = small_dataset()
NETWORK = network_for(DATASET, TrainingParams(hidden="8"), 0)
MODEL = to_vector(NETWORK)
SHARE_OF_3 = np.arange(3 * SHARE, 4 * SHARE)
UPDATE = LocalUpdate(40, 3, np.random.default_rng(2).normal(0, 0.5, len(MODEL)).astype(np.float32))


def device(text: str = "", wallet: Wallet | None = None) -> Device:
    return poison_device(Device(3, DATASET.train, SHARE_OF_3, NETWORK, wallet=wallet), read(text), CLASSES)


def order(**changes: Any) -> Order:
    about = {"device": 3, "round": ROUND, "samples": 25, "model_digest": vector_digest(MODEL)}
    return an_order(MODEL, **{**about, **changes})


def reported(text: str, **changes: Any) -> GradientReply:
    order_ = order(**changes)
    reply = read_reply(device(text).report(order_, UPDATE, sent(order_)))
    assert isinstance(reply, GradientReply)
    return reply


def handed_over(text: str, **changes: Any) -> DataReply:
    order_ = order(offload_to=1, **changes)
    reply = read_reply(device(text).hand_over(order_, sent(order_)))
    assert isinstance(reply, DataReply)
    return reply


def trained(text: str) -> GradientReply:
    message: Message = sent(order())
    reply = read_reply(answer_orders([(device(text), message)], "auto", 10)[0])
    assert isinstance(reply, GradientReply)
    return reply


def test_a_device_that_no_attack_concerns_is_itself() -> None:
    mine = Device(3, DATASET.train, SHARE_OF_3, NETWORK)
    assert poison_device(mine, read("sign-flip@all:device=2; omitted-gradient@all:device=3"), CLASSES) is mine


def test_a_poisoned_device_has_everything_the_honest_one_had() -> None:
    mine = device("sign-flip@all:device=3")
    assert isinstance(mine, PoisonedDevice)
    assert (mine.index, mine.table, mine.share, mine.network) == (3, DATASET.train, SHARE_OF_3, NETWORK)


@pytest.mark.parametrize("kind", DEVICE_KINDS)
def test_in_other_rounds_a_device_is_honest(kind: str) -> None:
    text = f"{kind}@10-19:device=3"
    assert reported(text).samples == UPDATE.samples
    np.testing.assert_array_equal(reported(text).values, UPDATE.values)
    np.testing.assert_array_equal(handed_over(text).labels, handed_over("").labels)
    np.testing.assert_array_equal(trained(text).values, trained("").values)


def test_a_flipped_sign_turns_the_gradient_round() -> None:
    np.testing.assert_array_equal(reported("sign-flip@20:device=3").values, -UPDATE.values)
    reply = reported("sign-flip@20:device=3,strength=4")
    np.testing.assert_allclose(reply.values, -4 * UPDATE.values)
    assert (reply.samples, reply.iterations, str(reply.values.dtype)) == (40, 3, "float32")


def test_noise_is_measured_against_the_gradient_itself() -> None:
    added = reported("noise@20:device=3,strength=2").values - UPDATE.values
    assert np.std(added) == pytest.approx(2 * np.sqrt(np.mean(UPDATE.values**2)), rel=0.1)


def test_the_noise_of_a_device_follows_from_seed_and_round() -> None:
    first = reported("noise@all:device=3").values
    np.testing.assert_array_equal(reported("noise@all:device=3").values, first)
    assert not np.array_equal(reported("noise@all:device=3", seed=8).values, first)
    assert not np.array_equal(reported("noise@all:device=3", round=21).values, first)


def test_inflated_samples_are_claimed_with_an_honest_gradient() -> None:
    reply = reported("inflated-samples@20:device=3")
    assert reply.samples == 400
    np.testing.assert_array_equal(reply.values, UPDATE.values)


def test_flipped_labels_are_handed_over_with_the_right_images() -> None:
    flipped, right = handed_over("label-flip@20:device=3"), handed_over("")
    np.testing.assert_array_equal(flipped.inputs, right.inputs)
    np.testing.assert_array_equal(flipped.labels, CLASSES - 1 - right.labels)
    assert flipped.labels.dtype == np.int64


def test_flipped_labels_are_trained_on_and_the_others_table_stays() -> None:
    before = DATASET.train.labels.clone()
    turned = replace(DATASET.train, labels=CLASSES - 1 - before)
    on_turned = Device(3, turned, SHARE_OF_3, NETWORK)
    expected = read_reply(answer_orders([(on_turned, sent(order()))], "auto", 10)[0])
    assert isinstance(expected, GradientReply)
    np.testing.assert_array_equal(trained("label-flip@20:device=3").values, expected.values)
    assert not np.array_equal(expected.values, trained("").values)
    assert torch.equal(DATASET.train.labels, before)


TERMS = LedgerTerms(chain_id=7, registry="11" * 20, nonce=0, codec="fp32", base_model="22" * 32, plan="33" * 32)


def signer(text: str, **changes: Any) -> bytes:
    order_ = order(ledger=TERMS, **changes)
    work = FoundedWork(0, 3, 10, 0.1, "sgd", "fp32", 60.0, (SHARE,) * DEVICES, 256, False, 1 << 14)
    known = KnownChain(genesis(), frozenset(), bytes(32), "", (), work)
    wallet = Wallet(simulated_account(b"network", "device 3"), known)
    reply = read_reply(device(text, wallet).report(order_, UPDATE, sent(replace(order_, ledger=None))))
    assert isinstance(reply, SignedReply)
    return bytes(decode_transaction(reply.transaction).sender)


def test_a_forger_signs_with_another_key_in_its_rounds_only() -> None:
    own = address_of(simulated_account(b"network", "device 3"))
    assert signer("") == own
    assert signer("forged@20:device=3") == address_of(simulated_account(b"forger", "3"))
    assert signer("forged@20:device=3", round=21) == own


def test_without_a_chain_a_forger_has_nothing_to_forge() -> None:
    np.testing.assert_array_equal(reported("forged@20:device=3").values, UPDATE.values)


def test_device_attacks_add_up() -> None:
    reply = reported("sign-flip@20:device=3; inflated-samples@20:device=3,strength=2")
    assert reply.samples == 80
    np.testing.assert_array_equal(reply.values, -UPDATE.values)


def impossible(text: str, **rounds: Any) -> str:
    """Why an attack cannot come; empty where it can."""
    try:
        check_possible(read_attacks(text, EDGES, DEVICES), RoundParams(**{"rounds": 30, **rounds}))
    except BflError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("text", "rounds", "message"),
    [
        ("sign-flip@31:device=3", {}, "sign-flip: found round 31 as its first, expected 1 to 30; see --rounds"),
        ("sign-flip@30,31-40:device=3", {}, ""),
        ("sign-flip@all:device=3", {}, ""),
        ("iterate-noise@1:step=6", {}, "iterate-noise: found step=6, expected 0 to 5, the consensus steps of a round"),
        ("iterate-noise@1:step=6", {"phi": "auto"}, ""),
        ("iterate-noise@1:step=6", {"scheme": "fedavg"}, ""),  # it poisons the model there
        (
            "withheld-iterate@1:step=3",
            {"scheme": "bfl-no-consensus"},
            "withheld-iterate: found step=3, expected 0",
        ),
        ("equivocation@1:step=5", {}, ""),
        ("forged@1:device=3", {"scheme": "fedavg"}, "forged: found scheme fedavg, expected one on a chain: bfl"),
        ("broken-pass@1", {"scheme": "consensus-no-chain"}, "broken-pass: found scheme consensus-no-chain"),
        ("sign-flip@2:device=3; double-signing@40", {}, "double-signing: found round 40 as its first"),
    ],
)
def test_an_attack_that_cannot_come_is_refused(text: str, rounds: dict[str, Any], message: str) -> None:
    found = impossible(text, **rounds)
    assert found.startswith(f"attack: {message}" if message else "")
    assert bool(found) is bool(message)
