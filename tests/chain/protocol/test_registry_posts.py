"""Who posts what in a round, when, and under which digest (P4-P6)."""

import itertools
from typing import Any

import pytest

from chain.client.keys import address_of
from chain.errors import (
    RevertedError,
    UnregisteredSenderError,
)
from chain.protocol.slots import MAX_STEP, Slot, iterate_slot
from chain.wire.sidecar import payload_digest
from tests.chain.network import MODEL_0, SIZES, named, sized
from tests.chain.protocol.registry_bench import NOBODY, SENT, STRANGER, Bare, Bench, reverts

GRADIENT, ITERATE, MODEL = (
    payload_digest(sized(payload, size))
    for payload, size in ((b"gradient", SIZES.gradient), (b"iterate", SIZES.iterate), (b"model", SIZES.model))
)


def test_a_whole_round_says_what_was_posted(bench: Bench) -> None:
    leader, (device, *_) = bench.leader, bench.network.devices
    by_leader = {"round": 1, "leader": address_of(leader), "attempt": 0}
    (planned,) = bench.plan()
    assert (planned.name, planned.arguments) == ("Planned", {**by_leader, "digest": payload_digest(b"plan")})
    (posted,) = bench.gradient(device)
    assert (posted.name, posted.arguments) == (
        "GradientPosted",
        {"round": 1, "sender": address_of(device), "attempt": 0, "digest": GRADIENT},
    )
    (rolled,) = bench.roll(leader)
    said = {"round": 1, "sender": address_of(leader), "attempt": 0, "digest": payload_digest(b"roll")}
    assert (rolled.name, rolled.arguments) == ("RollPosted", said)
    (closed,) = bench.close()
    assert (closed.name, closed.arguments) == ("Closed", {**by_leader, "digest": payload_digest(b"closed")})
    for server, step in itertools.product(bench.network.servers, (0, 1)):
        (iterate,) = bench.iterate(server, step)
        said = {"round": 1, "sender": address_of(server), "step": step, "attempt": 0, "digest": ITERATE}
        assert (iterate.name, iterate.arguments) == ("IteratePosted", said)
    (published,) = bench.model()
    assert (published.name, published.arguments) == ("ModelPublished", {**by_leader, "digest": MODEL})
    ask = bench.node.ask
    digests = (payload_digest(b"plan"), payload_digest(b"closed"), MODEL)
    assert (ask("plan_digest"), ask("close_digest"), ask("model_digest")) == digests
    assert ask("published_by") == address_of(leader)
    posted_by_leader = [slot for slot in range(200) if ask("has_posted", address_of(leader), slot)]
    assert posted_by_leader == [Slot.PLAN, Slot.CLOSE, Slot.MODEL, Slot.ROLL, Slot.ITERATE, iterate_slot(1)]
    assert [slot for slot in range(200) if ask("has_posted", address_of(device), slot)] == [Slot.GRADIENT]


def test_the_registry_remembers_who_posted_in_the_current_round_only(bench: Bench) -> None:
    device = address_of(bench.network.devices[0])
    bench.plan()
    assert not bench.node.ask("has_posted", device, Slot.GRADIENT)
    bench.gradient(bench.network.devices[0])
    assert bench.node.ask("has_posted", device, Slot.GRADIENT)
    # Marks share a word with round and attempt: no number beyond the slots reads those as a mark.
    assert not any(bench.node.ask("has_posted", device, slot) for slot in (128, 192, 193, 2**255, 2**256 - 1))
    bench.end_round()
    assert not bench.node.ask("has_posted", device, Slot.GRADIENT)


def test_only_a_server_posts_what_a_server_posts(bench: Bench) -> None:
    device = bench.network.devices[0]
    with reverts("not an edge server"):
        bench.plan(device)
    bench.plan()
    with reverts("not an edge server"):
        bench.close(device)
    bench.close()
    with reverts("not an edge server"):
        bench.iterate(device)
    with reverts("not an edge server"):
        bench.model(device)
    with reverts("not an edge server"):
        bench.flag(device, bench.network.servers[0])


def test_a_stranger_and_the_founder_post_nothing(bench: Bench) -> None:
    with pytest.raises(UnregisteredSenderError):
        bench.plan(STRANGER)
    with reverts("not registered"):
        bench.plan(bench.network.founder)
    bench.plan()
    with reverts("not registered"):
        bench.gradient(bench.network.founder)


@pytest.mark.parametrize("wrong", [1, 3, 2**128 + 2, 2**256 - 1])
def test_every_post_names_the_round_that_runs(wrong: int) -> None:
    bare = Bare()
    bare.registry.number += 1
    bare.registry.begin(address_of(bare.devices[0]), NOBODY, bytes(32))
    leader, other = bare.servers[0], address_of(bare.servers[1])
    plan, close, model_0 = payload_digest(b"x"), payload_digest(b"y"), payload_digest(MODEL_0)
    posts: list[tuple[Any, ...]] = [
        ("plan", 0, plan, 1),
        ("gradient", 0, model_0, plan, 1, 1, GRADIENT, SIZES.gradient),
        ("roll", 0, plan, close, 1),
        ("close", 0, plan, close, 1),
        ("iterate", 0, 0, close, ITERATE, SIZES.iterate),
        ("flag", other, Slot.ITERATE, SENT, bytes(32)),
        ("model", 0, close, MODEL, SIZES.model),
    ]
    evidence = (other, b"x", bytes(65), b"y", bytes(65))
    with reverts("wrong round"):
        bare.send(leader, "flag_equivocation", wrong, *evidence)
    for name, *arguments in posts:
        with reverts("wrong round"):
            bare.send(leader, name, wrong, *arguments)
        bare.send(leader, name, 2, *arguments)


def test_the_phases_come_in_order_and_once(bench: Bench) -> None:
    device, leader = bench.network.devices[0], bench.leader
    with reverts("gradient for another plan"):
        bench.gradient(device)
    with reverts("this round is not planned"):
        bench.close()
    bench.plan()
    with reverts("this round is planned"):
        bench.plan(payload=b"another")
    with reverts("this round is not closed"):
        bench.iterate(leader)
    with reverts("this round is not closed"):
        bench.model()
    bench.close()
    with reverts("this round is closed"):
        bench.close()
    with reverts("this round is closed"):
        bench.gradient(device)
    bench.model()
    with reverts("this round has a model"):
        bench.model()
    bench.end_round()
    with reverts("gradient for another plan"):
        bench.gradient(device)
    with reverts("this round is not planned"):
        bench.close()
    bench.plan()
    with reverts("this round is not closed"):
        bench.iterate(leader)


def test_a_gradient_is_of_this_model_and_this_plan_and_of_some_samples(bench: Bench) -> None:
    device = bench.network.devices[0]
    bench.plan()
    with reverts("gradient for another base model"):
        bench.gradient(device, base_model=payload_digest(b"model"))
    with reverts("gradient for another plan"):
        bench.gradient(device, plan_digest=payload_digest(b"another plan"))
    for empty in ("samples", "iterations"):
        with reverts("no samples or no iterations"):
            bench.gradient(device, **{empty: 0})
    bench.gradient(device, samples=1, iterations=1)


def test_one_post_per_sender_round_and_slot(bench: Bench) -> None:
    server, other = bench.network.servers[:2]
    device = bench.network.devices[0]
    bench.plan()
    for sender in (server, device):
        bench.gradient(sender)  # a server's own gradient counts like a device's (P7)
        with reverts("already posted"):
            bench.gradient(sender, samples=2)
    bench.close()
    bench.iterate(server, 0)
    bench.iterate(server, 1)
    for step in (0, 1):
        with reverts("already posted"):
            bench.iterate(server, step, b"another")
    bench.iterate(other, 0)
    bench.end_round()
    bench.plan()
    bench.gradient(device)
    bench.close()
    bench.iterate(server, 0)


def test_iterates_have_a_last_step(bench: Bench) -> None:
    bench.plan()
    bench.close()
    bench.iterate(bench.leader, MAX_STEP)
    closed = bench.node.ask("close_digest")
    for beyond in (MAX_STEP + 1, 128, 2**256 - 1, 2**256 - Slot.ITERATE):
        with reverts("no such step"):
            bench.post(bench.leader, "iterate", 1, 0, beyond, closed, ITERATE, SIZES.iterate)


def test_the_contract_itself_refuses_evidence_that_is_too_long() -> None:
    """Where no pool of ours stands before it."""
    bare = Bare()
    leader, other = bare.servers[0], address_of(bare.servers[1])
    for evidence in ((bytes(513), bytes(65), b"", bytes(65)), (b"", bytes(66), b"", bytes(65))):
        with pytest.raises(RevertedError, match="no reason"):
            bare.send(leader, "flag_equivocation", 1, other, *evidence)
    with reverts("not an EIP-1559 transaction"):
        bare.send(leader, "flag_equivocation", 1, other, bytes(512), bytes(65), b"", bytes(65))


def test_a_refused_post_leaves_no_trace(bench: Bench) -> None:
    nonce = bench.node.state().nonce(address_of(bench.leader))
    with reverts("wrong round"):
        bench.post(bench.leader, "plan", 2, 0, *named(b"x"), beside=(b"x",))
    assert len(bench.node.pool) == 0
    assert bench.node.state().nonce(address_of(bench.leader)) == nonce
