"""Which payloads a block keeps, which of them are missing, and what may come beside a post (B1, B3, B4)."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from eth_account.signers.local import LocalAccount

from chain.client.keys import address_of
from chain.errors import SidecarDigestError, SidecarSizeError, UnwantedSidecarError
from chain.protocol.availability import checked_sidecars, kept_payloads, missing_payloads
from chain.protocol.contract import PayloadSizes
from chain.protocol.posts import Commitment, SignedCall, read_signed_call
from chain.wire.documents import ClosedList
from chain.wire.sidecar import Sidecar, payload_digest
from chain.wire.transactions import decode_transaction
from tests.chain.network import MODEL_0, PARAMETERS, SIZES, account, genesis, named, sized
from tests.chain.small_chain import signed

LEADER, LIAR = account("leader"), account("liar")
DEVICES = [account(f"device {i}") for i in range(3)]
PLAN, ITERATE, MODEL = b"plan", sized(b"iterate", SIZES.iterate), sized(b"model 1", SIZES.model)
GRADIENTS = [sized(b"gradient %d" % i, SIZES.gradient) for i in range(3)]


def post(sender: LocalAccount, name: str, *arguments: Any, nonce: int = 0) -> SignedCall:
    return read_signed_call(decode_transaction(signed(sender, nonce, name, *arguments)), genesis())


FOUND = post(account("founder"), "found", *named(PARAMETERS), payload_digest(MODEL_0), SIZES)
PLANNED = post(LEADER, "plan", 1, 0, *named(PLAN))
TRAINED = [
    post(device, "gradient", 1, 0, bytes(32), payload_digest(PLAN), 1, 1, *named(payload))
    for device, payload in zip(DEVICES, GRADIENTS, strict=True)
]


def close_of(payload: bytes, sender: LocalAccount = LEADER) -> SignedCall:
    return post(sender, "close", 1, 0, payload_digest(PLAN), *named(payload), nonce=1)


def model_after(close: bytes, sender: LocalAccount = LEADER, nonce: int = 3) -> SignedCall:
    return post(sender, "model", 1, 0, payload_digest(close), *named(MODEL), nonce=nonce)


def closed(unavailable: Iterable[SignedCall] = (), accepted: Iterable[SignedCall] = ()) -> bytes:
    """A closed list that calls these gradients unavailable."""
    hashes = [tuple(each.transaction.hash for each in posts) for posts in (accepted, unavailable)]
    return ClosedList(1, hashes[0], (), hashes[1]).encode()


def block(close: bytes, *more: SignedCall) -> list[SignedCall]:
    """The posts of a round under this close."""
    iterate = post(LEADER, "iterate", 1, 0, 0, payload_digest(close), *named(ITERATE), nonce=2)
    return [PLANNED, *TRAINED, close_of(close), iterate, *more, model_after(close)]


@dataclass
class Shelf:
    """Payloads by digest; counts what is read, not what is asked for."""

    payloads: dict[bytes, bytes]
    read: list[bytes] = field(default_factory=list)

    def payload(self, digest: bytes) -> bytes | None:
        self.read.append(digest)
        return self.payloads.get(digest)

    def has_payload(self, digest: bytes) -> bool:
        return digest in self.payloads


def shelf(*payloads: bytes) -> Shelf:
    return Shelf({payload_digest(each): each for each in payloads})


def kept(posts: list[SignedCall], *payloads: bytes, builder: LocalAccount = LEADER) -> list[bytes]:
    """Digests of what a block keeps where these payloads are."""
    return [each.digest for each in kept_payloads(posts, address_of(builder), shelf(*payloads))]


def digests(*payloads: bytes) -> list[bytes]:
    return [payload_digest(each) for each in payloads]


# --- what a block keeps (B3)


def test_a_round_keeps_plan_gradients_close_and_model_and_no_iterate() -> None:
    close = closed(accepted=TRAINED)
    assert kept(block(close), close) == digests(PLAN, *GRADIENTS, close, MODEL)


def test_a_founding_keeps_its_parameters_and_model_0() -> None:
    found = kept_payloads([FOUND], address_of(account("founder")), shelf())
    assert found == [Commitment(*named(PARAMETERS)), Commitment(*named(MODEL_0))]


def test_flags_votes_and_endorsements_have_no_payload() -> None:
    others = [
        post(LEADER, "endorse", 1, 0, bytes(32), [], b""),
        post(LEADER, "vote", address_of(LEADER), address_of(LEADER)),
        post(LEADER, "flag", 1, address_of(LIAR), 0, bytes(32), bytes(32)),
        post(account("founder"), "register", [], []),
    ]
    assert kept(others) == []


def test_what_the_closed_list_calls_unavailable_is_not_kept() -> None:
    close = closed(unavailable=TRAINED[1:2], accepted=TRAINED[:1])
    assert kept(block(close), close) == digests(PLAN, GRADIENTS[0], GRADIENTS[2], close, MODEL)


def test_a_refused_gradient_is_kept_for_whoever_replays_the_refusal() -> None:
    hashes = [each.transaction.hash for each in TRAINED]
    close = ClosedList(1, tuple(hashes[:2]), ((f"{address_of(DEVICES[2])}", "norm"),)).encode()
    assert payload_digest(GRADIENTS[2]) in kept(block(close), close)


def test_a_payload_that_two_posts_name_is_kept_once_and_as_long_as_one_is_available() -> None:
    same = post(LIAR, "gradient", 1, 0, bytes(32), payload_digest(PLAN), 2, 2, *named(GRADIENTS[0]))
    close = closed(accepted=TRAINED)
    assert kept(block(close, same), close).count(payload_digest(GRADIENTS[0])) == 1
    close = closed(unavailable=[same], accepted=TRAINED)
    assert payload_digest(GRADIENTS[0]) in kept(block(close, same), close)


def test_only_a_gradient_can_be_unavailable() -> None:
    """A leader cannot rid its block of its own plan, nor of what is in no block."""
    elsewhere = post(LIAR, "gradient", 1, 0, bytes(32), bytes(32), 1, 1, *named(GRADIENTS[0]))
    close = closed(unavailable=[PLANNED, elsewhere])
    assert kept(block(close), close) == digests(PLAN, *GRADIENTS, close, MODEL)


# --- whose closed list counts


def test_a_close_that_is_not_here_lets_nothing_go() -> None:
    close = closed(unavailable=TRAINED)
    assert kept(block(close)) == digests(PLAN, *GRADIENTS, close, MODEL)
    assert kept(block(close), close) == digests(PLAN, close, MODEL)


@pytest.mark.parametrize(
    "close", [b"no JSON", b"{}", b'{"accepted":[]}', closed(TRAINED) + b"\n", closed(TRAINED)[:-1]]
)
def test_a_close_that_cannot_be_read_lets_nothing_go(close: bytes) -> None:
    assert kept(block(close), close) == digests(PLAN, *GRADIENTS, close, MODEL)


def test_a_reverted_close_of_a_liar_makes_no_gradient_of_an_honest_block_unneeded() -> None:
    """Its builder's model names another close; a liar's close and model are in the block and count for nothing."""
    honest, lie = closed(accepted=TRAINED), closed(unavailable=TRAINED)
    posts = block(honest, close_of(lie, LIAR), model_after(lie, LIAR))
    assert kept(posts, honest, lie) == digests(PLAN, *GRADIENTS, honest, lie, MODEL)
    assert kept(list(reversed(posts)), honest, lie)[-4:] == digests(*reversed(GRADIENTS), PLAN)
    # Were the liar the builder, it would be its word.
    assert not set(digests(*GRADIENTS)) & set(kept(posts, honest, lie, builder=LIAR))


def test_a_builder_with_two_closes_or_none_lets_nothing_go() -> None:
    honest, other = closed(accepted=TRAINED), closed(unavailable=TRAINED)
    two = block(honest, close_of(other), model_after(other, nonce=4))
    assert set(digests(*GRADIENTS)) <= set(kept(two, honest, other))
    none = [each for each in block(other) if each.call is not None and each.call.name != "model"]
    assert set(digests(*GRADIENTS)) <= set(kept(none, other))
    twice = block(other, model_after(other, nonce=4))
    assert not set(digests(*GRADIENTS)) & set(kept(twice, other)), "one close, however often it is named"


# --- what is missing (B4)


def test_what_is_kept_and_not_here_is_missing() -> None:
    close = closed(unavailable=TRAINED[:1], accepted=TRAINED[1:])
    posts, builder = block(close), address_of(LEADER)
    everything = (PLAN, GRADIENTS[1], GRADIENTS[2], close, MODEL)
    assert missing_payloads(posts, builder, shelf(*everything)) == []
    for left_out in everything[:3]:
        here = shelf(*(each for each in everything if each != left_out))
        assert missing_payloads(posts, builder, here) == [Commitment(*named(left_out))]
    assert [each.size for each in missing_payloads(posts, builder, shelf())] == [
        len(each) for each in (PLAN, *GRADIENTS, close, MODEL)
    ]


def test_of_the_payloads_only_the_close_is_read() -> None:
    """The others may be as large as memory."""
    close = closed(accepted=TRAINED)
    here = shelf(PLAN, *GRADIENTS, close, MODEL)
    assert missing_payloads(block(close), address_of(LEADER), here) == []
    assert here.read == digests(close)


# --- what comes beside a post (B1, B2)


def test_a_post_comes_with_its_payload_or_without() -> None:
    assert checked_sidecars(TRAINED[0], []) == {}
    sidecar = Sidecar(GRADIENTS[0])
    assert checked_sidecars(TRAINED[0], [sidecar]) == {sidecar.digest: sidecar}


def test_a_payload_of_another_size_is_refused_before_it_is_hashed() -> None:
    sidecar = Sidecar(GRADIENTS[0] + b"\0")
    with pytest.raises(SidecarSizeError, match=r"^found a payload of 33 bytes, its post names 32$"):
        checked_sidecars(TRAINED[0], [sidecar])
    assert "digest" not in vars(sidecar)


def test_a_payload_with_another_digest_is_refused() -> None:
    found, expected = (f"0x{each.hex()}" for each in digests(GRADIENTS[1], GRADIENTS[0]))
    with pytest.raises(SidecarDigestError, match=f"^found a payload with digest {found}, its post names {expected}$"):
        checked_sidecars(TRAINED[0], [Sidecar(GRADIENTS[1])])


@pytest.mark.parametrize("more", [GRADIENTS[0], GRADIENTS[1], b""], ids=["the same", "another", "nothing"])
def test_one_payload_more_than_a_post_commits_to_is_refused(more: bytes) -> None:
    with pytest.raises(UnwantedSidecarError, match=f"^found a payload of {len(more)} bytes more than the post"):
        checked_sidecars(TRAINED[0], [Sidecar(GRADIENTS[0]), Sidecar(more)])


def test_nothing_comes_beside_what_is_no_post() -> None:
    with pytest.raises(UnwantedSidecarError):
        checked_sidecars(post(LEADER, "endorse", 1, 0, bytes(32), [], b""), [Sidecar(b"x")])


def test_the_two_payloads_of_a_founding_come_in_any_order_and_each_once() -> None:
    parameters, model = Sidecar(PARAMETERS), Sidecar(MODEL_0)
    both = {parameters.digest: parameters, model.digest: model}
    assert checked_sidecars(FOUND, [parameters, model]) == checked_sidecars(FOUND, [model, parameters]) == both
    for sidecars in ([model, model], [parameters, parameters]):
        with pytest.raises(SidecarSizeError, match=f"its post names {len(MODEL_0)}|its post names {len(PARAMETERS)}"):
            checked_sidecars(FOUND, sidecars)
    with pytest.raises(UnwantedSidecarError):
        checked_sidecars(FOUND, [parameters, model, model])
    with pytest.raises(SidecarSizeError, match=f"names {len(PARAMETERS)} or {len(MODEL_0)}$"):
        checked_sidecars(FOUND, [Sidecar(b"x")])


def test_the_sizes_of_a_foundings_payloads_are_not_interchangeable() -> None:
    """A digest goes with its size: what has the one's digest may not have the other's size."""
    sizes = PayloadSizes(1, 1, 3, 1, 1)
    swapped = post(account("founder"), "found", payload_digest(b"123"), 5, payload_digest(b"12345"), sizes)
    for payload, expected in ((b"123", 5), (b"12345", 3)):
        with pytest.raises(
            SidecarSizeError, match=f"found a payload of {len(payload)} bytes, its post names {expected}$"
        ):
            checked_sidecars(swapped, [Sidecar(payload)])
