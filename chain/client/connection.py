"""web3 to a node or an Ethereum network: bounded requests, tried again while nobody answers, and errors that are ours
again on this side.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar

from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak
from eth_typing import ChecksumAddress
from web3 import Web3
from web3.exceptions import TransactionNotFound

from chain.client.access import FoundLog, SentCall
from chain.client.asking import (
    await_receipt,
    network_fees,
    ranges_of,
    read_bytes,
    request,
    request_all,
    translate_errors,
)
from chain.client.keys import address_of
from chain.client.own_node import OwnNode
from chain.client.payloads import MemoryShelf, PayloadCache, PayloadShelf, fetch_payload
from chain.client.waiting import retry_until
from chain.errors import (
    ChainError,
    NodeAwayError,
    NodeUnreachableError,
    NonceError,
    RevertedError,
    RpcError,
)
from chain.protocol.contract import PayloadSizes, begins_attempt, decode_result, encode_call, registry_settings
from chain.wire.address import Address
from chain.wire.sidecar import Sidecar, payload_digest
from chain.wire.transactions import Envelope, Transaction, sign_transaction

_PARAMETERS_BYTES = 64 << 20
"""Of founding parameters, at most: their size is not among the founded ones"""
RETRY_S = 10.0
"""How long a node that has answered before may be away: a restart takes seconds"""
T = TypeVar("T")


def _read_number(found: Any) -> int:
    try:
        return int(found, 16)
    except (TypeError, ValueError) as error:
        raise NodeUnreachableError(f"found {found!r:.80} where the node should answer with a number") from error


class Connection(OwnNode):
    """What a ledger asks of a network: calls of the registry, logs, transactions, signed posts, payloads."""

    def __init__(
        self, web3: Web3, registry: bytes, beside: PayloadShelf | None = None, retry_s: float = RETRY_S
    ) -> None:
        """`beside`: where payloads lie if the network holds none (B7); a node of ours does. `retry_s`: for how long a
        request is made again while nobody answers, after the first contact; a refusal is raised at once.
        """
        self.web3, self.registry = web3, Address(registry)
        self._retry_s = 0.0
        self._beside: PayloadShelf = MemoryShelf() if beside is None else beside
        self._cache = PayloadCache()
        self.chain_id = self._asked(lambda: web3.eth.chain_id)
        if not self.code():
            raise RpcError(f"there is no registry at {self.registry} on chain {self.chain_id}; is the network founded?")
        self.settings = registry_settings(self.ask("settings"))
        self.is_embedded = not self.settings.contract_seal
        """Our own node: posts are visible in the pool, a block is a round (P20)."""
        self.visible = "pending" if self.is_embedded else "latest"
        self._retry_s = retry_s

    def _asked(self, ask: Callable[[], T]) -> T:
        """What the network answers. The one place where requests are made again: reads and posts alike."""

        def attempt() -> T:
            with translate_errors():
                return ask()

        return retry_until(attempt, NodeAwayError, self._retry_s)

    @cached_property
    def sizes(self) -> PayloadSizes:
        """How large payloads are, once the network is founded (B2)."""
        return PayloadSizes(*self.ask("payload_sizes"))

    # --- payloads

    def payload(self, digest: bytes) -> bytes | None:
        """The payload with this digest: of our own node in ranges, else from where the edge servers keep them."""
        if not self.is_embedded:
            return self._beside.payload(digest)
        most = max(*self.sizes, _PARAMETERS_BYTES)
        return self._cache.find(digest, lambda: fetch_payload(digest, self._range, most=most))

    def _range(self, digest: bytes, start: int, length: int) -> tuple[int, bytes] | None:
        return self._asked(lambda: ranges_of(self.web3)(digest, start, length))

    def take_payload(self, payload: bytes) -> None:
        """Keep a payload that came with something else."""
        self._cache.find(payload_digest(payload), lambda: payload)

    def has_payload(self, digest: bytes) -> bool:
        """Whether a payload is there."""
        if not self.is_embedded:
            return self._beside.has_payload(digest)
        return digest in self._cache or self._range(digest, 0, 0) is not None

    def hold_evidence(self, digest: bytes) -> bool:
        """Keep the payload of an iterate that is wrong with the block that has its flag (B3)."""
        if not self.is_embedded:
            return self._beside.has_payload(digest)
        return bool(self.request("bfl_holdEvidence", Web3.to_hex(digest)))

    @property
    def _address(self) -> ChecksumAddress:
        return Web3.to_checksum_address(self.registry)

    def code(self) -> bytes:
        """The registry's code; our node shows it as soon as its creation is pending."""
        get_code, where = self.web3.eth.get_code, self._address
        return self._asked(lambda: bytes(get_code(where)) or bytes(get_code(where, "pending")))

    def request(self, method: str, *params: Any) -> Any:
        """A method that web3 has no name for."""
        return self._asked(lambda: request(self.web3, method, *params))

    def request_all(self, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Several of them at once; where one is refused, its error."""
        return self._asked(lambda: request_all(self.web3, calls)) if calls else []

    def request_bytes(self, method: str, *params: Any) -> bytes:
        """As `request`, for an answer of bytes."""
        return read_bytes(self.request(method, *params))

    def ask(self, name: str, *arguments: Any, block: int | None = None) -> Any:
        """The answer of a view of the registry, after a block or in the state that is visible."""
        call: Any = {"to": self._address, "data": encode_call(name, *arguments)}
        where: Any = block if block is not None else getattr(self, "visible", "pending")
        return decode_result(name, self._asked(lambda: bytes(self.web3.eth.call(call, where))))

    def logs(self, topics: Sequence[bytes | None], first: int, last: int | None) -> list[FoundLog]:
        """Logs of the registry with these topics (None: any), of blocks `first` to `last` (None: all visible)."""
        wanted: Any = {
            "address": self._address,
            "topics": [topic if topic is None else Web3.to_hex(topic) for topic in topics],
            "fromBlock": first,
            "toBlock": self.visible if last is None else last,
        }
        return self._asked(lambda: [_read_log(log) for log in self.web3.eth.get_logs(wanted)])

    def transaction(self, transaction_hash: bytes) -> SentCall | None:
        """A transaction, pending or sealed; None if there is none."""
        try:
            found = self._asked(lambda: self.web3.eth.get_transaction(Web3.to_hex(transaction_hash)))
        except RpcError as error:
            if isinstance(error.__cause__, TransactionNotFound):
                return None
            raise
        return SentCall(int(found["nonce"]), bytes(found["input"]))

    def raw_transaction(self, transaction_hash: bytes) -> bytes | None:
        """The same as it was signed."""
        found = self.request("eth_getRawTransactionByHash", Web3.to_hex(transaction_hash))
        return None if found is None else read_bytes(found)

    def head(self) -> int:
        """Number of the last sealed block."""
        return self._asked(lambda: int(self.web3.eth.block_number))

    def block_hash(self, number: int) -> bytes:
        """Hash of a sealed block."""
        return self._asked(lambda: bytes(self.web3.eth.get_block(number)["hash"]))

    def send(
        self,
        account: LocalAccount,
        data: bytes,
        gas: int,
        deadline_s: float | None,
        sidecars: Sequence[Sidecar] = (),
    ) -> bytes:
        """Post a call of the registry; returns once it is visible (P20). A refusal raises with its reason.

        Without a deadline it does not wait for an external network to mine it, and refusals are not heard of.
        """
        sent = self.send_raw(self.sign(account, data, gas), sidecars=sidecars)
        if not self.is_embedded and deadline_s is not None:
            self._await_receipt(sent, account, data, deadline_s)
        return sent

    def sign(self, account: LocalAccount, data: bytes, gas: int) -> bytes:
        """A call of the registry, signed and not sent."""
        return sign_transaction(account, self._envelope(account, gas, data), data)

    def send_raw(self, raw: bytes, opened: Transaction | None = None, sidecars: Sequence[Sidecar] = ()) -> bytes:
        """Post what somebody else has signed, with the payloads beside it. What is there already is no error: it may
        have been sent twice, because nobody answered the first time.
        """
        try:
            return self._send_once(raw, sidecars)
        except (NonceError, RpcError):
            sent = keccak(raw)
            if self.transaction(sent) is None:
                raise
            return sent

    def _send_once(self, raw: bytes, sidecars: Sequence[Sidecar]) -> bytes:
        # Not `web3.eth.send_raw_transaction`: its formatters cost more than the request itself.
        if self.is_embedded and sidecars:
            payloads = ["0x" + sidecar.payload.hex() for sidecar in sidecars]
            return self.request_bytes("bfl_sendPost", "0x" + raw.hex(), payloads)
        for sidecar in sidecars:
            self._beside.put(sidecar)
        return self.request_bytes("eth_sendRawTransaction", "0x" + raw.hex())

    # --- posting

    def nonce(self, sender: bytes, is_sealed: bool = False) -> int:
        """The nonce of a sender's next transaction, everything pending counted; or as it was sealed last."""
        when = "latest" if is_sealed else "pending"
        return _read_number(self.request("eth_getTransactionCount", Web3.to_hex(sender), when))

    def _envelope(self, account: LocalAccount, gas: int, data: bytes) -> Envelope:
        nonce = self.nonce(address_of(account), is_sealed=self.is_embedded and begins_attempt(data))
        fees = (0, 0) if self.is_embedded else self._asked(lambda: network_fees(self.web3))
        return Envelope(self.chain_id, nonce, gas, self.registry, *fees)

    def _await_receipt(self, sent: bytes, account: LocalAccount, data: bytes, deadline_s: float) -> None:
        receipt = await_receipt(self.web3, sent, deadline_s)
        if receipt["status"] != 1:
            raise RevertedError(self._reason(account, data, receipt["blockNumber"]))

    def _reason(self, account: LocalAccount, data: bytes, number: int) -> str:
        """Why a mined post failed: asked again after its block, which it did not change."""
        call: Any = {"from": account.address, "to": self._address, "data": data}
        try:
            self._asked(lambda: self.web3.eth.call(call, number))
        except RevertedError as error:
            return str(error)
        except ChainError:
            return "the reason is no longer known"
        return "the call fails where it was mined; was its gas enough?"


def _read_log(log: Any) -> FoundLog:
    topics = tuple(bytes(topic) for topic in log["topics"])
    return FoundLog(topics, bytes(log["data"]), bytes(log["transactionHash"]))
