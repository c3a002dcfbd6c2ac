"""What becomes of blocks that were checked: kept, followed if they are the best, and what servers sign makes final."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from chain.errors import ChainError, ConflictError, DivergedError, EndorsementError, InvalidBlockError, PassError
from chain.node.body import Body
from chain.node.candidates import Candidates
from chain.node.finality import Finality
from chain.node.payload_reading import PayloadReader
from chain.node.pool import Pool
from chain.node.reading import Changes, under_lock
from chain.node.waiting import RefusedBlocks
from chain.protocol.consensus import is_better
from chain.protocol.contract import registry_settings
from chain.protocol.endorsements import Divergence, Domain, Endorsement, posted_endorsements
from chain.protocol.passes import Pass, Signed
from chain.protocol.turns import FOUNDING_BLOCK
from chain.store.passes import contradictions
from chain.store.store import Store
from chain.wire.blocks import Block, encode_block
from chain.wire.headers import Header
from chain.wire.sidecar import Sidecar

_LOG = logging.getLogger(__name__)
Listener = Callable[[str, bytes, Sequence[Sidecar]], None]
_PRUNED_EVERY = 10


class ChainFollower(PayloadReader):
    """A node that follows the chain: what is final first (Q1), then most work (C5)."""

    def __init__(self, store: Store, pool: Pool, now: Callable[[], float], keep_payloads: int | None = None) -> None:
        super().__init__(store, pool)
        self._finality, self._candidates = Finality(store), Candidates(store.genesis, now)
        self._keep, self._now = keep_payloads, now
        self.changes = Changes()
        self._refused, self._told = RefusedBlocks(), b""
        self.listeners: list[Listener] = []
        """Told (transaction, block, endorsement or pass; bytes; payloads beside a post) of what this node accepts."""

    @property
    @under_lock
    def final(self) -> Header:
        """The last block that a strict majority of the servers signed (Q1), or the founding block."""
        return self._finality.last

    @under_lock
    def endorsements(self, block_hash: bytes) -> list[Endorsement]:
        """The signatures under a block that are here, by address."""
        return self._store.endorsements.of(block_hash)

    @property
    @under_lock
    def attempt(self) -> int:
        """The attempt at the running round whose posts are pending (D3.1)."""
        return self._pool.attempt

    @under_lock
    def votes(self, round_: int) -> tuple[list[Endorsement], list[Pass]]:
        """What servers have signed in a round: endorsements of any block, and passes."""
        return self._store.endorsements.of_round(round_), self._store.passes.of(round_)

    @under_lock
    def attempt_of(self, block_hash: bytes) -> int | None:
        """The attempt at its round that a block has the posts of (D3.1); None for one that is not here."""
        header = self._store.find_header(block_hash)
        return None if header is None else self._finality.attempt_of(header)

    @under_lock
    def contradictions(self, first_round: int = 0) -> list[tuple[Signed, Signed]]:
        """Two things that one server signed and no honest one signs both of: evidence that convicts it."""
        return contradictions(self._store.endorsements, self._store.passes, first_round)

    # --- diverging (D3.5)

    @property
    @under_lock
    def divergence(self) -> Divergence | None:
        """A block that a majority signed and this node refuses; None while they agree. It is on no disk: whoever
        starts again with what is mended looks at the block anew.
        """
        for signed in self._finality.missing_majorities(self._pool.head) if self._refused else ():
            reason = self._refused.reason(signed.block_hash)
            if reason is not None:
                own = self._store.canonical_hash(signed.round + FOUNDING_BLOCK)
                return Divergence(signed, reason, self._pool.head if own is None else self._store.header_by_hash(own))
        return None

    @property
    @under_lock
    def conflict(self) -> str:
        """Why this node has stopped (Q1); empty while it has not."""
        return self._finality.conflict

    def check_agrees(self) -> None:
        """Raise `DivergedError` where a majority has signed a block that this node refuses."""
        found = self.divergence
        if found is not None:
            raise DivergedError(str(found))

    @contextmanager
    def _judging(self, header: Header) -> Iterator[None]:
        """Remember it where a block is refused."""
        try:
            yield
        except ChainError as error:
            with self._exclusive():
                if self._refused.note(header.hash, error, self._finality.signers_of_missing):
                    self._notice_divergence()
            raise

    def _notice_divergence(self) -> None:
        """What is mined here can become nothing any more; it is told once for each block."""
        found = self.divergence
        if found is not None:
            self._candidates.clear()
            if self._told != found.signed.block_hash:
                self._told = found.signed.block_hash
                _LOG.error("%s", found)

    # --- endorsing

    def take_endorsement(self, endorsement: Endorsement) -> bool:
        """Keep a server's signature under a block (Q1), and follow what it makes final; whether it is new."""
        _ = endorsement.signer  # recovered here, outside the lock
        if self._is_early(endorsement):
            raise EndorsementError(f"{endorsement.signer} signs for a time that has not come: check both clocks")
        with self._exclusive():
            self._finality.check_running()
            with self._following([endorsement]) as undone:
                is_new = self._finality.take(endorsement, self._pool.head)
                undone += self._settle(endorsement.block_hash) if is_new else []
            if is_new:
                self.changes.note("votes")
                self._tell("endorsement", endorsement.encode(), ())
                self._notice_divergence()
            return is_new

    def take_pass(self, given: Pass) -> bool:
        """Keep a server's pass to another attempt (D3.2), and leave a head that cannot become final any more; whether
        it is new.
        """
        _ = given.signer  # recovered here, outside the lock
        if self._is_early(given):
            raise PassError(f"{given.signer} passes on at a time that has not come: check both clocks")
        with self._exclusive():
            self._finality.check_running()
            with self._following(()) as undone:
                is_new = self._finality.take_pass(given, self._pool.head)
                undone += self._leave_dead() if is_new else []
            if is_new:
                self.changes.note("votes")
                self._tell("pass", given.encode(), ())
            return is_new

    def _is_early(self, signed: Signed) -> bool:
        """Whether deadlines that count from it would lie in the future: one server could make everybody wait."""
        return signed.time_ms > 1000 * (self._now() + self.genesis.max_drift_s)

    def _leave_dead(self) -> list[Header]:
        """Go back from a head that a majority has passed by; returns what is undone by it."""
        if not self._finality.has_dead(self._store.head()):
            return []
        return self._store.make_canonical(self._finality.best_after(self._finality.last))

    @contextmanager
    def _following(self, endorsements: Sequence[Endorsement], anew: bool = False) -> Iterator[list[Header]]:
        """One database transaction, and then the head that it leaves: a signature is kept with what it makes final, or
        not at all. Two majorities undo it and stop this node. Yields where to note the headers that are undone.

        `anew`: the pool starts over in any case, as its own execution may have gone into a block.
        """
        head, undone = self._store.head(), list[Header]()
        try:
            with self._store.transaction():
                yield undone
        except ConflictError as conflict:
            self._finality.stop(conflict, endorsements)
            raise
        finally:
            is_other = self._store.head() != head
            if is_other or anew:
                self._candidates.clear()
                self._pool.follow(self._store.head(), undone if is_other else ())

    def _settle(self, block_hash: bytes) -> list[Header]:
        """A block that has become final beats all work on other branches; returns what is undone by it."""
        header = self._store.find_header(block_hash)
        if header is None or not self._finality.settle(header):
            return []
        if self._store.canonical_hash(header.block_number) == header.hash:
            return []
        return self._store.make_canonical(self._finality.best_after(header))

    # --- blocks

    def _accept(self, header: Header, body: Body) -> Header:
        """Persist a checked block in one database transaction, and follow it if it is the best."""
        parent, head = body.execution.parent, self._pool.head
        difficulty = self._store.total_difficulty(parent.hash) + header.difficulty
        is_best = is_better(difficulty, header.hash, self._store.total_difficulty(head.hash), head.hash)
        is_best = is_best and not self._finality.is_dead(header, body.attempt) and not self._finality.has_dead(parent)
        transactions = tuple(post.transaction for post in body.posts)
        kept, beside = self._payloads_of(header, body)
        endorsements = posted_in(body, Domain.of(self.genesis))
        with self._following(endorsements, anew=is_best) as undone:
            root = body.execution.persist()
            if root != header.state_root:
                raise InvalidBlockError(f"block {header.block_number}: the state moved while it was sealed")
            block = Block(header, transactions, body.receipts, difficulty)
            self._store.add_block(block, kept, beside)
            if is_best:
                undone += self._store.make_canonical(header, [transaction.hash for transaction in transactions])
            undone[:0] = self._take_posted(endorsements)
            undone[:0] = self._settle(header.hash)
        self._last = block
        self._refused.forget(header.hash)
        if self._keep is not None and header.block_number % _PRUNED_EVERY == 0:
            self.prune(self._keep)
        self.changes.note("blocks")
        if self.listeners:
            self._tell("block", encode_block(header, transactions), ())
        return header

    def _take_posted(self, endorsements: Sequence[Endorsement]) -> list[Header]:
        """The endorsements that a block carries, for whoever was not there when they were made."""
        undone: list[Header] = []
        for each in endorsements:
            with suppress(EndorsementError):  # of a block that the registry knows and this node does not
                if self._finality.take(each, self._store.head()):
                    undone[:0] = self._settle(each.block_hash)
        return undone

    def _tell(self, kind: str, raw: bytes, sidecars: Sequence[Sidecar]) -> None:
        for tell in self.listeners:
            tell(kind, raw, sidecars)

    @under_lock
    def prune(self, keep: int, shrinks: bool = False) -> int:
        """Delete payloads of all rounds but the last `keep`, as far as they are final and no flag can be about them any
        more (B6); returns how many bytes.
        """
        head = self._pool.head.block_number
        if head <= FOUNDING_BLOCK:
            return 0
        unflagged = head - registry_settings(self.ask("settings")).flag_window
        return self._store.prune(min(head - keep + 1, unflagged, self._finality.last.block_number), shrinks)


def posted_in(body: Body, domain: Domain) -> list[Endorsement]:
    """What the `endorse` calls of a block carry."""
    executed = zip(body.posts, body.receipts, strict=True)
    calls = [post.call for post, receipt in executed if receipt.status == 1 and post.call is not None]
    return [each for call in calls if call.name == "endorse" for each in posted_endorsements(call, domain)]
