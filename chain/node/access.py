"""A node of this very process as a chain to post to and to read: no web3, no JSON, no socket in between."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from eth_account.signers.local import LocalAccount
from eth_bloom import BloomFilter

from chain.client.access import FoundLog, SentCall
from chain.client.keys import address_of
from chain.client.ledger import Ledger
from chain.client.network_reader import PoolReader
from chain.errors import LedgerError, RpcError
from chain.node.node import Node
from chain.protocol.contract import PayloadSizes, begins_attempt, registry_settings
from chain.protocol.endorsements import Endorsement
from chain.protocol.genesis import FOUNDING_GAS
from chain.protocol.passes import Pass, Signed
from chain.protocol.posts import Post
from chain.protocol.proof import TransactionProof, proof_of
from chain.protocol.turns import FOUNDING_BLOCK
from chain.signer.memory import SignedMemory
from chain.wire.headers import Header
from chain.wire.receipts import Log
from chain.wire.sidecar import Sidecar
from chain.wire.transactions import Envelope, Transaction, signed_transaction


class NodeAccess:
    """The chain of a node at hand; implements `chain.client.access.ChainAccess`."""

    is_embedded = True

    def __init__(self, node: Node) -> None:
        self.node, self.registry, self.chain_id = node, node.genesis.registry, node.genesis.chain_id
        if not node.code(self.registry):
            raise RpcError(f"there is no registry at {self.registry} on chain {self.chain_id}; is the network founded?")
        self.settings = registry_settings(node.ask("settings"))

    @cached_property
    def sizes(self) -> PayloadSizes:
        """How large payloads are, once the network is founded (B2)."""
        return PayloadSizes(*self.node.ask("payload_sizes"))

    def payload(self, digest: bytes) -> bytes | None:
        """The payload with this digest, if the node has it."""
        return self.node.payload(digest)

    def has_payload(self, digest: bytes) -> bool:
        """Whether the node has a payload."""
        return self.node.has_payload(digest)

    # --- reading

    def ask(self, name: str, *arguments: Any, block: int | None = None) -> Any:
        """The answer of a view of the registry, after a block or with everything pending in it."""
        return self.node.ask(name, *arguments, header=None if block is None else self.header(block))

    def nonce(self, sender: bytes, is_sealed: bool = False) -> int:
        """The nonce of a sender's next transaction, everything pending counted; or as it was sealed last."""
        return self.node.nonce(sender, self.node.head if is_sealed else None)

    def head(self) -> int:
        """Number of the last sealed block."""
        return self.node.head.block_number

    def block_hash(self, number: int) -> bytes:
        """Hash of a sealed block."""
        return self.header(number).hash

    def logs(self, topics: Sequence[bytes | None], first: int, last: int | None) -> list[FoundLog]:
        """Logs of the registry in these blocks, and pending ones where there is no last block."""
        pending = self.node.pending() if last is None else ()  # first: a block sealed meanwhile has them then
        found = list(self._sealed_logs(topics, first, last))
        known = {log.transaction_hash for log in found}
        left = [(entry.post.transaction, entry.outcome.logs) for entry in pending]
        return found + [log for log in self._matching(left, topics) if log.transaction_hash not in known]

    def _sealed_logs(self, topics: Sequence[bytes | None], first: int, last: int | None) -> Iterator[FoundLog]:
        head = self.node.head.block_number
        for number in range(first, (head if last is None else min(last, head)) + 1):
            header = self.node.header(number)
            if header is None or not _may_hold(header, topics):
                continue
            block = self.node.block(header.hash)
            if block is not None:
                said = zip(block.transactions, (receipt.logs for receipt in block.receipts), strict=True)
                yield from self._matching(said, topics)

    def _matching(
        self, said: Iterable[tuple[Transaction, Sequence[Log]]], topics: Sequence[bytes | None]
    ) -> Iterator[FoundLog]:
        for transaction, logs in said:
            for log in logs:
                if log.address == self.registry and _has_topics(log, topics):
                    yield FoundLog(log.topics, log.data, transaction.hash)

    def transaction(self, transaction_hash: bytes) -> SentCall | None:
        """A transaction, pending or sealed; None if there is none."""
        found = self._transaction(transaction_hash)
        return None if found is None else SentCall(found.nonce, found.data)

    def raw_transaction(self, transaction_hash: bytes) -> bytes | None:
        """The same as it was signed."""
        found = self._transaction(transaction_hash)
        return None if found is None else found.raw

    def _transaction(self, transaction_hash: bytes) -> Transaction | None:
        pending, sealed = self.node.find_pending(transaction_hash), self.node.find_sealed(transaction_hash)
        if sealed is not None:
            return sealed[0].transactions[sealed[1]]
        return None if pending is None else pending.post.transaction

    # --- posting

    def send(
        self,
        account: LocalAccount,
        data: bytes,
        gas: int,
        _deadline_s: float | None,
        sidecars: Sequence[Sidecar] = (),
    ) -> bytes:
        """Sign a call of the registry and put it into the pool, where it is visible."""
        return self.node.submit(self._signed(account, data, gas), sidecars)

    def _signed(self, account: LocalAccount, data: bytes, gas: int) -> Transaction:
        nonce = self.nonce(address_of(account), is_sealed=begins_attempt(data))
        return signed_transaction(account, Envelope(self.chain_id, nonce, gas, self.registry), data)

    def sign(self, account: LocalAccount, data: bytes, gas: int) -> bytes:
        """A call of the registry, signed and not sent."""
        return self._signed(account, data, gas).raw

    def send_raw(self, raw: bytes, opened: Transaction | None = None, sidecars: Sequence[Sidecar] = ()) -> bytes:
        """Post what somebody else has signed; `opened` where it has been read already."""
        return self.node.submit(opened or raw, sidecars)

    # --- proving, building, sealing

    def header(self, number: int) -> Header:
        """The header of the canonical block with this number."""
        header = self.node.header(number)
        if header is None:
            raise LedgerError(f"there is no block {number}; the head is {self.head()}")
        return header

    def proof(self, transaction_hash: bytes) -> TransactionProof:
        """That a transaction is sealed, and what came of it (P16)."""
        found = self.node.find_sealed(transaction_hash)
        if found is None:
            raise LedgerError(f"transaction 0x{transaction_hash.hex()} is not sealed")
        return proof_of(*found)

    def conflicts(self) -> list[tuple[Transaction, Transaction]]:
        """Two different posts of one sender for one slot, as the node has seen them (P15)."""
        return list(self.node.pool.conflicts)

    def endorsements(self, block_hash: bytes) -> list[Endorsement]:
        """The signatures under a block that the node holds (Q1)."""
        return self.node.endorsements(block_hash)

    def votes(self, round_: int) -> tuple[list[Endorsement], list[Pass]]:
        """What servers have signed in a round, as the node has seen it: endorsements of any block, and passes."""
        return self.node.votes(round_)

    def attempt_of(self, block_hash: bytes) -> int | None:
        """The attempt at its round that a block has the posts of; None for one that the node has not checked."""
        return self.node.attempt_of(block_hash)

    def find_header(self, block_hash: bytes) -> Header | None:
        """The header of a block that the node has checked and kept, canonical or not."""
        return self.node.header(block_hash)

    def send_endorsement(self, endorsement: Endorsement) -> bool:
        """Hand the node a signature under a block; whether it is new there."""
        return self.node.take_endorsement(endorsement)

    def send_pass(self, given: Pass) -> bool:
        """Hand the node a server's pass; whether it is new there."""
        return self.node.take_pass(given)

    def contradictions(self, first_round: int) -> list[tuple[Signed, Signed]]:
        """Two things that one server signed and no honest one signs both of, as the node has seen them."""
        return self.node.contradictions(first_round)

    def check_agrees(self) -> None:
        """Raise `DivergedError` where a majority has signed a block that the node refuses (D3.5)."""
        self.node.check_agrees()

    def final_number(self) -> int:
        """Number of the last final block."""
        return self.node.final.block_number

    def hold_evidence(self, digest: bytes) -> bool:
        """Keep the payload of an iterate that is wrong with the block that has its flag (B3)."""
        return self.node.hold_evidence(digest)

    def propose(self, leader: bytes) -> Header:
        """Make everything pending a candidate block of this leader."""
        return self.node.propose(leader)

    def work(self, device: bytes, leader: bytes | None = None) -> Header:
        """The header this device mines."""
        return self.node.work(device, leader)

    def submit_work(self, mining_hash: bytes, nonce: bytes, device: bytes) -> bytes:
        """Seal; returns the hash of the block."""
        return self.node.submit_work(mining_hash, nonce, device).hash


class LocalLedger(PoolReader, Ledger):
    """A `Ledger` whose node is at hand. Posts go to it directly; those of the running round are read from its pool."""

    def __init__(
        self,
        node: Node,
        account: LocalAccount | None = None,
        access: NodeAccess | None = None,
        memory: SignedMemory | None = None,
    ) -> None:
        self.node, self._near = node, access or NodeAccess(node)
        super().__init__(self._near, account, memory=memory)

    def signed_by(self, account: LocalAccount, memory: SignedMemory | None = None) -> "LocalLedger":
        """The same ledger, written by somebody else."""
        return LocalLedger(self.node, account, self._near, memory)

    def _pending(self) -> list[Post]:
        """The posts of the running round."""
        posts = [entry.post.post for entry in self.node.pending()]
        return [post.beside(self.node) for post in posts if post is not None]

    def _joins(self, round_: int) -> list[bytes]:
        """The votes that made servers members; looked for only where there are more than the founding named."""
        founded = self.node.header(FOUNDING_BLOCK)
        is_larger = founded is not None and self.node.ask("server_list") != self.node.ask("server_list", header=founded)
        return super()._joins(round_) if is_larger else []


class EmptyNode:
    """A node whose network is still to be founded: `chain.client.access.EmptyChain`."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def create_registry(
        self, founder: LocalAccount, creation: bytes, _is_embedded: bool, _deadline_s: float
    ) -> NodeAccess:
        """Put the registry's creation into the pool; it is where the genesis says."""
        node = self._node
        envelope = Envelope(node.genesis.chain_id, node.nonce(address_of(founder)), FOUNDING_GAS // 2, b"")
        node.submit(signed_transaction(founder, envelope, creation))
        return NodeAccess(node)


def _has_topics(log: Log, topics: Sequence[bytes | None]) -> bool:
    if len(topics) > len(log.topics):
        return False
    return all(wanted in (None, topic) for wanted, topic in zip(topics, log.topics, strict=False))


def _may_hold(header: Header, topics: Sequence[bytes | None]) -> bool:
    """The header's bloom filter says no for sure, or maybe."""
    bloom = BloomFilter(header.bloom)
    return all(topic is None or topic in bloom for topic in topics)
