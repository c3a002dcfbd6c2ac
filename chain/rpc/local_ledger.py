"""The ledger of a node in this very process: the same posts and answers, without JSON-RPC in between."""

from typing import Any

from eth_account.signers.local import LocalAccount

from chain.client.connection import Connection
from chain.client.keys import address_of
from chain.client.ledger import Ledger
from chain.errors import LedgerError
from chain.node.node import Node
from chain.protocol.contract import address_in, call_gas, encode_call, functions
from chain.protocol.posts import Post
from chain.protocol.proof import ModelProof, proof_of
from chain.protocol.turns import FOUNDING_BLOCK
from chain.rpc.in_process import web3_in_process
from chain.wire.blocks import Block
from chain.wire.transactions import Envelope, Transaction, signed_transaction


class LocalLedger(Ledger):
    """A `Ledger` whose node is at hand: what others ask over JSON-RPC is read from its pool."""

    def __init__(self, node: Node, account: LocalAccount | None = None, connection: Connection | None = None) -> None:
        super().__init__(connection or Connection(web3_in_process(node), node.genesis.registry), account)
        self.node = node

    def signed_by(self, account: LocalAccount) -> "LocalLedger":
        """The same ledger, written by somebody else."""
        return LocalLedger(self.node, account, self._connection)

    def submit_raw(self, raw: bytes, opened: Transaction | None = None) -> bytes:
        """Post what somebody else has signed; `opened` where it has been read already."""
        return self.node.submit(opened or raw)

    def _send(self, name: str, *arguments: Any) -> bytes:
        if self._account is None:
            raise LedgerError("this ledger is for reading; give it an account to post")
        data = encode_call(name, *arguments)
        genesis = self.node.genesis
        gas = call_gas(len(data), self._connection.settings.payload_bytes)
        envelope = Envelope(genesis.chain_id, self.node.nonce(address_of(self._account)), gas, genesis.registry)
        return self.node.submit(signed_transaction(self._account, envelope, data))

    def round(self) -> int:
        """The round that is running: block k + 1 is round k (P1)."""
        return self.node.head.block_number

    def nonce(self, sender: bytes) -> int:
        """The nonce of a sender's next post."""
        return self.node.nonce(sender)

    def parent_hash(self) -> bytes:
        """The last sealed block."""
        return self.node.head.hash

    def parent_time(self) -> int:
        """The time of the last sealed block."""
        return self.node.head.timestamp

    def model_digest(self) -> bytes:
        """Digest of the last model."""
        return bytes(self.node.ask("model_digest"))

    def is_excluded(self, participant: bytes) -> bool:
        """Whether a participant is excluded in the running round."""
        return bool(self.node.ask("is_excluded", participant))

    def posts(self, round_: int, slot: int) -> dict[bytes, Post]:
        """What is visible in a slot of a round, by sender in ascending order of address."""
        if round_ != self.round():
            return super().posts(round_, slot)
        found = [post for post in self._pending() if post.slot == slot]
        return {post.sender: post for post in sorted(found, key=lambda post: post.sender)}

    def round_posts(self, round_: int) -> list[Post]:
        """Everything that was posted in a round, slot by slot."""
        if round_ != self.round():
            return super().round_posts(round_)
        return sorted(self._pending(), key=lambda post: (post.slot, post.sender))

    def _pending(self) -> list[Post]:
        """The posts of the running round, chunks put together (C8)."""
        chunks: dict[bytes, list[bytes]] = {}
        found = []
        for entry in self.node.pending():
            call, post = entry.post.call, entry.post.joined(chunks.get(entry.post.sender, ()))
            if post is not None:
                found.append(post)
            elif call is not None and call.name == "chunk":
                chunks.setdefault(entry.post.sender, []).append(bytes(call["data"]))
        return found

    def conflicts(self) -> list[tuple[Transaction, Transaction]]:
        """Two different posts of one sender for one slot, as the node has seen them (P15)."""
        return list(self.node.pool.conflicts)

    def model_proof(self, round_: int, known_number: int) -> ModelProof:
        """Proof of a sealed round's model for somebody who knows block `known_number`."""
        number, node = round_ + FOUNDING_BLOCK, self.node
        block = node.block(number)
        if block is None or round_ < 1:
            raise LedgerError(f"round {round_} has no sealed model; the head is block {node.head.block_number}")
        index = _model_in(block)
        servers = [address_in(each) for each in node.ask("server_list")]
        is_any_out = any(int(node.ask("excluded_through", server)) for server in servers)
        exclusions = [self._proof(sent) for sent in self._exclusions(round_)] if is_any_out else []
        oldest = [each.header.block_number for each in exclusions]
        first = max(0, min(known_number, number - self._connection.settings.term_cap - 1, *oldest))
        headers = [node.header(each) for each in range(first, max(known_number, number) + 1)]
        return ModelProof(
            tuple(each for each in headers if each is not None), proof_of(block, index), tuple(exclusions)
        )

    def drop(self, transaction_hash: bytes) -> bool:
        """Leave a pending transaction out of what this node builds."""
        return self.node.drop(transaction_hash)


def _model_in(block: Block) -> int:
    """Position of the model that the registry accepted; somebody's reverted one may stand before it."""
    for index, (sent, receipt) in enumerate(zip(block.transactions, block.receipts, strict=True)):
        if receipt.status == 1 and sent.data[:4] == functions()["model"].selector:
            return index
    raise LedgerError(f"block {block.header.block_number} publishes no model")
