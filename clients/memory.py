"""Keep freed memory in the process: a round allocates the same large tensors again and again."""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_NEVER = 2**30


def keep_freed_memory() -> bool:
    """Tell glibc not to give large blocks back to the kernel after every use; False where there is no glibc.

    Otherwise a training step may fault its megabytes in page by page anew. It trades memory for a little time:
    `benchmarks/round.py --default-allocator` shows both (docs/results.md).
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_M_MMAP_THRESHOLD, _NEVER) and mallopt(_M_TRIM_THRESHOLD, _NEVER))
