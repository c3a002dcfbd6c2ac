"""The ledger as everybody else uses it: post and read plans, gradients, iterates, flags and models by round (C1).

One client for our own node (in this process or over HTTP) and for any Ethereum network. "Visible" is the ledger's word
(P20): in the pool of our node, mined on an external network.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak
from web3 import Web3

from chain.client.connection import Connection, read_bytes, web3_over_http
from chain.client.keys import address_of
from chain.client.network_reader import NetworkReader
from chain.client.posts import Flag
from chain.errors import DeadlineError, LedgerError
from chain.protocol import contract
from chain.protocol.contract import address_in, call_gas, encode_call, events
from chain.protocol.posts import Post
from chain.protocol.proof import ModelProof, TransactionProof
from chain.protocol.slots import Slot, iterate_slot
from chain.protocol.turns import FOUNDING_BLOCK
from chain.wire.headers import Header
from chain.wire.seal import contract_puzzle
from chain.wire.transactions import Transaction, decode_transaction

__all__ = ["Flag", "Ledger", "MiningTask", "Post"]


@dataclass(frozen=True)
class MiningTask:
    """What a device searches a nonce for: sha256(puzzle || nonce) <= 2**256 / difficulty."""

    puzzle: bytes
    difficulty: int
    round: int
    header: Header | None
    """The header it seals; None on an external network."""


class Ledger(NetworkReader):
    """The ledger of one network, read by anybody, written with one account's key."""

    def __init__(
        self,
        connection: Connection,
        account: LocalAccount | None = None,
        deadline_s: float | None = 60.0,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`deadline_s`: how long a post may take to be mined on an external network; None does not wait."""
        super().__init__(connection)
        self._account, self._deadline_s = account, deadline_s
        self._now, self._sleep = now, sleep

    @classmethod
    def connect(cls, url: str, registry: bytes, token: str = "", **options: Any) -> "Ledger":
        """The ledger behind a JSON-RPC address."""
        return cls(Connection(web3_over_http(url, token), registry), **options)

    @classmethod
    def of(cls, web3: Web3, registry: bytes, **options: Any) -> "Ledger":
        """The ledger behind a web3, such as `chain.rpc.in_process.web3_in_process(node)`."""
        return cls(Connection(web3, registry), **options)

    def signed_by(self, account: LocalAccount) -> "Ledger":
        """The same ledger, written by somebody else; the connection is shared."""
        return Ledger(self._connection, account, self._deadline_s, self._now, self._sleep)

    @property
    def connection(self) -> Connection:
        """The network behind it."""
        return self._connection

    # --- posting

    def submit_plan(self, round_: int, payload: bytes) -> bytes:
        """The leader's plan; returns the transaction's hash, as all of these do."""
        return self._post("plan", (round_,), round_, Slot.PLAN, payload)

    def submit_gradient(
        self, round_: int, base_model: bytes, plan: bytes, samples: int, iterations: int, payload: bytes
    ) -> bytes:
        """A training node's gradient, with the digests of the model and the plan it was made for."""
        head = (round_, base_model, plan, samples, iterations)
        return self._post("gradient", head, round_, Slot.GRADIENT, payload)

    def submit_close(self, round_: int, payload: bytes) -> bytes:
        """The leader's closed list."""
        return self._post("close", (round_,), round_, Slot.CLOSE, payload)

    def submit_iterate(self, round_: int, step: int, payload: bytes) -> bytes:
        """A server's iterate of step l."""
        return self._post("iterate", (round_, step), round_, iterate_slot(step), payload)

    def submit_model(self, round_: int, payload: bytes) -> bytes:
        """The leader's model k."""
        return self._post("model", (round_,), round_, Slot.MODEL, payload)

    def submit_flag(
        self, round_: int, offender: bytes, slot: int, transaction_hash: bytes, expected: bytes, evidence: bytes = b""
    ) -> bytes:
        """Accuse: the post in `slot` should have had another digest, or (empty hash) is missing."""
        return self._send("flag", round_, offender, slot, transaction_hash, expected, evidence)

    def submit_equivocation(self, round_: int, first: Transaction, second: Transaction) -> bytes:
        """Prove that one sender signed two different posts for one slot."""
        pairs = (first.unsigned, first.signature, second.unsigned, second.signature)
        return self._send("flag_equivocation", round_, first.sender, *pairs)

    def submit_endorsement(self, round_: int, block_hash: bytes) -> bytes:
        """This server has checked the parent block (P17)."""
        return self._send("endorse", round_, block_hash)

    def submit_vote(self, participant: bytes, home: bytes) -> bytes:
        """Vote for a new participant; its home is itself for a server."""
        return self._send("vote", participant, home)

    def submit_raw(self, raw: bytes, opened: Transaction | None = None) -> bytes:
        """Post what somebody else has signed: an edge server passes on its devices' gradients."""
        return self._connection.request_bytes("eth_sendRawTransaction", Web3.to_hex(raw))

    def conflicts(self) -> list[tuple[Transaction, Transaction]]:
        """Two different posts of one sender for one slot, as the node has seen them (P15)."""
        pairs = self._connection.request("bfl_conflicts")
        return [(decode_transaction(read_bytes(a)), decode_transaction(read_bytes(b))) for a, b in pairs]

    def drop(self, transaction_hash: bytes) -> bool:
        """Leave a pending transaction out of what the node builds (our own node only)."""
        return bool(self._connection.request("bfl_dropTransaction", Web3.to_hex(transaction_hash)))

    def _post(self, name: str, head: tuple[Any, ...], round_: int, slot: int, payload: bytes) -> bytes:
        digest = keccak(payload)
        limit = self._connection.settings.payload_bytes
        if not self._connection.is_embedded:
            limit = min(limit, contract.CHUNK_BYTES)  # networks cap a transaction at 128 KiB
        if len(payload) <= limit:
            return self._send(name, *head, digest, 0, payload)
        chunks = contract.split_payload(payload)
        for index, chunk in enumerate(chunks):
            self._send("chunk", round_, slot, index, chunk)
        return self._send(name, *head, digest, len(chunks), b"")

    def _send(self, name: str, *arguments: Any) -> bytes:
        if self._account is None:
            raise LedgerError("this ledger is for reading; give it an account to post")
        data = encode_call(name, *arguments)
        gas = call_gas(len(data), self._connection.settings.payload_bytes, self._connection.is_embedded)
        return self._connection.send(self._account, data, gas, self._deadline_s)

    # --- waiting

    def wait_for(
        self, round_: int, slot: int, senders: Iterable[bytes], deadline_s: float, poll_s: float = 0.05
    ) -> dict[bytes, Post]:
        """Posts of the slot once all `senders` are among them, or what is there at the deadline."""
        wanted, end = set(senders), self._now() + deadline_s
        while True:
            found = self.posts(round_, slot)
            if wanted <= found.keys() or self._now() >= end:
                return found
            self._sleep(poll_s)

    def wait_for_round(self, round_: int, deadline_s: float, poll_s: float = 0.05) -> None:
        """Return once `round_` runs, that is, once the one before is sealed; `DeadlineError` if that takes too long."""
        end = self._now() + deadline_s
        while (found := self.round()) < round_:
            if self._now() >= end:
                raise DeadlineError(f"round {round_} has not begun within {deadline_s:g} s; round {found} is running")
            self._sleep(poll_s)

    # --- proving (P16)

    def model_proof(self, round_: int, known_number: int) -> ModelProof:
        """Proof of a sealed round's model for somebody who knows block `known_number` (our own node only).

        Its headers reach back far enough to tell whose turn it was: over the term cap, and to every exclusion in force.
        """
        self._check_embedded()
        number = round_ + FOUNDING_BLOCK
        model = self.model(round_) if round_ > 0 else None
        if model is None or self._connection.head() < number:
            raise LedgerError(f"round {round_} has no sealed model; the head is block {self._connection.head()}")
        exclusions = [self._proof(sent) for sent in self._exclusions(round_)]
        oldest = [each.header.block_number for each in exclusions]
        first = max(0, min(known_number, number - self._connection.settings.term_cap - 1, *oldest))
        headers = tuple(self._header(each) for each in range(first, max(known_number, number) + 1))
        return ModelProof(headers, self._proof(model.transaction_hash), tuple(exclusions))

    def _exclusions(self, round_: int) -> list[bytes]:
        """The transactions that excluded a server from round `round_`."""
        topic, servers = "0x" + events()["Excluded"].topic.hex(), self.membership(round_).servers
        found = []
        for log in self._connection.logs([topic], FOUNDING_BLOCK, round_ + FOUNDING_BLOCK):
            event = self._event(log)
            if address_in(event["participant"]) in servers and round_ <= int(event["last_round"]):
                found.append(bytes(log["transactionHash"]))
        return found

    def _proof(self, transaction_hash: bytes) -> TransactionProof:
        return TransactionProof.from_json(self._connection.request("bfl_getProof", Web3.to_hex(transaction_hash)))

    def _header(self, number: int) -> Header:
        return Header.from_bytes(self._connection.request_bytes("bfl_getRawHeader", hex(number)))

    # --- building and sealing

    def propose(self) -> Header:
        """Ask the node to make the round a candidate block of this account (our own node only)."""
        return Header.from_bytes(self._connection.request_bytes("bfl_propose", Web3.to_hex(self._own_address())))

    def mining_task(self, leader: bytes | None = None) -> MiningTask:
        """What this device mines now."""
        device, connection = self._own_address(), self._connection
        if connection.is_embedded:
            wanted = [Web3.to_hex(device)] + ([Web3.to_hex(leader)] if leader else [])
            header = Header.from_bytes(connection.request_bytes("bfl_getWork", *wanted))
            if header.winner != device:
                raise LedgerError("the node hands out a header that names another winner; its nonce would not be ours")
            return MiningTask(header.mining_hash, header.difficulty, header.block_number - 1, header)
        round_ = self.round()
        anchor = connection.block_hash(int(connection.ask("anchor")))
        puzzle = contract_puzzle(connection.chain_id, connection.registry, round_, anchor, self.model_digest(), device)
        return MiningTask(puzzle, connection.settings.seal_difficulty, round_, None)

    def submit_nonce(self, task: MiningTask, nonce: bytes) -> bytes:
        """Seal the round; returns the block's hash (our own node) or the transaction's."""
        if task.header is None:
            return self._send("seal", task.round, nonce)
        found = (Web3.to_hex(task.puzzle), Web3.to_hex(nonce), Web3.to_hex(self._own_address()))
        return self._connection.request_bytes("bfl_submitWork", *found)

    def _own_address(self) -> bytes:
        if self._account is None:
            raise LedgerError("this ledger is for reading; give it an account")
        return address_of(self._account)
