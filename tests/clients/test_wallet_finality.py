"""What a device believes of models (Q2): final blocks only, forward only, whoever else has written and signed."""

import json

import numpy as np
import pytest
from eth_account.signers.local import LocalAccount
from hypothesis import HealthCheck, given, settings

from chain.protocol.endorsements import quorum
from chain.protocol.proof import FinalTransaction, ModelProof, proof_of
from chain.wire.codec import PayloadKind, decode_floats
from clients.errors import OrderError
from clients.founded_work import FoundedWork
from clients.models import Vector
from clients.orders import Order, vector_digest
from clients.wallet import FinalBlock, KnownChain, Wallet
from tests.chain.minority import RULES, SIZES, Attack, attacks, model_payload, published, servers_of, voted
from tests.chain.network import account, addresses, endorsements_of

SERVERS = servers_of(3)
WORK = FoundedWork(0, 5, 10, 0.1, "sgd", "fp32", 60.0, (10,), 256, False, 1 << 14)
NEW = [account(f"new server {i}") for i in range(4)]


def values_in(payload: bytes) -> Vector:
    return decode_floats(payload, kind=PayloadKind.MODEL).astype(np.float32)


def wallet_of(servers: list[LocalAccount], known: FinalBlock | None = None) -> Wallet:
    """A device that knows the founding of a network of these servers."""
    model = vector_digest(values_in(model_payload(0)))
    chain = KnownChain(RULES, frozenset(addresses(servers)), b"\7" * 32, model, SIZES, WORK)
    return Wallet(account("device 0"), chain, known)


def order_of(round_: int, payload: bytes, proof: ModelProof | None) -> Order:
    """To train in a round on a model."""
    model = values_in(payload)
    text = b"" if proof is None else json.dumps(proof.to_json()).encode()
    return Order(round_, 0, model, vector_digest(model), "", 10, 1, 5, 0.1, "sgd", 0, 30.0, proof=text)


def final(
    round_: int, signers: list[LocalAccount], joined: tuple[FinalTransaction, ...] = (), change: float = 0.0
) -> Order:
    """To train on the model of a round, as these servers have signed it."""
    payload = model_payload(round_, change)
    block = published(round_, payload, signers[0])
    model = FinalTransaction(proof_of(block, 0), tuple(endorsements_of(block.header, signers, RULES)))
    return order_of(round_ + 1, payload, ModelProof(model, joined))


def joining(number: int, server: LocalAccount, signers: list[LocalAccount]) -> FinalTransaction:
    block = voted(number, server, signers[0])
    return FinalTransaction(proof_of(block, 0), tuple(endorsements_of(block.header, signers, RULES)))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(attacks())
def test_no_minority_makes_a_device_train_on_another_model(attack: Attack) -> None:
    wallet = wallet_of(attack.servers)
    with pytest.raises(OrderError):
        wallet.check(order_of(attack.round + 1, attack.payload, attack.proof))
    assert wallet.known == FinalBlock(1, b"\7" * 32)
    if attack.round:
        wallet.check(order_of(attack.round + 1, attack.payload, attack.with_honest()))
        assert wallet.known == FinalBlock(attack.round + 1, attack.block.header.hash)


@pytest.mark.parametrize("away", [2, 10, 1000])
def test_a_device_that_was_away_for_many_rounds_believes_the_newest_final_model(away: int) -> None:
    wallet = wallet_of(SERVERS)
    wallet.check(final(1, SERVERS[:2]))
    wallet.check(final(1 + away, SERVERS[1:]))
    assert wallet.known.number == 2 + away


@pytest.mark.parametrize("count", [3, 5, 7])
def test_a_device_never_goes_below_its_last_final_block(count: int) -> None:
    """Not even for what everybody has signed, and not for model 0 again."""
    servers = servers_of(count)
    wallet = wallet_of(servers)
    wallet.check(final(5, servers[: quorum(count)]))
    known = wallet.known
    for old in (final(4, servers), final(1, servers), order_of(1, model_payload(0), None)):
        with pytest.raises(OrderError, match=f"found round {old.round}, block 6 is final already"):
            wallet.check(old)
    with pytest.raises(OrderError, match=r"two final blocks 6: 0x[0-9a-f]+ is known, found 0x[0-9a-f]+: servers have"):
        wallet.check(final(5, servers, change=1.0))
    assert wallet.known == known
    wallet.check(final(5, servers))
    wallet.check(final(6, servers))


def test_a_server_that_joined_counts_from_the_next_block_on() -> None:
    vote = joining(3, NEW[0], SERVERS[:2])
    wallet = wallet_of(SERVERS)
    with pytest.raises(OrderError, match="block 4 is signed by 2 of 4 servers, expected at least 3"):
        wallet.check(final(3, [SERVERS[0], NEW[0]], (vote,)))
    wallet.check(final(3, [*SERVERS[:2], NEW[0]], (vote,)))


@pytest.mark.parametrize("signers", [[], SERVERS[:1], [SERVERS[0], *NEW]], ids=len)
def test_a_vote_that_most_old_servers_have_not_signed_makes_nobody_a_server(signers: list[LocalAccount]) -> None:
    block = voted(3, NEW[0], SERVERS[0])
    vote = FinalTransaction(proof_of(block, 0), tuple(endorsements_of(block.header, signers, RULES)))
    with pytest.raises(OrderError, match=r"block 3 is signed by \d of 3 servers, expected at least 2"):
        wallet_of(SERVERS).check(final(3, [*SERVERS, NEW[0]], (vote,)))


def test_servers_that_are_known_to_have_joined_cannot_be_left_out_again() -> None:
    """Two of seven were a majority once: to who knows the other four, they are none any more."""
    votes, members = [], list(SERVERS)
    for number, server in enumerate(NEW, 3):
        votes.append(joining(number, server, members))
        members.append(server)
    wallet = wallet_of(SERVERS)
    wallet.check(final(8, members[2:6], tuple(votes)))
    known = wallet.known
    for joined in ((), tuple(votes[:2])):
        with pytest.raises(OrderError, match=f"the proof leaves out {4 - len(joined)} servers that joined"):
            wallet.check(final(9, members[: 3 + len(joined)], joined, change=1.0))
    assert wallet.known == known
    wallet.check(final(9, members[3:], tuple(votes)))
