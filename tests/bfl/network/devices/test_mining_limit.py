"""A miner's limit: its owner's, of which a plan may give a share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfl.network.devices.hash_share import HOLDS_S, SHARE_FILE, HashShare, note_share
from bfl.network.devices.mining_limit import PlannedLimit, full_rate, limit_of
from chain.mining.miner import Miner

HALF = HashShare(7, 0, 0.5, 1e12)


@pytest.mark.parametrize(
    ("share", "owner", "full", "expected"),
    [
        (None, 500.0, 500.0, (500.0, "its owner's 500 hashes/s; no plan in force")),
        (None, None, 3e6, (None, "as much as it can get; no plan in force")),
        (HALF, 500.0, 500.0, (250.0, "0.50 of its owner's 500 hashes/s, by the plan of round 7")),
        (HALF, None, 3e6, (1.5e6, "0.50 of as much as it can get, by the plan of round 7")),
        (HALF, None, None, (None, "0.50 of as much as it can get, by the plan of round 7")),
        (HashShare(7, 0, 1.0, 1e12), None, 3e6, (None, "1.00 of as much as it can get, by the plan of round 7")),
    ],
)
def test_the_limit_is_the_plans_share_of_what_the_owner_allows(
    share: HashShare | None, owner: float | None, full: float | None, expected: tuple[float | None, str]
) -> None:
    found = limit_of(share, owner, full)
    assert (found.hashes_per_s, found.told) == expected


@given(share=st.floats(min_value=0, max_value=1, exclude_min=True), owner=st.floats(min_value=0, max_value=1e12))
def test_no_plan_raises_what_the_owner_allows(share: float, owner: float) -> None:
    found = limit_of(HashShare(1, 0, share, 1e12), owner, owner).hashes_per_s
    assert found is not None
    assert 0 <= found <= owner


def test_the_full_rate_is_by_the_threads_own_time() -> None:
    now = iter([10.0, 10.0, 10.1, 10.4])
    assert full_rate(lambda: next(now)) == pytest.approx(2 * 2000 / 0.4)
    assert full_rate() > 1_000


class Followed(Miner):
    """Notes what it is told, and does it."""

    def __init__(self, limit: float) -> None:
        self.limits: list[float | None] = []
        super().__init__(limit)

    def set_limit(self, hashes_per_s: float | None) -> None:
        self.limits.append(hashes_per_s)
        super().set_limit(hashes_per_s)


@pytest.fixture
def miner() -> Iterator[Followed]:
    with Followed(1000.0) as miner:
        miner.limits.clear()
        yield miner


def test_a_miner_follows_the_plans_and_returns_to_its_owner(tmp_path: Path, miner: Followed) -> None:
    told: list[str] = []
    now, seconds, limits = [1_000_000.0], [0.0], miner.limits
    path = tmp_path / SHARE_FILE
    planned = PlannedLimit(miner, path, 1000.0, told.append, lambda: now[0], lambda: seconds[0])

    def look(later_s: float = 2.0) -> None:
        seconds[0] += later_s
        planned.look()

    look()
    assert limits == [], "no plan: the owner's, which the miner has"
    note_share(tmp_path, 1, 0, 0.25, lambda: now[0])
    look(0.5)
    assert limits == [], "once a second"
    look()
    look()
    assert limits == [250.0]
    path.write_bytes(b"{")
    look()
    look()
    assert limits == [250.0, 1000.0]
    note_share(tmp_path, 2, 0, 0.5, lambda: now[0])
    look()
    now[0] += HOLDS_S
    look()
    assert limits == [250.0, 1000.0, 500.0, 1000.0]
    assert told[0] == "limit: 250 hashes per second (0.25 of its owner's 1000 hashes/s, by the plan of round 1)"
    assert len([line for line in told if "does not say what a plan gave" in line]) == 1, "told once"


def test_a_miner_process_hashes_at_the_planned_rate(tmp_path: Path) -> None:
    note_share(tmp_path, 1, 0, 0.5)
    with Miner(2000.0) as miner:
        PlannedLimit(miner, tmp_path / SHARE_FILE, 2000.0, lambda _: None).look()
        miner.start(bytes(32), 2**200)
        miner.poll(2.0)
        hashes, rate = miner.hashes, miner.hash_rate
    assert hashes > 0
    assert rate <= 1000 * 1.3, "the owner's 2000 would be twice that"
