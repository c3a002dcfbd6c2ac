"""`flag_signatures`: two things that one server signed beside the chain and no honest one signs both of (Q1, D3.2)."""

import itertools
from collections.abc import Callable
from typing import TypeAlias

import pytest
from eth_account.signers.local import LocalAccount

from chain.client.keys import address_of
from chain.errors import RevertedError
from chain.protocol.contract import decode_call, encode_call
from chain.protocol.endorsements import Domain, Endorsement, endorse, typed_digest
from chain.protocol.passes import Named, Pass, Signed, contradiction, sign_pass
from chain.protocol.slots import Slot
from tests.chain.endorsing import BARE
from tests.chain.network import CHAIN_ID
from tests.chain.protocol.registry_bench import SENT, Bare, Bench, reverts

X, Y = b"x" * 32, b"y" * 32
Make: TypeAlias = Callable[[LocalAccount], Signed]


def e(attempt: int, block: bytes = X, round_: int = 1, time_ms: int = 5, domain: Domain = BARE) -> Make:
    return lambda who: endorse(who, domain, round_, attempt, block, time_ms)


def p(attempt: int, named: Named | None = None, round_: int = 1, time_ms: int = 5, domain: Domain = BARE) -> Make:
    return lambda who: sign_pass(who, domain, round_, attempt, named, time_ms)


def flag(bare: Bare, accuser: LocalAccount, offender: LocalAccount, first: Signed, second: Signed) -> None:
    pair = (first.said, first.signature, second.said, second.signature)
    (flagged,) = bare.send(accuser, "flag_signatures", bare.registry.ask("round"), address_of(offender), *pair)[:1]
    assert (flagged.name, flagged["offender"], flagged["server"]) == (
        "Flagged",
        address_of(offender),
        address_of(accuser),
    )
    call = decode_call(encode_call("flag_signatures", 1, address_of(offender), *pair))
    assert flagged["slot"] == contradiction(call)
    assert (flagged["transaction_hash"], flagged["expected"]) == (
        typed_digest(BARE, first.said),
        typed_digest(BARE, second.said),
    )


CONVICTING = {
    "two blocks of one attempt": (e(0, X), e(0, Y), Slot.DOUBLE_ENDORSEMENT),
    "two blocks of a later attempt": (e(7, X), e(7, Y, time_ms=9), Slot.DOUBLE_ENDORSEMENT),
    "a block and nothing named": (p(2, Named(0, X)), p(2), Slot.DOUBLE_PASS),
    "two blocks named": (p(2, Named(1, X)), p(2, Named(1, Y)), Slot.DOUBLE_PASS),
    "two attempts named": (p(2, Named(0, X)), p(2, Named(1, X)), Slot.DOUBLE_PASS),
    "an endorsement that a pass does not name": (e(0), p(1), Slot.BROKEN_PASS),
    "one that a much later pass does not name": (e(0), p(9), Slot.BROKEN_PASS),
    "a lower one named": (e(2), p(3, Named(1, X)), Slot.BROKEN_PASS),
    "another block named for the attempt": (e(2, X), p(3, Named(2, Y)), Slot.BROKEN_PASS),
}


@pytest.mark.parametrize(("first", "second", "slot"), CONVICTING.values(), ids=CONVICTING)
def test_each_contradiction_convicts(first: Make, second: Make, slot: Slot) -> None:
    bare = Bare()
    liar, one, two = bare.servers
    made = first(liar), second(liar)
    flag(bare, one, liar, *made)
    assert not bare.registry.ask("is_excluded", address_of(liar))
    said = (1, address_of(liar), made[0].said, made[0].signature, made[1].said, made[1].signature)
    events = bare.send(two, "flag_signatures", *said)
    assert [event.name for event in events] == ["Flagged", "Excluded"]
    assert events[0]["slot"] == slot


HONEST = {
    "one endorsement": (e(0), e(0), "not two blocks of one attempt"),
    "one block signed twice": (e(0), e(0, time_ms=6), "not two blocks of one attempt"),
    "blocks of two attempts": (e(0, X), e(1, Y), "not two blocks of one attempt"),
    "a block in two attempts": (e(0, X), e(1, X), "not two blocks of one attempt"),
    "blocks of two rounds": (e(0, X), e(0, Y, round_=2), "not of one round"),
    "one pass": (p(1), p(1), "not two passes to one attempt"),
    "a pass signed twice": (p(1), p(1, time_ms=6), "not two passes to one attempt"),
    "passes that name the same": (p(2, Named(1, X)), p(2, Named(1, X), time_ms=6), "not two passes to one attempt"),
    "passes to two attempts": (p(1), p(2, Named(1, X)), "not two passes to one attempt"),
    "passes of two rounds": (p(1), p(1, Named(0, X), round_=2), "not of one round"),
    "the endorsement is named": (e(0), p(1, Named(0, X)), "the pass hides nothing"),
    "a later one is named": (e(0), p(3, Named(2, Y)), "the pass hides nothing"),
    "signed at the attempt passed to": (e(1), p(1), "the pass hides nothing"),
    "signed above it": (e(2), p(1), "the pass hides nothing"),
    "of another round": (e(0), p(1, round_=2), "not of one round"),
    "the pass first": (p(1), e(0), "expected the endorsement first"),
}


@pytest.mark.parametrize(("first", "second", "reason"), HONEST.values(), ids=HONEST)
def test_every_other_pair_convicts_nobody(first: Make, second: Make, reason: str) -> None:
    bare = Bare()
    honest, one, _ = bare.servers
    with reverts(reason):
        flag(bare, one, honest, first(honest), second(honest))


def test_the_registry_convicts_exactly_where_this_side_does() -> None:
    bare = Bare()
    who, one, _ = bare.servers
    names = [None, Named(0, X), Named(0, Y), Named(1, X)]
    signed: list[Signed] = [e(a, block)(who) for a in (0, 1, 2) for block in (X, Y)]
    signed += [p(a, named)(who) for a in (1, 2) for named in names if named is None or named.attempt < a]
    convicted = 0
    for first, second in itertools.product(signed, repeat=2):
        try:
            bare.next_round()
            pair = (first.said, first.signature, second.said, second.signature)
            bare.send(one, "flag_signatures", bare.registry.ask("round"), address_of(who), *pair)
            found = True
        except RevertedError:
            found = False
        assert found == _contradicts(first, second), (first, second)
        convicted += found
    assert convicted > 20


def _contradicts(first: Signed, second: Signed) -> bool:
    if isinstance(first, Endorsement):
        return second.hides(first) if isinstance(second, Pass) else first.contradicts(second)
    return isinstance(second, Pass) and first.contradicts(second)


def test_both_are_signed_by_the_offender_for_this_registry() -> None:
    bare = Bare()
    liar, one, two = bare.servers
    for first, second, reason in (
        (e(0, X)(two), e(0, Y)(liar), "the first is not signed by the offender"),
        (e(0, X)(liar), e(0, Y)(two), "the second is not signed by the offender"),
        (e(0, X)(liar), p(1)(two), "the second is not signed by the offender"),
        (
            e(0, X, domain=Domain(CHAIN_ID + 1, BARE.registry))(liar),
            e(0, Y)(liar),
            "the first is not signed by the offender",
        ),
    ):
        with reverts(reason):
            flag(bare, one, liar, first, second)


def test_what_is_neither_endorsement_nor_pass_is_refused() -> None:
    bare = Bare()
    liar, one, _ = bare.servers
    block, passed = e(0)(liar), p(1)(liar)
    other, twice = bytes(32) + block.said[32:], bytes(65)
    cases = [
        (other, block.said, "the first is neither endorsement nor pass"),
        (block.said, other, "the second is neither endorsement nor pass"),
        (block.said + bytes(32), block.said, "the first has another length"),
        (passed.said[:160], passed.said, "the first has another length"),
        (block.said, block.said + bytes(1), "expected the endorsement first"),
        (block.said, passed.said[:160], "the second has another length"),
    ]
    for first, second, reason in cases:
        with reverts(reason):
            bare.send(one, "flag_signatures", 1, address_of(liar), first, twice, second, twice)


def test_a_server_accuses_in_the_running_round_and_a_device_never(bench: Bench) -> None:
    liar, one, _ = bench.network.servers
    domain = Domain.of(bench.node.genesis)
    first, second = e(0, X, domain=domain)(liar), p(1, domain=domain)(liar)
    pair = (first.said, first.signature, second.said, second.signature)
    bench.end_round()
    with reverts("wrong round"):
        bench.post(one, "flag_signatures", 1, address_of(liar), *pair)
    with reverts("not an edge server"):
        bench.post(bench.network.devices[0], "flag_signatures", 2, address_of(liar), *pair)
    with reverts("nobody flags itself"):
        bench.post(liar, "flag_signatures", 2, address_of(liar), *pair)
    (event,) = bench.post(one, "flag_signatures", 2, address_of(liar), *pair)
    assert event["slot"] == Slot.BROKEN_PASS
    assert event["transaction_hash"] != SENT
