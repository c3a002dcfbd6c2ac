"""The ledger: codec, keys, registry contract, py-evm node, web3 client, proofs. Only chain/vm.py imports `eth`."""

import importlib.util
import os

# eth-hash takes pycryptodome unless told otherwise; on the short inputs of tries pysha3 is six times faster.
if importlib.util.find_spec("sha3") is not None:
    os.environ.setdefault("ETH_HASH_BACKEND", "pysha3")
