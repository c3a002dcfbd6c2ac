"""The last block of a chain, rebuilt with its leader's key alone: receipts call honest gradients reverted (Q3).

The leader closes a list without them, aggregates what is left alone and publishes the model that follows. Seal, links,
signatures, roles, turns, digests and events fit; nobody has computed the state root again.
"""

from dataclasses import replace
from pathlib import Path

from chain.audit.events import answers_to
from chain.protocol.contract import encode_call
from chain.protocol.posts import SignedCall, read_signed_call
from chain.store.payloads import KeptPayload
from chain.store.store import Store
from chain.wire.documents import ClosedList
from chain.wire.receipts import Receipt
from chain.wire.sidecar import payload_digest
from chain.wire.transactions import Envelope, decode_transaction, sign_transaction
from edge_servers.replay.record import GradientReader, RoundRecord, model_in
from edge_servers.replay.replay import closed_round, iterate_payload, model_payload, replayed_model
from tests.chain.small_chain import forged
from tests.edge_servers.audited_chain import Chain

REVERTED = 3


def _kind(post: SignedCall) -> str:
    return post.call.name if post.call else ""


def with_reverted_gradients(honest: Chain) -> Chain:
    """The chain with such a last block."""
    block, number = honest.blocks[-1], len(honest.blocks) - 1
    leader, founding = block.header.coinbase, honest.founding
    posts = honest.posts(number)
    kept = [post for post in posts if _kind(post) in ("endorse", "plan", "gradient")]
    lost = [post for post in kept if _kind(post) == "gradient" and post.sender != leader][:REVERTED]
    nonces = iter(post.transaction for post in posts if post.sender == leader and post not in kept)
    payloads = dict(honest.payloads)

    def signed(name: str, *arguments: object, payload: bytes) -> SignedCall:
        old = next(nonces)
        payloads[payload_digest(payload)] = payload
        data = encode_call(name, number - 1, 0, *arguments, payload_digest(payload), len(payload))
        envelope = Envelope(old.chain_id, old.nonce, old.gas, old.to)
        raw = sign_transaction(honest.accounts[leader], envelope, data)
        return read_signed_call(decode_transaction(raw), honest.genesis)

    accepted = [post for post in kept if _kind(post) == "gradient" and post not in lost]
    closed = ClosedList(number - 1, tuple(p.transaction.hash for p in sorted(accepted, key=lambda post: post.sender)))
    close = signed("close", honest.post("plan").commitments[0].digest, payload=closed.encode())
    made = replace(honest, payloads=payloads)
    record = RoundRecord.of_block(number - 1, [(post, int(post not in lost)) for post in [*kept, close]], made)
    replayed, m = closed_round(record, GradientReader(founding)), founding.network.server_index(leader)
    digest = close.commitments[0].digest
    iterates = [
        signed("iterate", step, digest, payload=iterate_payload(replayed.iterates.values(step)[m], founding))
        for step in range(len(replayed.iterates))
    ]
    before = model_in(honest.blocks[-2], founding, honest)
    model = replayed_model(replayed.weights, replayed.iterates.last[m], m, before, founding)
    last = signed("model", digest, payload=model_payload(model, founding))
    body = sorted([*kept, close, *iterates, last], key=lambda post: post.place)
    gas = [receipt.gas_used for receipt in block.receipts]  # true up to the close: a good forger knows it
    receipts = [
        Receipt(int(post not in lost), used, () if post in lost else answers_to(post, honest.genesis.registry))
        for post, used in zip(body, gas, strict=False)
    ]
    sealed = forged(block, [post.transaction for post in body], receipts)
    return replace(made, blocks=(*honest.blocks[:-1], sealed))


def written_with_state(found: Chain, folder: Path) -> Path:
    """The chain as the database of a node that has executed all blocks but the last."""
    folder.mkdir(parents=True, exist_ok=True)
    found.node_before_the_last(folder / "chain.db").close()
    store, last = Store.open(folder / "chain.db"), found.blocks[-1]
    kept = [
        KeptPayload(each.digest, _kind(post), each.size)
        for post in found.posts(len(found.blocks) - 1)
        for each in post.commitments
        if each.digest in found.payloads
    ]
    with store.transaction():
        store.add_block(last, kept, found.payloads)
        store.make_canonical(last.header)
    store.close()
    return folder
