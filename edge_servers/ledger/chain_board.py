"""The board of the schemes on the chain: posts are signed transactions, what is read is what the ledger shows (P20)."""

import contextlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak

from chain.client.ledger import Ledger
from chain.client.posts import Post
from chain.errors import ChainError, CodecError
from chain.protocol import slots
from chain.protocol.contract import decode_call
from chain.wire.codec import decode_iterate, encode_floats
from chain.wire.documents import ClosedList
from chain.wire.transactions import Transaction, decode_transaction
from clients.orders import LedgerTerms, Order
from edge_servers.errors import BoardError, EdgeError, GradientRefusedError
from edge_servers.founding.parameters import FoundingParameters
from edge_servers.learning.gradients import Close, Gradient, Refusal
from edge_servers.ledger.board import Clock, InProcessBoard, Slot
from edge_servers.planning.plan import Plan
from edge_servers.planning.plan import read_plan as plan_in
from edge_servers.replay.record import RoundRecord, model_of, read_gradient, text
from edge_servers.replay.replay import iterate_payload, model_payload

_LOG = logging.getLogger(__name__)
_BESIDE = "refusals"
_HEADERS_BACK = 16
"""Rounds that a device may miss and still link the next model to a block it knows"""


class LedgerBoard:
    """One node's ledger as a board, written with the keys of the servers that this process hosts.

    Who is out of a cluster, and why, travels beside the ledger: the leader's closed list carries what counts of it.
    """

    def __init__(
        self,
        ledger: Ledger,
        founding: FoundingParameters,
        accounts: Mapping[str, LocalAccount],
        clock: Clock,
        beside: InProcessBoard,
        others: Sequence[Ledger] = (),
        poll_s: float = 0.5,
    ) -> None:
        self.ledger, self.founding = ledger, founding
        self._ledgers = {address: ledger.signed_by(account) for address, account in accounts.items()}
        self._clock, self._beside, self._poll_s = clock, beside, poll_s
        self._accounts, self._others = accounts, others
        self._read: dict[bytes, Any] = {}
        self._round = 0
        self._proven = (0, b"")
        self._opened: dict[bytes, Transaction] = {}

    # --- posting

    def post(self, slot: Slot, sender: str, body: Any) -> None:
        """Sign and post `body`; the registry refuses a second post of the same sender in the same slot."""
        round_, kind, step = slot
        if kind == _BESIDE:
            self._beside.post(slot, sender, body)
            return
        try:
            self._post(round_, kind, step, sender, body)
        except ChainError as error:
            raise BoardError(f"{self.founding.network.name(sender)} cannot post {slot}: {error}") from error

    def _post(self, round_: int, kind: str, step: int, sender: str, body: Any, through: Ledger | None = None) -> None:
        if isinstance(body, Gradient) and body.signed:
            self.ledger.submit_raw(body.signed, self._opened.pop(body.transaction_hash, None))
            return
        ledger = through or self._ledgers[sender]
        if kind == "gradient":
            payload = encode_floats(body.values, self.founding.sizes, self.founding.settings.rounds.codec)
            base, plan = self.digests(round_)
            ledger.submit_gradient(round_, base, plan, body.samples, body.iterations, payload)
        else:
            ledger.post(slots.slot_of_kind(kind, step), round_, self._payload(round_, kind, body))

    def _payload(self, round_: int, kind: str, body: Any) -> bytes:
        if kind == "plan":
            return bytes(body.payload)
        if kind == "close":
            return self._closed_list(round_, body).encode()
        return iterate_payload(body, self.founding) if kind == "iterate" else model_payload(body, self.founding)

    def _closed_list(self, round_: int, close: Close) -> ClosedList:
        posts = self.ledger.posts(round_, slots.Slot.GRADIENT)
        hashes = {text(sender): post.transaction_hash for sender, post in posts.items()}
        refused = tuple((refusal.node, refusal.reason) for refusal in close.refused)
        return ClosedList(tuple(hashes[sender] for sender in close.accepted), refused)

    def digests(self, round_: int) -> tuple[bytes, bytes]:
        """Digests of the base model and the plan of a running round, as gradients name them."""
        plan = next(iter(self.ledger.posts(round_, slots.Slot.PLAN).values()))
        return self.ledger.model_digest(), plan.digest

    def endorse(self, round_: int, sender: str) -> None:
        """This server's node has checked the parent block; with one node for all there is nothing to agree on."""
        if self._others:
            try:
                self._ledgers[sender].submit_endorsement(round_, self.ledger.parent_hash())
            except ChainError as error:  # the others' endorsements may do
                _LOG.warning("%s cannot endorse: %s", self.founding.network.name(sender), error)

    def submit_flag(self, server: str, round_: int, offender: str, slot: int, found: bytes, expected: bytes) -> None:
        """One server's accusation."""
        self._ledgers[server].submit_flag(round_, bytes.fromhex(offender[2:]), slot, found, expected)

    def submit_equivocation(self, server: str, round_: int, pair: Any) -> None:
        """One server's proof that somebody signed two posts for one slot."""
        self._ledgers[server].submit_equivocation(round_, *pair)

    def post_twice(self, slot: Slot, sender: str, first: Any, second: Any) -> None:
        """What an equivocator does: sign two posts for one slot. Each node takes one and keeps both as evidence."""
        self.post(slot, sender, first)
        for ledger in (self.ledger, *self._others):
            with contextlib.suppress(ChainError):
                self._post(*slot, sender, second, ledger.signed_by(self._accounts[sender]))

    # --- reading

    def read(self, slot: Slot) -> dict[str, Any]:
        """What is visible now and can be read, by sender in ascending order of address."""
        round_, kind, step = slot
        if kind == _BESIDE:
            return self._beside.read(slot)
        number = slots.slot_of_kind(kind, step)
        found = {}
        for sender, post in self.ledger.posts(round_, number).items():
            body = self._body(kind, post)
            if body is not None:
                found[text(sender)] = body
        return found

    def _body(self, kind: str, post: Post) -> Any:
        """What a post says; None where it says nothing that can be read. Read once: a hash has one content."""
        if post.round != self._round:
            self._round, self._read, self._opened = post.round, {}, {}
        if post.transaction_hash not in self._read:
            try:
                self._read[post.transaction_hash] = self._readers[kind](self, post) if post.is_intact else None
            except (ChainError, EdgeError):
                self._read[post.transaction_hash] = None
        return self._read[post.transaction_hash]

    def _read_close(self, post: Post) -> Close:
        closed = ClosedList.decode(post.payload)
        posts = self.ledger.posts(post.round, slots.Slot.GRADIENT)
        senders = {each.transaction_hash: text(sender) for sender, each in posts.items()}
        unknown = [each for each in closed.accepted if each not in senders]
        if unknown:
            raise CodecError(f"the closed list accepts 0x{unknown[0].hex()}, which is no gradient of this round")
        accepted = tuple(senders[each] for each in closed.accepted)
        return Close(accepted, tuple(Refusal(who, reason, "") for who, reason in closed.refused))

    def _read_gradient(self, post: Post) -> Gradient:
        return read_gradient(post, self.plan(post.round), self.founding)

    _readers: Mapping[str, Callable[["LedgerBoard", Post], Any]] = {
        "plan": lambda _, post: plan_in(post.payload),
        "gradient": _read_gradient,
        "close": _read_close,
        "iterate": lambda self, post: decode_iterate(post.payload, self.founding.sizes),
        "model": lambda self, post: model_of(post.payload, self.founding),
    }

    def plan(self, round_: int) -> Plan:
        """The plan of a running round."""
        plan: Plan = next(iter(self.read(Slot(round_, "plan")).values()))
        return plan

    def wait_for(self, slot: Slot, senders: Iterable[str], deadline_s: float) -> dict[str, Any]:
        """Posts of the slot once all `senders` are among them, or what is there after `deadline_s`."""
        wanted, end = set(senders), self._clock.now() + deadline_s
        while not wanted <= (found := self.read(slot)).keys() and self._clock.now() < end:
            self._clock.sleep(self._poll_s)
        return found

    def posted(self, slot: Slot, sender: str, deadline_s: float) -> Post | None:
        """One server's iterate as it was posted, waited for at most so long; None where it is missing."""
        number, who, end = slots.iterate_slot(slot[2]), bytes.fromhex(sender[2:]), self._clock.now() + deadline_s
        while True:
            post = self.ledger.posts(slot[0], number).get(who)
            if post is not None or self._clock.now() >= end:
                return post if post is not None and post.is_intact else None
            self._clock.sleep(self._poll_s)

    def record(self, round_: int) -> RoundRecord:
        """Everything of a running round."""
        return RoundRecord.of(round_, self.ledger.round_posts(round_))

    def drop(self, slot: Slot, sender: str) -> None:
        """Go on without a leader's post: the next in rank posts another."""
        round_, kind, _ = slot
        post = self.ledger.posts(round_, slots.slot_of_kind(kind)).get(bytes.fromhex(sender[2:]))
        if post is not None:
            self.ledger.drop(post.transaction_hash)

    def wait_turn(self, rank: int) -> None:
        """Let time pass until whoever has this rank may lead: rank * T after the parent block (P12)."""
        left_s = self.ledger.parent_time() + rank * self.founding.settings.rounds.turn_s - self._clock.now()
        if left_s > 0:
            self._clock.sleep(left_s)

    def with_terms(self, orders: list[Order], addresses: Sequence[str]) -> list[Order]:
        """Orders with what a device needs to sign its gradient, and with the proof of the model it gets (P16)."""
        if not orders:
            return []
        round_ = orders[0].round
        base, plan = self.digests(round_)
        proof = self._proof(round_ - 1) if round_ > 1 else b""
        access = self.ledger.access
        return [
            replace(
                order,
                proof=proof,
                ledger=LedgerTerms(
                    chain_id=access.chain_id,
                    registry=access.registry.hex(),
                    frame_bytes=access.settings.payload_bytes,
                    nonce=self.ledger.nonce(bytes.fromhex(address[2:])),
                    codec=self.founding.settings.rounds.codec,
                    base_model=base.hex(),
                    plan=plan.hex(),
                ),
            )
            for order, address in zip(orders, addresses, strict=True)
        ]

    def _proof(self, round_: int) -> bytes:
        """The proof of a sealed model, from far enough back for a device that was away for a while."""
        if self._proven[0] != round_:
            proof = self.ledger.model_proof(round_, max(1, round_ - _HEADERS_BACK))
            self._proven = (round_, json.dumps(proof.to_json()).encode())
        return self._proven[1]

    def opener(self, plan: Plan) -> Callable[[bytes, str], Gradient]:
        """How a device's signed gradient is read: as the ledger will show it, checked before it is posted (P6)."""

        def opened(raw: bytes, expected: str) -> Gradient:
            try:
                transaction = decode_transaction(raw)
                call = decode_call(transaction.data)
                sender = transaction.sender
            except ChainError as error:
                raise GradientRefusedError("malformed", str(error)) from error
            if text(sender) != expected:
                raise GradientRefusedError("forged", f"found the signature of {text(sender)}, expected {expected}")
            if call.name != "gradient" or int(call["round"]) != plan.round:
                raise GradientRefusedError("malformed", f"found a call of {call.name}, expected this round's gradient")
            post = Post(
                plan.round, slots.Slot.GRADIENT, sender, bytes(call["digest"]), bytes(call["payload"]),
                transaction.hash, call, is_intact=not call["chunks"],
            )  # fmt: skip
            gradient = read_gradient(post, plan, self.founding)
            self._read[post.transaction_hash] = gradient
            self._opened[transaction.hash] = transaction
            return replace(gradient, signed=raw)

        return opened

    def is_excluded(self, server: str) -> bool:
        """Whether the registry takes no more posts of a server in the running round."""
        return self.ledger.is_excluded(bytes.fromhex(server[2:]))


def digest(payload: bytes) -> bytes:
    """A post's name on the ledger."""
    return bytes(keccak(payload))
