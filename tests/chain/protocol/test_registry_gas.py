"""The gas that `call_gas` allows is enough for every post."""

from typing import Any

import pytest
from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak

from chain.client.keys import address_of
from chain.protocol import contract
from chain.protocol.contract import encode_call
from chain.protocol.slots import Slot
from chain.wire.transactions import Envelope, decode_transaction, sign_transaction
from tests.chain.network import (
    CHAIN_ID,
    MODEL_0,
    START,
    TERMS,
    BareRegistry,
    account,
    addresses,
)
from tests.chain.protocol.registry_bench import NOBODY, A


@pytest.mark.parametrize("size", sorted(map(int, contract.build()["bytecode"])))
def test_call_gas_is_enough_for_every_post_among_sixty_four_servers(size: int) -> None:
    registry = BareRegistry(TERMS, size)
    servers = [account(f"server {i}") for i in range(64)]
    registry.found({each: each for each in addresses(servers)})
    registry.begin(NOBODY, NOBODY, bytes(32), START)
    registry.time_s += 64 * TERMS.turn_s
    last = next(each for each in servers if registry.ask("rank", address_of(each)) == 63)
    one, offender = [each for each in servers if each != last][:2]
    accused, full = address_of(offender), b"\xff" * size
    to_exclude, to_register = 30_000, 100_000  # what the majority's flag and vote spend beyond the others'

    def check(sender: LocalAccount, name: str, *arguments: Any, beyond: int = 0) -> None:
        data = encode_call(name, *arguments)
        registry.send_raw(address_of(sender), data)
        spent = 21_000 + sum(16 if byte else 4 for byte in data) + registry.gas + beyond
        assert spent <= contract.call_gas(len(data), size), name

    def evidence(payload: bytes) -> tuple[bytes, bytes]:
        data = encode_call("iterate", 1, 0, keccak(payload), 0, payload)
        sent = decode_transaction(sign_transaction(offender, Envelope(CHAIN_ID, 0, 10**6, registry.address), data))
        return sent.unsigned, sent.signature

    check(one, "endorse", 1, bytes(32))
    check(one, "vote", A, address_of(one), beyond=to_register)
    check(last, "plan", 1, keccak(full), 0, full)
    check(one, "gradient", 1, keccak(MODEL_0), keccak(full), 1, 1, keccak(full), 0, full)
    check(last, "close", 1, keccak(b""), 0, b"")
    check(one, "chunk", 1, Slot.ITERATE, 0, b"\xff" * contract.CHUNK_BYTES)
    check(one, "iterate", 1, 0, keccak(b""), 1, b"")
    check(one, "flag", 1, accused, Slot.ITERATE, b"\xff" * 32, b"\xff" * 32, b"\xff" * 1024, beyond=to_exclude)
    check(last, "flag_equivocation", 1, accused, *evidence(b"\x01"), *evidence(b"\x02"), beyond=to_exclude)
    registry.number += 1
    registry.begin(NOBODY, NOBODY, bytes(32), START)
    check(one, "flag_equivocation", 2, accused, *evidence(full), *evidence(b"\xfe" * size), beyond=to_exclude)
