"""What a key's memory gives, refuses, forgets and waits for."""

import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from chain.errors import FreshMemoryError, SignedMemoryError, SigningRefusedError
from chain.signer.memory import ROUNDS_OF_BYTES, ROUNDS_OF_MARKS, SignedMemory
from chain.signer.statements import Endorsed, Statement
from tests.chain.signer.scene import (
    CHAIN,
    KEY,
    Hands,
    block,
    endorsement,
    founded,
    never,
    opened,
    post,
    signing,
    to_pass,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "signed.db"


def raws(memory: SignedMemory, round_: int, attempt: int = 0) -> list[bytes]:
    return [each.raw for each in memory.pending(round_, attempt)]


# --- signing


def test_the_same_request_gives_the_same_bytes_also_after_a_restart(path: Path) -> None:
    with founded(path) as memory:
        assert memory.sign(post(1), signing("nonce 5")) == b"nonce 5"
        assert memory.sign(post(1), never) == b"nonce 5"
    with opened(path) as memory:
        assert memory.sign(post(1), never) == b"nonce 5"


def test_another_statement_for_the_same_slot_is_refused_also_after_a_restart(path: Path) -> None:
    with founded(path) as memory:
        memory.sign(post(1, says="this"), signing("a"))
        with pytest.raises(SigningRefusedError, match="two would convict it"):
            memory.sign(post(1, says="that"), never)
    with opened(path) as memory:
        with pytest.raises(SigningRefusedError, match="two would convict it"):
            memory.sign(post(1, says="that"), never)
        assert memory.sign(post(1, attempt=1, says="that"), signing("b")) == b"b"
        assert memory.sign(post(1, slot="close", says="that"), signing("c")) == b"c"


def test_steps_of_the_gossip_are_slots_of_their_own(path: Path) -> None:
    with founded(path) as memory:
        for step in range(3):
            memory.sign(post(1, slot=f"iterate:{step}", says=str(step)), signing(str(step)))
        assert raws(memory, 1) == [b"0", b"1", b"2"]


def test_lower_rounds_are_refused_but_for_what_is_stored(path: Path) -> None:
    with founded(path) as memory:
        memory.sign(post(1), signing("first"))
        memory.sign(post(3), signing("third"))
        assert memory.sign(post(1), never) == b"first"
        assert memory.resign(post(1), signing("first again")) == b"first again"
        for statement in (post(2), post(1, attempt=1), endorsement(1), to_pass(2, 1)):
            with pytest.raises(SigningRefusedError, match="has come to round 3"):
                memory.sign(statement, never)


def test_a_server_passes_with_what_it_endorsed(path: Path) -> None:
    with founded(path) as memory:
        assert memory.highest_endorsement(4) is None
        memory.sign(endorsement(4, 0, "X"), signing("for X"))
        with pytest.raises(SigningRefusedError, match="two would convict it"):
            memory.sign(endorsement(4, 0, "Y"), never)
        assert memory.highest_endorsement(4) == Endorsed(0, block("X"))
        with pytest.raises(SigningRefusedError, match="naming no block"):
            memory.sign(to_pass(4, 1), never)
        memory.sign(Statement.to_pass(CHAIN, 4, 1, memory.highest_endorsement(4)), signing("pass to 1"))
    with opened(path) as memory:
        assert memory.sign(to_pass(4, 1, (0, "X")), never) == b"pass to 1"
        with pytest.raises(SigningRefusedError, match="has passed to attempt 1"):
            memory.sign(post(4, 0, "model"), never)
        assert memory.sign(endorsement(4, 0, "X"), never) == b"for X"
        assert memory.sign(endorsement(4, 1, "X"), signing("afresh")) == b"afresh"
        assert raws(memory, 4, 1) == [b"pass to 1", b"afresh"]


def test_a_key_signs_for_its_own_chain(path: Path) -> None:
    with founded(path) as memory, pytest.raises(SigningRefusedError, match="found chain 78, expected 77"):
        memory.sign(Statement.post(78, 1, 0, "plan", b"this"), never)


def test_a_signer_that_fails_leaves_the_slot_free(path: Path) -> None:
    with founded(path) as memory:
        with pytest.raises(AssertionError, match="asked to sign"):
            memory.sign(post(2, says="this"), never)
        with pytest.raises(SigningRefusedError, match="found no signed bytes"):
            memory.sign(post(2, says="this"), signing(""))
        assert memory.sign(post(1, says="that"), signing("b")) == b"b"


def test_a_signer_that_signs_is_refused(path: Path) -> None:
    with founded(path) as memory:
        with pytest.raises(SignedMemoryError, match="a call of the memory in what it calls to sign"):
            memory.sign(post(1), lambda: memory.sign(post(1, says="that"), signing("inner")))
        assert raws(memory, 1) == []


def test_threads_that_ask_at_once_get_the_same_bytes(path: Path) -> None:
    found: list[bytes] = []

    def ask(name: str) -> None:
        found.append(memory.sign(post(1), signing(name)))

    with founded(path) as memory:
        asked = [threading.Thread(target=ask, args=(each,)) for each in "abcdefgh"]
        for thread in asked:
            thread.start()
        for thread in asked:
            thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


def test_it_is_in_the_file_when_the_bytes_are_returned(path: Path, tmp_path: Path) -> None:
    with founded(path) as memory:
        memory.sign(post(1), signing("raw"))
        settings = [memory._disk._connection.execute(f"PRAGMA {each}").fetchone()[0] for each in SETTINGS]
        (tmp_path / "copy.db").write_bytes(path.read_bytes())
    assert not path.with_name("signed.db-journal").exists()
    assert settings == list(SETTINGS.values())
    with sqlite3.connect(tmp_path / "copy.db") as copy:
        assert copy.execute("SELECT round, attempt, slot, raw FROM signed").fetchall() == [(1, 0, "plan", b"raw")]
    copy.close()


SETTINGS = {"synchronous": 3, "journal_mode": "delete", "locking_mode": "exclusive"}


# --- another nonce


def test_the_same_thing_is_signed_again_where_its_nonce_has_to_change(path: Path) -> None:
    with founded(path) as memory:
        memory.sign(post(1, slot="plan"), signing("plan, nonce 5"))
        memory.sign(post(1, slot="close"), signing("close, nonce 6"))
        assert memory.resign(post(1, slot="plan"), signing("plan, nonce 7")) == b"plan, nonce 7"
        assert memory.sign(post(1, slot="plan"), never) == b"plan, nonce 7"
    with opened(path) as memory:
        assert raws(memory, 1) == [b"close, nonce 6", b"plan, nonce 7"]


def test_another_thing_is_not(path: Path) -> None:
    with founded(path) as memory:
        memory.sign(post(1, says="this"), signing("a"))
        with pytest.raises(SigningRefusedError, match="two would convict it"):
            memory.resign(post(1, says="that"), never)
        with pytest.raises(SigningRefusedError, match="found nothing to sign again"):
            memory.resign(post(1, slot="close"), never)
        assert raws(memory, 1) == [b"a"]


def test_endorsements_and_passes_are_signed_once(path: Path) -> None:
    with founded(path) as memory:
        memory.sign(endorsement(1), signing("at noon"))
        memory.sign(to_pass(1, 1, (0, "X")), signing("pass"))
        for statement in (endorsement(1), to_pass(1, 1, (0, "X"))):
            with pytest.raises(SigningRefusedError, match="it has no nonce and is signed once"):
                memory.resign(statement, never)


# --- a memory that is new


def test_a_new_memory_signs_nothing_until_a_round_begins_after_its_start(path: Path) -> None:
    clock = Hands(1000.0)
    with SignedMemory.open(path, KEY, CHAIN, clock=clock, elapsed=clock) as memory:
        assert memory.fresh_because == "is new"
        clock.now_s = 1100.0
        memory.round_began(7, 1000.0)
        assert not memory.may_sign(1000.0)
        with pytest.raises(FreshMemoryError, match=r"plan of round 7, .*signed\.db is new; .* after this start"):
            memory.sign(post(7), never)
        assert memory.may_sign(1000.5)
        memory.round_began(8, 1000.5)
        assert memory.may_sign(0.0)
        with pytest.raises(SigningRefusedError, match="has come to round 8"):
            memory.sign(post(7), never)
        assert memory.sign(post(8), signing("raw")) == b"raw"


def test_a_new_memory_that_is_restarted_is_still_new_and_waits_from_then(path: Path) -> None:
    clock = Hands(1000.0)
    SignedMemory.open(path, KEY, CHAIN, clock=clock, elapsed=clock).close()
    clock.now_s = 2000.0
    with SignedMemory.open(path, KEY, CHAIN, clock=clock, elapsed=clock) as memory:
        memory.round_began(3, 1500.0)
        assert memory.fresh_because
        clock.now_s = 2002.0
        memory.round_began(4, 2001.0)
    with opened(path) as memory:
        assert not memory.fresh_because
        assert memory.sign(post(4), signing("raw")) == b"raw"


def test_a_clock_that_is_put_right_after_the_start_wakes_nobody_early(path: Path) -> None:
    clock, elapsed = Hands(50.0), Hands(0.0)
    with SignedMemory.open(path, KEY, CHAIN, clock=clock, elapsed=elapsed) as memory:
        with pytest.raises(FreshMemoryError, match="sealed 950 s ahead of this machine's clock"):
            memory.round_began(3, 1000.0)
        clock.now_s, elapsed.now_s = 1020.0, 10.0  # so it was opened at 1010
        memory.round_began(3, 1000.0)
        assert memory.fresh_because
        memory.round_began(4, 1011.0)
        assert not memory.fresh_because


def test_a_key_that_is_made_with_its_memory_signs_at_once(path: Path) -> None:
    with founded(path) as memory:
        assert memory.fresh_because == ""
        assert memory.may_sign(0.0)
        memory.sign(post(1), signing("raw"))
    with pytest.raises(SignedMemoryError, match="exists, expected neither: its key may have signed before"):
        founded(path)
    path.unlink()
    with pytest.raises(SignedMemoryError, match="exists, expected neither"):
        founded(path)
    with opened(path) as memory:
        assert memory.fresh_because == "was lost, only its mark is there"


# --- forgetting


def test_old_bytes_are_forgotten_and_marks_are_kept_longer(path: Path) -> None:
    with founded(path) as memory:
        memory.round_began(1, 0.0)
        for round_ in (1, 1000, 1001, 1016):
            memory.sign(post(round_), signing(f"post {round_}"))
            memory.sign(endorsement(round_), signing(f"endorsement {round_}"))
        memory.round_began(1017, 0.0)  # the last that was signed in is 1016
        assert raws(memory, 1) == []
        assert raws(memory, 1000) == [b"post 1000", b"endorsement 1000"]
        memory.sign(post(1017), signing("post 1017"))
        memory.round_began(1017, 0.0)
        assert raws(memory, 1000) == []
        assert raws(memory, 1001) == [b"post 1001", b"endorsement 1001"]
        assert memory.highest_endorsement(1000) == Endorsed(0, block("X"))
        assert memory.highest_endorsement(1) is None
        with pytest.raises(SigningRefusedError, match="its bytes are forgotten"):
            memory.sign(endorsement(1000), never)
        with pytest.raises(SigningRefusedError, match="two would convict it"):
            memory.sign(endorsement(1000, name="Y"), never)
        for statement in (post(1000), post(1), endorsement(1)):
            with pytest.raises(SigningRefusedError, match="has come to round 1017"):
                memory.sign(statement, never)


def test_what_was_signed_last_is_never_forgotten(path: Path) -> None:
    with founded(path) as memory:
        memory.sign(post(5), signing("raw"))
        memory.forget_below(10**9)
        assert memory.sign(post(5), never) == b"raw"
        with pytest.raises(SigningRefusedError, match="two would convict it"):
            memory.sign(post(5, says="that"), never)


def test_the_file_does_not_grow_without_end(path: Path) -> None:
    def run(memory: SignedMemory, rounds: range) -> int:
        for round_ in rounds:
            memory.round_began(round_, 0.0)
            memory.sign(post(round_), lambda: b"r" * 5000)
        return path.stat().st_size

    with founded(path) as memory:
        after_two = run(memory, range(1, 2 * ROUNDS_OF_BYTES))
        assert run(memory, range(2 * ROUNDS_OF_BYTES, 5 * ROUNDS_OF_BYTES)) <= after_two
        assert len(memory._disk._connection.execute("SELECT 1 FROM signed").fetchall()) == ROUNDS_OF_BYTES + 2
    assert ROUNDS_OF_MARKS == 1000


def test_it_needs_no_torch_no_web3_and_no_py_evm() -> None:
    code = (
        "import sys; import chain.signer.memory;"
        "print([m for m in ('torch', 'web3', 'eth', 'eth_account', 'numpy', 'flwr') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert shown.stdout.strip() == "[]", shown.stderr


def test_a_memory_of_the_founding_is_good_for_the_first_round_and_no_later_one_that_had_begun(path: Path) -> None:
    """A kit that is copied again years later has `never-signed` in it, and a key that has signed a lot."""
    with founded(path) as memory:
        memory.round_began(500, 1.0)
        with pytest.raises(FreshMemoryError):
            memory.sign(post(500), never)
        memory.round_began(501, time.time() + 5)
        assert memory.sign(post(501), signing("a")) == b"a"


def test_a_founding_server_that_missed_the_first_round_signs_in_one_that_began_while_it_was_there(path: Path) -> None:
    with founded(path) as memory:
        memory.round_began(2, time.time() + 5)
        assert memory.sign(post(2), signing("a")) == b"a"
