"""The posts of the round that is running: admitted, executed at once, readable as `pending` (C2, P5), with the payloads
beside them (B1).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from chain.errors import (
    KnownTransactionError,
    NotRegistryCallError,
    OversizedTransactionError,
    PhaseOrderError,
    PoolFullError,
    TransactionRefusedError,
    UnregisteredSenderError,
)
from chain.node.body import Body, receipts_of
from chain.node.vm import Execution, Outcome, call_registry
from chain.node.waiting import PoolPayloads
from chain.protocol.consensus import next_difficulty
from chain.protocol.contract import PayloadSizes, call_gas
from chain.protocol.posts import KINDS, PHASES, Place, SignedCall, read_signed_call
from chain.store.store import Store
from chain.wire.address import Address
from chain.wire.headers import Header
from chain.wire.sidecar import Sidecar
from chain.wire.transactions import Transaction, decode_transaction

MAX_POOL_BYTES = 32 << 20
MAX_POOL_TRANSACTIONS = 4096
MAX_TRANSACTION_BYTES = 8192
"""Of a post; evidence and a batch of registrations are the largest"""
_CREATION_BYTES = 64 << 10
_KEPT_CONFLICTS = 64
_NO_SIZES = PayloadSizes(0, 0, 0, 0, 0)
_CHEAPEST_BYTE = 4
"""Gas of a zero in calldata"""


@dataclass(frozen=True)
class PendingCall:
    """A pending transaction and what it does."""

    post: SignedCall
    outcome: Outcome


class Pool:
    """Pending transactions over one head. Each is executed when it comes: its sender hears a refusal at once.

    A post may be here before its payload is: it is visible, and says nothing yet. One sender has one payload per slot,
    of the size that was founded, so the founding bounds them all (B2). Of iterates, which are judged by their digests,
    the last ones are held for whoever asks how far off one is.
    """

    def __init__(self, store: Store, now: Callable[[], float], max_bytes: int = MAX_POOL_BYTES) -> None:
        self._store, self._now, self._max_bytes = store, now, max_bytes
        self._clear()
        self._homes: dict[Address, Address] = {}
        self.payloads = PoolPayloads()
        self.conflicts: list[tuple[Transaction, Transaction]] = []
        """Two different posts of one sender for one slot: evidence of equivocation (P15); one pair per slot."""
        self._start(store.head())

    def _clear(self) -> None:
        self._entries: dict[bytes, PendingCall] = {}
        self._by_sender: dict[Address, list[PendingCall]] = {}
        self._bytes = self._gas = 0

    # --- following the head

    def _start(self, head: Header) -> None:
        self.head = head
        timestamp = self._timestamp()
        difficulty = next_difficulty(self._store.genesis, head, timestamp)
        self.execution = Execution(self._store, head, bytes(20), timestamp, difficulty)
        self._frozen = False
        self.sizes = self._read_sizes()

    def _timestamp(self) -> int:
        return max(self.head.timestamp, int(self._now()))

    def _read_sizes(self) -> PayloadSizes:
        if self.head.block_number == 0:
            return _NO_SIZES
        return PayloadSizes(*call_registry(self.execution, self._store.genesis, "payload_sizes"))

    def follow(self, head: Header, undone: Sequence[Header] = ()) -> None:
        """A new head: what belongs to its round or an earlier one goes, the rest is admitted anew (P5).

        So is what was sealed in blocks that are `undone` by it, newest first: a vote counts on any branch.
        """
        posts = [*self._posts_of(undone), *(entry.post for entry in self._entries.values())]
        left = [post for post in posts if post.may_follow(head.block_number)]
        self._clear()
        self.conflicts = []
        if head.parent_hash != self.head.hash:
            self._homes = {}  # a reorganisation may have undone a registration
        self._start(head)
        for post in left:
            self._admit_again(post)
        self.payloads.follow(entry.post for entry in self._entries.values())

    def _posts_of(self, blocks: Sequence[Header]) -> list[SignedCall]:
        found = [self._store.transactions(header.hash) for header in reversed(blocks)]
        return [read_signed_call(transaction, self._store.genesis) for block in found for transaction in block]

    def _admit_again(self, post: SignedCall) -> None:
        try:
            if self._store.place(post.transaction.hash) is None:
                self._execute(post)
        except TransactionRefusedError:
            return  # it was pending, not sealed: its sender sees it gone and posts again

    # --- admission

    def read(self, signed: bytes | Transaction) -> SignedCall:
        """A signed transaction as a post of this network, or what is wrong with it. Needs no lock and no state."""
        raw = signed.raw if isinstance(signed, Transaction) else signed
        if len(raw) > (limit := MAX_TRANSACTION_BYTES if self.head.block_number else _CREATION_BYTES):
            raise OversizedTransactionError(f"found a transaction of {len(raw)} bytes, expected at most {limit}")
        transaction = signed if isinstance(signed, Transaction) else decode_transaction(raw)
        return read_signed_call(transaction, self._store.genesis)

    def check(self, post: SignedCall) -> None:
        """What is cheap to ask of a post: whose it is, whether there is room, whether its payload may be so large.

        All of it before a byte of the payload is looked at (B2).
        """
        self._check_unknown(post.transaction.hash)
        self._check_registered(post.sender, None if post.call is None else post.call.name)
        self._check_room(len(post.transaction.raw))
        self._check_payload(post)
        self._check_share(post.sender, _CHEAPEST_BYTE * len(post.transaction.data))

    def admit(self, post: SignedCall, beside: Mapping[bytes, Sidecar]) -> None:
        """Take a post with the payloads that came with it, or raise what is wrong with it."""
        self.check(post)
        self._note_conflict(post)
        if (post.begins or 0) > self.attempt:
            self._begin_attempt(post)
        else:
            self._execute(post)
        servers = sum(home == who for who, home in self._homes.items())
        for sidecar in beside.values():
            self.payloads.hold(post, sidecar, servers)

    def _execute(self, post: SignedCall) -> None:
        if self._frozen:
            self._rebuild()
        self.execution.advance(self._timestamp())
        gas_left = self._store.genesis.gas_limit - self._gas
        sender, place = post.sender, post.place
        outcome = self.execution.try_apply(
            post.transaction, sender, gas_left, then=lambda: self._check_phase(sender, place)
        )
        entry = self._entries[post.transaction.hash] = PendingCall(post, outcome)
        self._by_sender.setdefault(sender, []).append(entry)
        self._gas += outcome.gas
        self._bytes += len(post.transaction.raw)

    @property
    def attempt(self) -> int:
        """The attempt at the running round that is pending (D3.1)."""
        return max((entry.post.begins or 0 for entry in self._entries.values()), default=0)

    def _begin_attempt(self, post: SignedCall) -> None:
        """A majority has passed on: what is pending of lower attempts has no block any more, and goes (D3.2).

        So does what counts in any attempt, or senders' nonces would differ from node to node; it is posted again.
        """
        with ExitStack() as undo:
            undo.callback(vars(self).update, dict(vars(self)))
            self._clear()
            self._start(self.head)
            self._execute(post)
            undo.pop_all()
        self.payloads.follow(entry.post for entry in self._entries.values())

    def _rebuild(self) -> None:
        """Execute all entries again: the last execution went into a candidate block."""
        posts = [entry.post for entry in self._entries.values()]
        self._clear()
        self._homes = {}
        self._start(self.head)
        for post in posts:
            self._admit_again(post)

    def _check_payload(self, post: SignedCall) -> None:
        """As the registry has it; here before anything is executed or hashed."""
        kind = "" if post.call is None else post.call.name
        if kind in KINDS and post.call is not None and self.sizes != _NO_SIZES:
            self.sizes.check(kind, int(post.call["size"]))

    def _check_unknown(self, transaction_hash: bytes) -> None:
        if transaction_hash in self._entries:
            raise KnownTransactionError(f"transaction 0x{transaction_hash.hex()} is in the pool already")
        place = self._store.place(transaction_hash)
        if place is not None:
            raise KnownTransactionError(f"transaction 0x{transaction_hash.hex()} is sealed in block {place[0]} already")

    def _check_registered(self, sender: Address, called: str | None) -> None:
        genesis = self._store.genesis
        if called is not None and not self.execution.code(genesis.registry):
            raise NotRegistryCallError(f"found a call of {called}, but the registry is not created yet")
        if sender in self._homes or sender == genesis.founder_address:
            return
        if self.head.block_number == 0:
            raise UnregisteredSenderError(f"{sender} is not the founder, and nothing is founded yet")
        home = call_registry(self.execution, genesis, "home", sender)
        if not any(home):
            raise UnregisteredSenderError(f"{sender} is not registered in this network")
        self._homes[sender] = home

    def _check_room(self, size: int) -> None:
        if self._bytes + size > self._max_bytes or len(self._entries) >= MAX_POOL_TRANSACTIONS:
            raise PoolFullError(
                f"the pool holds {len(self._entries)} transactions of {self._bytes} bytes in all; it takes "
                f"{MAX_POOL_TRANSACTIONS} and {self._max_bytes} bytes: wait for the next block"
            )

    def _check_phase(self, sender: Address, place: Place) -> None:
        """A sender's posts follow the phases (P5): sorted into a block, their nonces must stay in order."""
        later = [entry.post for entry in self._by_sender.get(sender, ()) if entry.post.place > place]
        if later:
            raise PhaseOrderError(
                f"found a post of phase {PHASES[place[0]]} (step {place[1]}) of {sender}, which has posted "
                f"phase {later[0].phase} (step {later[0].place[1]}) already; post it earlier, or in the next round"
            )

    def _check_share(self, sender: Address, least_gas: int) -> None:
        """No sender takes the block's room from others: a device has two posts, a server half of it."""
        if sender == self._store.genesis.founder_address:
            return
        mine = sum(entry.outcome.gas for entry in self._by_sender.get(sender, ()))
        is_server = self._homes.get(sender) == sender
        share = self._store.genesis.gas_limit // 2 if is_server else 2 * call_gas()
        if mine + least_gas > share:
            raise PoolFullError(f"{sender} has used {mine} gas of its share of {share} in this block")

    def _note_conflict(self, post: SignedCall) -> None:
        """Keep two posts of one sender for one slot that say different things (P15); one pair per slot."""
        noted = {first.hash for first, _ in self.conflicts}
        for entry in self._by_sender.get(post.sender, ()):
            if entry.post.transaction.hash not in noted and entry.post.contradicts(post):
                self.conflicts = [*self.conflicts, (entry.post.transaction, post.transaction)][-_KEPT_CONFLICTS:]

    def drop(self, transaction_hash: bytes) -> bool:
        """Forget a pending transaction (a successor builds without the model it refuses), and all that need it."""
        if self._entries.pop(transaction_hash, None) is None:
            return False
        self._rebuild()
        return True

    # --- reading

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[PendingCall]:
        return iter(list(self._entries.values()))

    def find(self, transaction_hash: bytes) -> PendingCall | None:
        """A pending transaction by its hash; None if it is not (or no longer) in the pool."""
        return self._entries.get(transaction_hash)

    def state(self) -> Execution:
        """The state with everything pending in it, as of now."""
        self.execution.advance(self._timestamp())
        return self.execution

    # --- building

    def body(self, coinbase: bytes, timestamp: int) -> Body:
        """Everything pending as the body of a block, in canonical order (C3).

        What was executed on arrival is taken over if the order is the same and nothing looked at what the builder
        sets; otherwise it is executed again.
        """
        ordered = sorted((entry.post for entry in self._entries.values()), key=lambda post: post.place)
        taken = self.take_over(ordered, coinbase, timestamp)
        return Body.executed(self._store, self.head, ordered, coinbase, timestamp) if taken is None else taken

    def take_over(self, posts: Sequence[SignedCall], coinbase: bytes, timestamp: int) -> Body | None:
        """What was executed on arrival as the body of a block, if it was these posts in this order and none of them
        looked at what the builder sets: nothing is executed twice (B9).
        """
        entries = list(self._entries.values())
        is_same = [each.transaction.hash for each in posts] == list(self._entries)
        if self._frozen or self.execution.depends_on_builder or not is_same:
            return None
        self._frozen = True
        self.execution.coinbase, self.execution.timestamp = coinbase, timestamp
        return Body(
            tuple(entry.post for entry in entries), receipts_of([entry.outcome for entry in entries]), self.execution
        )
