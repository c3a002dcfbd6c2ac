"""L14, P12: who leads."""

import hashlib

from chain.wire.address import Address
from edge_servers.founding.standing import Tenure
from edge_servers.ledger.ranking import ranked_leaders

A, B, C = (Address(bytes([byte]) * 20) for byte in (10, 11, 12))
HASH = bytes(32)


def by_hash(servers: list[Address]) -> list[Address]:
    return sorted(servers, key=lambda a: hashlib.sha256(HASH + a).digest())


def test_the_home_server_of_the_winner_leads_and_the_others_rank_by_hash() -> None:
    ranked = ranked_leaders([A, B, C], B, HASH, Tenure(), 3)
    assert ranked == [B, *by_hash([A, C])]


def test_before_any_block_servers_rank_by_hash_alone() -> None:
    assert ranked_leaders([A, B, C], None, HASH, Tenure(), 3) == by_hash([A, B, C])


def test_a_server_at_its_term_cap_comes_last_even_if_its_device_won() -> None:
    ranked = ranked_leaders([A, B, C], B, HASH, Tenure(B, 3), 3)
    assert ranked == [*by_hash([A, C]), B]


def test_below_the_cap_it_may_go_on() -> None:
    assert ranked_leaders([A, B, C], B, HASH, Tenure(B, 2), 3)[0] == B


def test_a_single_server_leads_for_ever() -> None:
    assert ranked_leaders([A], A, HASH, Tenure(A, 99), 3) == [A]


def test_a_reign_counts_rounds_in_a_row() -> None:
    assert Tenure().after(A).after(A) == Tenure(A, 2)
    assert Tenure(A, 2).after(B) == Tenure(B, 1)


def test_another_block_hash_gives_another_order_at_some_point() -> None:
    orders = {tuple(ranked_leaders([A, B, C], None, bytes([i]) * 32, Tenure(), 3)) for i in range(20)}
    assert len(orders) > 1
