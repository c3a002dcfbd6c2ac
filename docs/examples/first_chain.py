"""A network of three edge servers and four devices on a chain of its own: python docs/examples/first_chain.py chain.db

Founds it, runs three rounds with made-up gradients, and leaves a database that `bfl chain show chain.db`,
`bfl audit check chain.db` and `bfl audit model chain.db` read. Everything goes through the ledger, as over HTTP.
"""

import sys
import time
from pathlib import Path

import numpy as np

from chain.client.founding import Founding, found_network
from chain.client.keys import address_of, new_account
from chain.client.ledger import Ledger
from chain.mining.miner import Miner
from chain.node.access import EmptyNode
from chain.node.node import Node
from chain.protocol.contract import PayloadSizes
from chain.protocol.genesis import Genesis, block_gas
from chain.protocol.slots import Slot, iterate_slot
from chain.wire.codec import PayloadKind, encode_floats, encode_iterate, encoded_size
from chain.wire.documents import ClosedList, canonical_json

SIZES, ROUNDS = [90, 10], 3
TENSORS = [["weight", [10, 9]], ["bias", [10]]]

founder = new_account()
servers = [new_account() for _ in range(3)]
devices = [new_account() for _ in range(4)]
homes = {address_of(s): address_of(s) for s in servers}
homes |= {address_of(d): address_of(servers[i % 3]) for i, d in enumerate(devices)}
rng = np.random.default_rng(0)

sizes = PayloadSizes(
    gradient=encoded_size(SIZES, "fp16"),
    iterate=encoded_size(SIZES, "int32"),
    model=encoded_size(SIZES, "fp32"),
    plan=1000,
    close=1000,
)
rules = Genesis(
    chain_id=2026,
    founder=founder.address.lower(),
    timestamp=int(time.time()),
    gas_limit=block_gas(40),
    difficulty=100_000,
)
node = Node.create(Path(sys.argv[1]), rules)
parameters = canonical_json({"scheme": "example", "tensors": TENSORS})
model = encode_floats(np.zeros(100), SIZES, "fp32", PayloadKind.MODEL)
ledger = Ledger(found_network(EmptyNode(node), founder, Founding(homes, parameters, model, sizes)))

with Miner() as miner:
    for round_ in range(1, ROUNDS + 1):
        leader = ledger.signed_by(next(s for s in servers if address_of(s) == ledger.leader()))
        base = ledger.model_digest()
        leader.post(Slot.PLAN, round_, canonical_json({"kind": "plan", "round": round_, "phi": 0}))
        for device in devices:
            gradient = encode_floats(rng.standard_normal(100), SIZES, "fp16")
            ledger.signed_by(device).submit_gradient(round_, base, ledger.plan_digest(), 600, 10, gradient)
        accepted = tuple(post.transaction_hash for post in ledger.gradients(round_).values())
        leader.post(Slot.CLOSE, round_, ClosedList(round_, accepted).encode())
        for server in servers:
            ledger.signed_by(server).post(iterate_slot(0), round_, encode_iterate(np.arange(100), SIZES))
        model = encode_floats(rng.standard_normal(100), SIZES, "fp32", PayloadKind.MODEL)
        leader.post(Slot.MODEL, round_, model)
        leader.propose()
        device = ledger.signed_by(devices[round_ % 4])
        task = device.mining_task()
        miner.start(task.puzzle, task.difficulty)
        found = miner.poll(60)
        if found is None:
            sys.exit("no nonce in a minute")
        device.submit_nonce(task, found.nonce)
        print(f"round {round_} sealed: block {node.head.block_number} 0x{node.head.hash.hex()}")
node.close()
