"""Two posts for one slot are proof, and nothing else is (P15)."""

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import rlp
from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak
from eth_keys import keys

from chain.client.keys import address_of
from chain.errors import (
    RevertedError,
)
from chain.protocol import contract
from chain.protocol.contract import encode_call
from chain.protocol.slots import Slot
from chain.wire.transactions import Envelope, Transaction, decode_transaction, sign_transaction
from tests.chain.network import CHAIN_ID, named
from tests.chain.protocol.registry_bench import (
    NOBODY,
    SECP256K1_N,
    STRANGER,
    A,
    B,
    Bare,
    Bench,
    iterate_saying,
    prove,
    reverts,
    signed,
)

POSTS: dict[str, Callable[[bytes], tuple[Any, ...]]] = {
    "plan": lambda payload: (1, 0, *named(payload)),
    "gradient": lambda payload: (1, 0, bytes(32), bytes(32), 100, 10, *named(payload)),
    "roll": lambda payload: (1, 0, bytes(32), *named(payload)),
    "close": lambda payload: (1, 0, bytes(32), *named(payload)),
    "iterate": lambda payload: (1, 0, 7, bytes(32), *named(payload)),
    "model": lambda payload: (1, 0, bytes(32), *named(payload)),
}
PLACE = ("round", "attempt", "step")
"""What says which slot a post is for; all else is what it says in it"""
WORDS = [(name, word) for name in POSTS for word in contract.functions()[name].arguments if word not in PLACE]


def said(name: str, **changes: Any) -> tuple[Any, ...]:
    """The arguments of a post, some of them changed."""
    return tuple((dict(zip(contract.functions()[name].arguments, POSTS[name](b"x"), strict=True)) | changes).values())


def unposted(bare: Bare, sender: LocalAccount, name: str, *arguments: Any) -> Transaction:
    """A post that is signed for a registry without a chain."""
    envelope = Envelope(CHAIN_ID, 0, 3_000_000, bare.registry.address)
    return decode_transaction(sign_transaction(sender, envelope, encode_call(name, *arguments)))


@pytest.mark.parametrize("name", POSTS)
def test_two_different_posts_for_one_slot_are_proof(bench: Bench, name: str) -> None:
    liar, one, two = bench.network.servers
    first, second = (signed(bench, liar, name, *POSTS[name](payload)) for payload in (b"yes", b"no"))
    (flagged,) = prove(bench, one, liar, first, second)
    assert flagged.arguments == {
        "round": 1,
        "offender": address_of(liar),
        "server": address_of(one),
        "slot": Slot.EQUIVOCATION,
        "transaction_hash": keccak(first.unsigned),
        "expected": keccak(second.unsigned),
    }
    assert not bench.is_excluded(liar)
    assert [event.name for event in prove(bench, two, liar, second, first)] == ["Flagged", "Excluded"]
    assert bench.is_excluded(liar)


def test_posts_that_differ_in_any_word_but_their_place_are_different_posts() -> None:
    """Sizes, samples and the plan or close they name too: whoever reads one of them may believe it."""
    bare = Bare()
    liar, one, _ = bare.servers
    assert len(WORDS) == 2 + 6 + 3 + 3 + 3 + 3
    for round_, (name, word) in enumerate(WORDS, start=1):
        old = said(name)[contract.functions()[name].arguments.index(word)]
        changed = old + 1 if isinstance(old, int) else b"\xfe" * 32
        first, second = (unposted(bare, liar, name, *each) for each in (said(name), said(name, **{word: changed})))
        evidence = (first.unsigned, first.signature, second.unsigned, second.signature)
        (flagged,) = bare.send(one, "flag_equivocation", round_, address_of(liar), *evidence)
        assert flagged.name == "Flagged", (name, word)
        bare.registry.number += 1
        bare.registry.begin(NOBODY, NOBODY, bytes(32))


@pytest.mark.parametrize("name", ["iterate", "gradient"])
@pytest.mark.parametrize(
    "envelope", [{"nonce": 0}, {"nonce": 2**63, "gas": 2**62, "max_fee": 2**256 - 1, "max_priority_fee": 2**256 - 1}]
)
def test_evidence_is_found_behind_numbers_of_any_length(bench: Bench, name: str, envelope: dict[str, int]) -> None:
    liar, one, _ = bench.network.servers
    first, second = (signed(bench, liar, name, *POSTS[name](payload), **envelope) for payload in (b"yes", b"no"))
    assert prove(bench, one, liar, first, second)[0].name == "Flagged"


def test_evidence_keeps_until_a_later_round(bench: Bench) -> None:
    liar, one, _ = bench.network.servers
    first, second = (iterate_saying(bench, liar, payload) for payload in (b"yes", b"no"))
    bench.end_round()
    assert prove(bench, one, liar, first, second)[0]["round"] == 2


def test_one_transaction_is_no_equivocation_however_it_is_signed(bench: Bench) -> None:
    honest, one, _ = bench.network.servers
    sent = iterate_saying(bench, honest, b"yes")
    with reverts("the same transaction twice"):
        prove(bench, one, honest, sent, sent)
    malleated = replace(sent, s=SECP256K1_N - sent.s, parity=1 - sent.parity)
    assert malleated.signature != sent.signature
    with reverts("the same transaction twice"):
        prove(bench, one, honest, sent, malleated)


@pytest.mark.parametrize("name", POSTS)
def test_the_same_post_sent_again_is_no_equivocation(bench: Bench, name: str) -> None:
    """With a higher fee on a network with money, or with another nonce after the pool has dropped it (P5)."""
    honest, one, _ = bench.network.servers
    first = signed(bench, honest, name, *POSTS[name](b"same"))
    changes = ({"nonce": 9}, {"gas": 2_999_999}, {"max_fee": 1}, {"max_fee": 2, "max_priority_fee": 2})
    for change in changes:
        again = signed(bench, honest, name, *POSTS[name](b"same"), **change)
        assert first.unsigned != again.unsigned
        with reverts("the same post twice"):
            prove(bench, one, honest, first, again)


def test_posts_for_different_slots_are_no_equivocation(bench: Bench) -> None:
    honest, one, _ = bench.network.servers
    iterate = iterate_saying(bench, honest, b"x")
    elsewhere = [
        iterate_saying(bench, honest, b"y", step=1),
        signed(bench, honest, "iterate", *said("iterate", round=2, step=0)),
        signed(bench, honest, "iterate", *said("iterate", attempt=1, step=0)),
        signed(bench, honest, "plan", *POSTS["plan"](b"y")),
        signed(bench, honest, "gradient", *POSTS["gradient"](b"y")),
    ]
    for other in elsewhere:
        with reverts("not for the same slot"):
            prove(bench, one, honest, iterate, other)
    others = [signed(bench, honest, name, *POSTS[name](b"y")) for name in ("plan", "roll", "close", "model")]
    for first, second in itertools.permutations(others, 2):
        with reverts("not for the same slot"):
            prove(bench, one, honest, first, second)


def test_posts_of_somebody_else_are_no_evidence(bench: Bench) -> None:
    honest, liar, one = bench.network.servers
    his, hers = iterate_saying(bench, honest, b"yes"), iterate_saying(bench, liar, b"no")
    with reverts("the first is not signed by the offender"):
        prove(bench, one, honest, hers, his)
    with reverts("the second is not signed by the offender"):
        prove(bench, one, honest, his, hers)
    with reverts("nobody flags itself"):
        prove(bench, liar, liar, hers, iterate_saying(bench, liar, b"yes"))
    stranger = [iterate_saying(bench, STRANGER, payload) for payload in (b"yes", b"no")]
    with reverts("the offender is not registered"):
        prove(bench, one, STRANGER, *stranger)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"chain_id": CHAIN_ID + 1}, "for another chain"),
        ({"chain_id": 1}, "for another chain"),
        ({"chain_id": CHAIN_ID << 8}, "for another chain"),
        ({"to": b"\xdd" * 20}, "for another contract"),
        ({"to": b""}, "for another contract"),
    ],
)
def test_posts_to_another_network_are_no_evidence(bench: Bench, change: dict[str, Any], reason: str) -> None:
    honest, one, _ = bench.network.servers
    here, here_too = (iterate_saying(bench, honest, payload) for payload in (b"yes", b"no"))
    there, there_too = (iterate_saying(bench, honest, payload, **change) for payload in (b"yes", b"no"))
    for first, second in ((there, there_too), (here, there), (there, here_too)):
        with reverts(reason):
            prove(bench, one, honest, first, second)


def test_what_is_no_post_is_no_evidence(bench: Bench) -> None:
    honest, one, two = bench.network.servers
    calls: dict[str, list[tuple[Any, ...]]] = {
        "endorse": [(1, 0, b"a" * 32, [], b""), (1, 0, b"b" * 32, [], b"")],
        "vote": [(A, B), (B, A)],
        "flag": [(1, address_of(two), Slot.ITERATE, bytes(32), each * 32) for each in (b"a", b"b")],
        "seal": [(1, b"a" * 8), (1, b"b" * 8)],
    }
    for name, both in calls.items():
        with reverts("not a post"):
            prove(bench, one, honest, *(signed(bench, honest, name, *each) for each in both))
    short = [signed(bench, honest, "credit", who) for who in (A, B)]
    with reverts("not a call"):
        prove(bench, one, honest, *short)


@pytest.mark.parametrize("name", POSTS)
def test_a_call_with_something_behind_its_words_is_no_post(name: str) -> None:
    """Nobody would read it, and one post would pass for two."""
    bare = Bare()
    honest, one, _ = bare.servers
    envelope, data = Envelope(CHAIN_ID, 0, 3_000_000, bare.registry.address), encode_call(name, *POSTS[name](b"x"))
    first = decode_transaction(sign_transaction(honest, envelope, data))
    for more in (b"\0", bytes(32)):
        second = decode_transaction(sign_transaction(honest, envelope, data + more))
        evidence = (first.unsigned, first.signature, second.unsigned, second.signature)
        with reverts("not a post"):
            bare.send(one, "flag_equivocation", 1, address_of(honest), *evidence)


def signature_of(account: LocalAccount, message: bytes) -> bytes:
    return keys.PrivateKey(bytes(account.key)).sign_msg_hash(keccak(message)).to_bytes()


def test_a_signature_of_another_form_is_refused(bench: Bench) -> None:
    honest, one, _ = bench.network.servers
    first, second = (iterate_saying(bench, honest, payload) for payload in (b"yes", b"no"))
    good = first.signature
    forms = {
        "a signature has 65 bytes": [good[:64], b"", good[:1]],
        "signed by nobody": [
            good[:64] + b"\x02",
            good[:64] + b"\x1b",
            good[:64] + b"\xff",
            bytes(32) + good[32:],
            good[:32] + bytes(32) + good[64:],
            b"\xff" * 32 + good[32:],
            bytes(65),
        ],
    }

    def evidence(signature: bytes) -> tuple[bytes, ...]:
        return address_of(honest), first.unsigned, signature, second.unsigned, second.signature

    for reason, signatures in forms.items():
        for signature in signatures:
            with reverts(reason):
                bench.post(one, "flag_equivocation", 1, *evidence(signature))
    with pytest.raises(RevertedError):
        bench.post(one, "flag_equivocation", 1, *evidence(good + b"\0"))
    bench.post(one, "flag_equivocation", 1, *evidence(good))


def test_bytes_that_are_no_transaction_are_no_evidence_even_if_signed() -> None:
    """Not one prefix of a real post, not one with more behind it, and no noise."""
    bare = Bare()
    liar, one, _ = bare.servers
    first, second = (
        unposted(bare, liar, "iterate", *POSTS["iterate"](payload)).unsigned for payload in (b"yes", b"no")
    )

    def prove_bytes(left: bytes, right: bytes) -> None:
        evidence = (left, signature_of(liar, left), right, signature_of(liar, right))
        bare.send(one, "flag_equivocation", 1, address_of(liar), *evidence)

    rng = random.Random(3)
    garbage = [first[:length] for length in range(len(first))]
    fields = rlp.decode(first[1:])
    with_access_list = [*fields[:8], [[bare.registry.address, []]]]
    garbage += [b"\x02" + rlp.encode(other) for other in (with_access_list, [*fields, b"more"], fields[:8])]
    assert first[1] == 0xF8  # a list whose length takes a byte
    garbage += [first[:2] + bytes([first[2] ^ bit]) + first[3:] for bit in (1, 2, 128)]
    garbage += [first + b"\0", first + b"\xc0", first[:-1] + b"\xc1\x80", first + second, b"\x01" + first[1:]]
    garbage += [first[:at] + rng.randbytes(rng.randrange(600)) for at in range(64)]
    garbage += [b"\x02" + bytes([prefix]) + rng.randbytes(300) for prefix in range(192, 256)]
    for noise in garbage:
        with pytest.raises(RevertedError):
            prove_bytes(noise, second)
    with pytest.raises(RevertedError):
        prove_bytes(second, first[:-1])
    prove_bytes(first, second)
