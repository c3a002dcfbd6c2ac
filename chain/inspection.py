"""What an auditor checks of a chain without executing it: seals, links, signatures, roles, turns, digests.

Every byte of a block hangs on its header, every header on its parent, and the inspector keeps the registry's books
(members, nonces, models, exclusions) from the posts themselves. Re-deriving models from gradients is `edge_servers`'.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from eth_hash.auto import keccak

from chain.archive import Archive
from chain.consensus import Post, check_header, check_order, read_post
from chain.contract import Call, decode_log
from chain.errors import ChainError, InspectionError, ReceiptRootError, TransactionRootError
from chain.genesis import Genesis
from chain.headers import Header
from chain.receipts import Receipt, block_bloom, trie_root
from chain.store import Block
from chain.turns import FOUNDING_BLOCK, Membership, rank_of

_LEADS = ("plan", "close", "model")
_SERVES = (*_LEADS, "iterate", "flag", "flag_equivocation", "endorse", "vote")


@dataclass
class Inspection:
    """What was found so far."""

    blocks: int = 0
    transactions: int = 0
    payload_bytes: int = 0
    reverted: int = 0
    by_kind: Counter[str] = field(default_factory=Counter)
    members: dict[bytes, bytes] = field(default_factory=dict)
    excluded_through: dict[bytes, int] = field(default_factory=dict)
    models: list[bytes] = field(default_factory=list)
    """Digests, by round."""


class Inspector:
    """Follows a chain from block 0; `check` raises `InspectionError` at the first thing that does not fit."""

    def __init__(self, genesis: Genesis) -> None:
        self._genesis = genesis
        self._headers: list[Header] = []
        self._nonces: Counter[bytes] = Counter()
        self._plan = self._closed = b""
        self._chunks: dict[bytes, list[tuple[int, bytes]]] = {}
        self._terms = (1, 1)  # term cap, turn in seconds
        self.found = Inspection()

    def check(self, block: Block) -> None:
        """Check the next block."""
        header = block.header
        try:
            if header.block_number == 0:
                self._check_genesis(header)
            else:
                self._check_block(block)
        except ChainError as error:
            raise InspectionError(f"block {header.block_number}: {error}") from error
        self._headers = [*self._headers[-self._terms[0] - 1 :], header]
        self.found.blocks += 1

    def _check_genesis(self, header: Header) -> None:
        if header != self._genesis.header:
            raise InspectionError(f"found genesis 0x{header.hash.hex()}, expected 0x{self._genesis.header.hash.hex()}")

    def _check_block(self, block: Block) -> None:
        check_header(block.header, self._headers[-1], self._genesis)
        self._check_roots(block)
        posts = tuple(read_post(transaction, self._genesis) for transaction in block.transactions)
        check_order(posts)
        self._plan = self._closed = b""
        self._chunks = {}
        for index, (post, receipt) in enumerate(zip(posts, block.receipts, strict=True)):
            try:
                self._check_post(post, receipt, block.header)
            except ChainError as error:
                raise InspectionError(f"transaction {index} (0x{post.transaction.hash.hex()}): {error}") from error
        self._check_builder(block.header)

    def _check_roots(self, block: Block) -> None:
        header = block.header
        if trie_root([transaction.raw for transaction in block.transactions]) != header.transaction_root:
            raise TransactionRootError("its transactions are not those the header commits to")
        found = (
            trie_root([receipt.encoded for receipt in block.receipts]),
            block_bloom(block.receipts),
            block.receipts[-1].gas_used if block.receipts else 0,
        )
        if found != (header.receipt_root, header.bloom, header.gas_used):
            raise ReceiptRootError("its receipts are not those the header commits to")

    # --- posts

    def _check_post(self, post: Post, receipt: Receipt, header: Header) -> None:
        if post.transaction.nonce != self._nonces[post.sender]:
            raise InspectionError(f"found nonce {post.transaction.nonce}, expected {self._nonces[post.sender]}")
        self._nonces[post.sender] += 1
        self.found.transactions += 1
        if receipt.status != 1:
            self.found.reverted += 1
            return  # it is in the block, and says nothing
        if post.call is None:
            self.found.by_kind["creation"] += 1
            self._read_terms(post.transaction.data)
            return
        self.found.by_kind[post.call.name] += 1
        self._check_role(post, header)
        self._check_call(post.call, post.sender, header)
        self._read_events(receipt)

    def _read_terms(self, creation: bytes) -> None:
        """Term cap and turn are the creation's arguments 2 and 3 of 6."""
        words = [int.from_bytes(creation[i : i + 32], "big") for i in range(len(creation) - 192, len(creation), 32)]
        self._terms = (words[1], words[2])

    def _check_role(self, post: Post, header: Header) -> None:
        name, sender = str(post.call.name if post.call else ""), post.sender
        if name in ("register", "found") or header.block_number == FOUNDING_BLOCK:
            if f"0x{sender.hex()}" != self._genesis.founder:
                raise InspectionError(f"{name} by 0x{sender.hex()}, expected the founder")
            return
        home = self.found.members.get(sender)
        if home is None:
            raise InspectionError(f"{name} by 0x{sender.hex()}, who is not registered")
        if name in _SERVES and home != sender:
            raise InspectionError(f"{name} by the device 0x{sender.hex()}, expected an edge server")
        if self.found.excluded_through.get(sender, 0) >= header.block_number - FOUNDING_BLOCK:
            raise InspectionError(f"{name} by 0x{sender.hex()}, who is excluded")
        if name in _LEADS:
            self._check_turn(sender, header)

    def _check_call(self, call: Call, sender: bytes, header: Header) -> None:
        if "round" in call and int(call["round"]) != header.block_number - FOUNDING_BLOCK:
            raise InspectionError(f"{call.name} of round {call['round']} in block {header.block_number}")
        if call.name == "chunk":
            self._chunks.setdefault(sender, []).append((int(call["slot"]), bytes(call["data"])))
        if "payload" in call:
            self._check_payload(call, sender)
        if call.name == "gradient":
            self._check_gradient(call)
        elif call.name == "plan":
            self._plan = bytes(call["digest"])
        elif call.name in ("model", "found"):
            self.found.models.append(bytes(call["digest"]))

    def _check_payload(self, call: Call, sender: bytes) -> None:
        count = int(call["chunks"])
        payload = bytes(call["payload"])
        if count:
            payload = b"".join(data for _, data in self._chunks.get(sender, [])[-count:])
        self.found.payload_bytes += len(payload)
        if keccak(payload) != bytes(call["digest"]):
            raise InspectionError(f"the payload of {call.name} does not have the digest it names")

    def _check_gradient(self, call: Call) -> None:
        if bytes(call["base_model"]) != self.found.models[-1]:
            raise InspectionError("a gradient for another base model")
        if bytes(call["plan_digest"]) != self._plan:
            raise InspectionError("a gradient for another plan")

    def _read_events(self, receipt: Receipt) -> None:
        for log in receipt.logs:
            event = decode_log(log.topics, log.data) if log.address == self._genesis.registry else None
            if event is None:
                raise InspectionError("a log that is no event of the registry")
            if event.name == "Registered":
                self.found.members[_address(event["participant"])] = _address(event["home"])
            elif event.name == "Excluded":
                self.found.excluded_through[_address(event["participant"])] = int(event["last_round"])

    # --- leaders

    def _check_builder(self, header: Header) -> None:
        """Who built the block, and who sealed it."""
        if header.block_number == FOUNDING_BLOCK:
            if f"0x{header.coinbase.hex()}" != self._genesis.founder or header.extra_data:
                raise InspectionError("the founding block is not the founder's")
            return
        self._check_turn(header.coinbase, header)
        if header.winner is None or not self._membership().is_device(header.winner):
            raise InspectionError(f"sealed by 0x{header.extra_data.hex()}, expected a registered device")

    def _check_turn(self, server: bytes, header: Header) -> None:
        round_ = header.block_number - FOUNDING_BLOCK
        excluded = [who for who, last in self.found.excluded_through.items() if last >= round_]
        rank = rank_of(server, self._headers, self._membership(), excluded)
        waited = header.timestamp - self._headers[-1].timestamp
        if rank is None or (rank > 0 and waited < rank * self._terms[1]):
            raise InspectionError(f"led by 0x{server.hex()} (rank {rank}) {waited} s after the parent: not its turn")

    def _membership(self) -> Membership:
        return Membership(self.found.members, *self._terms)


def _address(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


def inspect_chain(archive: Archive, progress: Callable[[int, int], Any] | None = None) -> Inspection:
    """Check a whole chain; `InspectionError` names the first place that does not fit.

    `progress` is called with the number of blocks done and of all.
    """
    inspector = Inspector(archive.genesis)
    last = archive.head().block_number
    for number in range(last + 1):
        inspector.check(archive.block(number))
        if progress is not None:
            progress(number + 1, last + 1)
    return inspector.found


def contributors(block: Block, genesis: Genesis) -> dict[str, list[bytes]]:
    """Who made the model of a round's block, by what they did."""
    found: dict[str, list[bytes]] = {}
    for transaction, receipt in zip(block.transactions, block.receipts, strict=True):
        post = read_post(transaction, genesis)
        if receipt.status == 1 and post.call is not None and post.call.name not in ("chunk", "register"):
            found.setdefault(post.call.name, []).append(post.sender)
    return found
