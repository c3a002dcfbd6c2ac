"""One small chain with everything in it, built once per test session: copy it, read it, forge it.

Round 1 leaves a gradient out, 2 has endorsements and votes, 3 an exclusion, 4 is led by the successor in attempt 1,
5 has a gradient whose payload nobody has, and 6 a model that was reverted.
"""

import functools
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from eth_account.signers.local import LocalAccount

from chain.audit.archive import FileArchive
from chain.audit.events import answers_to
from chain.client.empty_network import EmptyNetwork
from chain.client.founding import Founding, found_network
from chain.client.keys import address_of
from chain.errors import StoreError
from chain.node.node import Node
from chain.node.vm import Execution
from chain.protocol.contract import RegistryTerms, encode_call
from chain.protocol.endorsements import Endorsement
from chain.protocol.genesis import Genesis
from chain.protocol.passes import Signed
from chain.protocol.posts import read_signed_call
from chain.protocol.slots import iterate_slot
from chain.protocol.turns import Membership
from chain.rpc.in_process import web3_in_process
from chain.store.store import Store
from chain.wire.blocks import EMPTY_UNCLES_HASH, Block, encode_block
from chain.wire.codec import PayloadKind, encode_floats
from chain.wire.documents import ClosedList
from chain.wire.headers import Header
from chain.wire.receipts import Receipt, block_bloom, trie_root
from chain.wire.seal import find_nonce
from chain.wire.sidecar import Sidecar, payload_digest
from chain.wire.transactions import Envelope, Transaction, decode_transaction, sign_transaction
from tests.chain.endorsing import endorse_call
from tests.chain.network import Clock, Network, account, genesis, named, seal

TENSORS = [("layer.weight", (2, 3)), ("layer.bias", (3,))]
PARAMETERS = b'{"scheme":"bfl","tensors":[["layer.weight",[2,3]],["layer.bias",[3]]]}'
ROUNDS = 6
NEW_DEVICE, NEW_SERVER = account("new device"), account("new server")
NETWORK = Network(terms=RegistryTerms(exclusion_rounds=2))


def values_of(round_: int) -> Any:
    """The numbers of model k."""
    return np.arange(9, dtype=np.float32) + 10 * round_


def model_of(round_: int) -> bytes:
    return encode_floats(values_of(round_), (6, 3), "fp32", PayloadKind.MODEL)


@dataclass(frozen=True)
class Story:
    """The chain as a file's bytes, and who did what."""

    database: bytes
    genesis: Genesis
    left_out: bytes
    """The device whose gradient of round 1 the closed list leaves out."""
    liar: bytes
    """The server that is excluded in round 3."""
    reverted: bytes
    """Hash of the reverted model transaction of round 6."""

    def write(self, folder: Path) -> Path:
        """A copy of the database."""
        path = folder / "chain.db"
        path.write_bytes(self.database)
        return path

    @functools.cached_property
    def blocks(self) -> tuple[Block, ...]:
        with tempfile.TemporaryDirectory() as folder:
            archive = FileArchive(self.write(Path(folder)))
            found = tuple(archive.block(number) for number in range(archive.head().block_number + 1))
            archive.close()
        return found

    @property
    def headers(self) -> tuple[Header, ...]:
        return tuple(block.header for block in self.blocks)

    @functools.cached_property
    def payloads(self) -> dict[bytes, bytes]:
        """What the chain keeps beside its blocks, by digest."""
        with tempfile.TemporaryDirectory() as folder:
            store = Store.open(self.write(Path(folder)), read_only=True)
            digests = {kept.digest for block in self.blocks for kept in store.kept_by(block.header.hash)}
            found = {digest: store.payloads.read(digest) for digest in digests}
            store.close()
        return {digest: payload for digest, payload in found.items() if payload is not None}

    def membership(self, round_: int) -> Membership:
        """Who decides on the turns of a round."""
        homes = dict(NETWORK.homes)
        if round_ > 2:
            home = address_of(NETWORK.servers[0])
            homes |= {address_of(NEW_DEVICE): home, address_of(NEW_SERVER): address_of(NEW_SERVER)}
        return Membership(homes, NETWORK.terms.term_cap)


@functools.cache
def story() -> Story:
    """The chain of this session."""
    with tempfile.TemporaryDirectory() as folder:
        path, clock = Path(folder) / "chain.db", Clock()
        node = Node.create(path, genesis(), now=clock)
        found_network(EmptyNetwork(web3_in_process(node)), NETWORK.founder, charter())
        left_out = _round_1(node)
        _round_2(node)
        liar = _round_3(node)
        _round_4(node)
        _round_5(node)
        reverted = _round_6(node, clock)
        node.close()
        return Story(path.read_bytes(), node.genesis, left_out, liar, reverted)


def charter() -> Founding:
    return Founding(NETWORK.homes, PARAMETERS, model_of(0), NETWORK.sizes, NETWORK.terms)


def _everybody() -> Network:
    """The network with the server that joined."""
    return replace(NETWORK, servers=[*NETWORK.servers, NEW_SERVER])


def _leader(node: Node) -> LocalAccount:
    """As `Network.leader`, the server that joined included."""
    return _everybody().leader(node)


def _plan_and_train(node: Node, leader: LocalAccount, devices: Sequence[LocalAccount]) -> list[bytes]:
    NETWORK.post_plan(node, leader)
    return [NETWORK.post_gradient(node, device) for device in devices]


def _close(node: Node, leader: LocalAccount, closed: ClosedList) -> None:
    NETWORK.post_close(node, leader, closed.encode())
    for server in NETWORK.servers:
        if not node.ask("is_excluded", address_of(server)):
            NETWORK.post_iterate(node, server, 0)


def _seal(node: Node, leader: LocalAccount, winner: LocalAccount) -> None:
    node.propose(address_of(leader))
    seal(node, address_of(winner))


def _publish_and_seal(node: Node, leader: LocalAccount, winner: LocalAccount) -> None:
    NETWORK.post_model(node, leader, model_of(node.ask("round")))
    _seal(node, leader, winner)


def _round_1(node: Node) -> bytes:
    leader, devices = _leader(node), NETWORK.devices
    sent = _plan_and_train(node, leader, devices)
    left_out = address_of(devices[2])
    accepted = tuple(each for device, each in zip(devices, sent, strict=True) if address_of(device) != left_out)
    _close(node, leader, ClosedList(1, accepted, ((f"0x{left_out.hex()}", "norm"),)))
    _publish_and_seal(node, leader, devices[0])
    return left_out


def _round_2(node: Node) -> None:
    leader = _leader(node)
    NETWORK.post_plan(node, leader)
    NETWORK.post(node, leader, "endorse", *endorse_call(NETWORK.servers, 1, node.head.hash))
    for server in NETWORK.servers[:2]:
        NETWORK.post(node, server, "vote", address_of(NEW_DEVICE), address_of(NETWORK.servers[0]))
        NETWORK.post(node, server, "vote", address_of(NEW_SERVER), address_of(NEW_SERVER))
    sent = [NETWORK.post_gradient(node, device) for device in (*NETWORK.devices, NEW_DEVICE)]
    _close(node, leader, ClosedList(2, tuple(sent)))
    _publish_and_seal(node, leader, NEW_DEVICE)


def _round_3(node: Node) -> bytes:
    leader = _leader(node)
    sent = _plan_and_train(node, leader, NETWORK.devices)
    _close(node, leader, ClosedList(3, tuple(sent)))
    liar = next(server for server in NETWORK.servers if server is not leader)
    lie = NETWORK.post_iterate(node, liar, 1, b"a lie")
    for server in (*NETWORK.servers, NEW_SERVER):
        if server is not liar:
            arguments = (3, address_of(liar), iterate_slot(1), lie, payload_digest(b"the truth"))
            NETWORK.post(node, server, "flag", *arguments)
            if node.ask("is_excluded", address_of(liar)):
                break
    _publish_and_seal(node, leader, NETWORK.devices[1])
    return address_of(liar)


def _round_4(node: Node) -> None:
    """Attempt 0 has failed: a majority of the four servers passed on, the excluded one among them."""
    everybody = _everybody()
    everybody.begin_attempt(node, servers=everybody.servers[:3])
    successor = _leader(node)
    sent = _plan_and_train(node, successor, NETWORK.devices[:1])
    _close(node, successor, ClosedList(4, tuple(sent)))
    _publish_and_seal(node, successor, NETWORK.devices[3])


def _round_5(node: Node) -> None:
    leader, device = _leader(node), NETWORK.devices[0]
    NETWORK.post_plan(node, leader)
    withheld = NETWORK.post_gradient(node, device, b"withheld", is_beside=False)
    counted = NETWORK.post_gradient(node, NETWORK.devices[1])
    refused = ((f"0x{address_of(device).hex()}", "unavailable"),)
    _close(node, leader, ClosedList(5, (counted,), refused, (withheld,)))
    _publish_and_seal(node, leader, NETWORK.devices[0])


def _round_6(node: Node, clock: Clock) -> bytes:
    """A model before anything is closed: the registry reverts it, its leader puts it into the block all the same."""
    leader = _leader(node)
    clock.pass_s(5)
    payloads = b"plan", model_of(6)
    raw = [
        NETWORK.signed(node, leader, "plan", 6, 0, *named(payloads[0])),
        signed(leader, node.nonce(address_of(leader)) + 1, "model", 6, 0, bytes(32), *named(payloads[1])),
    ]
    block = executed(node, raw, leader, NETWORK.devices[0])
    assert [receipt.status for receipt in block.receipts] == [1, 0]
    node.import_block(encode_block(block.header, block.transactions), [Sidecar(each) for each in payloads])
    return block.transactions[1].hash


# --- blocks by hand


def signed(sender: LocalAccount, nonce: int, name: str, *arguments: Any, **changes: Any) -> bytes:
    """A call with any nonce, for any network."""
    fields: dict[str, Any] = {"chain_id": genesis().chain_id, "gas": 3_000_000, "to": genesis().registry}
    return sign_transaction(sender, Envelope(nonce=nonce, **(fields | changes)), encode_call(name, *arguments))


def executed(node: Node, raw: Sequence[bytes], leader: LocalAccount, winner: LocalAccount) -> Block:
    """A sealed block of these transactions on the node's head, reverted ones included."""
    parent, timestamp = node.head, int(node._now())
    execution = Execution(node._store, parent, address_of(leader), timestamp, parent.difficulty)
    transactions, receipts, gas = [], [], 0
    for each in map(decode_transaction, raw):
        outcome = execution.apply(each, read_signed_call(each, node.genesis).sender, node.genesis.gas_limit - gas)
        receipts.append(outcome.receipt(gas))
        transactions.append(each)
        gas += outcome.gas
    header = replace(
        parent,
        parent_hash=parent.hash,
        uncles_hash=EMPTY_UNCLES_HASH,
        block_number=parent.block_number + 1,
        coinbase=address_of(leader),
        timestamp=timestamp,
        extra_data=address_of(winner),
        state_root=execution.state_root(),
    )
    return forged(Block(header, (), (), 0), transactions, receipts)


def accepted(transactions: Sequence[Transaction]) -> list[Receipt]:
    """Receipts as the registry gives them to a leader and others whose posts it takes; gas is made up."""
    posts = [read_signed_call(each, genesis()) for each in transactions]
    return [Receipt(1, 21_000 * (i + 1), answers_to(post, genesis().registry)) for i, post in enumerate(posts)]


def forged(
    block: Block,
    transactions: Sequence[Transaction] | None = None,
    receipts: Sequence[Receipt] | None = None,
    **changes: Any,
) -> Block:
    """The block with other contents, its header committing to them, sealed again by real work."""
    body = tuple(block.transactions if transactions is None else transactions)
    outcomes = tuple(block.receipts if receipts is None else receipts)
    fields: dict[str, Any] = {
        "transaction_root": trie_root([each.raw for each in body]),
        "receipt_root": trie_root([each.encoded for each in outcomes]),
        "bloom": block_bloom(outcomes),
        "gas_used": outcomes[-1].gas_used if outcomes else 0,
    }
    header = replace(block.header, **(fields | changes))
    nonce = find_nonce(header.mining_hash, header.difficulty)
    assert nonce is not None
    return Block(header.with_nonce(nonce), body, outcomes, block.total_difficulty)


class StoredChain:
    """Blocks as an archive, whatever they say."""

    def __init__(
        self,
        blocks: Sequence[Block],
        genesis: Genesis | None = None,
        head: Header | None = None,
        payloads: Mapping[bytes, bytes] | None = None,
    ) -> None:
        """`payloads` by digest; those of the story if none are given."""
        self._blocks, self._head = list(blocks), head
        self.genesis = genesis or story().genesis
        self._payloads = story().payloads if payloads is None else payloads
        self.signed: list[Endorsement] = []
        """Beside the chain."""

    def payload(self, digest: bytes) -> bytes | None:
        return self._payloads.get(digest)

    def has_payload(self, digest: bytes) -> bool:
        return digest in self._payloads

    def head(self) -> Header:
        return self._head or self._blocks[-1].header

    def header(self, number: int) -> Header:
        return self.block(number).header

    def receipts(self, header: Header) -> tuple[Receipt, ...]:
        return self.block(header.block_number).receipts

    def block(self, number: int) -> Block:
        if number >= len(self._blocks):
            raise StoreError(f"there is no block {number}")
        return self._blocks[number]

    def find_transaction(self, transaction_hash: bytes) -> tuple[Block, int] | None:
        return None

    def endorsements(self, block_hash: bytes) -> list[Endorsement]:
        return [each for each in self.signed if each.block_hash == block_hash]

    def contradictions(self) -> list[tuple[Signed, Signed]]:
        return []

    def close(self) -> None:
        """Nothing is open."""
