"""Whether an order is what the plan says, and the plan a server's signed word within what was founded (Q5)."""

from collections.abc import Collection
from dataclasses import dataclass, fields

from chain.errors import CodecError, NotRegistryCallError
from chain.protocol.genesis import Genesis
from chain.protocol.posts import read_signed_call
from chain.wire.documents import canonical_digest
from chain.wire.plan import Plan, read_plan
from chain.wire.sidecar import payload_digest
from chain.wire.transactions import decode_transaction
from clients.errors import OrderError
from clients.founded_work import FoundedWork
from clients.orders import ATTEMPTS, Order

_LOCAL = -1
"""In an assignment: the device trains itself"""
_BESIDE = ("model", "ledger", "proof", "plan_post", "plan_payload", "software", "train_anyway")
_SAID = tuple(field.name for field in fields(Order) if field.name not in _BESIDE)
_OF_AN_ATTEMPT = ("plan_digest", "offload_to", "deadline_s")
_WORK = tuple(name for name in _SAID if name not in _OF_AN_ATTEMPT)


@dataclass(frozen=True)
class SignedPlan:
    """A plan that a server stands for."""

    plan: Plan
    digest: str
    """Its name on the ledger, in hex."""
    attempt: int
    """Of the plan's round: what its post says (D3.1)."""


def read_signed_plan(
    post: bytes, payload: bytes, genesis: Genesis, servers: Collection[bytes], work: FoundedWork
) -> SignedPlan:
    """The plan in a signed post of this network and the payload beside it; `ChainError` says what is wrong.

    Signature, size and digest come first: what no server stands for is not decoded.
    """
    signed = read_signed_call(decode_transaction(post), genesis)
    call = signed.call
    if call is None or call.name != "plan" or call["attempt"] >= ATTEMPTS:
        raise NotRegistryCallError(f"found another call, expected a plan at an attempt below {ATTEMPTS}")
    if signed.sender not in servers:
        raise CodecError(f"found the signature of {signed.sender}, expected that of one of {len(servers)} servers")
    if len(payload) != call["size"] or len(payload) > work.plan_bytes:
        raise CodecError(f"found {len(payload)} bytes, expected {call['size']}, at most {work.plan_bytes}")
    digest, named = payload_digest(payload).hex(), bytes(call["digest"]).hex()
    if digest != named:
        raise CodecError(f"found {digest:.12} beside the post of {named:.12}")
    plan = read_plan(payload)
    if plan.round != call["round"]:
        raise CodecError(f"found round {plan.round} in a post of round {call['round']}")
    devices = {len(plan.assignment), len(plan.samples), len(plan.iterations)}
    if devices != {len(work.shares)}:
        raise CodecError(f"found a plan for {sorted(devices)} devices, expected {len(work.shares)}")
    if not all(_LOCAL <= target < len(servers) for target in plan.assignment):
        raise CodecError(f"found data for a server that is none of {len(servers)}")
    return SignedPlan(plan, digest, int(call["attempt"]))


def check_order(order: Order, signed: SignedPlan, work: FoundedWork) -> None:
    """Raise `OrderError` unless the order is its device's part of the plan, and both are what was founded."""
    plan, terms, n = signed.plan, order.ledger, order.device
    if terms is None or order.round != plan.round or not 0 <= n < len(work.shares):
        raise OrderError(f"order: found round {order.round} of device {n}, the plan is of round {plan.round}")
    _check_same(
        "the plan says",
        ("plan", order.plan_digest, signed.digest),
        ("plan of the gradient", terms.plan, signed.digest),
        ("attempt", terms.attempt, signed.attempt),
        ("server to offload to", order.offload_to, plan.assignment[n]),
        ("samples", order.samples, plan.samples[n]),
        ("iterations", order.iterations, plan.iterations[n]),
        ("deadline", order.deadline_s, plan.deadline_s),
    )
    _check_same(
        "the founding says",
        ("samples", order.samples, work.samples(order.round, n)),
        ("iterations", order.iterations, work.iterations),
        ("deadline", order.deadline_s, work.deadline_s),
        ("batch", order.batch, work.batch),
        ("learning rate", order.learning_rate, work.learning_rate),
        ("optimizer", order.optimizer, work.optimizer),
        ("seed", order.seed, work.seed),
        ("codec", terms.codec, work.codec),
    )


def order_digest(order: Order) -> str:
    """Names all that an order asks for. The model and the plan are in it by their digests; proofs may grow."""
    said = {name: getattr(order, name) for name in _SAID}
    return canonical_digest({**said, "ledger": None if order.ledger is None else vars(order.ledger)})


def work_digest(order: Order) -> str:
    """Names what an order makes its device compute: the same at every attempt of a round (Q5)."""
    return canonical_digest({name: getattr(order, name) for name in _WORK})


def _check_same(who: str, *told: tuple[str, object, object]) -> None:
    for name, found, expected in told:
        if found != expected:
            raise OrderError(f"order: found {name} {found!s:.24}, {who} {expected!s:.24}")
