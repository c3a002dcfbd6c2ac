"""The ledger as everybody else uses it: post and read plans, gradients, iterates, flags and models by round (C1).

One client for our own node (in this process or over HTTP) and for any Ethereum network. "Visible" is the ledger's word
(P20): in the pool of our node, mined on an external network.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak
from web3 import Web3

from chain import contract
from chain.connection import Connection, web3_over_http
from chain.contract import Call, call_gas, decode_call, decode_log, encode_call, events
from chain.errors import DeadlineError, LedgerError
from chain.headers import Header
from chain.keys import address_of
from chain.seal import contract_puzzle
from chain.transactions import Transaction

_EVENT_OF = {
    contract.PLAN: "Planned",
    contract.GRADIENT: "GradientPosted",
    contract.CLOSE: "Closed",
    contract.MODEL: "ModelPublished",
}


@dataclass(frozen=True)
class Post:
    """Something posted in a round, as read from the ledger."""

    round: int
    slot: int
    sender: bytes
    digest: bytes
    payload: bytes
    transaction_hash: bytes
    arguments: Call = field(repr=False)
    """The whole call: samples, iterations, base model and plan of a gradient, say."""
    is_intact: bool
    """Whether the payload has the digest; one in chunks need not (C8), and then it counts as not posted."""


@dataclass(frozen=True)
class Flag:
    """A server's accusation (P15)."""

    round: int
    offender: bytes
    server: bytes
    slot: int
    transaction_hash: bytes
    expected: bytes


@dataclass(frozen=True)
class MiningTask:
    """What a device searches a nonce for: sha256(puzzle || nonce) <= 2**256 / difficulty."""

    puzzle: bytes
    difficulty: int
    round: int
    header: Header | None
    """The header it seals; None on an external network."""


class Ledger:
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
        self._connection, self._account, self._deadline_s = connection, account, deadline_s
        self._now, self._sleep = now, sleep

    @classmethod
    def connect(cls, url: str, registry: bytes, token: str = "", **options: Any) -> "Ledger":
        """The ledger behind a JSON-RPC address."""
        return cls(Connection(web3_over_http(url, token), registry), **options)

    @classmethod
    def of(cls, web3: Web3, registry: bytes, **options: Any) -> "Ledger":
        """The ledger behind a web3, such as `chain.provider.web3_in_process(node)`."""
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
        return self._post("plan", (round_,), round_, contract.PLAN, payload)

    def submit_gradient(
        self, round_: int, base_model: bytes, plan: bytes, samples: int, iterations: int, payload: bytes
    ) -> bytes:
        """A training node's gradient, with the digests of the model and the plan it was made for."""
        head = (round_, base_model, plan, samples, iterations)
        return self._post("gradient", head, round_, contract.GRADIENT, payload)

    def submit_close(self, round_: int, payload: bytes) -> bytes:
        """The leader's closed list."""
        return self._post("close", (round_,), round_, contract.CLOSE, payload)

    def submit_iterate(self, round_: int, step: int, payload: bytes) -> bytes:
        """A server's iterate of step l."""
        return self._post("iterate", (round_, step), round_, contract.ITERATE + step, payload)

    def submit_model(self, round_: int, payload: bytes) -> bytes:
        """The leader's model k."""
        return self._post("model", (round_,), round_, contract.MODEL, payload)

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

    def _post(self, name: str, head: tuple[Any, ...], round_: int, slot: int, payload: bytes) -> bytes:
        digest = keccak(payload)
        limit = self._connection.payload_bytes
        if not self._connection.is_embedded:
            limit = min(limit, contract.CHUNK_BYTES)  # networks cap a transaction at 128 KiB
        if len(payload) <= limit:
            return self._send(name, *head, digest, 0, payload)
        chunks = [payload[i : i + contract.CHUNK_BYTES] for i in range(0, len(payload), contract.CHUNK_BYTES)]
        for index, chunk in enumerate(chunks):
            self._send("chunk", round_, slot, index, chunk)
        return self._send(name, *head, digest, len(chunks), b"")

    def _send(self, name: str, *arguments: Any) -> bytes:
        if self._account is None:
            raise LedgerError("this ledger is for reading; give it an account to post")
        data = encode_call(name, *arguments)
        gas = call_gas(len(data), self._connection.payload_bytes, self._connection.is_embedded)
        return self._connection.send(self._account, data, gas, self._deadline_s)

    # --- reading a round

    def plan(self, round_: int) -> Post | None:
        """The plan of a round, if it is visible."""
        return self._first(round_, contract.PLAN)

    def gradients(self, round_: int) -> dict[bytes, Post]:
        """Gradients of a round by sender, in ascending order of address."""
        return self.posts(round_, contract.GRADIENT)

    def close(self, round_: int) -> Post | None:
        """The closed list of a round."""
        return self._first(round_, contract.CLOSE)

    def iterates(self, round_: int, step: int) -> dict[bytes, Post]:
        """Iterates of one step by sender."""
        return self.posts(round_, contract.ITERATE + step)

    def model(self, round_: int) -> Post | None:
        """Model k; model 0 is the founding one."""
        return self._founding_model() if round_ == 0 else self._first(round_, contract.MODEL)

    def posts(self, round_: int, slot: int) -> dict[bytes, Post]:
        """What is visible in a slot of a round, by sender in ascending order of address."""
        found = [self._read_post(log, round_, slot) for log in self._slot_logs(round_, slot)]
        return {post.sender: post for post in sorted(found, key=lambda post: post.sender)}

    def flags(self, round_: int) -> list[Flag]:
        """The accusations of a round."""
        found = [self._event(log) for log in self._logs("Flagged", round_, [_word(round_)])]
        return [
            Flag(
                round_,
                _address(event["offender"]),
                _address(event["server"]),
                int(event["slot"]),
                bytes(event["transaction_hash"]),
                bytes(event["expected"]),
            )
            for event in found
        ]

    def _first(self, round_: int, slot: int) -> Post | None:
        return next(iter(self.posts(round_, slot).values()), None)

    def _slot_logs(self, round_: int, slot: int) -> list[Any]:
        if slot >= contract.ITERATE:
            return self._logs("IteratePosted", round_, [_word(round_), None, _word(slot - contract.ITERATE)])
        return self._logs(_EVENT_OF[slot], round_, [_word(round_)])

    def _logs(self, event: str, round_: int, topics: list[Any]) -> list[Any]:
        first, last = self._span(round_)
        return self._connection.logs(["0x" + events()[event].topic.hex(), *topics], first, last)

    def _span(self, round_: int) -> tuple[Any, Any]:
        """The blocks a round can be in: one on our own chain (P1), any on another."""
        if not self._connection.is_embedded:
            return "earliest", "latest"
        if round_ + 1 > self._connection.head():
            return "pending", "pending"
        return round_ + 1, round_ + 1

    def _event(self, log: Any) -> Call:
        event = decode_log(tuple(bytes(topic) for topic in log["topics"]), bytes(log["data"]))
        if event is None:
            raise LedgerError("the registry's log is none of its events; is this the registry?")
        return event

    def _read_post(self, log: Any, round_: int, slot: int) -> Post:
        event = self._event(log)
        sender = _address(event["leader" if "leader" in event else "sender"])
        transaction = self._transaction(log)
        call = decode_call(bytes(transaction["input"]))
        digest, chunks = bytes(event["digest"]), int(event["chunks"])
        payload = self._joined(round_, slot, sender, transaction, chunks) if chunks else bytes(call["payload"])
        intact = not chunks or keccak(payload) == digest
        return Post(round_, slot, sender, digest, payload, bytes(log["transactionHash"]), call, intact)

    def _transaction(self, log: Any) -> Any:
        transaction = self._connection.transaction(bytes(log["transactionHash"]))
        if transaction is None:
            raise LedgerError(
                f"the node has a log of transaction {log['transactionHash'].hex()} but not the transaction"
            )
        return transaction

    def _joined(self, round_: int, slot: int, sender: bytes, post: Any, chunks: int) -> bytes:
        """The chunks the post refers to: the sender's last ones for the slot before it."""
        topics = [_word(round_), "0x" + sender.rjust(32, b"\0").hex(), _word(slot)]
        sent = [self._transaction(log) for log in self._logs("ChunkPosted", round_, topics)]
        before = sorted((each for each in sent if each["nonce"] < post["nonce"]), key=lambda each: int(each["nonce"]))
        return b"".join(bytes(decode_call(bytes(each["input"]))["data"]) for each in before[-chunks:])

    def _founding_model(self) -> Post | None:
        for log in self._logs("Founded", 0, []):
            event, transaction = self._event(log), self._transaction(log)
            call, founder, chunks = (
                decode_call(bytes(transaction["input"])),
                _address(event["founder"]),
                event["chunks"],
            )
            payload = call["payload"]
            if chunks:
                payload = self._joined(0, contract.MODEL, founder, transaction, chunks)
            digest = bytes(event["model"])
            intact = not chunks or keccak(payload) == digest
            sent = bytes(log["transactionHash"])
            return Post(0, contract.MODEL, founder, digest, bytes(payload), sent, call, intact)
        return None

    # --- reading the network

    def round(self) -> int:
        """The round that is running."""
        return int(self._connection.ask("round"))

    def parameters(self) -> bytes:
        """The founding parameters, canonical JSON (P2)."""
        model = self.model(0)
        if model is None:
            raise LedgerError("the network is not founded: there is no founding transaction")
        return bytes(model.arguments["parameters"])

    def participants(self) -> dict[bytes, bytes]:
        """Home server of every participant; a server's is itself."""
        topic = "0x" + events()["Registered"].topic.hex()
        found = [self._event(log) for log in self._connection.logs([topic], "earliest", self._connection.visible)]
        return {_address(event["participant"]): _address(event["home"]) for event in found}

    def rank(self, server: bytes) -> int | None:
        """When a server may lead the running round (P12); None if it may not."""
        rank = int(self._connection.ask("rank", server))
        return None if rank == 2**256 - 1 else rank

    def leader(self) -> bytes:
        """The server with rank 0."""
        for server in self._connection.ask("server_list"):
            if self.rank(_address(server)) == 0:
                return _address(server)
        raise LedgerError("no server may lead: all are excluded")

    def is_excluded(self, participant: bytes) -> bool:
        """Whether a participant is excluded in the running round."""
        return bool(self._connection.ask("is_excluded", participant))

    def credit(self, device: bytes) -> int:
        """Rounds a device has sealed."""
        return int(self._connection.ask("credit", device))

    def model_digest(self) -> bytes:
        """Digest of the last model."""
        return bytes(self._connection.ask("model_digest"))

    def plan_digest(self) -> bytes:
        """Digest of the last plan."""
        return bytes(self._connection.ask("plan_digest"))

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

    # --- building and sealing

    def propose(self) -> Header:
        """Ask the node to make the round a candidate block of this account (our own node only)."""
        raw = self._connection.request("bfl_propose", Web3.to_hex(self._own_address()))
        return Header.from_bytes(_data(raw))

    def mining_task(self, leader: bytes | None = None) -> MiningTask:
        """What this device mines now."""
        device, connection = self._own_address(), self._connection
        if connection.is_embedded:
            wanted = [Web3.to_hex(device)] + ([Web3.to_hex(leader)] if leader else [])
            header = Header.from_bytes(_data(connection.request("bfl_getWork", *wanted)))
            if header.winner != device:
                raise LedgerError("the node hands out a header that names another winner; its nonce would not be ours")
            return MiningTask(header.mining_hash, header.difficulty, header.block_number - 1, header)
        round_ = self.round()
        anchor = bytes(connection.web3.eth.get_block(int(connection.ask("anchor")))["hash"])
        puzzle = contract_puzzle(connection.chain_id, connection.registry, round_, anchor, self.model_digest(), device)
        return MiningTask(puzzle, connection.seal_difficulty, round_, None)

    def submit_nonce(self, task: MiningTask, nonce: bytes) -> bytes:
        """Seal the round; returns the block's hash (our own node) or the transaction's."""
        if task.header is None:
            return self._send("seal", task.round, nonce)
        found = (Web3.to_hex(task.puzzle), Web3.to_hex(nonce), Web3.to_hex(self._own_address()))
        return _data(self._connection.request("bfl_submitWork", *found))

    def _own_address(self) -> bytes:
        if self._account is None:
            raise LedgerError("this ledger is for reading; give it an account")
        return address_of(self._account)


def _word(number: int) -> str:
    return "0x" + number.to_bytes(32, "big").hex()


def _address(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


def _data(found: Any) -> bytes:
    return bytes.fromhex(found.removeprefix("0x")) if isinstance(found, str) else bytes(found)
