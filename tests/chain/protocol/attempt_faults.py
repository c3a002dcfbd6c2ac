"""Rules with one fault each: what the checks of a round have to catch, or they check nothing."""

from collections.abc import Sequence

from chain.protocol.attempts import RoundVotes
from chain.protocol.passes import Named, Pass
from chain.signer.statements import ENDORSE, PASS, Signed, Statement
from chain.wire.address import Address
from tests.chain.protocol.attempt_model import Rules, may_sign


class _AdoptsTheLowest(RoundVotes):
    def _is_adoptable(self, named: Named, counted: dict[Address, list[Pass]]) -> bool:
        at = {who: {each.named for each in given} for who, given in counted.items()}
        return len({who for who, names in at.items() if any(each is None or each >= named for each in names)}) >= (
            self.quorum
        )


class _PlansOverNamedBlocks(RoundVotes):
    def may_plan(self, attempt: int) -> bool:
        return attempt == 0 or len(self._counted(attempt)) >= self.quorum


class _PlansWithOneEmptyPass(RoundVotes):
    def may_plan(self, attempt: int) -> bool:
        return attempt == 0 or bool(self.empty_passes(attempt))


class _BelievesPassers(RoundVotes):
    """The leader's endorsement of what is named is not asked for."""

    def _is_shown(self, given: Pass) -> bool:
        if given.named is None:
            return True
        attempt, block_hash = given.named
        return block_hash in self._endorsed[attempt, given.signer] and self.allows(attempt, block_hash)


class _BelievesLeaders(RoundVotes):
    """The certificate of the attempt that is named is not asked for."""

    def _is_shown(self, given: Pass) -> bool:
        if given.named is None:
            return True
        attempt, block_hash = given.named
        return all(block_hash in self._endorsed[attempt, who] for who in (given.signer, self.leader(attempt)))


class _BelievesAdoptions(RoundVotes):
    """Whatever the leader endorsed may be endorsed."""

    def allows(self, attempt: int, block_hash: bytes) -> bool:
        return self._built_in(block_hash) is not None


class _AnyBlockOfAnAttempt(RoundVotes):
    """Others need not wait for the leader's choice."""

    def choices(self, attempt: int) -> list[bytes]:
        known = {block for blocks in self._endorsed.values() for block in blocks} | set(self.adoptable(attempt))
        built = {f"block {nonce} of attempt {attempt}".encode().ljust(32) for nonce in "AB"}
        return sorted(each for each in known | built if self.allows(attempt, each))


class _SmallQuorum(RoundVotes):
    @property
    def quorum(self) -> int:
        return super().quorum - 1


class _StrictTie(RoundVotes):
    """Two blocks of a leader that signed both: neither is adopted."""

    def _is_named_most(self, *arguments: object) -> bool:
        return False


class _NamesTheLowest(RoundVotes):
    def named_by(self, server: Address, below: int) -> Named | None:
        own = [
            Named(at, each) for (at, who), blocks in self._endorsed.items() if who == server for each in sorted(blocks)
        ]
        return min((each for each in own if each.attempt < below), default=None)


def _signs_below_a_pass(signed: Sequence[Signed], asked: Statement) -> bool:
    is_free = all((each.attempt, each.slot) != (asked.attempt, asked.slot) for each in signed)
    return is_free if asked.slot == ENDORSE else may_sign(signed, asked)


def _signs_any_pass(signed: Sequence[Signed], asked: Statement) -> bool:
    passed = max((each.attempt for each in signed), default=0)
    return asked.attempt > passed if asked.slot == PASS else may_sign(signed, asked)


def _signs_twice(signed: Sequence[Signed], asked: Statement) -> bool:
    others = [each for each in signed if each.slot == PASS]
    is_said = any((each.attempt, each.said) == (asked.attempt, asked.said) for each in signed)
    return not is_said and may_sign(others if asked.slot == ENDORSE else signed, asked)


UNSAFE = {
    "the block with the lowest attempt is adopted": (3, None, Rules(_AdoptsTheLowest)),
    "a plan over passes that name a block": (2, None, Rules(_PlansOverNamedBlocks)),
    "a plan with one pass that names nothing": (2, None, Rules(_PlansWithOneEmptyPass)),
    "a named block without its leader's endorsement": (2, 1, Rules(_BelievesPassers)),
    "a named block without the certificate of its attempt": (3, 1, Rules(_BelievesLeaders)),
    "an adoption without a certificate": (2, 1, Rules(_BelievesAdoptions)),
    "a certificate of one pass too few": (2, None, Rules(_SmallQuorum)),
    "endorsements of different attempts are added": (2, 0, Rules(adds_attempts=True)),
    "an endorsement below a pass": (2, None, Rules(may_sign=_signs_below_a_pass)),
    "a pass names the lowest endorsement": (3, None, Rules(_NamesTheLowest, _signs_any_pass)),
    "two endorsements in one attempt": (2, None, Rules(may_sign=_signs_twice)),
}
"""What makes two final blocks, or convicts an honest server: with so many attempts, and that liar"""

STUCK = {
    "any block of the attempt may be endorsed": Rules(_AnyBlockOfAnAttempt),
    "two blocks of one leader, and neither is adopted": Rules(_StrictTie),
    "a node keeps two statements of a server for an attempt": Rules(most_kept=2),
    "a restarted server has lost what it received": Rules(forgets=True),
}
"""What keeps a round from ending though a quorum of honest servers is up"""
