"""Orders of round 1 to the device of a kit, as an edge of its network would sign them."""

from pathlib import Path
from typing import Any

from chain.client.keys import load_key
from chain.protocol.contract import call_gas, encode_call
from chain.wire.codec import PayloadKind, encode_floats
from chain.wire.plan import Plan
from chain.wire.sidecar import payload_digest
from chain.wire.transactions import Envelope, sign_transaction
from clients.data import load_dataset
from clients.joined import read_joined
from clients.models import network_for, to_vector
from clients.orders import LedgerTerms, Order
from clients.parameters import DataParams, TrainingParams, read_params


def order_of_round_1(kits: Path, password: str, device: str = "pi-1", leader: str = "edge-a", **says: Any) -> Order:
    """To the first device; what the leader `says` is in its plan."""
    joined = read_joined(kits / device / "founding.json")
    data, training = read_params(DataParams, joined.settings), read_params(TrainingParams, joined.settings)
    model = to_vector(network_for(load_dataset(data.dataset, "", data.seed), training, data.seed))
    work, genesis, attempt = joined.work, joined.genesis, says.pop("attempt", 0)
    n = len(work.shares)
    samples = tuple(work.samples(1, each) for each in range(n))
    told = {"phi": 1, "assignment": (-1,) * n, **says}
    iterations, servers = (work.iterations,) * n, (work.iterations,) * len(joined.servers)
    plan = Plan(
        round=1, state_digest="state", samples=samples, iterations=iterations, server_iterations=servers,
        deadline_s=work.deadline_s, divergence=0.0, policy_digest="fixed", **told,
    )  # fmt: skip
    call = encode_call("plan", 1, attempt, payload_digest(plan.payload), len(plan.payload))
    envelope = Envelope(genesis.chain_id, 0, call_gas(len(call)), genesis.registry)
    signed = sign_transaction(load_key(kits / leader / "key.json", password), envelope, call)
    base = payload_digest(encode_floats(model, joined.sizes, "fp32", PayloadKind.MODEL)).hex()
    terms = LedgerTerms(genesis.chain_id, genesis.registry.hex(), 0, work.codec, base, plan.digest, attempt)
    return Order(
        1, 0, model, joined.model_digest, plan.digest, samples[0], work.iterations, work.batch, work.learning_rate,
        work.optimizer, work.seed, work.deadline_s, plan.assignment[0], terms, b"", signed, plan.payload,
    )  # fmt: skip
