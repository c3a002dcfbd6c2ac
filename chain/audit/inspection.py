"""What an auditor checks of a chain without executing it: seals, links, signatures, roles, turns, digests.

Every byte of a block hangs on its header, every header on its parent, and the inspector keeps the registry's books
(members, nonces, models, exclusions) from the posts themselves. Re-deriving models from gradients is `edge_servers`'.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from chain.audit.archive import Archive
from chain.audit.endorsed import EndorsedBlocks
from chain.audit.events import CHANGES_MEMBERS, check_events, read_events
from chain.audit.found import Inspection
from chain.audit.leading import Leading
from chain.audit.misfit import misfit_at
from chain.audit.payloads import CheckedPayloads
from chain.errors import InspectionError
from chain.protocol.consensus import check_header, check_order
from chain.protocol.contract import TERMS_BYTES, Call, PayloadSizes, creation_code
from chain.protocol.genesis import Genesis
from chain.protocol.posts import KINDS, NoPayloads, PayloadSource, SignedCall, read_signed_call
from chain.protocol.turns import FOUNDING_BLOCK, Membership
from chain.wire.address import Address
from chain.wire.blocks import Block
from chain.wire.headers import Header
from chain.wire.receipts import Receipt, check_roots

_FOUNDS = ("register", "found")
_LEADS = ("plan", "close", "model")
_SERVES = (*_LEADS, "begin_attempt", "roll", "iterate", "flag", "flag_equivocation", "flag_signatures", "vote")
_NEEDS = {"gradient": "plan", "roll": "plan", "close": "plan", "iterate": "close", "model": "close"}


@dataclass(frozen=True)
class InspectedBlock:
    """A block that fits, with what its transactions call."""

    block: Block
    calls: tuple[SignedCall, ...]
    found: Inspection
    """Up to and including this block; the inspection of the next one goes on in it."""
    source: PayloadSource
    """The payloads beside it, with the digests that its posts name."""
    is_pruned: bool = False
    """Whether payloads that it keeps are not here."""
    attempt: int = 0
    """Whose posts it has (D3.1)."""
    passed_over: tuple[Address, ...] = ()
    """Who led the attempts before that one."""

    @property
    def number(self) -> int:
        """Of the block."""
        return self.block.header.block_number


class Inspector:
    """Follows a chain from block 0; `check` raises `InspectionError` at the first thing that does not fit."""

    def __init__(self, genesis: Genesis, source: PayloadSource | None = None) -> None:
        """`source` has the payloads."""
        self._genesis, self._source = genesis, source or NoPayloads()
        self._headers: list[Header] = []
        self._nonces: Counter[Address] = Counter()
        self._model = self._plan = self._close = b""  # the last digests
        self._sizes = PayloadSizes(0, 0, 0, 0, 0)
        self._posted: set[tuple[Any, ...]] = set()
        self._term_cap, self._exclusion_rounds = 1, 0
        self._leading = Leading(genesis)
        self._endorsed = EndorsedBlocks(genesis)
        self.found = Inspection()

    def check(self, block: Block) -> InspectedBlock:
        """Check the next block."""
        number, members = self.found.blocks, dict(self.found.members)
        with misfit_at(f"block {number}"):
            calls, source = self._check_next(block, number), CheckedPayloads(self._source)
            size, is_pruned = source.read_kept(calls, block.header.coinbase)
        attempt, passed_over = self._leading.attempt, self._leading.passed_over
        self.found.payload_bytes += size
        self.found.pruned += [number] if is_pruned else []
        self._go_on_after(block.header)
        self._endorsed.follow(block.header.hash, members)
        return InspectedBlock(block, calls, self.found, source, is_pruned, attempt, passed_over)

    def _go_on_after(self, header: Header) -> None:
        self._headers = [*self._headers[-self._term_cap - 1 :], header]
        self._leading.follow(header)
        self.found.hashes.append(header.hash)
        self.found.blocks += 1

    def _check_next(self, block: Block, number: int) -> tuple[SignedCall, ...]:
        if block.header.block_number != number:
            raise InspectionError(f"found block {block.header.block_number} in its place")
        check_roots(block.header, block.transactions, block.receipts)
        if number:
            check_header(block.header, self._headers[-1], self._genesis)
            calls = self._check_posts(block)
            self._check_builder(block.header)
            return calls
        if block.header != self._genesis.header:
            expected = self._genesis.header.hash.hex()
            raise InspectionError(f"found genesis 0x{block.header.hash.hex()}, expected 0x{expected}")
        return ()

    def take_beside(self, archive: Archive) -> None:
        """Count the signatures beside the last blocks, which no block carries yet."""
        self._endorsed.take_beside(archive.endorsements)
        self.found.final = min(self._endorsed.final, self.found.blocks - 1)
        self.found.signed = self._endorsed.told(self.found.blocks - 1)

    # --- posts

    def _check_posts(self, block: Block) -> tuple[SignedCall, ...]:
        posts: list[SignedCall] = []
        for index, transaction in enumerate(block.transactions):
            with misfit_at(f"transaction {index} (0x{transaction.hash.hex()})"):
                posts.append(read_signed_call(transaction, self._genesis))
        check_order(posts)
        self._plan, self._close, self._posted = b"", b"", set()
        self._leading.begin(self._headers, self._membership(), self.found.excluded_through)
        for index, (post, receipt) in enumerate(zip(posts, block.receipts, strict=True)):
            with misfit_at(f"transaction {index} (0x{post.transaction.hash.hex()})"):
                self._check_post(post, receipt, block.header)
        return tuple(posts)

    def _check_post(self, post: SignedCall, receipt: Receipt, header: Header) -> None:
        if post.transaction.nonce != self._nonces[post.sender]:
            raise InspectionError(f"found nonce {post.transaction.nonce}, expected {self._nonces[post.sender]}")
        self._nonces[post.sender] += 1
        self.found.transactions += 1
        if post.call is None:
            self._read_terms(post.transaction.data)  # also of one that is reverted: no other code is ever executed
        if receipt.status != 1:
            self.found.reverted += 1
            self._read_events(receipt, header)
            return  # it is in the block, and says nothing
        self.found.by_kind[post.call.name if post.call else "creation"] += 1
        if post.call is not None:
            if post.begins is not None:
                self._leading.begin_attempt(post.call)
            self._check_role(post.call.name, post.sender, header)
            self._check_call(post.call, post.sender, header)
        check_events(post, receipt, self._genesis.registry, self._exclusion_rounds)
        if post.call is not None and post.call.name in CHANGES_MEMBERS:
            self._read_events(receipt, header)

    def _read_terms(self, creation: bytes) -> None:
        """Term cap and exclusion are arguments 2 and 4. Another contract could accept, exclude and register anybody."""
        code, terms = creation[:-TERMS_BYTES], creation[-TERMS_BYTES:]
        if code != creation_code():
            raise InspectionError("the registry is none of this version's; audit the chain with the one it was made by")
        words = [int.from_bytes(terms[i : i + 32], "big") for i in range(0, TERMS_BYTES, 32)]
        self._term_cap, self._exclusion_rounds = words[1], words[3]

    def _check_role(self, name: str, sender: Address, header: Header) -> None:
        """Raise unless the sender may do that."""
        if header.block_number == FOUNDING_BLOCK:
            if sender != self._genesis.founder_address or name not in _FOUNDS:
                raise InspectionError(f"{name} by {sender} in the founding block, expected the founder's posts")
            return
        home = self.found.members.get(sender)
        if home is None or name == "register" or name == "found":
            raise InspectionError(f"{name} by {sender}, who is not registered or may not do that")
        if name == "endorse":
            return  # whoever is a member may carry what servers signed
        if name in _SERVES and home != sender:
            raise InspectionError(f"{name} by the device {sender}, expected an edge server")
        if self.found.excluded_through.get(sender, 0) >= header.block_number - FOUNDING_BLOCK:
            raise InspectionError(f"{name} by {sender}, who is excluded")
        if name in (*_LEADS, "begin_attempt"):
            self._leading.check(sender)

    def _check_call(self, call: Call, sender: Address, header: Header) -> None:
        round_ = header.block_number - FOUNDING_BLOCK
        if call.name == "endorse":
            self._endorsed.take_posted(call)
            self.found.final = self._endorsed.final
        elif "round" in call and int(call["round"]) != round_:
            raise InspectionError(f"{call.name} of round {call['round']} in block {header.block_number}")
        if call.name in (*KINDS, "endorse"):
            self._leading.note(sender)
        if call.name in (*KINDS, "found"):
            self._check_once(call, sender)
        if call.name in KINDS:
            self._check_size(call)
            self._check_links(call)
        if call.name == "plan":
            self._plan = bytes(call["digest"])
        elif call.name == "close":
            self._close = bytes(call["digest"])
        elif call.name == "model":
            self._model = self.found.models[round_] = bytes(call["digest"])
        elif call.name == "found":
            self._sizes = PayloadSizes(*call["sizes"])
            self._model = self.found.models[round_] = bytes(call["model"])

    def _check_once(self, call: Call, sender: Address) -> None:
        """One post per slot, and one plan, close and model per round, each after what it builds on."""
        needed = _NEEDS.get(call.name)
        if needed is not None and (needed,) not in self._posted:
            raise InspectionError(f"{call.name} before the {needed} of its round")
        slot = (call.name,) if call.name in (*_LEADS, "found") else (call.name, sender, call.arguments.get("step"))
        if slot in self._posted:
            raise InspectionError(f"a second {call.name} by {sender}")
        self._posted.add(slot)

    def _check_size(self, call: Call) -> None:
        """Payloads have the founded sizes (B2), and a block has the posts of one attempt (D3.1)."""
        if not self._sizes.fits(call.name, int(call["size"])):
            raise InspectionError(f"{call['size']} bytes of {call.name}, founded with {self._sizes.of(call.name)}")
        if call["attempt"] != (attempt := self._leading.attempt):
            raise InspectionError(f"{call.name} of attempt {call['attempt']} in a block of attempt {attempt}")

    def _check_links(self, call: Call) -> None:
        """A gradient names its model and plan, a close its plan, iterates and models their close (B1)."""
        named = {"base_model": ("base model", self._model), "plan_digest": ("plan", self._plan)}
        named["close_digest"] = ("close", self._close)
        for argument, (what, expected) in named.items():
            if argument in call and bytes(call[argument]) != expected:
                raise InspectionError(f"{call.name} for another {what}")

    def _read_events(self, receipt: Receipt, header: Header) -> None:
        for event in read_events(receipt, self._genesis.registry):
            if event.name == "Registered":
                self._register(event["participant"], event["home"], header)
            elif event.name == "Excluded":
                self.found.excluded_through[event["participant"]] = int(event["last_round"])

    def _register(self, who: Address, home: Address, header: Header) -> None:
        """A server that joins by votes takes part from the next round on, as the registry has it."""
        self.found.members[who] = home
        if who == home and header.block_number > FOUNDING_BLOCK:
            self.found.excluded_through[who] = header.block_number - FOUNDING_BLOCK

    # --- leaders

    def _check_builder(self, header: Header) -> None:
        """Who built the block, and who sealed it."""
        if header.block_number == FOUNDING_BLOCK:
            if header.coinbase != self._genesis.founder_address or header.extra_data:
                raise InspectionError("the founding block is not the founder's")
            if 0 not in self.found.models:
                raise InspectionError("the founding block does not found the network: it has no model 0")
            return
        self._leading.check(header.coinbase)
        if header.winner is None or not self._membership().is_device(header.winner):
            raise InspectionError(f"sealed by 0x{header.extra_data.hex()}, expected a registered device")
        self.found.led[header.coinbase] += 1
        self.found.sealed[header.winner] += 1

    def _membership(self) -> Membership:
        return Membership(self.found.members, self._term_cap)


def inspected(archive: Archive) -> Iterator[InspectedBlock]:
    """The blocks of a chain one by one, each as soon as it fits; `InspectionError` names the first misfit.

    Whether the last block is the head is told at the end: a chain is whole once this has run out.
    """
    inspector = Inspector(archive.genesis, archive)
    with misfit_at("the head"):
        head = archive.head()
    for number in range(head.block_number + 1):
        with misfit_at(f"block {number}"):
            block = archive.block(number)
        yield inspector.check(block)
    with misfit_at("the endorsements"):
        inspector.take_beside(archive)
    last = inspector.found.hashes[-1]
    if last != head.hash:
        raise InspectionError(f"block {head.block_number}: 0x{last.hex()} is not the head 0x{head.hash.hex()}")


def inspect_chain(archive: Archive) -> Inspection:
    """What is found in a whole chain, for whoever needs none of its blocks."""
    *_, last = (each.found for each in inspected(archive))
    return last


def checked_block(archive: Archive, number: int, found: Inspection) -> Block:
    """A block that was inspected, read again: an archive may answer differently the second time."""
    with misfit_at(f"block {number}"):
        block = archive.block(number)
        check_roots(block.header, block.transactions, block.receipts)
    if block.header.hash != found.hashes[number]:
        raise InspectionError(f"block {number}: now 0x{block.header.hash.hex()}, 0x{found.hashes[number].hex()} before")
    return block
