"""The gas that `call_gas` allows is enough for every post."""

from typing import Any

from eth_account.signers.local import LocalAccount

from chain.client.keys import address_of
from chain.protocol import contract
from chain.protocol.contract import encode_call
from chain.protocol.passes import Named, begun_call, sign_pass
from chain.protocol.slots import Slot
from chain.wire.sidecar import payload_digest
from chain.wire.transactions import Envelope, decode_transaction, sign_transaction
from tests.chain.endorsing import BARE, endorse_call
from tests.chain.network import (
    CHAIN_ID,
    MODEL_0,
    SIZES,
    TERMS,
    BareRegistry,
    account,
    addresses,
)
from tests.chain.protocol.registry_bench import NOBODY, A


def test_call_gas_is_enough_for_every_post_among_sixty_four_servers() -> None:
    registry = BareRegistry(TERMS)
    servers = [account(f"server {i}") for i in range(64)]
    registry.found({each: each for each in addresses(servers)})
    registry.begin(NOBODY, NOBODY, bytes(32))
    last = next(each for each in servers if registry.ask("rank", address_of(each)) == 63)
    attempt = 2**32 - 1  # of the last in the ranking: 63 more than a multiple of 64
    passes = [sign_pass(each, BARE, 1, attempt, None, 2**63) for each in servers]
    one, offender = [each for each in servers if each != last][:2]
    accused, digest, close = address_of(offender), b"\xff" * 32, b"\xfe" * 32
    to_exclude, to_register = 30_000, 100_000  # what the majority's flag and vote spend beyond the others'

    def check(sender: LocalAccount, name: str, *arguments: Any, beyond: int = 0) -> None:
        data = encode_call(name, *arguments)
        registry.send_raw(address_of(sender), data)
        spent = 21_000 + sum(16 if byte else 4 for byte in data) + registry.gas + beyond
        assert spent <= contract.call_gas(len(data)), name

    def evidence(said: bytes) -> tuple[bytes, bytes]:
        data = encode_call("gradient", 1, 0, said, said, 2**256 - 1, 2**256 - 1, said, 2**256 - 1)
        envelope = Envelope(CHAIN_ID, 2**63, 2**62, registry.address, 2**256 - 1, 2**256 - 1)
        sent = decode_transaction(sign_transaction(offender, envelope, data))
        return sent.unsigned, sent.signature

    check(one, "vote", A, address_of(one), beyond=to_register)
    check(last, "begin_attempt", *begun_call(passes))
    check(last, "plan", 1, attempt, digest, SIZES.plan)
    check(one, "gradient", 1, attempt, payload_digest(MODEL_0), digest, 2**256 - 1, 2**256 - 1, digest, SIZES.gradient)
    check(one, "roll", 1, attempt, digest, digest, SIZES.close)
    check(last, "close", 1, attempt, digest, close, SIZES.close)
    check(one, "iterate", 1, attempt, 0, close, digest, SIZES.iterate)
    check(last, "model", 1, attempt, close, digest, SIZES.model)
    check(one, "flag", 1, accused, Slot.ITERATE, b"\xff" * 32, b"\xff" * 32, beyond=to_exclude)
    both = (*evidence(b"\xfe" * 32), *evidence(b"\xff" * 32))
    check(last, "flag_equivocation", 1, accused, *both, beyond=to_exclude)
    pair = [sign_pass(offender, BARE, 1, 2, named, 2**63) for named in (None, Named(1, digest))]
    signed = [part for each in pair for part in (each.said, each.signature)]
    check(servers[-1], "flag_signatures", 1, accused, *signed, beyond=to_exclude)


def test_call_gas_is_enough_for_the_endorsements_of_sixty_four_servers() -> None:
    registry = BareRegistry(TERMS)
    servers = [account(f"server {i}") for i in range(64)]
    registry.found({each: each for each in addresses(servers)})
    registry.number += 1
    registry.begin(NOBODY, NOBODY, bytes(32))
    data = encode_call("endorse", *endorse_call(servers, 1, registry.block_hash(2), BARE))
    assert len(registry.send_raw(address_of(servers[0]), data)) == 64
    spent = 21_000 + sum(16 if byte else 4 for byte in data) + registry.gas
    assert spent <= contract.call_gas(len(data))
