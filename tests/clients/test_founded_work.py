"""What the founding fixes of a device's work, and what it reads from a plan beside it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.founded_work import FoundedWork
from policy.parameters import LatencyParams
from policy.world.projection import hash_rates
from policy.world.rounds import simulated_state


@given(seed=st.integers(0, 1000), round_=st.integers(1, 200), drawn=st.lists(st.floats(0, 1), min_size=4, max_size=4))
def test_a_device_reads_its_share_of_hash_power_from_the_plan(seed: int, round_: int, drawn: list[float]) -> None:
    """S6, S19: asked for u of what is above Psi_lo, few devices have Psi_lo + u (H - Psi_lo), H as in the world."""
    work = FoundedWork(seed, 1, 1, 0.1, "sgd", "fp16", 1.0, (1,) * 4, 784, True, 1)
    params = LatencyParams(devices=4, servers=2)
    state = simulated_state(params, seed, round_)
    planned = hash_rates(np.array([drawn]), state, params)[0].tolist()
    for n, cap in enumerate(state.hash_rate[0].tolist()):
        assert work.hash_share(round_, n, planned) == pytest.approx(planned[n] / cap)
        assert work.hash_share(round_, n, [cap] * 4) == 1.0
        assert work.hash_share(round_, n, [1e300] * 4) == 1.0, "no plan gives more than there is"
        for too_little in (-1e300, 0.0, 1.0):
            assert work.hash_share(round_, n, [too_little] * 4) == params.hash_min_hashes_per_s / cap
        for nothing in ([], [1e11] * 3):
            assert work.hash_share(round_, n, nothing) == 1.0
