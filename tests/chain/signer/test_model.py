"""The rules of a key's memory against a small model, over restarts, old copies and forgetting (hypothesis)."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from chain.errors import SigningRefusedError
from chain.signer.memory import ROUNDS_OF_BYTES, SignedMemory
from chain.signer.statements import Endorsed, Statement
from tests.chain.signer.scene import CHAIN, KEY, Hands, endorsement, post, to_pass

FAST = Path("/dev/shm")  # noqa: S108  # what is asked here is no question of the disk
Place = tuple[int, int, str]
attempts, names = st.integers(0, 3), st.sampled_from(["X", "Y"])
back = st.integers(0, 2)  # how many rounds a caller lags behind


class Model:
    """What a key has said, and whether it may say something new."""

    def __init__(self) -> None:
        self.said: dict[Place, Statement] = {}
        self.raw: dict[Place, bytes] = {}
        self.lowest, self.is_fresh = 0, False

    def copy(self) -> "Model":
        other = Model()
        other.said, other.raw, other.lowest, other.is_fresh = (
            dict(self.said),
            dict(self.raw),
            self.lowest,
            self.is_fresh,
        )
        return other

    def allows(self, asked: Statement) -> bool:
        """A place that is empty so far may be filled with this."""
        here = [each for each in self.said.values() if each.round == asked.round]
        endorsed = {each.attempt: each.said for each in here if each.slot == "endorse"}
        passes = [each.attempt for each in here if each.slot == "pass"]
        if self.is_fresh or asked.round < self.lowest or any(asked.attempt < each for each in passes):
            return False
        if asked.slot != "pass":
            return True
        named = Endorsed(max(endorsed), endorsed[max(endorsed)]) if endorsed else None
        return asked.named == named and all(asked.attempt > each for each in [0, *passes, *endorsed])


class Signing(RuleBasedStateMachine):
    """One key, its callers, and an operator who puts old copies back."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=FAST if FAST.is_dir() else None))
        self.path, self.clock, self.round, self.signatures = self.folder / "signed.db", Hands(1000.0), 1, 0
        self.model, self.saved = Model(), None
        self.emitted: dict[Place, bytes] = {}
        self.memory = SignedMemory.open(self.path, KEY, CHAIN, True, self.clock, self.clock)

    def teardown(self) -> None:
        if hasattr(self, "memory"):
            self.memory.close()
            shutil.rmtree(self.folder)

    saved: tuple[Path, Model] | None

    def _make(self) -> bytes:
        self.signatures += 1
        return b"%d" % self.signatures

    def _ask(self, asked: Statement) -> None:
        place, model = (asked.round, asked.attempt, asked.slot), self.model
        stored = model.said.get(place)
        is_allowed = model.allows(asked) if stored is None else stored.said == asked.said and bool(model.raw[place])
        before = self.signatures
        try:
            raw = self.memory.sign(asked, self._make)
        except SigningRefusedError:
            assert not is_allowed, asked
            assert self.signatures == before
            return
        assert is_allowed, asked
        assert raw == (model.raw[place] if stored else b"%d" % self.signatures)
        model.said[place], model.raw[place], model.lowest = asked, raw, max(model.lowest, asked.round)
        assert self.emitted.setdefault(place, asked.said) == asked.said, "said two things in one slot"

    @rule(back=back, attempt=attempts, slot=st.sampled_from(["plan", "iterate:1"]), says=names)
    def posts(self, back: int, attempt: int, slot: str, says: str) -> None:
        self._ask(post(max(self.round - back, 0), attempt, slot, says))

    @rule(back=back, attempt=attempts, name=names)
    def endorses(self, back: int, attempt: int, name: str) -> None:
        self._ask(endorsement(max(self.round - back, 0), attempt, name))

    @rule(back=back, attempt=attempts, named=st.none() | st.tuples(attempts, names))
    def passes(self, back: int, attempt: int, named: tuple[int, str] | None) -> None:
        self._ask(to_pass(max(self.round - back, 0), attempt, named))

    @rule(attempt=attempts)
    def passes_rightly(self, attempt: int) -> None:
        self._ask(Statement.to_pass(CHAIN, self.round, attempt, self.memory.highest_endorsement(self.round)))

    @rule(attempt=attempts, says=names)
    def posts_with_another_nonce(self, attempt: int, says: str) -> None:
        asked, place = post(self.round, attempt, "plan", says), (self.round, attempt, "plan")
        stored = self.model.said.get(place)
        is_allowed = stored is not None and stored.said == asked.said and not self.model.is_fresh
        try:
            raw = self.memory.resign(asked, self._make)
        except SigningRefusedError:
            assert not is_allowed
            return
        assert is_allowed
        del self.model.raw[place]  # the order is that of signing
        self.model.raw[place] = raw

    @rule(rounds=st.sampled_from([1, 1, 1, ROUNDS_OF_BYTES + 1]))
    def a_round_begins(self, rounds: int) -> None:
        """Its parent is sealed now. Honest servers sign in rounds that run."""
        self.round, self.clock.now_s = self.round + rounds, self.clock.now_s + 10
        self.memory.round_began(self.round, self.clock.now_s)
        model = self.model
        if model.is_fresh:
            model.is_fresh, model.lowest = False, max(model.lowest, self.round)
        self._forget(min(self.round, model.lowest) - ROUNDS_OF_BYTES)

    @rule()
    def an_old_round_is_told_again(self) -> None:
        """By a node that is behind: sealed before this start, or the memory is awake anyway."""
        was = self.model.is_fresh
        self.memory.round_began(self.round, self.opened_s if was else 0.0)
        assert bool(self.memory.fresh_because) == was
        self._forget(min(self.round, self.model.lowest) - ROUNDS_OF_BYTES)

    opened_s = 1000.0

    def _forget(self, oldest: int) -> None:
        for place in [each for each in self.model.said if each[0] < oldest]:
            if place[2] in ("endorse", "pass"):
                self.model.raw[place] = b""
            else:
                del self.model.said[place], self.model.raw[place]

    @rule()
    def restarts(self) -> None:
        self.memory.close()
        self._open()

    def _open(self) -> None:
        self.clock.now_s += 1
        self.memory = SignedMemory.open(self.path, KEY, CHAIN, False, self.clock, self.clock)
        self.opened_s = self.clock.now_s

    @rule()
    def is_copied(self) -> None:
        self.memory.close()
        aside = self.folder / "aside.db"
        shutil.copyfile(self.path, aside)
        self.saved = (aside, self.model.copy())
        self._open()

    @precondition(lambda self: bool(getattr(self, "saved", None)))
    @rule()
    def an_old_copy_is_put_back(self) -> None:
        assert self.saved is not None
        self.memory.close()
        shutil.copyfile(self.saved[0], self.path)
        self.model = self.saved[1].copy()
        self.model.is_fresh = True
        self._open()

    @invariant()
    def what_is_posted_again_is_what_was_signed(self) -> None:
        if not hasattr(self, "memory"):
            return
        for attempt in range(2):
            found = [(self.round, attempt, each.slot) for each in self.memory.pending(self.round, attempt)]
            assert found == [place for place in self.model.raw if place[:2] == (self.round, attempt)]
        assert bool(self.memory.fresh_because) == self.model.is_fresh


TestSigning = Signing.TestCase
TestSigning.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
