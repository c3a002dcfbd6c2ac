"""The ledger: codec, keys, registry contract, py-evm node, web3 client, proofs. Only evm.py and vm.py import `eth`."""

import importlib.util
import os
import sys

# eth-hash takes pycryptodome unless told otherwise; on the short inputs of tries pysha3 is six times faster.
if importlib.util.find_spec("sha3") is not None:
    os.environ.setdefault("ETH_HASH_BACKEND", "pysha3")

_MAX_FRAMES = 2000


def limit_recursion() -> None:
    """Call after importing eth-account, web3 or py-evm: they raise Python's recursion limit to 100,000.

    With that, a request of 100,000 brackets overflows the C stack and ends the process instead of being refused.
    """
    sys.setrecursionlimit(min(sys.getrecursionlimit(), _MAX_FRAMES))
