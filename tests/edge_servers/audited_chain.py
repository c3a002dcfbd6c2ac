"""Small simulated chains for audits, and forgeries of them.

Forgeries are honest chains with the last round rewritten by somebody who has all keys and mines for real: every seal,
signature, receipt and state root fits.
"""

import functools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak

from bfl.config import read_settings
from bfl.simulation import run as simulation
from bfl.simulation.grid import SimulatedClock
from chain.audit.archive import FileArchive
from chain.audit.inspection import inspected
from chain.client.keys import address_of
from chain.node.node import Node
from chain.protocol.contract import encode_call, functions
from chain.protocol.endorsements import Domain, Endorsement, endorse
from chain.protocol.genesis import Genesis
from chain.protocol.posts import SignedCall, attempt_in, read_signed_call
from chain.store.payloads import KeptPayload
from chain.store.store import Store
from chain.wire.address import Address
from chain.wire.blocks import Block, encode_block
from chain.wire.codec import PayloadKind, encode_floats, encode_iterate
from chain.wire.documents import ClosedList, canonical_json, read_canonical_json
from chain.wire.headers import Header
from chain.wire.sidecar import Sidecar, payload_digest
from chain.wire.transactions import Envelope, sign_transaction
from edge_servers.chain_hosting import ChainHosting
from edge_servers.founding.parameters import FoundingParameters
from edge_servers.replay.audit import Auditor, DerivedRound
from edge_servers.replay.record import model_in
from tests.chain.network import seal
from tests.chain.small_chain import StoredChain

SMALL: dict[str, object] = {
    "filter": "norm-clip",
    "dataset": "synthetic", "rounds": 3, "devices": 4, "edges": 4, "iterations": 1, "batch": 5, "threads": 1,
    "hidden": 2, "phi": 2, "planner": "fixed:0", "difficulty": 1,
}  # fmt: skip
LIES = "iterate-noise@1:server=1,step=1,strength=0.5; equivocation@2:server=2,step=1"


@dataclass(frozen=True)
class Chain:
    """A simulated chain, and everybody's keys."""

    blocks: tuple[Block, ...]
    genesis: Genesis
    founding: FoundingParameters
    accounts: Mapping[bytes, LocalAccount]
    payloads: Mapping[bytes, bytes]
    """What the chain keeps beside its blocks, by digest; evidence too."""

    @property
    def archive(self) -> StoredChain:
        found = StoredChain(self.blocks, self.genesis, payloads=self.payloads)
        found.signed = self.signed()
        return found

    def signed(self) -> list[Endorsement]:
        """All servers' signatures under all blocks: whoever has rewritten some has all keys."""
        keys = [self.accounts[server] for server in self.founding.network.servers]
        rules = Domain.of(self.genesis)
        headers = [block.header for block in self.blocks[2:]]
        return [
            endorse(key, rules, header.block_number - 1, self.attempt(header), header.hash, 1000 * header.timestamp)
            for header in headers
            for key in keys
        ]

    def attempt(self, header: Header) -> int:
        """In which attempt a block was built."""
        return attempt_in((post, 1) for post in self.posts(header.block_number))

    def payload(self, digest: bytes) -> bytes | None:
        return self.payloads.get(digest)

    def has_payload(self, digest: bytes) -> bool:
        return digest in self.payloads

    def beside(self, post: SignedCall) -> bytes:
        """The payload of a post."""
        return self.payloads[post.commitments[0].digest]

    @property
    def leader(self) -> str:
        """Name of the server that built the last block."""
        return self.founding.network.name(self.blocks[-1].header.coinbase)

    def posts(self, number: int) -> list[SignedCall]:
        return [read_signed_call(transaction, self.genesis) for transaction in self.blocks[number].transactions]

    def post(self, name: str, step: int | None = None) -> SignedCall:
        """The first post of a kind in the last block."""
        for post in self.posts(len(self.blocks) - 1):
            is_meant = post.call is not None and post.call.name == name
            if is_meant and step in (None, post.call.arguments.get("step") if post.call else None):
                return post
        raise AssertionError(f"no {name}")

    def node_before_the_last(self, path: Path | str = ":memory:") -> Node:
        """A node that knows all blocks but the last, and does not replay."""
        now = float(self.blocks[-1].header.timestamp)
        node = Node.create(path, self.genesis, now=lambda: now)
        node.sources.append(self)
        for block in self.blocks[1:-1]:
            node.import_block(encode_block(block.header, block.transactions))
        return node

    def written(self, folder: Path) -> Path:
        """The chain as the database of a run folder."""
        folder.mkdir(parents=True, exist_ok=True)
        store = Store.create(folder / "chain.db", self.genesis)
        with store.transaction():
            for number, block in enumerate(self.blocks[1:], 1):
                kept = [
                    KeptPayload(each.digest, post.call.name if post.call else "", each.size)
                    for post in self.posts(number)
                    for each in post.commitments
                    if each.digest in self.payloads
                ]
                store.add_block(block, kept, self.payloads)
                store.make_canonical(block.header)
            for each in self.signed():
                store.endorsements.add(each)
        store.close()
        return folder


@functools.cache
def chain(attack: str = "", **changes: object) -> Chain:
    """The chain of a small run; the same for the same arguments."""
    flags = SMALL | {name.replace("_", "-"): value for name, value in changes.items()}
    flags |= {"attack": attack} if attack else {}
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulation, "can_plot", lambda: False)
        simulated = simulation.start(read_settings(flags=flags), Path(folder) / "run")
        assert simulated.chain is not None
        founding = simulated.chain.founding
        keys = ChainHosting(simulated.settings, simulated.network, SimulatedClock())
        accounts = [keys.account("server", m) for m in range(len(founding.network.servers))]
        accounts += [keys.account("device", n) for n in range(len(founding.network.devices))]
        simulation.run(simulated, lambda report: None)
        archive = FileArchive(Path(folder) / "run")
        blocks = tuple(archive.block(number) for number in range(archive.head().block_number + 1))
        digests = {
            each.digest
            for block in blocks
            for transaction in block.transactions
            for each in read_signed_call(transaction, archive.genesis).commitments
        }
        found = {digest: archive.payload(digest) for digest in digests}
        archive.close()
    payloads = {digest: payload for digest, payload in found.items() if payload is not None}
    keys_of: dict[bytes, LocalAccount] = {address_of(account): account for account in accounts}
    return Chain(blocks, archive.genesis, founding, keys_of, payloads)


def derived(found: Chain | StoredChain) -> list[DerivedRound]:
    """Every round of a chain, inspected and derived again."""
    archive = found.archive if isinstance(found, Chain) else found
    return list(Auditor(archive.genesis).derived(inspected(archive)))


# --- forging


Extra = tuple[Address, str, tuple[Any, ...]]
"""Sender, function and arguments of a post that comes on top."""


def rewritten(
    honest: Chain, changes: Mapping[bytes, dict[str, Any]], path: Path | str = ":memory:", extra: Sequence[Extra] = ()
) -> Chain:
    """The chain with other calls (by transaction hash) in its last round, executed and mined without a replay.

    The digests of what is changed fit; `extra` posts come on top.
    """
    node = honest.node_before_the_last(path)
    payloads = dict(honest.payloads)
    for post in honest.posts(len(honest.blocks) - 1):
        raw, payload = _signed(post, _linked(post, changes, honest), honest)
        beside = [Sidecar(each) for each in (payload,) if each is not None]
        node.submit(raw, beside)
        payloads |= {each.digest: each.payload for each in beside}
    for sender, name, arguments in extra:
        key = honest.accounts[sender]
        envelope = Envelope(honest.genesis.chain_id, node.nonce(sender), 3_000_000, honest.genesis.registry)
        node.submit(sign_transaction(key, envelope, encode_call(name, *arguments)))
    header = honest.blocks[-1].header
    node.propose(header.coinbase)
    assert header.winner is not None
    seal(node, header.winner)
    last = node.block(node.head.block_number)
    node.close()
    assert last is not None
    assert last.header.block_number == header.block_number
    return replace(honest, blocks=(*honest.blocks[:-1], last), payloads=payloads)


def _linked(post: SignedCall, changes: Mapping[bytes, dict[str, Any]], honest: Chain) -> dict[str, Any] | None:
    """The changes to a post, and the new name of the plan or close that it refers to."""
    mine = dict(changes.get(post.transaction.hash, {}))
    for kind, argument in (("plan", "plan_digest"), ("close", "close_digest")):
        other = changes.get(honest.post(kind).transaction.hash, {}).get("payload")
        if other is not None and post.call is not None and argument in post.call:
            mine.setdefault(argument, payload_digest(other))
    return mine or None


def _signed(post: SignedCall, changes: dict[str, Any] | None, honest: Chain) -> tuple[bytes, bytes | None]:
    """A post with its changes, signed again, and the payload beside it."""
    held = honest.payloads.get(post.commitments[0].digest) if post.commitments else None
    if changes is None or post.call is None:
        return post.transaction.raw, held
    payload: bytes | None = changes.get("payload", held)
    arguments = dict(post.call.arguments) | {key: value for key, value in changes.items() if key != "payload"}
    if payload is not None and "payload" in changes:
        arguments |= {"digest": payload_digest(payload), "size": len(payload)}
    sent = post.transaction
    envelope = Envelope(sent.chain_id, sent.nonce, sent.gas, sent.to)
    data = encode_call(post.call.name, *(arguments[name] for name in functions()[post.call.name].arguments))
    return sign_transaction(honest.accounts[post.sender], envelope, data), payload


def with_other_model(honest: Chain, path: Path | str = ":memory:") -> Chain:
    """The leader publishes a model of its own making."""
    post = honest.post("model")
    model = model_in(honest.blocks[-1], honest.founding, honest)
    payload = encode_floats(model + np.float32(0.5), honest.founding.sizes, "fp32", PayloadKind.MODEL)
    return rewritten(honest, {post.transaction.hash: {"payload": payload}}, path)


def with_other_close(honest: Chain, change: Callable[[ClosedList], ClosedList]) -> Chain:
    """The leader closes another list."""
    post = honest.post("close")
    payload = change(ClosedList.decode(honest.beside(post))).encode()
    return rewritten(honest, {post.transaction.hash: {"payload": payload}})


def with_other_iterate(honest: Chain, step: int, by: int) -> tuple[Chain, Address]:
    """One server's iterate is off by `by` in its first value; returns who that is."""
    post = honest.post("iterate", step=step)
    x = derived(honest)[-1].replayed.iterates.values(step)[honest.founding.network.server_index(post.sender)].copy()
    x[0] += by
    payload = encode_iterate(x, honest.founding.sizes)
    return rewritten(honest, {post.transaction.hash: {"payload": payload}}), Address(post.sender)


def with_other_plan(honest: Chain, **changes: Any) -> Chain:
    """Another plan, and gradients that name it; `samples` also of their own weight."""
    post = honest.post("plan")
    payload = canonical_json(read_canonical_json(honest.beside(post)) | changes)
    edits: dict[bytes, dict[str, Any]] = {post.transaction.hash: {"payload": payload}}
    hashes = []
    for each in honest.posts(len(honest.blocks) - 1):
        if each.call is not None and each.call.name == "gradient":
            edits[each.transaction.hash] = {"plan_digest": payload_digest(payload)}
            hashes.append(keccak(_signed(each, edits[each.transaction.hash], honest)[0]))
    close = honest.post("close")
    edits[close.transaction.hash] = {"payload": ClosedList(len(honest.blocks) - 2, tuple(hashes)).encode()}
    return rewritten(honest, edits)
