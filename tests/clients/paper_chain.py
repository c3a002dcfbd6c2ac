"""A network on paper: keys, a founding, signed plans and proven models, and no server that runs."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from chain.client.keys import address_of, simulated_account
from chain.protocol.contract import call_gas, encode_call, events
from chain.protocol.endorsements import Domain, endorse
from chain.protocol.genesis import Genesis
from chain.protocol.proof import FinalTransaction, ModelProof, proof_of
from chain.protocol.turns import FOUNDING_BLOCK
from chain.wire.blocks import Block
from chain.wire.codec import PayloadKind, encode_floats
from chain.wire.plan import Plan
from chain.wire.receipts import Log, Receipt, trie_root
from chain.wire.sidecar import payload_digest
from chain.wire.transactions import Envelope, decode_transaction, sign_transaction
from clients.consent import Consent
from clients.data import Samples
from clients.device import Device
from clients.founded_work import FoundedWork
from clients.models import Vector
from clients.orders import LedgerTerms, Order, vector_digest
from clients.wallet import KnownChain, Wallet

DEVICES, SHARE, SIZES = 3, 10, (12, 3)
NETWORK = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
SERVERS = [simulated_account(b"paper", f"server {m}") for m in range(3)]
GENESIS = Genesis(chain_id=7, founder="0x" + "0f" * 20, timestamp=1_000, gas_limit=10_000_000)
WORK = FoundedWork(0, 2, 5, 0.1, "sgd", "fp16", 30.0, (SHARE,) * DEVICES, 16, False, 1 << 14)


def model(round_: int) -> Vector:
    """The model of a round; 0 is the founding's."""
    return np.linspace(-1, 1 + round_, sum(SIZES), dtype=np.float32)


CHAIN = KnownChain(
    GENESIS, frozenset(bytes(address_of(each)) for each in SERVERS), b"\7" * 32, vector_digest(model(0)), SIZES, WORK
)


def posted(round_: int) -> bytes:
    """The payload of a model."""
    return encode_floats(model(round_), SIZES, "fp32", PayloadKind.MODEL)


def signed(signer: int, name: str, *arguments: Any) -> bytes:
    """A call of the registry under a server's signature."""
    call = encode_call(name, *arguments)
    return sign_transaction(SERVERS[signer], Envelope(GENESIS.chain_id, 0, call_gas(len(call)), GENESIS.registry), call)


def proof(round_: int) -> bytes:
    """That the model of a round is in a block that all servers have signed."""
    payload, zero = posted(round_), bytes(32)
    digest = payload_digest(payload)
    raw = signed(0, "model", round_, 0, zero, digest, len(payload))
    topics = (events()["ModelPublished"].topic, round_.to_bytes(32, "big"), bytes(12) + address_of(SERVERS[0]))
    receipt = Receipt(1, 21_000, (Log(GENESIS.registry, topics, zero + digest + zero),))
    number = round_ + FOUNDING_BLOCK
    roots: dict[str, Any] = {"transaction_root": trie_root([raw]), "receipt_root": trie_root([receipt.encoded])}
    header = replace(GENESIS.header, block_number=number, timestamp=1_000 + number, **roots)
    block = Block(header, (decode_transaction(raw),), (receipt,), 0)
    names = [endorse(each, Domain.of(GENESIS), round_, 0, header.hash, 0) for each in SERVERS]
    final = ModelProof(FinalTransaction(proof_of(block, 0), tuple(names)), ())
    return json.dumps(final.to_json()).encode()


@dataclass(frozen=True)
class Says:
    """What a leader says; `phi` is nothing to a device, so another one is another plan for the same work."""

    round: int = 1
    attempt: int = 0
    offload_to: int = -1
    phi: int = 1
    leader: int = 0


def plan_of(says: Says) -> Plan:
    """The same for every device."""
    return Plan(
        says.round, "state", (says.offload_to,) * DEVICES, WORK.shares, (WORK.iterations,) * DEVICES, (2,) * 3,
        says.phi, WORK.deadline_s, 0.0, "fixed", start_ms=1_000 * says.attempt,
    )  # fmt: skip


def order_of(device: int = 0, **says: int) -> Order:
    """A device's order of a round and attempt, with the plan that its leader has signed."""
    told = Says(**says)
    plan = plan_of(told)
    call = ("plan", told.round, told.attempt, payload_digest(plan.payload), len(plan.payload))
    base = payload_digest(posted(told.round - 1)).hex()
    terms = LedgerTerms(GENESIS.chain_id, GENESIS.registry.hex(), told.round, "fp16", base, plan.digest, told.attempt)
    start = model(told.round - 1)
    return Order(
        told.round, device, start, vector_digest(start), plan.digest, SHARE, WORK.iterations, WORK.batch,
        WORK.learning_rate, WORK.optimizer, WORK.seed, WORK.deadline_s, told.offload_to, terms,
        proof(told.round - 1) if told.round > 1 else b"", signed(told.leader, *call), plan.payload,
    )  # fmt: skip


def device_of(device: int = 0, memory: Path | None = None, consent: str = "any", **options: Any) -> Device:
    """A process of a device, which knows what its file says."""
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.random((DEVICES * SHARE, 1, 2, 2), dtype=np.float32))
    table = Samples(images, torch.from_numpy(rng.integers(0, 3, DEVICES * SHARE)), mean=(0.5,), std=(0.25,))
    wallet = Wallet(simulated_account(b"paper", f"device {device}"), CHAIN, memory=memory, **options)
    share = np.arange(device * SHARE, (device + 1) * SHARE)
    return Device(device, table, share, NETWORK, Consent(consent), wallet)
