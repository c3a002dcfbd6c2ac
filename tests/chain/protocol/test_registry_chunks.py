"""Payloads in chunks, and what does not pass for them (C8)."""

import pytest
from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak

from chain.client.keys import address_of
from chain.protocol.contract import Call
from chain.protocol.slots import MAX_STEP, Slot, iterate_slot
from tests.chain.protocol.registry_bench import Bench, reverts


def chunk(bench: Bench, sender: LocalAccount, slot: int, index: int, data: bytes = b"data") -> list[Call]:
    return bench.post(sender, "chunk", bench.round, slot, index, data)


def test_chunks_in_order_make_a_post(bench: Bench) -> None:
    device = bench.network.devices[0]
    bench.plan()
    for index in range(3):
        (event,) = chunk(bench, device, Slot.GRADIENT, index)
        said = {"round": 1, "sender": address_of(device), "slot": Slot.GRADIENT, "index": index}
        assert (event.name, event.arguments) == ("ChunkPosted", said)
    (posted,) = bench.gradient(device, chunks=3, payload=b"")
    assert posted["chunks"] == 3


def test_chunks_out_of_order_are_refused_and_the_first_starts_again(bench: Bench) -> None:
    device = bench.network.devices[0]
    bench.plan()
    for index in (1, 5):
        with reverts("chunks out of order"):
            chunk(bench, device, Slot.GRADIENT, index)
    chunk(bench, device, Slot.GRADIENT, 0)
    for index in (2, 4095):
        with reverts("chunks out of order"):
            chunk(bench, device, Slot.GRADIENT, index)
    chunk(bench, device, Slot.GRADIENT, 1)
    with reverts("chunks out of order"):
        chunk(bench, device, Slot.GRADIENT, 1)
    chunk(bench, device, Slot.GRADIENT, 0)
    with reverts("chunks are missing"):
        bench.gradient(device, chunks=2, payload=b"")
    chunk(bench, device, Slot.GRADIENT, 1)
    bench.gradient(device, chunks=2, payload=b"")


def test_a_post_names_exactly_its_chunks_and_carries_nothing_beside_them(bench: Bench) -> None:
    device, other = bench.network.devices[:2]
    bench.plan()
    for missing in (1, 2):
        with reverts("chunks are missing"):
            bench.gradient(device, chunks=missing, payload=b"")
    chunk(bench, device, Slot.GRADIENT, 0)
    chunk(bench, device, Slot.GRADIENT, 1)
    for wrong in (1, 3):
        with reverts("chunks are missing"):
            bench.gradient(device, chunks=wrong, payload=b"")
    with reverts("a payload beside its chunks"):
        bench.gradient(device, chunks=2)
    with reverts("chunks are missing"):
        bench.gradient(other, chunks=2, payload=b"")
    bench.gradient(device, chunks=2, payload=b"")


def test_chunks_of_another_slot_or_round_do_not_count(bench: Bench) -> None:
    leader = bench.leader
    bench.plan()
    chunk(bench, leader, Slot.GRADIENT, 0)
    chunk(bench, leader, Slot.CLOSE, 0)
    with reverts("chunks are missing"):
        bench.gradient(leader, chunks=1, payload=b"")
    with reverts("chunks out of order"):
        chunk(bench, leader, Slot.GRADIENT, 1)
    bench.post(leader, "close", 1, keccak(b"data"), 1, b"")
    chunk(bench, leader, iterate_slot(1), 0)
    with reverts("chunks are missing"):
        bench.post(leader, "iterate", 1, 0, keccak(b"data"), 1, b"")
    bench.post(leader, "iterate", 1, 1, keccak(b"data"), 1, b"")
    chunk(bench, leader, Slot.MODEL, 0)
    bench.end_round(leader=leader)
    bench.clock.pass_s(10**4)
    bench.plan(leader)
    bench.close(leader)
    with reverts("chunks are missing"):
        bench.post(leader, "model", 2, keccak(b"data"), 1, b"")


@pytest.mark.parametrize("slot", [4, 15, iterate_slot(MAX_STEP) + 1, 2**64, 2**64 + Slot.GRADIENT, 2**255])
def test_chunks_of_no_slot_are_refused(bench: Bench, slot: int) -> None:
    chunk(bench, bench.leader, iterate_slot(MAX_STEP), 0)
    with reverts("no such slot"):
        chunk(bench, bench.leader, slot, 0)


def test_numbers_beyond_their_field_do_not_pass_for_others(bench: Bench) -> None:
    """Slot, round and number of chunks share a word: a number with more bits than its field would reach into the next,
    and what the event says would not be what was counted."""
    device = bench.network.devices[0]
    bench.plan()
    chunk(bench, device, Slot.GRADIENT, 0)
    for index in ((1 << 64) | 1, (Slot.GRADIENT << 192) | (1 << 64) | 1, 4096):
        with reverts("too many chunks"):
            chunk(bench, device, Slot.GRADIENT, index)
    for count in ((1 << 64) | 1, (Slot.GRADIENT << 192) | 1, 4097):
        with reverts("too many chunks"):
            bench.gradient(device, chunks=count, payload=b"")
    with reverts("chunks are missing"):
        bench.gradient(device, chunks=4096, payload=b"")
    bench.gradient(device, chunks=1, payload=b"")


def test_a_device_sends_chunks_of_its_gradient_only_and_not_behind_it(bench: Bench) -> None:
    device = bench.network.devices[0]
    bench.plan()
    for slot in (Slot.PLAN, Slot.CLOSE, Slot.MODEL, Slot.ITERATE):
        with reverts("not an edge server"):
            chunk(bench, device, slot, 0)
    with reverts("an empty chunk"):
        chunk(bench, device, Slot.GRADIENT, 0, b"")
    chunk(bench, device, Slot.GRADIENT, 0)
    bench.gradient(device, chunks=1, payload=b"")
    for index in (0, 1):
        with reverts("already posted"):
            chunk(bench, device, Slot.GRADIENT, index)
