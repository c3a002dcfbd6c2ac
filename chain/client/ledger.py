"""The ledger as everybody else uses it: post and read plans, gradients, iterates, flags and models by round (C1).

One client for our own node (in this process or over HTTP) and for any Ethereum network. "Visible" is the ledger's word
(P20): in the pool of our node, mined on an external network.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from eth_account.signers.local import LocalAccount
from web3 import Web3

from chain.client.access import ChainAccess
from chain.client.asking import web3_over_http
from chain.client.connection import Connection
from chain.client.keys import address_of
from chain.client.network_reader import NetworkReader
from chain.client.payloads import PayloadShelf
from chain.client.posts import Flag
from chain.client.waiting import POLL_S, wait_until
from chain.errors import DeadlineError, LedgerError, NonceError
from chain.protocol.contract import call_gas, decode_call, encode_call, events, functions
from chain.protocol.endorsements import Domain, Endorsement, decode_endorsement, endorse, posted_call
from chain.protocol.passes import Named, Pass, Signed, begun_call, decode_pass, sign_pass
from chain.protocol.posts import KINDS, Post
from chain.protocol.proof import FinalTransaction, ModelProof
from chain.protocol.slots import Slot, kind_of, step_of
from chain.protocol.turns import FOUNDING_BLOCK
from chain.signer.memory import SignedMemory
from chain.signer.statements import Endorsed, Statement
from chain.wire.headers import Header
from chain.wire.seal import contract_puzzle
from chain.wire.sidecar import Sidecar
from chain.wire.transactions import Transaction

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
        access: ChainAccess,
        account: LocalAccount | None = None,
        deadline_s: float | None = 60.0,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        memory: SignedMemory | None = None,
    ) -> None:
        """`deadline_s`: how long a post may take to be mined on an external network; None does not wait. `memory`: what
        the account's key has signed (D5); a key of a real network has one.
        """
        super().__init__(access)
        self._account, self._deadline_s, self._memory = account, deadline_s, memory
        self._now, self._sleep = now, sleep

    @classmethod
    def connect(
        cls, url: str, registry: bytes, token: str = "", beside: PayloadShelf | None = None, **options: Any
    ) -> "Ledger":
        """The ledger behind a JSON-RPC address; `beside` is where payloads lie if that is no node of ours (B7)."""
        return cls(Connection(web3_over_http(url, token), registry, beside), **options)

    @classmethod
    def of(cls, web3: Web3, registry: bytes, beside: PayloadShelf | None = None, **options: Any) -> "Ledger":
        """The ledger behind a web3; that of a node in this process is `chain.node.access.LocalLedger`."""
        return cls(Connection(web3, registry, beside), **options)

    def signed_by(self, account: LocalAccount, memory: SignedMemory | None = None) -> "Ledger":
        """The same ledger, written by somebody else; the connection is shared."""
        return Ledger(self._access, account, self._deadline_s, self._now, self._sleep, memory)

    @property
    def access(self) -> ChainAccess:
        """How this ledger reaches its chain."""
        return self._access

    # --- posting

    def post(self, slot: int, round_: int, payload: bytes, attempt: int = 0, **head: Any) -> bytes:
        """Post in a slot of an attempt at a round: the call commits to the payload, which travels beside it (B1).
        Returns its hash.

        `head` is what the call says besides. A close names its plan, iterates and models name their close: the ones
        that are visible, unless it says otherwise.
        """
        kind = kind_of(slot)
        if kind not in KINDS:
            raise LedgerError(f"slot {slot} is of no post: expected one of {', '.join(KINDS)}")
        sidecar, arguments = Sidecar(payload), functions()[kind].arguments
        said = {
            "round": round_,
            "attempt": attempt,
            "step": step_of(slot),
            "digest": sidecar.digest,
            "size": len(payload),
        }
        for name, ask in (("plan_digest", self.plan_digest), ("close_digest", self.close_digest)):
            if name in arguments and name not in head:
                said[name] = ask()
        return self._send(kind, *((said | head)[name] for name in arguments), sidecars=(sidecar,))

    def submit_gradient(
        self,
        round_: int,
        base_model: bytes,
        plan: bytes,
        samples: int,
        iterations: int,
        payload: bytes,
        attempt: int = 0,
    ) -> bytes:
        """A training node's gradient, with the digests of the model and the plan it was made for."""
        head = {"base_model": base_model, "plan_digest": plan, "samples": samples, "iterations": iterations}
        return self.post(Slot.GRADIENT, round_, payload, attempt, **head)

    def submit_flag(self, round_: int, offender: bytes, slot: int, transaction_hash: bytes, expected: bytes) -> bytes:
        """Accuse: the post in `slot` should have had another digest."""
        return self._send("flag", round_, offender, slot, transaction_hash, expected)

    def submit_equivocation(self, round_: int, first: Transaction, second: Transaction) -> bytes:
        """Prove that one sender signed two different posts for one slot."""
        pairs = (first.unsigned, first.signature, second.unsigned, second.signature)
        return self._send("flag_equivocation", round_, first.sender, *pairs)

    def endorse(self, round_: int, attempt: int, block_hash: bytes, time_ms: int) -> Endorsement:
        """Sign a sealed block that this server has replayed (Q1), or (external networks) a round's `result` (B7)."""
        account, domain = self._signing_account(), self._domain

        def sign() -> bytes:
            return endorse(account, domain, round_, attempt, block_hash, time_ms).encode()

        statement = Statement.endorsement(domain.chain_id, round_, attempt, block_hash)
        return decode_endorsement(self._remembered(statement, sign), domain)

    def sign_pass(self, round_: int, attempt: int, named: Named | None, time_ms: int) -> Pass:
        """Give up the attempts below this one; `named` is this server's highest endorsement in the round (D3.2)."""
        account, domain = self._signing_account(), self._domain

        def sign() -> bytes:
            return sign_pass(account, domain, round_, attempt, named, time_ms).encode()

        statement = Statement.to_pass(domain.chain_id, round_, attempt, None if named is None else Endorsed(*named))
        return decode_pass(self._remembered(statement, sign), domain)

    def _remembered(self, statement: Statement, sign: Callable[[], bytes]) -> bytes:
        self._access.check_agrees()
        return sign() if self._memory is None else self._memory.sign(statement, sign)

    def begin_attempt(self, passes: Sequence[Pass]) -> bytes:
        """Post the certificate of an attempt that this server leads: a majority's passes that name no block."""
        return self._send("begin_attempt", *begun_call(passes))

    @property
    def _domain(self) -> Domain:
        return Domain(self._access.chain_id, self._access.registry)

    def _signing_account(self) -> LocalAccount:
        if self._account is None:
            raise LedgerError("this ledger is for reading; give it an account to sign with")
        return self._account

    def submit_endorsements(self, endorsements: Sequence[Endorsement]) -> bytes:
        """Post servers' signatures under one block; anybody may."""
        return self._send("endorse", *posted_call(endorsements))

    def submit_signatures(self, round_: int, first: Signed, second: Signed) -> bytes:
        """Prove that a server signed two things that no honest one signs both of (Q1, D3.2)."""
        pair = (first.said, first.signature, second.said, second.signature)
        return self._send("flag_signatures", round_, first.signer, *pair)

    def result(self) -> bytes:
        """What servers endorse where rounds are sealed by calls: plan, close and model of the running round (B7)."""
        return bytes(self._access.ask("result"))

    def submit_vote(self, participant: bytes, home: bytes) -> bytes:
        """Vote for a new participant; its home is itself for a server."""
        return self._send("vote", participant, home)

    def conflicts(self) -> list[tuple[Transaction, Transaction]]:
        """Two different posts of one sender for one slot, as the node has seen them (P15)."""
        return self._access.conflicts()

    def _send(self, name: str, *arguments: Any, sidecars: Sequence[Sidecar] = ()) -> bytes:
        if self._account is None:
            raise LedgerError("this ledger is for reading; give it an account to post")
        self._access.check_agrees()
        data = encode_call(name, *arguments)
        gas = call_gas(len(data), self._access.is_embedded)
        if self._memory is None or name not in KINDS:
            return self._access.send(self._account, data, gas, self._deadline_s, sidecars)
        return self._send_remembered(self._memory, self._account, name, data, gas, sidecars)

    def _send_remembered(
        self,
        memory: SignedMemory,
        account: LocalAccount,
        name: str,
        data: bytes,
        gas: int,
        sidecars: Sequence[Sidecar],
    ) -> bytes:
        """Send what this key has signed for a slot, now or before a crash; with another nonce where that is taken."""
        call, access = decode_call(data), self._access
        slot = f"iterate:{call['step']}" if name == "iterate" else name
        statement = Statement.post(access.chain_id, int(call["round"]), int(call["attempt"]), slot, data)
        try:
            return access.send_raw(memory.sign(statement, lambda: access.sign(account, data, gas)), None, sidecars)
        except NonceError:
            return access.send_raw(memory.resign(statement, lambda: access.sign(account, data, gas)), None, sidecars)

    # --- waiting

    def wait_for(
        self, round_: int, slot: int, senders: Iterable[bytes], deadline_s: float, poll_s: float = POLL_S
    ) -> dict[bytes, Post]:
        """Posts of the slot once all `senders` are among them, or what is there at the deadline."""
        wanted, found = set(senders), dict[bytes, Post]()

        def are_all_there() -> bool:
            found.clear()
            found.update(self.posts(round_, slot))
            return wanted <= found.keys()

        self._wait_until(are_all_there, deadline_s, poll_s)
        return found

    def wait_for_round(self, round_: int, deadline_s: float, poll_s: float = POLL_S) -> None:
        """Return once `round_` runs, that is, once the one before is sealed; `DeadlineError` if that takes too long."""
        if not self._wait_until(lambda: self.round() >= round_, deadline_s, poll_s):
            raise DeadlineError(
                f"round {round_} has not begun within {deadline_s:g} s; round {self.round()} is running"
            )

    def _wait_until(self, ready: Callable[[], bool], deadline_s: float, poll_s: float) -> bool:
        return wait_until(ready, deadline_s, poll_s, self._now, self._sleep)

    # --- proving (P16)

    def model_proof(self, round_: int) -> ModelProof:
        """Proof of a final round's model for somebody who knows the network's founding (our own node only)."""
        self._check_embedded()
        model = self.model(round_) if round_ > 0 else None
        if model is None or self._access.head() < round_ + FOUNDING_BLOCK:
            raise LedgerError(f"round {round_} has no sealed model; the head is block {self._access.head()}")
        if self._access.final_number() < round_ + FOUNDING_BLOCK:
            raise LedgerError(f"round {round_} is not final: too few servers have endorsed its block yet")
        joined = (self._final_transaction(sent) for sent in self._joins(round_))
        return ModelProof(self._final_transaction(model.transaction_hash), tuple(joined))

    def _final_transaction(self, transaction_hash: bytes) -> FinalTransaction:
        proof = self._access.proof(transaction_hash)
        return FinalTransaction(proof, tuple(self._access.endorsements(proof.header.hash)))

    def _joins(self, round_: int) -> list[bytes]:
        """The votes that made servers members between the founding and a round."""
        logs = self._access.logs([events()["Registered"].topic], FOUNDING_BLOCK + 1, round_)
        return [log.transaction_hash for log in logs if (event := self._event(log))["participant"] == event["home"]]

    # --- building and sealing

    def propose(self) -> Header:
        """Ask the node to make the round a candidate block of this account (our own node only)."""
        return self._access.propose(self._own_address())

    def mining_task(self, leader: bytes | None = None) -> MiningTask:
        """What this device mines now."""
        device, access = self._own_address(), self._access
        if access.is_embedded:
            header = access.work(device, leader)
            if header.winner != device:
                raise LedgerError("the node hands out a header that names another winner; its nonce would not be ours")
            return MiningTask(header.mining_hash, header.difficulty, header.block_number - 1, header)
        round_ = self.round()
        anchor = access.block_hash(int(access.ask("anchor")))
        puzzle = contract_puzzle(access.chain_id, access.registry, round_, anchor, self.model_digest(), device)
        return MiningTask(puzzle, access.settings.seal_difficulty, round_, None)

    def submit_nonce(self, task: MiningTask, nonce: bytes) -> bytes:
        """Seal the round; returns the block's hash (our own node) or the transaction's."""
        if task.header is None:
            return self._send("seal", task.round, nonce)
        return self._access.submit_work(task.puzzle, nonce, self._own_address())

    def _own_address(self) -> bytes:
        return address_of(self._signing_account())
