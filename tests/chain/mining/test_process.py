"""The inside of a miner process: its pace without a process, and the process by its command line."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chain.mining.process import Pace, command
from tests.chain.mining.processes import ONE, ended, happens

REPOSITORY = Path(__file__).parents[3]


# --- pace, without a process


def test_ten_hashes_per_second_are_one_every_tenth_second() -> None:
    pace = Pace(10.0)
    taken = []
    for _ in range(40):
        pace.earn(0.025)
        taken.append(pace.take(1000))
    assert sum(taken) == 10
    assert set(taken) == {0, 1}
    assert pace.wait_s == pytest.approx(0.1)


def test_a_fast_pace_works_in_slices_and_sleeps_in_between() -> None:
    pace = Pace(100_000.0)
    assert pace.wait_s == pytest.approx(0.01)
    pace.earn(0.005)
    assert pace.take(10_000) == 0
    pace.earn(0.005)
    assert pace.take(10_000) == 1000


@given(st.floats(0.1, 1e7), st.lists(st.floats(0, 2), max_size=50), st.integers(1, 100_000))
def test_a_pace_is_never_exceeded(limit: float, steps_s: list[float], most: int) -> None:
    pace = Pace(limit)
    total = 0
    for step_s in steps_s:
        pace.earn(step_s)
        total += pace.take(most)
    assert total <= limit * sum(steps_s) * (1 + 1e-9)


def test_a_stall_is_made_up_for_a_quarter_of_a_second_only() -> None:
    pace = Pace(1000.0)
    pace.earn(3600.0)
    assert pace.take(10**9) == 250


def test_a_limit_of_zero_allows_nothing_and_no_limit_everything() -> None:
    pace = Pace(1000.0)
    pace.earn(1.0)
    pace.set_limit(0.0)
    pace.earn(100.0)
    assert pace.take(5) == 0
    pace.set_limit(None)
    assert pace.take(5) == 5


# --- the process itself


def test_a_miner_process_survives_garbage() -> None:
    garbage = [
        b"", b"hello", b"\xff\xfe\x00", b"work", b"work 1 zz 1 0", b"work 1 " + b"00" * 31 + b" 1 0",
        b"work x " + b"00" * 32 + b" 1 0", b"work 1 " + b"00" * 32 + b" 0 0", b"work 1 " + b"00" * 32 + b" 1e9 0",
        b"work 1 " + b"00" * 32 + b" " + b"9" * 5000 + b" 0", b"limit", b"limit fast", b"limit nan", b"limit -1",
        b"limit 1e999", b"report", b"report x", b"cancel now", os.urandom(200_000).replace(b"\n", b""),
    ]  # fmt: skip
    orders = b"\n".join(garbage) + b"\nwork 7 " + ONE.hex().encode() + b" 1 5\n"
    process = subprocess.Popen(command(os.getpid()), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(orders)
        process.stdin.flush()
        assert process.stdout.readline() == b"found 7 0000000000000005 1\n"
        process.stdin.close()
        assert process.wait(5) == 0


def test_a_miner_process_loads_the_standard_library_only_and_soon() -> None:
    *start, boot, root, pid = command(os.getpid())
    listing = (
        ";import time; print({m.split('.')[0] for m in sys.modules} - sys.stdlib_module_names - {'__main__'});"
        "print(time.process_time())"
    )
    shown = subprocess.run([*start, boot + listing, root, pid], input=b"", capture_output=True, timeout=30)
    loaded, processor_s = shown.stdout.splitlines()
    assert loaded == b"{'chain'}", shown.stderr
    assert float(processor_s) < 0.2


ORPHANED = """
import os, sys, time
from chain.mining.miner import Miner
miner = Miner()
miner.start(bytes(32), 2**256, 0)
fork = os.fork() if sys.argv[1] == "forked" else 0
if fork or sys.argv[1] == "alone":
    print(miner.pid, fork, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("how", ["alone", "forked"])
def test_a_miner_ends_when_its_parent_is_killed(how: str) -> None:
    parent = subprocess.Popen([sys.executable, "-c", ORPHANED, how], cwd=REPOSITORY, stdout=subprocess.PIPE)
    with parent:
        assert parent.stdout is not None
        miner_pid, fork_pid = map(int, parent.stdout.readline().split())
        try:
            assert not ended(miner_pid)
            parent.kill()
            assert happens(lambda: ended(miner_pid))
        finally:
            parent.kill()
            if fork_pid:
                os.kill(fork_pid, signal.SIGKILL)
