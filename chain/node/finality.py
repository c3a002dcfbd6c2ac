"""What is final (Q1): the endorsements that a node holds, and the last block that a strict majority signed."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from chain.errors import ConflictError, EndorsementError, FinalityError, PassError
from chain.node.vm import StateView, call_registry
from chain.protocol.consensus import is_better
from chain.protocol.endorsements import Endorsement, Majority, is_final, quorum
from chain.protocol.passes import Pass
from chain.protocol.posts import attempt_in, read_signed_call
from chain.protocol.turns import FOUNDING_BLOCK
from chain.store.store import Store
from chain.wire.address import Address
from chain.wire.headers import Header

_ROUNDS_AHEAD = 4
"""Of blocks that are not here yet: whoever is further behind fetches the blocks first"""
_KEPT_LISTS = 4
_MOST_AHEAD = 16
"""Attempts of one round that a server may have endorsed and nobody here knows to have begun"""
_KEPT_PASSES = 64
"""Rounds after which passes accuse nobody"""
_MOST_PER_SERVER = 2
"""For one (round, attempt): the second is evidence, a third tells nothing new"""


class Finality:
    """Not locked against threads: its node serialises access. What is final never changes, and comes before work."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._servers: OrderedDict[bytes, tuple[Address, ...]] = OrderedDict()  # by hash of the block they follow
        self.conflict = store.endorsements.conflict()
        """Why this node has stopped; empty while it has not."""

    @property
    def last(self) -> Header:
        """The last final block; it is canonical. The founding block needs no signatures."""
        found = self._store.endorsements.final_hash() or self._store.canonical_hash(FOUNDING_BLOCK)
        return self._store.genesis.header if found is None else self._store.header_by_hash(found)

    def check_branch(self, parent: Header) -> None:
        """Raise `FinalityError` for a block after `parent` that would undo a final one."""
        branch, final = parent, self.last
        while self._store.canonical_hash(branch.block_number) != branch.hash:
            branch = self._store.header_by_hash(branch.parent_hash)
        if branch.block_number < final.block_number:
            raise FinalityError(
                f"a branch from block {branch.block_number} would undo block {final.block_number}, which is final"
            )

    def check_none_missing(self, head: Header) -> None:
        """Raise `EndorsementError` where a majority has signed a block that is not here: nothing is built beside it."""
        for missing in self.missing_majorities(head):
            raise EndorsementError(
                f"a majority has endorsed block 0x{missing.block_hash.hex()} of round {missing.round}, which is not "
                "here: nothing is built until it is fetched"
            )

    def missing_majorities(self, head: Header) -> list[Majority]:
        """Majorities for blocks that are not here, in rounds that are not final; those of one attempt each."""
        unknown = self._store.endorsements.unknown_since(self._round_of(self.last))
        servers = frozenset(self._servers_after(head)) if unknown else frozenset[Address]()
        found = [Majority(*place, frozenset(signers) & servers) for place, signers in unknown.items()]
        return [each for each in found if len(each.signers) >= quorum(len(servers))]

    def signers_of_missing(self) -> dict[bytes, set[Address]]:
        """Who signed blocks that are not here, in any attempt."""
        signers: dict[bytes, set[Address]] = {}
        for (_, _, block_hash), who in self._store.endorsements.unknown_since(self._round_of(self.last)).items():
            signers.setdefault(block_hash, set()).update(who)
        return signers

    def take(self, endorsement: Endorsement, head: Header) -> bool:
        """Keep an endorsement of a server; whether it is new. Its signer is recovered before the lock is taken."""
        header = self._store.find_header(endorsement.block_hash)
        servers = self._servers_after(head) if header is None else self._servers_of(header)
        self._check(endorsement, header, head, servers)
        known = self._store.endorsements.by(endorsement.signer, endorsement.round, endorsement.attempt)
        if any(each.block_hash == endorsement.block_hash for each in known):
            return False
        place = (endorsement.attempt, endorsement.block_hash)
        if len(known) >= _MOST_PER_SERVER and not self._is_shared(endorsement.round, place, endorsement.signer):
            raise EndorsementError(f"{endorsement.signer} has signed two blocks of round {endorsement.round} already")
        self._store.endorsements.add(endorsement)
        if header is None:
            self._check_undone(endorsement, servers)
        return True

    def _servers_of(self, header: Header) -> tuple[Address, ...]:
        """All servers that were registered before a block, excluded ones included: those whose signatures count."""
        if header.block_number <= FOUNDING_BLOCK:
            return ()
        return self._servers_after(self._store.header_by_hash(header.parent_hash))

    def _servers_after(self, parent: Header) -> tuple[Address, ...]:
        """Of the block after `parent`; the registry is asked once for the last few."""
        if parent.block_number < FOUNDING_BLOCK:
            return ()
        if parent.hash not in self._servers:
            found = call_registry(StateView(self._store, parent), self._store.genesis, "server_list")
            self._servers[parent.hash] = tuple(found)
            if len(self._servers) > _KEPT_LISTS:
                self._servers.popitem(last=False)
        return self._servers[parent.hash]

    def _check(self, endorsement: Endorsement, header: Header | None, head: Header, servers: Sequence[bytes]) -> None:
        round_ = endorsement.round
        if endorsement.signer not in servers:
            raise EndorsementError(f"{endorsement.signer} signs a block of round {round_} and is no edge server")
        if header is not None and self._round_of(header) != round_:
            raise EndorsementError(f"found an endorsement of block {header.block_number} for round {round_}")
        signed = [each for each in self._store.endorsements.of_round(round_) if each.signer == endorsement.signer]
        if len(signed) >= _MOST_AHEAD and endorsement.attempt > self._begun(round_, servers):
            raise EndorsementError(f"{endorsement.signer} has signed {len(signed)} attempts at round {round_} already")
        if header is None and not 1 <= round_ <= self._round_of(head) + _ROUNDS_AHEAD:
            raise EndorsementError(f"found an endorsement for round {round_}, the head is of {self._round_of(head)}")

    def _check_undone(self, endorsement: Endorsement, servers: Sequence[bytes]) -> None:
        """A majority for a block that is not here, in a round that has a final one, is a conflict."""
        if endorsement.round > self._round_of(self.last):
            return
        place, signed = (endorsement.round, endorsement.attempt), self._store.endorsements.of(endorsement.block_hash)
        signers = {each.signer for each in signed if (each.round, each.attempt) == place}
        if len(signers & set(servers)) >= quorum(len(servers)):
            raise self._conflict(endorsement.round, endorsement.block_hash)

    def settle(self, header: Header) -> bool:
        """Whether a block that is here has become final by what is held; `ConflictError` if a final one contradicts."""
        final, signed = self.last, self._store.endorsements.of(header.hash)
        servers = self._servers_of(header) if signed else ()
        if header.hash == final.hash or not is_final(header, signed, servers):
            return False
        older, newer = sorted((header, final), key=lambda each: each.block_number)
        if self._ancestor(newer, older.block_number).hash != older.hash:
            raise self._conflict(self._round_of(older), header.hash)
        if newer is final:
            return False  # it was final with the block after it
        self._store.endorsements.set_final(header.hash)
        self._store.passes.forget_before(self._round_of(header) - _KEPT_PASSES)
        return True

    # --- passes (D3.2)

    def take_pass(self, given: Pass, head: Header) -> bool:
        """Keep a server's pass; whether it is new."""
        servers, final = self._servers_after(head), self._round_of(self.last)
        if given.signer not in servers:
            raise PassError(f"{given.signer} passes in round {given.round} and is no edge server")
        if not max(1, final - _ROUNDS_AHEAD) <= given.round <= self._round_of(head) + 1 + _ROUNDS_AHEAD:
            raise PassError(f"found a pass in round {given.round}, the last final one is {final}")
        if given.attempt > self._begun(given.round, servers) + 1:
            raise PassError(
                f"found a pass to attempt {given.attempt} of round {given.round}, before the one below began"
            )
        known = self._store.passes.by(given.signer, given.round, given.attempt)
        if any(each.named == given.named for each in known):
            return False
        is_needed = given.named is None or self._is_shared(given.round, given.named, given.signer)
        if len(known) >= _MOST_PER_SERVER and not is_needed:
            raise PassError(
                f"{given.signer} has passed twice to attempt {given.attempt} of round {given.round} already"
            )
        self._store.passes.add(given)
        return True

    def _is_shared(self, round_: int, place: tuple[int, bytes], signer: Address) -> bool:
        """Whether somebody else has signed this block in this attempt: then others may need a liar's third word too, or
        it could hide from them what it has shown to one.
        """
        found = self._store.endorsements.of_round(round_)
        return any((each.attempt, each.block_hash) == place and each.signer != signer for each in found)

    def _begun(self, round_: int, servers: Sequence[bytes]) -> int:
        """The highest attempt that a majority has passed to."""
        signers: dict[int, set[Address]] = {}
        for each in self._store.passes.of(round_):
            signers.setdefault(each.attempt, set()).add(each.signer)
        return max((a for a, who in signers.items() if len(who & set(servers)) >= quorum(len(servers))), default=0)

    def is_dead(self, header: Header, attempt: int | None = None) -> bool:
        """Whether a block (of this attempt, if it is not here yet) cannot become final: a majority passed on and named
        no block.
        """
        passes = [each for each in self._store.passes.of(self._round_of(header)) if each.named is None]
        if not passes:
            return False
        built, signers = self.attempt_of(header) if attempt is None else attempt, dict[int, set[Address]]()
        for each in passes:
            if each.attempt > built:
                signers.setdefault(each.attempt, set()).add(each.signer)
        servers = set(self._servers_of(header))
        return any(len(who & servers) >= quorum(len(servers)) for who in signers.values())

    def has_dead(self, header: Header) -> bool:
        """Whether a block that is here, or one below it that is not final, cannot become final."""
        final = self.last
        if not self._store.passes.since(self._round_of(final) + 1):
            return False
        while header.block_number > final.block_number:
            if self.is_dead(header):
                return True
            header = self._store.header_by_hash(header.parent_hash)
        return False

    def attempt_of(self, header: Header) -> int:
        """The attempt that a block which is here has the posts of (D3.1)."""
        receipts, genesis = self._store.receipts(header.hash), self._store.genesis
        posts = (read_signed_call(each, genesis) for each in self._store.transactions(header.hash))
        return attempt_in(zip(posts, (receipt.status for receipt in receipts), strict=True))

    def best_after(self, header: Header) -> Header:
        """The block with most work among a final block and its descendants, but for those that cannot become final."""
        best, branch, work = header, {header.hash}, self._store.total_difficulty
        for found in self._store.headers_after(header.block_number):
            if found.parent_hash in branch and not self.is_dead(found):
                branch.add(found.hash)
                if is_better(work(found.hash), found.hash, work(best.hash), best.hash):
                    best = found
        return best

    def _ancestor(self, header: Header, number: int) -> Header:
        while header.block_number > number:
            header = self._store.header_by_hash(header.parent_hash)
        return header

    def _conflict(self, round_: int, block_hash: bytes) -> ConflictError:
        """Two final blocks on different branches, with the names of those who signed both."""
        doubles = {str(first.signer) for first, _ in self._store.endorsements.doubles(round_)}
        return ConflictError(
            f"two majorities: block 0x{block_hash.hex()} and the final block 0x{self.last.hash.hex()} are on different "
            f"branches; signed twice: {', '.join(sorted(doubles)) or 'nobody in the same round'}. This node stops"
        )

    def stop(self, conflict: ConflictError, evidence: Iterable[Endorsement]) -> None:
        """Take nothing any more, after a restart neither; the signatures that showed it stay."""
        self.conflict = str(conflict)
        with self._store.transaction():
            self._store.endorsements.set_conflict(self.conflict)
            for each in evidence:
                self._store.endorsements.add(each)

    def check_running(self) -> None:
        """Raise `ConflictError` once this node has stopped."""
        if self.conflict:
            raise ConflictError(self.conflict)

    @staticmethod
    def _round_of(header: Header) -> int:
        return header.block_number - FOUNDING_BLOCK
