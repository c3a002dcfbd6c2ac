"""Servers' signatures under blocks, as tests need them."""

from collections.abc import Sequence
from typing import Any

from eth_account.signers.local import LocalAccount

from chain.protocol.endorsements import Domain, Endorsement, endorse, posted_call
from chain.wire.address import Address
from tests.chain.network import CHAIN_ID, START, BareRegistry, genesis

BARE = Domain(CHAIN_ID, Address(BareRegistry.address))
"""Where signatures for a registry alone in an EVM count."""


def signed(
    servers: Sequence[LocalAccount],
    round_: int,
    block_hash: bytes,
    domain: Domain | None = None,
    time_s: int = START,
    attempt: int = 0,
) -> list[Endorsement]:
    """What these servers sign."""
    domain = domain or Domain.of(genesis())
    return [endorse(server, domain, round_, attempt, block_hash, 1000 * time_s) for server in servers]


def endorse_call(
    servers: Sequence[LocalAccount], round_: int, block_hash: bytes, domain: Domain | None = None, attempt: int = 0
) -> tuple[Any, ...]:
    """The arguments of `endorse`."""
    return posted_call(signed(servers, round_, block_hash, domain, attempt=attempt))
