"""anvil, an Ethereum network in one process (npm `@foundry-rs/anvil`), where this machine has it."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from web3 import HTTPProvider, Web3

PLACES = (os.environ.get("ANVIL", ""), "anvil", str(Path.home() / ".foundry" / "bin" / "anvil"))
ABSENT = "anvil is not here: npm install -g @foundry-rs/anvil, or set ANVIL to the program"


def find_anvil() -> str | None:
    """The program, or None."""
    return next((found for place in PLACES if place and (found := shutil.which(place))), None)


@contextmanager
def anvil(program: str, balances: Sequence[str], gas_limit: int = 100_000_000) -> Iterator[str]:
    """A running network whose `balances` have money; yields its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program, "--port", str(port), "--silent", "--gas-limit", str(gas_limit)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        web3 = Web3(HTTPProvider(url))
        end = time.monotonic() + 20
        while not web3.is_connected():
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"anvil does not answer on port {port} (exit code {process.poll()})")
            time.sleep(0.05)
        for address in balances:
            web3.manager.request_blocking("anvil_setBalance", [address, hex(10**24)])  # type: ignore[arg-type]
        yield url
    finally:
        process.terminate()
        process.wait(timeout=10)
