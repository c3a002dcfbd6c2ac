"""Who posts what in a round, when, and under which digest (P4-P6)."""

import itertools
from typing import Any

import pytest
from eth_hash.auto import keccak

from chain.client.keys import address_of
from chain.errors import (
    OversizedPayloadError,
    RevertedError,
    UnregisteredSenderError,
)
from chain.protocol import contract
from chain.protocol.slots import MAX_STEP, Slot, iterate_slot
from tests.chain.network import (
    MODEL_0,
)
from tests.chain.protocol.registry_bench import STRANGER, Bare, Bench, reverts


def test_a_whole_round_says_what_was_posted(bench: Bench) -> None:
    leader, (device, *_) = bench.leader, bench.network.devices
    by_leader = {"round": 1, "leader": address_of(leader), "chunks": 0, "rank": 0}
    (planned,) = bench.plan()
    assert (planned.name, planned.arguments) == ("Planned", {**by_leader, "digest": keccak(b"plan")})
    (posted,) = bench.gradient(device)
    assert (posted.name, posted.arguments) == (
        "GradientPosted",
        {
            "round": 1,
            "sender": address_of(device),
            "digest": keccak(b"gradient"),
            "chunks": 0,
            "samples": 100,
            "iterations": 10,
        },
    )
    (closed,) = bench.close()
    assert (closed.name, closed.arguments) == ("Closed", {**by_leader, "digest": keccak(b"closed")})
    for server, step in itertools.product(bench.network.servers, (0, 1)):
        (iterate,) = bench.iterate(server, step)
        said = {"round": 1, "sender": address_of(server), "step": step, "digest": keccak(b"iterate"), "chunks": 0}
        assert (iterate.name, iterate.arguments) == ("IteratePosted", said)
    (published,) = bench.model()
    assert (published.name, published.arguments) == ("ModelPublished", {**by_leader, "digest": keccak(b"model")})
    ask = bench.node.ask
    assert (ask("planned"), ask("closed"), ask("published")) == (1, 1, 1)
    assert (ask("plan_digest"), ask("model_digest")) == (keccak(b"plan"), keccak(b"model"))
    assert ask("published_by") == address_of(leader)
    posted_by_leader = [
        ask("posted", address_of(leader), slot)
        for slot in (Slot.PLAN, Slot.CLOSE, Slot.ITERATE, iterate_slot(1), Slot.MODEL)
    ]
    assert posted_by_leader == [keccak(said) for said in (b"plan", b"closed", b"iterate", b"iterate", b"model")]
    assert ask("posted", address_of(device), Slot.GRADIENT) == keccak(b"gradient")


def test_the_registry_remembers_the_digests_of_the_current_round_only(bench: Bench) -> None:
    device = address_of(bench.network.devices[0])
    bench.plan()
    assert bench.node.ask("posted", device, Slot.GRADIENT) == bytes(32)
    bench.gradient(bench.network.devices[0])
    assert bench.node.ask("posted", device, Slot.GRADIENT) == keccak(b"gradient")
    assert bench.node.ask("posted", device, Slot.ITERATE) == bytes(32)
    assert bench.node.ask("posted", device, 2**255) == bytes(32)
    bench.end_round()
    assert bench.node.ask("posted", device, Slot.GRADIENT) == bytes(32)


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
    with reverts("not an edge server"):
        bench.post(device, "endorse", 1, bench.node.head.hash)


def test_a_stranger_and_the_founder_post_nothing(bench: Bench) -> None:
    with pytest.raises(UnregisteredSenderError):
        bench.plan(STRANGER)
    with reverts("not registered"):
        bench.plan(bench.network.founder)
    bench.plan()
    with reverts("not registered"):
        bench.gradient(bench.network.founder)
    with reverts("not registered"):
        bench.post(bench.network.founder, "chunk", 1, Slot.GRADIENT, 0, b"x")


@pytest.mark.parametrize("wrong", [0, 1, 3, 2**256 - 1])
def test_every_post_names_the_round_that_runs(bench: Bench, wrong: int) -> None:
    bench.end_round()
    leader, digest = bench.leader, keccak(b"x")
    other = address_of(bench.others[0])
    bench.plan()
    posts: dict[str, tuple[Any, ...]] = {
        "plan": (digest, 0, b"x"),
        "gradient": (keccak(MODEL_0), keccak(b"plan"), 1, 1, digest, 0, b"x"),
        "close": (digest, 0, b"x"),
        "iterate": (0, digest, 0, b"x"),
        "flag": (other, Slot.ITERATE, bytes(32), digest, b""),
        "flag_equivocation": (other, b"x", bytes(65), b"y", bytes(65)),
        "model": (digest, 0, b"x"),
        "chunk": (Slot.GRADIENT, 0, b"x"),
        "endorse": (bench.node.head.hash,),
    }
    for name, arguments in posts.items():
        with reverts("wrong round"):
            bench.post(leader, name, wrong, *arguments)


def test_a_payload_has_the_digest_it_is_posted_under(bench: Bench) -> None:
    leader, device = bench.leader, bench.network.devices[0]
    wrong = (keccak(b"another"), 0, b"payload")
    reason = "the payload does not have this digest"
    with reverts(reason):
        bench.post(leader, "plan", 1, *wrong)
    bench.plan()
    with reverts(reason):
        bench.gradient(device, digest=keccak(b"another"))
    with reverts(reason):
        bench.post(leader, "close", 1, *wrong)
    bench.close()
    with reverts(reason):
        bench.post(leader, "iterate", 1, 0, *wrong)
    with reverts(reason):
        bench.post(leader, "model", 1, *wrong)


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
        bench.gradient(device, base_model=keccak(b"model"))
    with reverts("gradient for another plan"):
        bench.gradient(device, plan_digest=keccak(b"another plan"))
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
    for beyond in (MAX_STEP + 1, 128, 2**256 - 1, 2**256 - Slot.ITERATE):
        with reverts("no such step"):
            bench.post(bench.leader, "iterate", 1, beyond, keccak(b"x"), 0, b"x")


def test_a_payload_fills_its_frame_and_no_more(bench: Bench) -> None:
    full = bytes([1]) * (1 << 17)
    bench.plan()
    bench.gradient(bench.network.devices[0])
    bench.close()
    bench.post(bench.leader, "iterate", 1, 0, keccak(full), 0, full, gas=6_000_000)
    with pytest.raises(OversizedPayloadError):
        bench.post(bench.leader, "iterate", 1, 1, keccak(full + b"x"), 0, full + b"x", gas=6_000_000)


def test_the_contract_itself_refuses_what_is_beyond_its_frames() -> None:
    """Where no pool of ours stands before it."""
    bare = Bare()
    leader, other = bare.servers[0], address_of(bare.servers[1])
    full = bytes(1 << 17)
    for name, *arguments in (
        ("plan", 1, keccak(full + b"x"), 0, full + b"x"),
        ("chunk", 1, Slot.GRADIENT, 0, bytes(contract.CHUNK_BYTES + 1)),
        ("flag", 1, other, Slot.ITERATE, bytes(32), bytes(32), bytes(1025)),
        ("flag_equivocation", 1, other, full + bytes(1025), bytes(65), b"", bytes(65)),
        ("flag_equivocation", 1, other, b"", bytes(66), b"", bytes(65)),
    ):
        with pytest.raises(RevertedError, match="no reason"):
            bare.send(leader, name, *arguments)
    bare.send(leader, "plan", 1, keccak(full), 0, full)
    bare.send(leader, "chunk", 1, Slot.GRADIENT, 0, bytes(contract.CHUNK_BYTES))
    bare.send(leader, "flag", 1, other, Slot.ITERATE, bytes(32), bytes(32), bytes(1024))


def test_a_refused_post_leaves_no_trace(bench: Bench) -> None:
    nonce = bench.node.state().nonce(address_of(bench.leader))
    with reverts("wrong round"):
        bench.post(bench.leader, "plan", 2, keccak(b"x"), 0, b"x")
    assert len(bench.node.pool) == 0
    assert bench.node.state().nonce(address_of(bench.leader)) == nonce
