"""What servers may sign next in a round (D3.2), from what they have signed so far. Pure: whoever holds the same
signatures and blocks comes to the same end, in a server, a test or an exhaustive search.

A round has attempts 0, 1, 2, ...; the leader of attempt a is ranking[a mod M]. Attempt 0 needs nothing; any other needs
a *certificate*, a quorum of passes to it by different servers. If none of them names a block, its leader plans anew, in
a block that carries the certificate. Otherwise it adopts the block that is named with the highest attempt. Its choice
is its endorsement; others endorse only that, and only what some certificate allows.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from chain.protocol.endorsements import Endorsement, quorum
from chain.protocol.passes import Named, Pass
from chain.wire.address import Address

BuiltIn = Callable[[bytes], int | None]
"""In which attempt a block was built; None for one that is not here, or that the replay refuses"""


class RoundVotes:
    """The endorsements and passes of one round, and what they allow."""

    def __init__(
        self,
        servers: Sequence[Address],
        ranking: Sequence[Address],
        built_in: BuiltIn,
        endorsements: Iterable[Endorsement] = (),
        passes: Iterable[Pass] = (),
    ) -> None:
        """`servers`: all of the membership; `ranking`: those that may lead this round, in their order.

        It holds what it is given, and nothing later: its answers are remembered.
        """
        self._servers, self.ranking, self._built_in = frozenset(servers), tuple(ranking), built_in
        self._endorsed: dict[tuple[int, Address], set[bytes]] = defaultdict(set)
        self._passes: dict[int, dict[Address, list[Pass]]] = {}
        self._adoptable: dict[int, list[bytes]] = {}
        for endorsement in endorsements:
            if endorsement.signer in self._servers:
                self._endorsed[endorsement.attempt, endorsement.signer].add(endorsement.block_hash)
        for each in passes:
            if each.signer in self._servers:
                self._passes.setdefault(each.attempt, {}).setdefault(each.signer, []).append(each)

    @property
    def quorum(self) -> int:
        """A strict majority of all servers, excluded and dormant ones included."""
        return quorum(len(self._servers))

    def leader(self, attempt: int) -> Address:
        """Who leads an attempt."""
        return self.ranking[attempt % len(self.ranking)]

    def attempts(self) -> list[int]:
        """The attempts that somebody has passed to, ascending."""
        return sorted(self._passes)

    # --- what a certificate allows

    def may_plan(self, attempt: int) -> bool:
        """Whether the leader of an attempt may plan anew."""
        return attempt == 0 or len(self.empty_passes(attempt)) >= self.quorum

    def empty_passes(self, attempt: int) -> list[Pass]:
        """The passes that name nothing, one of each server, by address."""
        passes = self._passes.get(attempt, {})
        found = {who: [each for each in given if each.named is None] for who, given in passes.items()}
        return [found[who][0] for who in sorted(found) if found[who]]

    def adoptable(self, attempt: int) -> list[bytes]:
        """The blocks that the leader of an attempt may adopt, of the highest attempt first."""
        if attempt not in self._adoptable:
            # Upwards, as passes name lower attempts: one liar's chain of them must not become a deep recursion.
            for each in (*(below for below in self.attempts() if below < attempt), attempt):
                if each not in self._adoptable:
                    self._adoptable[each] = self._find_adoptable(each)
        return self._adoptable[attempt]

    def _find_adoptable(self, attempt: int) -> list[bytes]:
        counted = self._counted(attempt)
        named = {each.named for given in counted.values() for each in given if each.named is not None}
        ordered = sorted(named, key=lambda each: (-each.attempt, each.block_hash))
        return [each.block_hash for each in ordered if self._is_adoptable(each, counted)]

    def is_certified(self, attempt: int) -> bool:
        """Whether an attempt has begun: a certificate of it is here."""
        return self.may_plan(attempt) or bool(self.adoptable(attempt))

    def start_ms(self, attempt: int) -> int:
        """When an attempt began, after 0: the latest time in the certificate with the earliest times."""
        times = sorted(min(each.time_ms for each in given) for given in self._counted(attempt).values())
        return times[min(self.quorum, len(times)) - 1] if times else 0

    def _counted(self, attempt: int) -> dict[Address, list[Pass]]:
        """The passes to an attempt that name nothing, or something that is shown to have been signed lawfully."""
        passes = self._passes.get(attempt, {})
        found = {who: [each for each in given if self._is_shown(each)] for who, given in passes.items()}
        return {who: given for who, given in found.items() if given}

    def _is_shown(self, given: Pass) -> bool:
        if given.named is None:
            return True
        attempt, block_hash = given.named
        signers = (given.signer, self.leader(attempt))
        is_signed = all(block_hash in self._endorsed[attempt, who] for who in signers)
        return is_signed and self.allows(attempt, block_hash)

    def _is_adoptable(self, named: Named, counted: dict[Address, list[Pass]]) -> bool:
        """Whether a quorum of these passes has this block as the one that is named with the highest attempt."""
        at = {who: {each.named for each in given} for who, given in counted.items()}
        yes = {who for who, names in at.items() if named in names}
        lower = {
            who for who, names in at.items() if any(each is None or each.attempt < named.attempt for each in names)
        }
        if len(yes | lower) >= self.quorum:
            return True
        return self._is_named_most(named, yes, lower, at)

    def _is_named_most(
        self, named: Named, yes: set[Address], lower: set[Address], at: dict[Address, set[Named | None]]
    ) -> bool:
        """Two blocks of one attempt: its leader signed both, and its pass does not count. The one that is named most
        often is adopted, on a tie the one with the smaller hash.
        """
        liar = self.leader(named.attempt)
        most, found = len(yes - {liar}), len((yes | lower) - {liar})
        rivals = {each for names in at.values() for each in names if each is not None and each != named}
        for rival in rivals:
            if rival.attempt == named.attempt:
                namers = {who for who, names in at.items() if rival in names} - yes - lower - {liar}
                found += min(len(namers), most if named.block_hash < rival.block_hash else most - 1)
        return most > 0 and found >= self.quorum

    # --- what may be signed

    def allows(self, attempt: int, block_hash: bytes) -> bool:
        """Whether a block may be endorsed at an attempt, if its leader does: it was built there, or is adopted."""
        built = self._built_in(block_hash)
        if built is None or built > attempt:
            return False
        return built == attempt or block_hash in self.adoptable(attempt)

    def choices(self, attempt: int) -> list[bytes]:
        """What the leader of an attempt has endorsed there, as far as it is allowed; two are one too many."""
        signed = sorted(self._endorsed[attempt, self.leader(attempt)])
        return [each for each in signed if self.allows(attempt, each)]

    def named_by(self, server: Address, below: int) -> Named | None:
        """The highest endorsement of a server below an attempt: what its pass to that attempt must name."""
        own = [
            (attempt, block) for (attempt, who), blocks in self._endorsed.items() if who == server for block in blocks
        ]
        return max((Named(*each) for each in own if each[0] < below), default=None)
