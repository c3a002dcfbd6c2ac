"""A home server that lies to its devices: plans of its own under its own real signature, and orders to match."""

from dataclasses import replace
from typing import Any

from eth_account.signers.local import LocalAccount

from chain.protocol.contract import call_gas, encode_call
from chain.wire.plan import Plan
from chain.wire.sidecar import payload_digest
from chain.wire.transactions import Envelope, sign_transaction
from clients.orders import Order
from tests.edge_servers.small_network import SmallChain


def signed_call(chain: SmallChain, signer: LocalAccount, call: bytes, **envelope: Any) -> bytes:
    """A call of the registry under somebody's signature; `envelope` says what is unusual about it."""
    genesis = chain.hosted.nodes[0].genesis
    usual = {"chain_id": genesis.chain_id, "nonce": 0, "gas": call_gas(len(call)), "to": genesis.registry}
    return sign_transaction(signer, Envelope(**{**usual, **envelope}), call)


def planned(chain: SmallChain, order: Order, plan: Plan, signer: LocalAccount | None = None, attempt: int = 0) -> Order:
    """The order that `plan` means for the order's device, with the plan signed by a server (the device's home)."""
    n, payload = order.device, plan.payload
    call = encode_call("plan", plan.round, attempt, payload_digest(payload), len(payload))
    assert order.ledger is not None
    return replace(
        order,
        round=plan.round,
        plan_digest=plan.digest,
        samples=plan.samples[n],
        iterations=plan.iterations[n],
        deadline_s=plan.deadline_s,
        offload_to=plan.assignment[n],
        ledger=replace(order.ledger, plan=plan.digest, attempt=attempt),
        plan_post=signed_call(chain, signer or home_key(chain, n), call),
        plan_payload=payload,
    )


def home_key(chain: SmallChain, device: int) -> LocalAccount:
    """The key of a device's home server."""
    return chain.hosting.account("server", chain.federation.servers[0].network.devices[device].home)


def for_all(plan: Plan, **changes: Any) -> Plan:
    """The plan with another value for every device."""
    n = len(plan.assignment)
    each: dict[str, Any] = {name: value if name == "deadline_s" else (value,) * n for name, value in changes.items()}
    return replace(plan, **each)
