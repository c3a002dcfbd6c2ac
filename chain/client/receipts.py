"""What a network that seals by itself is asked about a transaction: what it costs, and whether it is mined."""

from typing import Any

from web3 import Web3
from web3.exceptions import TransactionNotFound

from chain.client.waiting import wait_until
from chain.client.web3_errors import translate_errors
from chain.errors import DeadlineError, RpcError


def network_fees(web3: Web3) -> tuple[int, int]:
    """(fee, priority fee) that a network with money takes for the next blocks."""
    priority = web3.eth.max_priority_fee
    base = web3.eth.get_block("latest").get("baseFeePerGas", 0)
    return 2 * base + priority, priority


def await_receipt(web3: Web3, transaction_hash: bytes, deadline_s: float) -> Any:
    """The receipt of a transaction once it is mined; `DeadlineError` if that takes too long."""
    receipt = wait_until(lambda: _find_receipt(web3, transaction_hash), deadline_s)
    if receipt is None:
        raise DeadlineError(f"transaction 0x{transaction_hash.hex()} was not mined within {deadline_s:g} s")
    return receipt


def _find_receipt(web3: Web3, transaction_hash: bytes) -> Any:
    try:
        with translate_errors():
            return web3.eth.get_transaction_receipt(Web3.to_hex(transaction_hash))
    except RpcError as error:
        if not isinstance(error.__cause__, TransactionNotFound):
            raise
        return None
