"""Matching as the projection at decision time: the likeliest choices that give no slot to two devices (S9)."""

import numpy as np
from scipy.optimize import linear_sum_assignment

from policy.world.projection import LOCAL, Choices
from policy.world.state import Array


def solve_matching(scores: Array) -> Choices:
    """Choices with the largest sum of scores, one device per slot; a slot that scores no more than training locally
    (0) stays empty. Hungarian method, 0.1 ms for 30 devices.  # (B, N, S) -> (B, N)"""
    batch, devices, _ = scores.shape
    choice = np.full((batch, devices), LOCAL, np.int64)
    for row, values in enumerate(np.maximum(scores, 0.0)):
        device, slot = linear_sum_assignment(values, maximize=True)
        worth = values[device, slot] > 0
        choice[row, device[worth]] = 1 + slot[worth]
    return choice
