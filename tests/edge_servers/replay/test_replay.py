"""Eqs. 8-12 from a round's posts alone: the same bits for everybody, and a refusal where the posts do not fit."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from chain.protocol.posts import NoPayloads, Post
from chain.protocol.slots import MAX_STEP, Slot, iterate_slot
from chain.protocol.turns import FOUNDING_BLOCK
from chain.wire.address import Address
from chain.wire.documents import ClosedList
from chain.wire.plan import Plan
from chain.wire.sidecar import payload_digest
from edge_servers.errors import FederationError, GradientRefusedError, PlanError, ReplayError
from edge_servers.founding.parameters import FoundingParameters
from edge_servers.replay.admitted import Admitted, admitted_gradients
from edge_servers.replay.closing import closed_gradients
from edge_servers.replay.iterates import Iterates
from edge_servers.replay.offences import Offence
from edge_servers.replay.plan_check import check_phi, check_plan
from edge_servers.replay.record import UNAVAILABLE, GradientReader, RoundRecord, model_in, parameters_in, read_gradient
from edge_servers.replay.replay import (
    Before,
    Replayed,
    close_offence,
    closed_round,
    iterate_offence,
    iterate_payload,
    model_payload,
    replay_round,
    replayed_aggregates,
    replayed_model,
)
from tests.edge_servers.chain_network import ChainNetwork
from tests.edge_servers.round_records import posts_of, with_close, with_payload, without


def derived(record: RoundRecord, network: ChainNetwork, virtual: tuple[Address, ...] = ()) -> Replayed:
    return replay_round(record, Before(network.model(1), None, virtual), GradientReader(network.founding))


def payload_of(post: Post) -> bytes:
    assert post.payload is not None
    return post.payload


def under(network: ChainNetwork, **rounds: Any) -> FoundingParameters:
    """The founding parameters with other settings of a round."""
    settings = network.founding.settings
    return replace(network.founding, settings=replace(settings, rounds=replace(settings.rounds, **rounds)))


# --- what a round comes to --------------------------------------------------------------------------------------------


def test_the_order_in_which_posts_are_read_makes_no_difference(record: RoundRecord, network: ChainNetwork) -> None:
    expected = derived(record, network)
    for seed in range(3):
        posts = posts_of(record)
        random.Random(seed).shuffle(posts)
        again = derived(RoundRecord.of(2, posts), network)
        assert again.model.tobytes() == expected.model.tobytes()
        assert [g.node for g in again.counted] == [g.node for g in expected.counted]


def test_every_step_conserves_the_sum_and_brings_the_servers_together(
    record: RoundRecord, network: ChainNetwork
) -> None:
    iterates = derived(record, network).iterates
    first, *later = [iterates.values(step) for step in range(len(iterates))]
    assert len(later) == 2
    total = np.sum([x.astype(np.int64) for x in first], axis=0)
    spreads = [np.ptp(np.stack(step).astype(np.int64), axis=0).sum() for step in (first, *later)]
    for step in later:
        assert np.array_equal(np.sum([x.astype(np.int64) for x in step], axis=0), total)
    assert spreads == sorted(spreads, reverse=True)


def test_every_leader_has_a_model_of_its_own_and_the_block_the_one_of_its_builder(
    record: RoundRecord, network: ChainNetwork
) -> None:
    replayed = derived(record, network)
    weights = [gradient.weight for gradient in replayed.counted]
    models = [
        replayed_model(weights, replayed.iterates.last[m], m, network.model(1), network.founding).tobytes()
        for m in range(3)
    ]
    assert len(set(models)) == 3
    assert models.index(network.model(2).tobytes()) == network.leader_of(2)


def test_where_nobody_trained_the_model_stays_and_all_iterates_are_zero(
    record: RoundRecord, network: ChainNetwork
) -> None:
    iterates = Iterates(replayed_aggregates([], network.founding), 2, network.founding)
    assert all(not x.any() for step in range(3) for x in iterates.values(step))
    zeros = np.zeros(len(network.model(1)), np.int32)
    assert replayed_model([], zeros, 0, network.model(1), network.founding) is not None
    empty = with_payload(with_close(record, ()), Slot.MODEL, model_payload(network.model(1), network.founding))
    replayed = derived(empty, network)
    assert replayed.model.tobytes() == network.model(1).tobytes()
    assert {o.kind for o in replayed.offences} == {"close", "iterate"}  # everybody was left out


# --- what does not follow ---------------------------------------------------------------------------------------------


def test_a_round_without_plan_list_or_model_is_refused(record: RoundRecord, network: ChainNetwork) -> None:
    with pytest.raises(PlanError, match="round 2 has no plan"):
        derived(without(record, Slot.PLAN), network)
    with pytest.raises(ReplayError, match="round 2: round 2 is not closed"):
        derived(without(record, Slot.CLOSE), network)
    admitted = admitted_gradients(record, GradientReader(network.founding))
    with pytest.raises(ReplayError, match="round 2: round 2 is not closed"):
        closed_gradients(without(record, Slot.CLOSE), network.founding, admitted)
    with pytest.raises(ReplayError, match="round 2 was sealed without a model"):
        derived(without(record, Slot.MODEL), network)


def test_a_model_that_differs_in_one_bit_is_refused_with_both_digests(
    record: RoundRecord, network: ChainNetwork
) -> None:
    model = network.model(2).copy()
    right = payload_digest(model_payload(model, network.founding)).hex()
    model[0] = np.nextafter(model[0], np.float32(1))
    payload = model_payload(model, network.founding)
    with pytest.raises(ReplayError) as refused:
        derived(with_payload(record, Slot.MODEL, payload), network)
    leader = network.leader_of(2)
    assert str(refused.value) == (
        f"round 2: the model of server {leader} has digest 0x{payload_digest(payload).hex()}, "
        f"its own gradients and closed list give 0x{right}"
    )


def test_another_model_before_it_gives_another_model(record: RoundRecord, network: ChainNetwork) -> None:
    with pytest.raises(ReplayError, match="its own gradients and closed list give"):
        replay_round(record, Before(network.model(0)), GradientReader(network.founding))


def test_posts_whose_payloads_are_nowhere_say_nothing_but_an_iterate_is_told_by_its_digest(
    record: RoundRecord, network: ChainNetwork
) -> None:
    def bare(slot: int) -> RoundRecord:
        return RoundRecord.of(
            2, [post.beside(NoPayloads()) if post.slot == slot else post for post in posts_of(record)]
        )

    with pytest.raises(PlanError, match="round 2 has no plan"):
        derived(bare(Slot.PLAN), network)
    with pytest.raises(ReplayError, match="round 2 is not closed"):
        derived(bare(Slot.CLOSE), network)
    refused = admitted_gradients(bare(Slot.GRADIENT), GradientReader(network.founding)).refused
    assert {error.reason for error in refused.values()} == {"unavailable"}
    assert derived(bare(Slot.ITERATE), network).offences == ()
    assert derived(bare(Slot.MODEL), network).model.tobytes() == network.model(2).tobytes()


# --- closed lists -----------------------------------------------------------------------------------------------------


def test_a_list_with_a_hash_that_nobody_knows_is_refused(record: RoundRecord, network: ChainNetwork) -> None:
    accepted = (*record.closed_list.accepted, bytes(31) + b"\x07")
    with pytest.raises(ReplayError, match=f"round 2: the closed list accepts 0x{'00' * 31}07, which is no gradient"):
        derived(with_close(record, accepted), network)


def test_a_list_that_is_not_in_order_is_refused(record: RoundRecord, network: ChainNetwork) -> None:
    with pytest.raises(ReplayError, match="round 2: the closed list is not in ascending order of address"):
        derived(with_close(record, record.closed_list.accepted[::-1]), network)


def test_whom_a_list_leaves_out_without_a_word_is_evidence_against_its_leader(
    record: RoundRecord, network: ChainNetwork
) -> None:
    gone, *rest = record.closed_list.accepted
    admitted = admitted_gradients(record, GradientReader(network.founding))
    closed = closed_gradients(with_close(record, tuple(rest)), network.founding, admitted)
    assert [gradient.transaction_hash for gradient in closed.omitted] == [gone]
    assert len(closed.counted) == 5
    offence = close_offence(record, closed.omitted, network.founding)
    assert offence is not None
    assert offence.slot == Slot.CLOSE
    assert close_offence(record, (), network.founding) is None, "who leaves out nobody is no offender"


def test_a_gradient_in_no_roll_that_a_list_cites_came_late_and_is_nobodys_fault(
    record: RoundRecord, network: ChainNetwork
) -> None:
    """One roll per server, each with its own cluster: only who is in a cited one was left out (D3.6)."""
    founding, admitted = network.founding, admitted_gradients(record, GradientReader(network.founding))
    rolls = record.posts[Slot.ROLL]
    assert {len(record.rolled([post.transaction_hash])) for post in rolls.values()} == {2}
    for server, roll in rolls.items():
        listed = with_close(record, (), rolls=(roll.transaction_hash,))
        omitted = closed_gradients(listed, founding, admitted).omitted
        assert {founding.network.servers[gradient.server] for gradient in omitted} == {server}
        assert len(omitted) == 2
    assert closed_gradients(with_close(record, (), rolls=()), founding, admitted).omitted == ()


def test_a_list_that_cites_what_is_no_roll_of_its_round_is_refused(record: RoundRecord, network: ChainNetwork) -> None:
    listed = with_close(record, record.closed_list.accepted, rolls=(b"\7" * 32,))
    with pytest.raises(ReplayError, match=f"round 2: the closed list cites a roll 0x{'07' * 32} that is not here"):
        derived(listed, network)


def test_a_roll_that_nobody_can_read_binds_nobody(record: RoundRecord, network: ChainNetwork) -> None:
    broken = with_payload(record, Slot.ROLL, b"gibberish")
    admitted = admitted_gradients(record, GradientReader(network.founding))
    assert closed_gradients(with_close(broken, ()), network.founding, admitted).omitted == ()


def test_what_a_list_calls_unavailable_is_neither_counted_nor_left_out_and_needs_no_proof(
    record: RoundRecord, network: ChainNetwork
) -> None:
    """Whoever replays it may hold the payload: the leader did not, and nobody can prove that it did (B4)."""
    gone, *rest = record.closed_list.accepted
    closed = closed_round(*without_one(record, network, (UNAVAILABLE,)))
    assert closed.omitted == ()
    assert [gradient.transaction_hash for gradient in closed.counted] == rest
    assert gone not in {gradient.transaction_hash for gradient in closed.counted}


def without_one(
    record: RoundRecord, network: ChainNetwork, reasons: Sequence[str], **settings: Any
) -> tuple[RoundRecord, GradientReader]:
    """The round with its first gradient named unavailable, and refused for these reasons."""
    founding = under(network, **settings) if settings else network.founding
    gone, *rest = record.closed_list.accepted
    sender = next(who for who, post in record.gradient_posts().items() if post.transaction_hash == gone)
    refused = tuple((founding.network.name(sender), reason) for reason in reasons)
    listed = ClosedList(2, tuple(rest), refused, (gone,)).encode()
    return with_payload(record, Slot.CLOSE, listed), GradientReader(founding)


@pytest.mark.parametrize("reasons", [(), ("krum",), ("krum", UNAVAILABLE), (UNAVAILABLE, "loss")])
def test_a_gradient_is_unavailable_and_nothing_else_or_nodes_that_hold_it_would_judge_otherwise(
    record: RoundRecord, network: ChainNetwork, reasons: tuple[str, ...]
) -> None:
    with pytest.raises(ReplayError, match="unavailable, which is no gradient of this round, or refused for"):
        closed_round(*without_one(record, network, reasons))


@pytest.mark.parametrize(
    ("filters", "reason", "omitted"),
    [("loss", "loss", 0), ("norm-clip+loss", "loss", 0), ("none", "loss", 1), ("loss", "late", 1), ("loss", "krum", 1)],
)
def test_a_verdict_that_needs_data_is_the_leaders_word_where_the_run_has_it_and_other_reasons_are_none(
    record: RoundRecord, network: ChainNetwork, filters: str, reason: str, omitted: int
) -> None:
    """A good gradient on the ledger is neither late nor, where no filter runs, an outlier."""
    gone, *rest = record.closed_list.accepted
    founding = under(network, filter=filters)
    admitted = admitted_gradients(record, GradientReader(founding))
    name = next(g.node for g in admitted.good.values() if g.transaction_hash == gone)
    closed = closed_gradients(with_close(record, tuple(rest), (name, reason)), founding, admitted)
    assert len(closed.omitted) == omitted
    assert len(closed.counted) == 5


@pytest.mark.parametrize(
    ("posted", "judged", "allowed"),
    [(6, 2, True), (6, 3, False), (5, 2, True), (5, 3, False), (1, 0, True), (1, 1, False), (0, 0, True)],
)
def test_the_leaders_verdict_takes_out_less_than_half_of_the_good_gradients(
    record: RoundRecord, network: ChainNetwork, posted: int, judged: int, allowed: bool
) -> None:
    founding = under(network, filter="loss")
    good = dict(list(admitted_gradients(record, GradientReader(founding)).good.items())[:posted])
    out, kept = list(good.values())[:judged], list(good.values())[judged:]
    listed = with_close(record, tuple(g.transaction_hash for g in kept), *((g.node, "loss") for g in out))
    if allowed:
        closed = closed_gradients(listed, founding, Admitted(good, {}))
        assert ([g.node for g in closed.counted], closed.omitted) == ([g.node for g in kept], ())
    else:
        told = (
            f"round 2: the leader's verdict takes out {judged} of {posted} gradients, expected less than half of them"
        )
        with pytest.raises(ReplayError, match=told):
            closed_gradients(listed, founding, Admitted(good, {}))


# --- gradients --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"samples": 41}, "wrong-weight"), ({"samples": 39}, "wrong-weight"), ({"iterations": 3}, "wrong-weight")],
)
def test_a_device_has_the_weight_of_the_plan(
    record: RoundRecord, network: ChainNetwork, changes: dict[str, Any], reason: str
) -> None:
    post = record.gradient_posts()[network.founding.network.devices[3].address]
    call = replace(post.arguments, arguments={**post.arguments.arguments, **changes})
    with pytest.raises(GradientRefusedError) as refused:
        read_gradient(replace(post, arguments=call), payload_of(post), record.plan, network.founding)
    assert refused.value.reason == reason


@pytest.mark.parametrize(("samples", "counts"), [(40, True), (39, True), (1, True), (0, False), (41, False)])
def test_a_server_has_at_most_the_weight_of_the_plan(
    record: RoundRecord, network: ChainNetwork, samples: int, counts: bool
) -> None:
    post = record.gradient_posts()[network.founding.network.servers[0]]
    call = replace(post.arguments, arguments={**post.arguments.arguments, "samples": samples})
    changed = replace(post, arguments=call)
    if counts:
        assert read_gradient(changed, payload_of(post), record.plan, network.founding).samples == samples
    else:
        with pytest.raises(GradientRefusedError, match="samples and 2 iterations, expected 40 and 2"):
            read_gradient(changed, payload_of(post), record.plan, network.founding)


def test_a_server_without_offloaders_has_nothing_to_train_on(record: RoundRecord, network: ChainNetwork) -> None:
    post = record.gradient_posts()[network.founding.network.servers[0]]
    other = replace(post, sender=network.key(1))
    with pytest.raises(GradientRefusedError, match="found 40 samples and 2 iterations, expected 0 and 2"):
        read_gradient(other, payload_of(post), record.plan, network.founding)


@pytest.mark.parametrize("payload", [b"", b"gibberish", bytes(10_000)], ids=len)
def test_bytes_that_are_no_gradient_are_refused(record: RoundRecord, network: ChainNetwork, payload: bytes) -> None:
    post = record.gradient_posts()[network.founding.network.devices[3].address]
    with pytest.raises(GradientRefusedError) as refused:
        read_gradient(post, payload, record.plan, network.founding)
    assert refused.value.reason == "malformed"


# --- iterates ---------------------------------------------------------------------------------------------------------


def test_an_iterate_is_right_bit_for_bit_or_an_offence(record: RoundRecord, network: ChainNetwork) -> None:
    x, server = derived(record, network).iterates.values(1)[0], network.founding.network.servers[0]
    posted = record.iterate(server, 1)
    assert posted is not None
    right = payload_digest(iterate_payload(x, network.founding))
    assert iterate_offence(posted, right, server, 1, network.founding) is None
    x[0] += 1
    expected = payload_digest(iterate_payload(x, network.founding))
    assert iterate_offence(posted, expected, server, 1, network.founding) == Offence(
        server, "server 0", "iterate", iterate_slot(1), posted.transaction_hash, expected,
        "server 0: iterate of step 1 is not what eq. 9 gives", posted.digest,
    )  # fmt: skip
    missing = iterate_offence(None, expected, server, 0, network.founding)
    assert missing == Offence(
        server, "server 0", "absent", Slot.ITERATE, bytes(32), expected, "server 0 posted no iterate of step 0"
    )


@pytest.mark.parametrize("payload", [b"", b"gibberish"])
def test_an_iterate_that_nobody_can_read_is_a_wrong_one(
    record: RoundRecord, network: ChainNetwork, payload: bytes
) -> None:
    changed = with_payload(record, iterate_slot(2), payload, network.key(1))
    (offence,) = derived(changed, network).offences
    assert (network.founding.network.name(offence.offender), offence.kind, offence.step) == ("server 1", "iterate", 2)


def test_a_virtual_server_is_not_missed_but_what_it_posts_must_be_right(
    record: RoundRecord, network: ChainNetwork
) -> None:
    server, slot = network.founding.network.servers[1], iterate_slot(1)
    silent = without(record, slot, network.key(1))
    assert derived(silent, network, virtual=(server,)).offences == ()
    assert [o.kind for o in derived(silent, network).offences] == ["absent"]
    wrong = with_payload(record, slot, b"no", network.key(1))
    assert [o.kind for o in derived(wrong, network, virtual=(server,)).offences] == ["iterate"]


def test_the_step_of_an_offence_is_that_of_an_iterate(network: ChainNetwork) -> None:
    def step(slot: int) -> int | None:
        return Offence(network.founding.network.servers[0], "server 0", "iterate", slot, b"", b"", "").step

    leaders = (Slot.PLAN, Slot.CLOSE, Slot.MODEL, Slot.EQUIVOCATION)
    assert [step(slot) for slot in leaders] == [None] * 4
    assert [step(iterate_slot(7)), step(iterate_slot(MAX_STEP))] == [7, MAX_STEP]


def test_a_founding_whose_parameters_or_model_are_nowhere_is_refused(network: ChainNetwork) -> None:
    founding = network.node.block(FOUNDING_BLOCK)
    assert founding is not None
    with pytest.raises(FederationError, match="the founding parameters are not here"):
        parameters_in(founding, NoPayloads())
    with pytest.raises(ReplayError, match="the model of block 1 is not here"):
        model_in(founding, network.founding, NoPayloads())


# --- plans ------------------------------------------------------------------------------------------------------------


def test_the_plan_of_a_round_is_allowed_and_one_for_an_excluded_server_is_not(
    record: RoundRecord, network: ChainNetwork
) -> None:
    plan: Plan = record.plan
    check_plan(plan, network.founding, 2)
    with pytest.raises(PlanError, match="device 0 may not offload to server 0"):
        check_plan(plan, network.founding, 2, excluded=[0])


@pytest.mark.parametrize("deadline_s", [29.0, 30.5])
def test_a_plan_gives_devices_neither_more_nor_less_time_than_the_founding(
    record: RoundRecord, network: ChainNetwork, deadline_s: float
) -> None:
    plan = replace(record.plan, deadline_s=deadline_s)
    with pytest.raises(PlanError) as refused:
        check_plan(plan, network.founding, 2)
    assert str(refused.value) == f"plan: found a deadline of {deadline_s:g} s, expected 30"


@pytest.mark.parametrize(
    ("phi", "round_", "found", "allowed"),
    [
        ("3", 1, 3, True),
        ("3", 1, 2, False),
        ("auto:4", 1, 4, True),
        ("auto:4", 1, 5, False),
        ("auto:4", 2, 0, False),
        ("auto:4", 2, 1, True),
        ("auto:4", 2, 6, True),
        ("auto:4", 2, 7, False),
        ("auto:4", 2, -1, False),
    ],
)
def test_phi_is_that_of_the_founding_or_under_auto_the_leaders_word_within_bounds(
    record: RoundRecord, network: ChainNetwork, phi: str, round_: int, found: int, allowed: bool
) -> None:
    founding = under(network, phi=phi, max_phi=6)
    plan = replace(record.plan, round=round_, phi=found)
    if allowed:
        check_phi(plan, founding)
    else:
        with pytest.raises(PlanError, match=f"plan: found phi {found}, expected"):
            check_phi(plan, founding)


def test_where_nobody_gossips_a_plan_has_no_consensus_steps(record: RoundRecord, network: ChainNetwork) -> None:
    founding = under(network, scheme="bfl-no-consensus")
    check_phi(replace(record.plan, phi=0), founding)
    with pytest.raises(PlanError, match="plan: found phi 1, expected 0"):
        check_phi(replace(record.plan, phi=1), founding)


def test_a_round_is_not_replayed_with_a_plan_that_may_not_be(record: RoundRecord, network: ChainNetwork) -> None:
    changes: list[tuple[dict[str, Any], str]] = [
        ({"phi": 3}, "found phi 3, expected 2"),
        ({"deadline_s": 1.0}, "found a deadline of 1 s"),
    ]
    for change, message in changes:
        with pytest.raises(PlanError, match=message):
            derived(with_payload(record, Slot.PLAN, replace(record.plan, **change).payload), network)
