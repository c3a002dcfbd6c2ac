"""A chain through web3 on which a network is still to be founded."""

import rlp
from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak
from web3 import Web3

from chain.client.asking import await_receipt, network_fees, translate_errors
from chain.client.connection import Connection
from chain.client.keys import address_of
from chain.client.payloads import PayloadShelf
from chain.errors import RevertedError
from chain.protocol.genesis import FOUNDING_GAS
from chain.wire.transactions import Envelope, sign_transaction


class EmptyNetwork:
    """A node or an Ethereum network at web3, without our registry yet: `chain.client.access.EmptyChain`."""

    def __init__(self, web3: Web3, beside: PayloadShelf | None = None) -> None:
        self._web3, self._beside = web3, beside

    def create_registry(
        self, founder: LocalAccount, creation: bytes, is_embedded: bool, deadline_s: float
    ) -> Connection:
        """Deploy the registry; on our own node it is pending until the founding block is sealed."""
        with translate_errors():
            nonce = self._web3.eth.get_transaction_count(founder.address, "pending")
            fees = (0, 0) if is_embedded else network_fees(self._web3)
            envelope = Envelope(self._web3.eth.chain_id, nonce, self._creation_gas(is_embedded), b"", *fees)
            sent = bytes(self._web3.eth.send_raw_transaction(sign_transaction(founder, envelope, creation)))
        if not is_embedded and await_receipt(self._web3, sent, deadline_s)["status"] != 1:
            raise RevertedError("the registry was not created; is the network's gas limit high enough?")
        number = nonce.to_bytes((nonce.bit_length() + 7) // 8, "big")
        return Connection(self._web3, keccak(rlp.encode([address_of(founder), number]))[12:], self._beside)

    def _creation_gas(self, is_embedded: bool) -> int:
        most = FOUNDING_GAS // 2
        return most if is_embedded else min(most, int(self._web3.eth.get_block("latest")["gasLimit"]))
