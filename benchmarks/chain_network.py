"""The network of the chain's benchmark: 26 devices on three servers, gradients of a given size, how it is founded."""

import time

import numpy as np

from chain.client.access import ChainAccess, EmptyChain
from chain.client.founding import Founding, found_network
from chain.client.keys import address_of, simulated_account
from chain.client.ledger import Ledger
from chain.protocol.contract import PayloadSizes, RegistryTerms
from chain.protocol.genesis import Genesis, block_gas
from chain.wire.codec import encode_floats
from chain.wire.sidecar import payload_digest

DEVICES, SERVERS = 26, 3
FOUNDER = simulated_account(b"benchmark", "founder")
DEVICE_KEYS = sorted(
    (simulated_account(b"benchmark", f"device {i}") for i in range(DEVICES)),
    key=lambda account: account.address.lower(),
)
SERVER_KEYS = [simulated_account(b"benchmark", f"server {i}") for i in range(SERVERS)]
TERMS = RegistryTerms()
MODEL = b"model"
"""Of every round: models are not what is measured"""


def homes() -> dict[bytes, bytes]:
    """26 devices on three servers."""
    servers = [address_of(account) for account in SERVER_KEYS]
    devices: dict[bytes, bytes] = {address_of(d): servers[i % SERVERS] for i, d in enumerate(DEVICE_KEYS)}
    return {**{s: s for s in servers}, **devices}


def payload(kilobytes: int, rng: np.random.Generator) -> bytes:
    """A gradient of so many kilobytes, float32."""
    return encode_floats(rng.standard_normal(kilobytes * 1000 // 4), [kilobytes * 1000 // 4], "fp32")


def genesis() -> Genesis:
    """A chain of difficulty 1 for blocks of 26."""
    return Genesis(77, FOUNDER.address.lower(), int(time.time()) - 10, block_gas(DEVICES + 4))


def found(chain: EmptyChain[ChainAccess], kilobytes: int, terms: RegistryTerms = TERMS) -> Ledger:
    """Found the network; returns its ledger."""
    gradient = len(payload(kilobytes, np.random.default_rng(9)))
    sizes = PayloadSizes(gradient, gradient, len(MODEL), plan=4096, close=4096)
    return Ledger(found_network(chain, FOUNDER, Founding(homes(), b"{}", MODEL, sizes, terms)))


def leader_of(ledger: Ledger) -> Ledger:
    """The ledger signed by whoever may lead."""
    leader = ledger.leader()
    return ledger.signed_by(next(account for account in SERVER_KEYS if address_of(account) == leader))


def post_gradients(ledger: Ledger, round_: int, plan: bytes, payloads: list[bytes]) -> list[bytes]:
    """26 gradients, each signed by its device; returns the hashes of the transactions."""
    base = ledger.model_digest()
    return [
        ledger.signed_by(account).submit_gradient(round_, base, payload_digest(plan), 100, 10, each)
        for account, each in zip(DEVICE_KEYS, payloads, strict=True)
    ]
