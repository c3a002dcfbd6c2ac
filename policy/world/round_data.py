"""The simulated state of the devices in a round, drawn so that any round can be recomputed alone (P23)."""

import numpy as np
from numpy.typing import NDArray

from policy.parameters import LatencyParams
from policy.streams import Purpose, stream


def data_bits(params: LatencyParams, seed: int, round_: int, devices: int) -> NDArray[np.float64]:
    """Data each device has in this round. S3: D_n ~ U[0.5, 2] MB, drawn anew every round."""
    return np.array([device_bits(params, seed, round_, device) for device in range(devices)])


def device_bits(params: LatencyParams, seed: int, round_: int, device: int) -> float:
    """The same of one device: no draw needs those of the others."""
    return stream(seed, Purpose.DATA_SIZE, round_, device).uniform(params.data_min_bits, params.data_max_bits)


def data_samples(bits: NDArray[np.float64], sample_bytes: int) -> NDArray[np.int64]:
    """The same in samples (P22): 638 to 2,551 Fashion-MNIST images of 784 bytes. At least one."""
    return np.maximum(1, np.rint(bits / (8 * sample_bytes))).astype(np.int64)
