"""Real miner processes: what they find, how fast they may be, and how they end. Rates are judged by hash counts."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chain.errors import MiningError, WorkError
from chain.mining.miner import Miner, mine
from chain.wire.seal import check_seal, find_nonce, is_sealed
from tests.chain.headers_made import PLAIN
from tests.chain.mining.processes import ONE, TWO, ended, happens

EASY, NEVER = 1000, 2**256


@pytest.fixture
def miner() -> Iterator[Miner]:
    with Miner() as running:
        yield running


def pid_of(miner: Miner) -> int:
    assert miner.pid is not None
    return miner.pid


# --- work


def test_a_miner_finds_the_first_nonce_and_counts_its_hashes(miner: Miner) -> None:
    miner.start(ONE, EASY, 0)
    found = miner.poll(5)
    assert found is not None
    assert (found.mining_hash, found.nonce) == (ONE, find_nonce(ONE, EASY))
    assert found.hashes == int.from_bytes(found.nonce, "big") + 1 == miner.hashes


def test_the_rate_is_measured_over_time_with_work(miner: Miner) -> None:
    assert miner.hash_rate == 0.0
    miner.start(ONE, NEVER, 0)
    assert miner.poll(0.1) is None
    assert miner.hash_rate > 1000
    miner.cancel()
    rate = miner.hash_rate
    time.sleep(0.1)
    assert miner.hash_rate == rate


def test_one_process_mines_many_blocks(miner: Miner) -> None:
    pid, hashes = pid_of(miner), 0
    for i in range(50):
        work = i.to_bytes(32, "big")
        miner.start(work, EASY, i)
        found = miner.poll(5)
        assert found is not None
        check_seal(work, found.nonce, EASY)
        hashes += found.hashes
    assert (miner.pid, miner.hashes) == (pid, hashes)


def test_new_work_replaces_the_old_whose_results_are_dropped(miner: Miner) -> None:
    for _ in range(20):
        miner.start(ONE, 1, 0)  # found at once, but not asked for
        miner.start(TWO, EASY, 0)
        found = miner.poll(5)
        assert found is not None
        assert found.mining_hash == TWO
        assert is_sealed(TWO, found.nonce, EASY)
    miner.start(ONE, 1, 0)
    time.sleep(0.1)
    miner.start(TWO, NEVER, 0)
    assert miner.poll(0.2) is None


def test_nonces_wrap_around_in_the_process(miner: Miner) -> None:
    miner.start(ONE, EASY, 2**64 - 10)
    found = miner.poll(5)
    assert found is not None
    assert found.nonce == find_nonce(ONE, EASY, 2**64 - 10)
    assert found.hashes == (int.from_bytes(found.nonce, "big") + 10) % 2**64 + 1


def test_a_cancelled_miner_stops_hashing_and_finds_nothing(miner: Miner) -> None:
    miner.start(ONE, NEVER, 0)
    assert happens(lambda: miner.hashes > 0)
    miner.cancel()
    first = miner.hashes
    time.sleep(0.1)
    assert miner.hashes == first
    miner.start(ONE, 1, 0)
    time.sleep(0.1)
    miner.cancel()
    assert miner.poll(0.1) is None


def test_a_cancel_is_heard_within_a_few_slices(miner: Miner) -> None:
    miner.start(ONE, NEVER, 0)
    assert happens(lambda: miner.hashes > 0)
    assert miner.poll(0.2) is None  # its slices have found their length
    waits_s = []
    for _ in range(20):
        asked_s = time.monotonic()
        assert miner.hashes > 0  # answered between two slices, as a cancel is
        waits_s.append(time.monotonic() - asked_s)
    assert min(waits_s) < 0.05  # on a busy machine the others also wait for a processor


@pytest.mark.parametrize(("mining_hash", "difficulty"), [(bytes(31), 1), (ONE, 0), (ONE, -5)])
def test_work_that_cannot_be_mined_is_refused(miner: Miner, mining_hash: bytes, difficulty: int) -> None:
    with pytest.raises(WorkError, match="expected"):
        miner.start(mining_hash, difficulty, 0)


def test_a_header_is_mined_for_real(miner: Miner) -> None:
    sealed = mine(PLAIN, miner, 10)
    assert sealed is not None
    assert sealed.winner == PLAIN.winner
    check_seal(sealed.mining_hash, sealed.nonce, PLAIN.difficulty)


def test_a_deadline_ends_the_search(miner: Miner) -> None:
    hopeless = replace(PLAIN, difficulty=NEVER - 1)
    assert mine(hopeless, miner, 0.1) is None
    stopped = miner.hashes
    time.sleep(0.1)
    assert miner.hashes == stopped


# --- limits


@pytest.mark.parametrize("limit", [10.0, 1000.0, 50_000.0])
def test_a_limit_is_what_a_miner_really_does(limit: float) -> None:
    with Miner(limit) as miner:
        miner.start(ONE, NEVER, 0)
        assert happens(lambda: miner.hashes > 0)
        before, since_s = miner.hashes, time.monotonic()
        assert miner.poll(1.0) is None
        done, passed_s = miner.hashes - before, time.monotonic() - since_s
        assert 0.6 * limit * passed_s - 1 <= done <= 1.3 * limit * passed_s + 1
        assert 0.6 * limit <= miner.hash_rate <= 1.1 * limit


def test_a_limited_miner_sleeps_instead_of_spinning() -> None:
    with Miner(10.0) as miner:
        miner.start(ONE, NEVER, 0)
        assert happens(lambda: miner.hashes > 0)
        stat = Path(f"/proc/{miner.pid}/stat")
        if not stat.exists():
            pytest.skip("no /proc")

        def cpu_s() -> float:
            return sum(map(int, stat.read_text().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")

        before_s = cpu_s()
        time.sleep(0.5)
        assert cpu_s() - before_s <= 0.1


def test_a_limit_changes_under_way() -> None:
    with Miner(0.0) as miner:
        miner.start(ONE, NEVER, 0)
        assert miner.poll(0.2) is None
        assert (miner.hashes, miner.hash_rate) == (0, 0.0)
        miner.set_limit(None)
        assert happens(lambda: miner.hashes > 10_000)
        miner.set_limit(20)
        before = miner.hashes
        assert miner.poll(0.3) is None
        assert miner.hashes - before < 30
        assert pid_of(miner)


@pytest.mark.parametrize("limit", [-1.0, float("nan"), float("inf")])
def test_a_limit_that_is_no_rate_is_refused(miner: Miner, limit: float) -> None:
    with pytest.raises(MiningError, match="expected a finite number"):
        Miner(limit)
    with pytest.raises(MiningError, match="expected a finite number"):
        miner.set_limit(limit)


# --- ends


def test_a_killed_process_is_reported_and_replaced(miner: Miner) -> None:
    miner.start(ONE, NEVER, 0)
    assert happens(lambda: miner.hashes > 0)
    first, hashes = pid_of(miner), miner.hashes
    os.kill(first, signal.SIGKILL)
    for _ in range(2):
        with pytest.raises(MiningError, match=rf"miner process {first} was killed by signal 9, expected it to run"):
            miner.poll(5)
    miner.cancel()
    miner.set_limit(None)
    assert miner.hashes >= hashes
    miner.start(ONE, EASY, 0)
    found = miner.poll(5)
    assert found is not None
    assert pid_of(miner) != first
    assert miner.hashes >= hashes + found.hashes


def test_work_after_an_unnoticed_death_just_runs(miner: Miner) -> None:
    first = pid_of(miner)
    os.kill(first, signal.SIGKILL)
    assert happens(lambda: ended(first))
    miner.start(ONE, EASY, 0)
    assert miner.poll(5) is not None


def test_a_stopped_process_blocks_nobody(miner: Miner) -> None:
    stopped = pid_of(miner)
    os.kill(stopped, signal.SIGSTOP)

    def fill_its_pipe() -> None:
        for i in range(10_000):
            miner.start(ONE, EASY, i)

    with pytest.raises(MiningError, match="takes no orders"):
        fill_its_pipe()
    assert ended(stopped)
    miner.start(ONE, EASY, 0)
    assert miner.poll(5) is not None


def test_a_process_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chain.mining.process._BOOT", "raise SystemExit('no such planet')")
    with Miner() as miner, pytest.raises(MiningError, match=r"ended with status 1, .* no such planet"):
        miner.poll(5)
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(MiningError, match="cannot start a miner process with '/no/such/python'"):
        Miner()


def test_close_leaves_neither_process_nor_thread_and_may_be_repeated() -> None:
    threads = threading.active_count()
    miner = Miner()
    miner.start(ONE, NEVER, 0)
    pid = pid_of(miner)
    assert threading.active_count() == threads
    miner.close()
    miner.close()
    assert miner.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    miner.cancel()
    miner.set_limit(5)
    assert miner.hashes >= 0
    with pytest.raises(MiningError, match="this miner is closed"):
        miner.poll(1)
    with pytest.raises(MiningError, match="this miner is closed"):
        miner.start(ONE, 1, 0)


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_a_miner_process_leaves_signals_to_its_parent(miner: Miner, told: signal.Signals) -> None:
    """Ctrl-C and systemd tell a whole group: the parent asks it what it has done, and closes it."""
    miner.start(ONE, NEVER, 0)
    assert happens(lambda: miner.hashes > 0)
    before = miner.hashes
    os.kill(pid_of(miner), told)
    assert happens(lambda: miner.hashes > before)
    miner.start(ONE, EASY, 0)
    assert miner.poll(5) is not None
