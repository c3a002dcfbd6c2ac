"""Forgeries: each is made from an honest block, transaction or nonce, sealed again where its maker would, and refused.

After every refusal the node is as it was (head, pool, database) and an honest round still runs.
"""

import functools
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import rlp
from eth_account.signers.local import LocalAccount

from chain.client.keys import address_of
from chain.errors import (
    ChainError,
    ChainIdError,
    DifficultyError,
    FinalityError,
    FoundingError,
    GasError,
    GasLimitError,
    InvalidSealError,
    KnownTransactionError,
    LeaderError,
    MalformedBlockError,
    MalformedTransactionError,
    NonceError,
    NotRegistryCallError,
    OversizedTransactionError,
    ReceiptRootError,
    RevertedError,
    RoundRefusedError,
    SidecarSizeError,
    SignatureError,
    StateRootError,
    TimestampError,
    TransactionOrderError,
    TransactionRootError,
    UnknownParentError,
    UnregisteredSenderError,
    WinnerError,
    WorkError,
)
from chain.node.node import Node
from chain.node.vm import Execution
from chain.protocol.contract import RegistryTerms, deployment, encode_call
from chain.protocol.posts import read_signed_call
from chain.protocol.round_check import RoundBody
from chain.store.database import IN_MEMORY
from chain.store.store import Store
from chain.wire.blocks import decode_block, encode_block
from chain.wire.headers import Header
from chain.wire.receipts import Receipt, block_bloom, trie_root
from chain.wire.seal import find_nonce, is_sealed
from chain.wire.sidecar import Sidecar, payload_digest
from chain.wire.transactions import Envelope, Transaction, decode_transaction, sign_transaction
from tests.chain.endorsing import endorse_call
from tests.chain.network import CHAIN_ID, SIZES, START, Clock, Network, account, genesis, named, seal, sized

DIFFICULTY = 1000  # a wrong nonce is wrong with 999 chances in 1000
NOW = START + 20
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
STRANGER = account("stranger")
HONEST_GRADIENT = sized(b"gradient", SIZES.gradient)
OTHER_GRADIENT = sized(b"another", SIZES.gradient)


@dataclass(frozen=True)
class Scene:
    """A network whose round 2 is sealed, and everything a forger can see of it."""

    network: Network
    builder: Node
    blocks: tuple[bytes, ...]
    """Founding and round 1, which the victim has."""
    honest: bytes
    """Round 2, which is forged."""

    @property
    def header(self) -> Header:
        return decode_block(self.honest)[0]

    @property
    def transactions(self) -> tuple[Transaction, ...]:
        return decode_block(self.honest)[1]

    @property
    def parent(self) -> Header:
        return decode_block(self.blocks[-1])[0]

    def victim(self) -> Node:
        """A node at block 2 that waits for round 2, two posts of it pending."""
        store = Store.create(IN_MEMORY, self.builder.genesis)
        store._db._connection.deserialize(database_at_block_2())
        node = Node(store, now=Clock(NOW))
        for transaction in self.transactions[:2]:
            (named,) = read_signed_call(transaction, self.builder.genesis).commitments
            node.submit(transaction.raw, [Sidecar(self.builder.payload(named.digest) or b"")])
        node.sources = [self.builder]
        return node

    def of(self, name: str) -> list[int]:
        """Positions of the calls of this name in the honest block."""
        calls = [read_signed_call(each, self.builder.genesis).call for each in self.transactions]
        return [i for i, call in enumerate(calls) if call is not None and call.name == name]

    def with_header(self, **changes: Any) -> bytes:
        """The honest transactions under a changed header, sealed anew."""
        return encode_block(sealed(replace(self.header, **changes)), self.transactions)

    def with_transactions(self, transactions: Sequence[Transaction], **changes: Any) -> bytes:
        """Other transactions, with the root that fits them; nothing is executed."""
        root = trie_root([each.raw for each in transactions])
        return encode_block(sealed(replace(self.header, transaction_root=root, **changes)), tuple(transactions))

    def executed(self, transactions: Sequence[Transaction], **changes: Any) -> bytes:
        """Other transactions with every root that follows from executing them in this order."""
        return built(self.builder, self.parent, transactions, self.header, **changes)

    def signed(self, sender: LocalAccount, name: str, *arguments: Any, **envelope: Any) -> bytes:
        """A call as the victim would take it next from this sender."""
        nonce = self.builder.nonce(address_of(sender), self.parent)
        pending = sum(each.sender == address_of(sender) for each in self.transactions[:2])
        fields: dict[str, Any] = {
            "chain_id": CHAIN_ID, "nonce": nonce + pending, "gas": 3_000_000, "to": self.builder.genesis.registry
        }  # fmt: skip
        return sign_transaction(sender, Envelope(**(fields | envelope)), encode_call(name, *arguments))

    def gradient(self, sender: LocalAccount, payload: bytes = HONEST_GRADIENT, **envelope: Any) -> bytes:
        call = read_signed_call(self.transactions[self.of("gradient")[0]], self.builder.genesis).call
        assert call is not None
        digests = (call["base_model"], call["plan_digest"])
        return self.signed(sender, "gradient", 2, 0, *digests, 100, 10, *named(payload), **envelope)

    @property
    def leader(self) -> LocalAccount:
        return next(s for s in self.network.servers if address_of(s) == self.header.coinbase)

    @property
    def successor(self) -> LocalAccount:
        """Who leads attempt 1 at round 2."""
        return self.network.leader(self.victim(), 1)


@functools.cache
def scene() -> Scene:
    network, clock = Network(), Clock()
    builder = Node.in_memory(genesis(difficulty=DIFFICULTY), now=clock)
    network.found(builder)
    for _ in range(2):
        clock.pass_s(10)
        network.run_round(builder)
    blocks = [builder.raw_block(number) for number in (1, 2, 3)]
    founding, first, second = (raw for raw in blocks if raw is not None)
    return Scene(network, builder, (founding, first), second)


@functools.cache
def database_at_block_2() -> bytes:
    node = Node.in_memory(scene().builder.genesis, now=Clock(NOW))
    node.sources = [scene().builder]
    for raw in scene().blocks:
        node.import_block(raw)
    return database_of(node)


def database_of(node: Node) -> bytes:
    """Every byte of it."""
    return node._store._db._connection.serialize()


def sealed(header: Header) -> Header:
    nonce = find_nonce(header.mining_hash, header.difficulty)
    assert nonce is not None
    return header.with_nonce(nonce)


def built(node: Node, parent: Header, transactions: Sequence[Transaction], like: Header, **changes: Any) -> bytes:
    """A block with honest roots of whatever transactions, its other fields as in `like` but for the changes."""
    header = replace(like, **changes)
    execution = Execution(node._store, parent, header.coinbase, header.timestamp, header.difficulty)
    receipts: list[Receipt] = []
    for each in transactions:
        gas = receipts[-1].gas_used if receipts else 0
        receipts.append(execution.apply(each, each.sender, header.gas_limit - gas).receipt(gas))
    header = replace(
        header,
        parent_hash=parent.hash,
        block_number=parent.block_number + 1,
        transaction_root=trie_root([each.raw for each in transactions]),
        receipt_root=trie_root([receipt.encoded for receipt in receipts]),
        bloom=block_bloom(receipts),
        gas_used=receipts[-1].gas_used if receipts else 0,
        state_root=execution.state_root(),
    )
    return encode_block(sealed(header), tuple(transactions))


def swapped(transactions: Sequence[Transaction], i: int, j: int) -> list[Transaction]:
    found = list(transactions)
    found[i], found[j] = found[j], found[i]
    return found


def flipped(transaction: Transaction) -> Transaction:
    """The same signature under one changed bit of the digest."""
    raw = bytearray(transaction.raw)
    raw[transaction.raw.index(payload_digest(b"close"))] ^= 1
    return decode_transaction(bytes(raw))


def with_signature(raw: bytes, **changes: int) -> bytes:
    fields = rlp.decode(raw[1:])
    for name, value in changes.items():
        fields[{"parity": 9, "r": 10, "s": 11}[name]] = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return raw[:1] + bytes(rlp.encode(fields))


def high_s(raw: bytes) -> bytes:
    """The other signature of the same message by the same key: valid on paper, malleable in practice."""
    found = decode_transaction(raw)
    return with_signature(raw, parity=1 - found.parity, s=ORDER - found.s)


def with_value(raw: bytes) -> bytes:
    """A call that carries money, properly signed."""
    found = decode_transaction(raw)
    signer = next(each for each in scene().network.devices if address_of(each) == found.sender)
    fields: dict[str, Any] = {
        "type": 2, "chainId": found.chain_id, "nonce": found.nonce, "gas": found.gas, "maxFeePerGas": 0,
        "maxPriorityFeePerGas": 0, "value": 1, "data": found.data, "to": found.to,
    }  # fmt: skip
    return bytes(signer.sign_transaction(fields).raw_transaction)


def nested(depth: int, inner: bytes = b"\xc0") -> bytes:
    """RLP lists within lists."""
    found = inner
    for _ in range(depth):
        length = len(found)
        size = length.to_bytes((length.bit_length() + 7) // 8, "big")
        found = (bytes([0xC0 + length]) if length < 56 else bytes([0xF7 + len(size)]) + size) + found
    return found


def listed(*items: bytes) -> bytes:
    """An RLP list of items that are encoded already."""
    return nested(1, b"".join(items))


def fingerprint(node: Node) -> tuple[bytes, list[bytes], bytes, bytes]:
    """Head, pool, pending state and every byte of the database."""
    pending = [entry.post.transaction.hash for entry in node.pending()]
    marks = b"".join(node.nonce(address_of(each)).to_bytes(4, "big") for each in scene().network.devices)
    return node.head.hash, pending, marks, hashlib.sha256(database_of(node)).digest()


def check_goes_on(node: Node) -> None:
    """The honest block still comes in, and an honest round still runs on it."""
    assert node.import_block(scene().honest) == scene().header
    assert node.head == scene().header
    run_short_round(scene().network, node)
    assert node.head.block_number == 4


def run_short_round(network: Network, node: Node) -> None:
    """Plan, one gradient, close and model, sealed."""
    leader = network.leader(node)
    network.post_plan(node, leader)
    network.post_gradient(node, network.devices[0])
    network.post_close(node, leader)
    network.post_model(node, leader)
    node.propose(address_of(leader))
    seal(node, address_of(network.devices[0]))


Forgery = Callable[[Scene], bytes]


# --- blocks


def bad_nonce(of: Scene) -> bytes:
    wrong = next(n for n in range(100) if not is_sealed(of.header.mining_hash, n.to_bytes(8, "big"), DIFFICULTY))
    return encode_block(of.header.with_nonce(wrong.to_bytes(8, "big")), of.transactions)


def stolen_seal(of: Scene) -> bytes:
    thief = of.header.for_winner(address_of(of.network.devices[1]))
    return encode_block(thief, of.transactions)


def replaced(of: Scene) -> bytes:
    position = of.of("gradient")[0]
    device = next(d for d in of.network.devices if address_of(d) == of.transactions[position].sender)
    other = decode_transaction(of.gradient(device, OTHER_GRADIENT, nonce=of.transactions[position].nonce))
    assert other.sender == of.transactions[position].sender
    return encode_block(of.header, (*of.transactions[:position], other, *of.transactions[position + 1 :]))


def reordered(of: Scene) -> list[Transaction]:
    first, second = of.of("gradient")[:2]
    return swapped(of.transactions, first, second)


def flipped_close(of: Scene) -> list[Transaction]:
    (close,) = of.of("close")
    return [flipped(each) if i == close else each for i, each in enumerate(of.transactions)]


def inserted(of: Scene, raw: bytes) -> list[Transaction]:
    """The honest transactions with one of a forger among them, where the canonical order wants it."""
    found = [*of.transactions, decode_transaction(raw)]
    return sorted(found, key=lambda each: read_signed_call(each, of.builder.genesis).place)


def instead_of_gradient(of: Scene, raw: bytes) -> list[Transaction]:
    position = of.of("gradient")[-1]
    return [*of.transactions[:position], decode_transaction(raw), *of.transactions[position + 1 :]]


def replayed(of: Scene) -> list[Transaction]:
    """A gradient of round 1 once more, before the one of round 2."""
    old = next(t for t in decode_block(of.blocks[1])[1] if t.sender == of.transactions[of.of("gradient")[0]].sender)
    return inserted(of, old.raw)


def stranger_vote(of: Scene) -> bytes:
    return of.signed(STRANGER, "vote", address_of(STRANGER), address_of(of.network.servers[0]))


BLOCKS: dict[str, tuple[Forgery, type[ChainError], str]] = {
    "a nonce that does not solve the puzzle": (bad_nonce, InvalidSealError, "found seal 0x.* expected at most 0x"),
    "a nonce under the thief's name": (stolen_seal, InvalidSealError, "found seal 0x.* expected at most 0x"),
    "a replaced transaction": (replaced, TransactionRootError, "have root 0x.* the header says 0x"),
    "reordered transactions under the old root": (
        lambda of: encode_block(of.header, tuple(reordered(of))), TransactionRootError, "have root 0x.* says 0x",
    ),
    "reordered transactions, executed and sealed anew": (
        lambda of: of.executed(reordered(of)), TransactionOrderError, r"train, step 0, .* expected ascending",
    ),
    "one transaction twice, sealed anew": (
        lambda of: of.with_transactions([*of.transactions, of.transactions[-1]]),
        TransactionOrderError, "expected ascending",
    ),
    "a flipped bit in a digest": (
        lambda of: encode_block(of.header, tuple(flipped_close(of))), TransactionRootError, "have root 0x.* says 0x",
    ),
    "a flipped bit in a digest, sealed anew": (
        lambda of: of.with_transactions(flipped_close(of)), UnregisteredSenderError, "0x[0-9a-f]{40} is not registered",
    ),
    "another state root": (
        lambda of: of.with_header(state_root=of.parent.state_root), StateRootError, "state root 0x.* the header says",
    ),
    "another receipt root": (
        lambda of: of.with_header(receipt_root=of.header.state_root), ReceiptRootError, "receipt root 0x.* says 0x",
    ),
    "less gas than was used": (
        lambda of: of.with_header(gas_used=of.header.gas_used - 1), ReceiptRootError, r"gas \d+; the header says 0x",
    ),
    "an empty bloom filter": (
        lambda of: of.with_header(bloom=0), ReceiptRootError, "bloom filter 0x[0-9a-f]+; the header says 0x0",
    ),
    "a difficulty of 1": (
        lambda of: of.with_header(difficulty=1), DifficultyError, "difficulty 1, expected 1000",
    ),
    "a time in the future": (
        lambda of: of.with_header(timestamp=NOW + 16), TimestampError, "16 s in the future; at most 15 s",
    ),
    "a time before the parent's": (
        lambda of: of.with_header(timestamp=of.parent.timestamp - 1), TimestampError, "before its parent of 1700000010",
    ),
    "another gas limit": (
        lambda of: of.with_header(gas_limit=of.header.gas_limit + 1), GasLimitError, "has gas limit .* expected",
    ),
    "a base fee": (lambda of: of.with_header(base_fee_per_gas=1), GasLimitError, "base fee 1, expected .* and 0"),
    "a mix hash": (lambda of: of.with_header(mix_hash=b"\x01" * 32), GasLimitError, "mix hash, expected none"),
    "uncles": (lambda of: of.with_header(uncles_hash=bytes(32)), GasLimitError, "uncles .* expected none"),
    "an unknown parent": (
        lambda of: of.with_header(parent_hash=b"\x07" * 32), UnknownParentError, "parent 0x0707.* is unknown",
    ),
    "another number than the parent's plus one": (
        lambda of: of.with_header(block_number=4), UnknownParentError, "names parent 0x.* expected 0x.* of block 2",
    ),
    "a transaction of a stranger": (
        lambda of: of.executed(inserted(of, stranger_vote(of))), UnregisteredSenderError, "is not registered",
    ),
    "a winner nobody knows": (
        lambda of: of.with_header(extra_data=address_of(STRANGER)), WinnerError, "expected a registered device",
    ),
    "no winner": (lambda of: of.with_header(extra_data=b""), WinnerError, "winner 0x, expected a registered device"),
    "a winner of 32 bytes": (lambda of: of.with_header(extra_data=b"w" * 32), WinnerError, "0x77.*, expected"),
    "a transaction of an earlier block": (
        lambda of: of.with_transactions(replayed(of)), TransactionOrderError, "found a post of round 1, .* in block 3",
    ),
    "a nonce that leaves a gap": (
        lambda of: of.with_transactions(
            instead_of_gradient(of, of.gradient(last_sender(of), nonce=7))
        ), NonceError, "found nonce 7 of 0x.*, expected 1",
    ),
    "a transaction for another network": (
        lambda of: of.with_transactions(instead_of_gradient(of, of.gradient(last_sender(of), chain_id=1))),
        ChainIdError, f"found chain id 1, expected {CHAIN_ID}",
    ),
    "a call of another contract": (
        lambda of: of.with_transactions(instead_of_gradient(of, of.gradient(last_sender(of), to=b"\x09" * 20))),
        NotRegistryCallError, "found a call to 0x0909.*, expected the registry 0x",
    ),
    "a contract creation": (
        lambda of: of.with_transactions(instead_of_gradient(of, of.gradient(last_sender(of), to=b""))),
        NotRegistryCallError, "found a contract creation",
    ),
    "a transaction with a value": (
        lambda of: of.with_transactions(instead_of_gradient(of, with_value(of.gradient(last_sender(of))))),
        GasError, "value or a fee above 0",
    ),
    "a transaction with more gas than the block": (
        lambda of: of.with_transactions(instead_of_gradient(of, of.gradient(last_sender(of), gas=10**9))),
        GasError, "allowance of 1000000000, the block has",
    ),
    "a high-s signature": (
        lambda of: of.with_transactions(instead_of_gradient(of, high_s(of.transactions[of.of("gradient")[-1]].raw))),
        SignatureError, "low s, .* expected",
    ),
    "a leader that is a device": (
        lambda of: of.with_header(coinbase=address_of(of.network.devices[0])), LeaderError, "does not lead this",
    ),
    "a successor without a certificate": (
        lambda of: of.with_header(coinbase=address_of(of.successor)), LeaderError, "it does not lead this attempt",
    ),
    "bytes that are nothing": (lambda _: b"", MalformedBlockError, "RLP does not decode"),
    "bytes that are no list": (lambda _: b"\x83abc", MalformedBlockError, "expected header, transactions"),
    "a list of something else": (lambda _: listed(b"\xc0", b"\xc0"), MalformedBlockError, "expected header"),
    "a block cut short": (lambda of: of.honest[:-1], MalformedBlockError, "RLP does not decode"),
    "an uncle": (
        lambda of: listed(of.header.to_bytes(), b"\xc0", listed(of.header.to_bytes())), MalformedBlockError, "uncles",
    ),
    "a header of another shape": (
        lambda _: listed(listed(b"\x80"), b"\xc0", b"\xc0"), MalformedBlockError, "found 1 fields .* expected 16",
    ),
    "no header": (lambda _: listed(b"\x80", b"\xc0", b"\xc0"), MalformedBlockError, "found no header"),
    "a transaction of the old kind": (
        lambda of: listed(of.header.to_bytes(), listed(listed(b"\x80")), b"\xc0"), MalformedBlockError, "EIP-1559",
    ),
    "a transaction of no kind": (
        lambda of: listed(of.header.to_bytes(), listed(b"\x01"), b"\xc0"), MalformedTransactionError, "type 0x01",
    ),
    "lists within lists": (lambda _: nested(100_000), MalformedBlockError, "."),
    "a header of lists within lists": (
        lambda _: listed(nested(20_000), b"\xc0", b"\xc0"), MalformedBlockError, ".",
    ),
    "transactions of lists within lists": (
        lambda of: listed(of.header.to_bytes(), nested(20_000), b"\xc0"), MalformedBlockError, ".",
    ),
}  # fmt: skip


def last_sender(of: Scene) -> LocalAccount:
    """Who posted the last gradient: another post of the same sender stands at the same place."""
    sender = of.transactions[of.of("gradient")[-1]].sender
    return next(d for d in of.network.devices if address_of(d) == sender)


@pytest.mark.parametrize("name", BLOCKS)
def test_a_forged_block_is_refused_and_changes_nothing(name: str) -> None:
    forge, error, message = BLOCKS[name]
    victim = scene().victim()
    forged, before = forge(scene()), fingerprint(victim)
    assert forged != scene().honest
    with pytest.raises(error, match=message) as refusal:
        victim.import_block(forged)
    assert type(refusal.value) is error
    assert fingerprint(victim) == before
    check_goes_on(victim)


def test_the_forger_could_have_built_the_honest_block() -> None:
    """Or the table above would prove nothing: what it changes is the only thing that is wrong."""
    of = scene()
    assert of.executed(of.transactions) == of.with_header() == of.honest


@pytest.mark.parametrize("name", ["another winner", "a later time", "fewer posts", "no posts at all"])
def test_another_lawful_block_is_no_forgery(name: str) -> None:
    of, victim = scene(), scene().victim()
    other = {
        "another winner": lambda: of.with_header(extra_data=address_of(of.network.devices[2])),
        "a later time": lambda: of.with_header(timestamp=NOW + 15),
        "fewer posts": lambda: of.executed(of.transactions[:-1]),
        "no posts at all": lambda: of.executed([]),
    }[name]()
    header = victim.import_block(other)
    assert victim.head == header != of.header


# --- the founding block


def founding(of: Scene) -> tuple[Header, tuple[Transaction, ...]]:
    return decode_block(of.blocks[0])


def refounded(of: Scene, transactions: Sequence[Transaction], **changes: Any) -> bytes:
    return built(of.builder, of.builder.genesis.header, transactions, founding(of)[0], **changes)


def founded_for_another_kind(of: Scene) -> bytes:
    creation = deployment(RegistryTerms(contract_seal=True))
    raw = sign_transaction(of.network.founder, Envelope(CHAIN_ID, 0, 20_000_000, b""), creation)
    return refounded(of, [decode_transaction(raw), *founding(of)[1][1:]])


def with_a_guest(of: Scene) -> bytes:
    server = of.network.servers[0]
    call = encode_call("vote", address_of(STRANGER), address_of(server))
    raw = sign_transaction(server, Envelope(CHAIN_ID, 0, 3_000_000, of.builder.genesis.registry), call)
    return refounded(of, [*founding(of)[1], decode_transaction(raw)])


FOUNDINGS: dict[str, tuple[Forgery, type[ChainError], str]] = {
    "nothing founded": (lambda of: refounded(of, []), FoundingError, "does not found the network: expected registry"),
    "participants, but no model": (
        lambda of: refounded(of, founding(of)[1][:-1]), FoundingError, "expected registry, participants and model 0",
    ),
    "a registry of an external network": (founded_for_another_kind, FoundingError, "by calls, expected by blocks"),
    "a post of somebody else": (with_a_guest, UnregisteredSenderError, "is not the founder"),
    "somebody else as its leader": (
        lambda of: refounded(of, founding(of)[1], coinbase=address_of(of.network.servers[0])), LeaderError, "not lead",
    ),
    "a winner": (
        lambda of: refounded(of, founding(of)[1], extra_data=address_of(of.network.devices[0])),
        WinnerError, "expected no winner",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUNDINGS)
def test_a_forged_founding_is_refused_and_the_network_can_still_be_founded(name: str) -> None:
    forge, error, message = FOUNDINGS[name]
    node = Node.in_memory(genesis(difficulty=DIFFICULTY), now=Clock())
    node.sources = [scene().builder]
    before = node.head, fingerprint(node)
    with pytest.raises(error, match=message):
        node.import_block(forge(scene()))
    assert (node.head, fingerprint(node)) == before
    assert scene().network.found(node) == founding(scene())[0]


def test_nobody_posts_before_the_registry_is_created() -> None:
    network, node = Network(), Node.in_memory(genesis(), now=Clock())
    with pytest.raises(NotRegistryCallError, match="found a call of register, but the registry is not created yet"):
        network.post(node, network.founder, "register", [], [])
    with pytest.raises(FoundingError, match="expected registry"):
        node.propose(address_of(network.founder))
    creation = deployment(network.terms)
    node.submit(sign_transaction(network.founder, Envelope(CHAIN_ID, 0, 20_000_000, b""), creation))
    with pytest.raises(UnregisteredSenderError, match="is not the founder, and nothing is founded yet"):
        network.post(node, STRANGER, "vote", address_of(STRANGER), address_of(STRANGER))
    with pytest.raises(FoundingError, match="expected registry"):
        node.propose(address_of(network.founder))
    node.pool.drop(node.pending()[0].post.transaction.hash)
    network.found(node)
    network.run_round(node)


# --- transactions


def sent_again(of: Scene) -> bytes:
    return of.transactions[1].raw


def same_nonce(of: Scene) -> bytes:
    pending = of.transactions[1]
    sender = next(d for d in of.network.devices if address_of(d) == pending.sender)
    return of.gradient(sender, OTHER_GRADIENT, nonce=pending.nonce)


def idle(of: Scene) -> LocalAccount:
    """A device without a pending post."""
    return last_sender(of)


def oversized(of: Scene) -> bytes:
    return of.gradient(idle(of), bytes(SIZES.gradient + 1))


def early_plan(of: Scene) -> bytes:
    return of.signed(of.successor, "plan", 2, 0, *named(b"plan"))


def for_another(of: Scene, which: str) -> bytes:
    call = read_signed_call(of.transactions[of.of("gradient")[0]], of.builder.genesis).call
    assert call is not None
    base = payload_digest(b"no model") if which == "base model" else call["base_model"]
    plan = payload_digest(b"no plan") if which == "plan" else call["plan_digest"]
    round_, attempt = 3 if which == "round" else 2, int(which == "attempt")
    return of.signed(idle(of), "gradient", round_, attempt, base, plan, 100, 10, *named(OTHER_GRADIENT))


def other_fields(of: Scene, change: Callable[[list[Any]], None]) -> bytes:
    fields = rlp.decode(of.gradient(idle(of))[1:])
    change(fields)
    return b"\x02" + bytes(rlp.encode(fields))


def field(position: int, value: Any) -> Callable[[Scene], bytes]:
    def forge(of: Scene) -> bytes:
        return other_fields(of, lambda fields: fields.__setitem__(position, value))

    return forge


def loose_abi(of: Scene) -> bytes:
    call = decode_transaction(of.gradient(idle(of))).data
    envelope = Envelope(CHAIN_ID, 1, 3_000_000, of.builder.genesis.registry)
    return sign_transaction(idle(of), envelope, call + bytes(32))


TRANSACTIONS: dict[str, tuple[Forgery, type[ChainError], str]] = {
    "the same transaction again": (sent_again, KnownTransactionError, "0x[0-9a-f]{64} is in the pool already"),
    "a sealed transaction again": (
        lambda of: decode_block(of.blocks[1])[1][0].raw, KnownTransactionError, "is sealed in block 2 already",
    ),
    "another one with the same nonce": (same_nonce, NonceError, "found nonce 1 of 0x.*, expected 2"),
    "a nonce that leaves a gap": (
        lambda of: of.gradient(idle(of), nonce=3), NonceError, "found nonce 3 of 0x.*, expected 1",
    ),
    "an oversized payload": (oversized, SidecarSizeError, "found 33 bytes of gradient, this network was .* with 32"),
    "an oversized transaction": (
        lambda of: of.gradient(idle(of)) + bytes(1 << 20),
        OversizedTransactionError, r"of \d+ bytes, expected at most \d+",
    ),
    "another network's": (
        lambda of: of.gradient(idle(of), chain_id=1), ChainIdError, f"found chain id 1, expected {CHAIN_ID}",
    ),
    "a call of another contract": (
        lambda of: of.gradient(idle(of), to=b"\x09" * 20), NotRegistryCallError, "found a call to 0x0909.*, expected",
    ),
    "a contract creation by a participant": (
        lambda of: of.gradient(idle(of), to=b""), NotRegistryCallError, "only the founder creates, once",
    ),
    "a second contract of the founder": (
        lambda of: of.gradient(of.network.founder, to=b""), NotRegistryCallError, "only the founder creates, once",
    ),
    "the chain's own call": (
        lambda of: of.signed(idle(of), "begin_block", b"\x01" * 20, b"\x01" * 20, bytes(32)),
        NotRegistryCallError, "found a call of begin_block, expected a post",
    ),
    "arguments with something behind": (
        loose_abi, NotRegistryCallError, "arguments of gradient have 288 bytes, expected 256",
    ),
    "a fee": (lambda of: of.gradient(idle(of), max_fee=1), GasError, "a fee above 0"),
    "a value": (lambda of: with_value(of.gradient(idle(of))), GasError, "found a value or a fee above 0"),
    "an unregistered sender": (stranger_vote, UnregisteredSenderError, "0x[0-9a-f]{40} is not registered"),
    "too little gas for its bytes": (
        lambda of: of.gradient(idle(of), gas=21_000), GasError, "allowance of 21000, which does not even pay its bytes",
    ),
    "too little gas for the call": (
        lambda of: of.gradient(idle(of), gas=30_000), RevertedError, "is its gas allowance enough",
    ),
    "more gas than a block has": (
        lambda of: of.gradient(idle(of), gas=10**9), GasError, r"allowance of 1000000000, the block has \d+ left",
    ),
    "a successor's plan without a certificate": (early_plan, RevertedError, "not the leader of this attempt"),
    "a gradient for another base model": (
        lambda of: for_another(of, "base model"), RevertedError, "gradient for another base model",
    ),
    "a gradient for another plan": (lambda of: for_another(of, "plan"), RevertedError, "gradient for another plan"),
    "a gradient for another round": (lambda of: for_another(of, "round"), RevertedError, "wrong round"),
    "a gradient for another attempt": (lambda of: for_another(of, "attempt"), RevertedError, "no such attempt"),
    "a close by a server whose turn it is not": (
        lambda of: of.signed(of.successor, "close", 2, 0, payload_digest(b"plan"), *named(b"c")),
        RevertedError, "not the leader of this attempt",
    ),
    "a close by a device": (
        lambda of: of.signed(idle(of), "close", 2, 0, payload_digest(b"plan"), *named(b"c")),
        RevertedError, "not an edge server",
    ),
    "a high-s signature": (lambda of: high_s(of.gradient(idle(of))), SignatureError, "low s, .* expected"),
    "a signature of zeros": (
        lambda of: with_signature(of.gradient(idle(of)), r=0, s=0), SignatureError, "out of range",
    ),
    "a parity of 2": (lambda of: with_signature(of.gradient(idle(of)), parity=2), SignatureError, "parity 0 or 1"),
    "an r above the curve's order": (
        lambda of: with_signature(of.gradient(idle(of)), r=2**256 - 1), SignatureError, "out of range",
    ),
    "somebody else's signature": (
        lambda of: with_signature(of.gradient(idle(of)), r=decode_transaction(sent_again(of)).r),
        ChainError, "belongs to no key|is not registered",
    ),
    "no bytes": (lambda _: b"", MalformedTransactionError, "expected 0x02"),
    "a type of the future": (
        lambda of: b"\x03" + of.gradient(idle(of))[1:], MalformedTransactionError, "type 0x03, expected 0x02",
    ),
    "a type and nothing": (lambda _: b"\x02", MalformedTransactionError, "RLP does not decode"),
    "a transaction cut short": (
        lambda of: of.gradient(idle(of))[:-1], MalformedTransactionError, "RLP does not decode",
    ),
    "a transaction and more": (
        lambda of: of.gradient(idle(of)) + b"\x00", MalformedTransactionError, "RLP does not decode",
    ),
    "lists within lists": (lambda _: b"\x02" + nested(2000), MalformedTransactionError, "."),
    "a few lists within lists": (
        lambda _: b"\x02" + nested(100), MalformedTransactionError, "found lists more than 4 deep",
    ),
    "eleven fields": (
        lambda of: other_fields(of, lambda fields: fields.pop()), MalformedTransactionError, "found 11 .* expected 12",
    ),
    "an access list": (field(8, [[b"\x01" * 20, []]]), MalformedTransactionError, "found an access list, expected an"),
    "a list as data": (field(7, [b"x"]), MalformedTransactionError, "found a list where bytes were expected"),
    "a receiver of 19 bytes": (field(5, b"x" * 19), MalformedTransactionError, "19 bytes, expected 20 or none"),
    "a number with leading zeros": (field(1, b"\x00\x01"), MalformedTransactionError, "nonce: found 0x0001, expected"),
    "a number of 33 bytes": (field(4, b"\x01" * 33), MalformedTransactionError, "gas: found 0x01.*, expected"),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSACTIONS)
def test_a_forged_transaction_is_refused_and_changes_nothing(name: str) -> None:
    forge, error, message = TRANSACTIONS[name]
    victim = scene().victim()
    forged, before = forge(scene()), fingerprint(victim)
    with pytest.raises(error, match=message) as refusal:
        victim.submit(forged)
    assert type(refusal.value) is error or error is ChainError
    assert fingerprint(victim) == before
    check_goes_on(victim)


def test_the_forger_could_have_posted_honestly() -> None:
    of, victim = scene(), scene().victim()
    victim.submit(of.gradient(idle(of)))
    assert len(victim.pending()) == 3


# --- nonces


def nonce_for(header: Header, but_not: Header | None = None) -> bytes:
    """A nonce that seals one header and, where another is given, not that one."""
    start = 0
    while True:
        nonce = find_nonce(header.mining_hash, header.difficulty, start)
        assert nonce is not None
        if but_not is None or not is_sealed(but_not.mining_hash, nonce, but_not.difficulty):
            return nonce
        start = int.from_bytes(nonce, "big") + 1


def wrong_nonce_for(header: Header) -> bytes:
    return next(n.to_bytes(8, "big") for n in range(9) if not is_sealed(header.mining_hash, n.to_bytes(8, "big"), 1000))


Seal = Callable[[Header, bytes, bytes], tuple[bytes, bytes, bytes]]
SEALS: dict[str, tuple[Seal, type[ChainError], str]] = {
    "a nonce that does not solve the puzzle": (
        lambda h, winner, thief: (
            h.for_winner(winner).mining_hash, wrong_nonce_for(h.for_winner(winner)), winner
        ), InvalidSealError, "found seal 0x.* of nonce 0x.*, expected at most",
    ),
    "the winner's nonce under the thief's name": (
        lambda h, winner, thief: (
            h.for_winner(winner).mining_hash, nonce_for(h.for_winner(winner)), thief
        ), WorkError, "no candidate of 0x.* has mining hash 0x.* handed to somebody else",
    ),
    "the winner's nonce for the thief's header": (
        lambda h, winner, thief: (
            h.for_winner(thief).mining_hash, nonce_for(h.for_winner(winner), h.for_winner(thief)), thief
        ), InvalidSealError, "found seal 0x.*, expected at most",
    ),
    "a nonce of a stranger": (
        lambda h, winner, thief: (
            h.for_winner(address_of(STRANGER)).mining_hash,
            nonce_for(h.for_winner(address_of(STRANGER))),
            address_of(STRANGER),
        ), WinnerError, "expected a registered device",
    ),
    "a nonce of nobody": (
        lambda h, winner, thief: (h.mining_hash, nonce_for(h), b""), WinnerError, "expected a registered device",
    ),
    "a nonce of a server": (
        lambda h, winner, thief: (
            h.for_winner(h.coinbase).mining_hash, nonce_for(h.for_winner(h.coinbase)), h.coinbase
        ), WinnerError, "expected a registered device",
    ),
    "a nonce of another length": (
        lambda h, winner, thief: (h.for_winner(winner).mining_hash, bytes(9), winner),
        InvalidSealError, "a nonce of 9, expected 32 and 8",
    ),
    "a nonce for no header": (
        lambda h, winner, thief: (b"\x05" * 32, bytes(8), winner), WorkError, "ask for new work",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SEALS)
def test_a_forged_nonce_seals_nothing(name: str) -> None:
    forge, error, message = SEALS[name]
    of, victim = scene(), scene().victim()
    candidate = victim.propose(of.header.coinbase)
    winner, thief = (address_of(device) for device in of.network.devices[:2])
    before = fingerprint(victim)
    with pytest.raises(error, match=message):
        victim.submit_work(*forge(candidate, winner, thief))
    assert fingerprint(victim) == before
    mined = victim.work(winner)
    assert victim.submit_work(mined.mining_hash, nonce_for(mined), winner) == victim.head
    run_short_round(of.network, victim)


# --- turns (P12)


def test_a_successor_may_neither_post_nor_build_without_a_certificate_and_both_with_one() -> None:
    network, clock = Network(), Clock()
    node = Node.in_memory(genesis(difficulty=DIFFICULTY), now=clock)
    network.found(node)
    second, third = network.leader(node, 1), network.leader(node, 2)
    clock.pass_s(10**5)
    for early in (second, third):
        with pytest.raises(RevertedError, match="not the leader of this attempt"):
            network.post_plan(node, early)
        with pytest.raises(LeaderError, match="it does not lead this attempt"):
            node.propose(address_of(early))
    replica = Node.in_memory(node.genesis, now=clock)
    replica.sources = [node]
    replica.import_block(node.raw_block(1) or b"")
    network.begin_attempt(node)
    with pytest.raises(LeaderError, match="it does not lead this attempt"):
        node.propose(address_of(third))
    header = network.run_round(node, leader=second)
    assert header.coinbase == address_of(second)
    raw = node.raw_block(2)
    assert raw is not None
    transactions = decode_block(raw)[1]
    for coinbase in (third, network.leader(node, 0)):
        if coinbase != second:
            with pytest.raises(LeaderError, match="it does not lead this attempt"):
                replica.import_block(
                    built(node, replica.head, transactions, replace(header, coinbase=address_of(coinbase)))
                )
    with pytest.raises(LeaderError, match="it does not lead this attempt"):  # without the certificate
        replica.import_block(built(node, replica.head, (), header))
    assert replica.import_block(raw) == header


# --- rounds that do not follow (P13)


EVIL = sized(b"evil", SIZES.model)


def refuse_evil(body: RoundBody, _: object) -> None:
    for post in body.posts:
        if post.call is not None and post.call.name == "model" and body.source.payload(post.call["digest"]) == EVIL:
            raise RoundRefusedError(f"block {body.header.block_number}: found model 'evil', expected another")


def test_a_block_that_check_round_refuses_is_neither_proposed_nor_imported() -> None:
    network, clock = Network(), Clock()
    careful = Node.in_memory(genesis(difficulty=DIFFICULTY), now=clock, check_round=refuse_evil)
    careless = Node.in_memory(genesis(difficulty=DIFFICULTY), now=clock)
    careful.sources = [careless]
    for node in (careful, careless):
        network.found(node)
    leader = network.leader(careful)
    for node in (careful, careless):
        network.post_plan(node, leader)
        network.post_close(node, leader)
        network.post_model(node, leader, EVIL)
    before = fingerprint(careful)
    with pytest.raises(RoundRefusedError, match="found model 'evil', expected another"):
        careful.propose(address_of(leader))
    with pytest.raises(WorkError, match="no candidate block"):
        careful.work(address_of(network.devices[0]))
    careless.propose(address_of(leader))
    seal(careless, address_of(network.devices[0]))
    with pytest.raises(RoundRefusedError, match="found model 'evil', expected another"):
        careful.import_block(careless.raw_block(2) or b"")
    assert fingerprint(careful) == before
    assert careful.pool.drop(careful.pending()[-1].post.transaction.hash)
    network.post_model(careful, leader)
    careful.propose(address_of(leader))
    seal(careful, address_of(network.devices[0]))
    network.run_round(careful)


# --- finality (Q1)


def test_no_branch_goes_below_a_block_that_a_majority_endorsed() -> None:
    network, clock = Network(), Clock()
    node, other = (Node.in_memory(genesis(difficulty=DIFFICULTY), now=clock) for _ in range(2))
    for each in (node, other):
        network.found(each)
    network.run_round(node)
    network.post_plan(other, payload=b"another plan")
    leader = network.leader(other)
    other.propose(address_of(leader))
    seal(other, address_of(network.devices[1]))
    network.run_round(other)
    siblings = [other.raw_block(number) or b"" for number in (2, 3)]

    network.endorse(node, servers=network.servers[:2])
    run_short_round(network, node)
    assert node.final.block_number == 2
    before = fingerprint(node)
    with pytest.raises(FinalityError, match="a branch from block 1 would undo block 2, which is final"):
        node.import_block(siblings[0])
    with pytest.raises(UnknownParentError):
        node.import_block(siblings[1])
    assert fingerprint(node) == before
    network.run_round(node)


def test_one_endorsement_of_three_makes_nothing_final_and_a_branch_above_a_final_block_is_lawful() -> None:
    network, clock = Network(), Clock()
    node, other = (Node.in_memory(genesis(difficulty=DIFFICULTY), now=clock) for _ in range(2))
    for each in (node, other):
        network.found(each)
        network.run_round(each)
    node.sources = [other]
    assert node.head == other.head
    network.endorse(node, servers=network.servers[:1])
    run_short_round(network, node)
    assert node.final.block_number == 1
    posted = endorse_call(network.servers[:2], 1, other.head.hash)
    network.post(other, network.servers[0], "endorse", *posted)
    run_short_round(network, other)
    run_short_round(network, other)
    for number in (3, 4):
        node.import_block(other.raw_block(number) or b"")
    assert node.head == other.head
    assert node.final.block_number == 2, "by the signatures in block 3"


def test_a_branch_that_was_there_before_finality_cannot_grow_over_it() -> None:
    network, clock = Network(), Clock()
    nodes = [Node.in_memory(genesis(difficulty=DIFFICULTY), now=clock) for _ in range(2)]
    for each, payload in zip(nodes, (b"one plan", b"another"), strict=True):
        network.found(each)
        network.post_plan(each, payload=payload)
        each.propose(address_of(network.leader(each)))
        seal(each, address_of(network.devices[1]))
    node, other = sorted(nodes, key=lambda each: each.head.hash)  # on a tie the smaller hash leads
    run_short_round(network, other)
    node.sources = [other]
    first, second = (other.raw_block(number) or b"" for number in (2, 3))
    node.import_block(first)
    network.endorse(node, servers=network.servers[:2])
    run_short_round(network, node)
    before = fingerprint(node)
    with pytest.raises(FinalityError, match="a branch from block 1 would undo block 2, which is final"):
        node.import_block(second)
    assert fingerprint(node) == before
    run_short_round(network, node)
