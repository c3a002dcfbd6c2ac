"""The time of this machine, in seconds of the epoch: deadlines are the same for all machines (D3.3)."""

import os
import time
from functools import cache

CLOCK_OFFSET = "BFL_CLOCK_OFFSET_S"
"""Environment variable: seconds that a process takes its clock to be off, for tests of skewed clocks"""


@cache
def _offset_s() -> float:
    return float(os.environ.get(CLOCK_OFFSET, "0"))


def epoch_s() -> float:
    """Now."""
    return time.time() + _offset_s()
