"""How much data the devices have in a round (S3, P22, P23)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.parameters import LatencyParams
from policy.world.round_data import data_bits, data_samples

PARAMS = LatencyParams()
FASHION_MNIST_BYTES = 784


def test_the_bounds_are_half_a_megabyte_and_two_megabytes_in_bits() -> None:
    assert (PARAMS.data_min_bits, PARAMS.data_max_bits) == (4_000_000, 16_000_000)


def test_the_bounds_are_638_and_2551_fashion_mnist_images() -> None:
    """500,000 / 784 = 637.76 and 2,000,000 / 784 = 2,551.02."""
    bounds = np.array([PARAMS.data_min_bits, PARAMS.data_max_bits])
    assert data_samples(bounds, FASHION_MNIST_BYTES).tolist() == [638, 2551]


@given(seed=st.integers(0, 2**63 - 1), round_=st.integers(1, 10**6), devices=st.integers(1, 20))
@settings(max_examples=50, deadline=None)
def test_every_device_works_on_638_to_2551_images_of_784_bytes(seed: int, round_: int, devices: int) -> None:
    samples = data_samples(data_bits(PARAMS, seed, round_, devices), FASHION_MNIST_BYTES)
    assert samples.shape == (devices,)
    assert samples.dtype == np.int64
    assert ((samples >= 638) & (samples <= 2551)).all()


def test_the_sizes_are_spread_evenly_between_the_bounds() -> None:
    """The mean of U[4, 16] Mbit is 10, its standard deviation 12 / sqrt(12); 5 sigma of the mean of 2,000 draws."""
    bits = data_bits(PARAMS, seed=0, round_=1, devices=2_000) / 1e6
    sigma = 12 / np.sqrt(12)
    assert bits.mean() == pytest.approx(10, abs=5 * sigma / np.sqrt(2_000))
    assert bits.std() == pytest.approx(sigma, rel=0.05)


@given(devices=st.integers(1, 30))
@settings(max_examples=20, deadline=None)
def test_a_device_has_the_same_data_whatever_the_number_of_devices(devices: int) -> None:
    np.testing.assert_array_equal(data_bits(PARAMS, 3, 9, devices), data_bits(PARAMS, 3, 9, 30)[:devices])


def test_the_data_is_drawn_anew_every_round_and_for_every_seed() -> None:
    first = data_bits(PARAMS, seed=0, round_=1, devices=5)
    assert not (first == data_bits(PARAMS, seed=0, round_=2, devices=5)).any()
    assert not (first == data_bits(PARAMS, seed=1, round_=1, devices=5)).any()


def test_a_device_has_at_least_one_sample_however_large_samples_are() -> None:
    assert data_samples(np.array([1.0, 8e6, 16e6]), sample_bytes=10**9).tolist() == [1, 1, 1]


def test_other_bounds_are_kept_too() -> None:
    narrow = LatencyParams(data_min_bits=8_000.0, data_max_bits=8_001.0)
    assert data_samples(data_bits(narrow, 0, 1, 10), sample_bytes=100).tolist() == [10] * 10
