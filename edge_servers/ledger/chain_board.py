"""The board of the schemes on the chain: posts are signed transactions, what is read is what the ledger shows (P20)."""

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from eth_account.signers.local import LocalAccount

from chain.client.ledger import Ledger
from chain.client.payloads import MemoryShelf
from chain.client.waiting import wait_until
from chain.errors import ChainError, CodecError
from chain.protocol.contract import decode_call
from chain.protocol.posts import Commitment, Post
from chain.protocol.slots import Slot, iterate_slot, slot_of_kind
from chain.wire.address import Address
from chain.wire.codec import decode_iterate, encode_floats
from chain.wire.documents import ClosedList
from chain.wire.plan import Plan
from chain.wire.plan import read_plan as plan_in
from chain.wire.sidecar import Sidecar
from chain.wire.transactions import decode_transaction
from clients.orders import LedgerTerms, Order
from edge_servers.errors import BoardError, EdgeError, EndorsementWithheldError, GradientRefusedError
from edge_servers.learning.gradients import Close, Gradient, Refusal, SignedGradient
from edge_servers.ledger.board import Clock, InProcessBoard, RoundSlot
from edge_servers.ledger.endorsing import endorse_round, post_endorsements
from edge_servers.replay.record import UNAVAILABLE, GradientReader, RoundRecord, model_of
from edge_servers.replay.replay import iterate_payload, model_payload

_LOG = logging.getLogger(__name__)
_BESIDE = "refusals"


class ChainBoard:
    """One node's ledger as a board, written with the keys of the servers that this process hosts.

    Who is out of a cluster, and why, travels beside the ledger: the leader's closed list carries what counts of it.
    """

    is_signed = True

    def __init__(
        self,
        ledger: Ledger,
        reader: GradientReader,
        accounts: Mapping[Address, LocalAccount],
        clock: Clock,
        beside: InProcessBoard,
        poll_s: float = 0.5,
    ) -> None:
        self.ledger, self.reader, self.founding = ledger, reader, reader.founding
        self._ledgers = {address: ledger.signed_by(account) for address, account in accounts.items()}
        self._clock, self._beside, self._poll_s = clock, beside, poll_s
        self._read: dict[bytes, Any] = {}
        self._round = 0
        self._proven = (0, b"")

    # --- posting

    def post(self, slot: RoundSlot, sender: Address, body: Any) -> Any:
        """Sign and post `body`; the registry refuses a second post of the same sender in the same slot."""
        if slot.kind == _BESIDE:
            return self._beside.post(slot, sender, body)
        try:
            if isinstance(body, Gradient) and body.signed is not None:  # by the device itself
                self.ledger.access.send_raw(body.signed.raw, body.signed.opened, (body.signed.sidecar,))
            else:
                self.send(slot, body, self._ledgers[sender])
        except ChainError as error:
            raise BoardError(f"{self.founding.network.name(sender)} cannot post {slot}: {error}") from error
        return body

    def send(self, slot: RoundSlot, body: Any, ledger: Ledger) -> None:
        """Write `body` as the ledger wants it, and post it through `ledger`, whose account signs."""
        round_, kind, step = slot
        if kind == "gradient":
            payload = encode_floats(body.values, self.founding.sizes, self.founding.settings.rounds.codec)
            base, plan = self.digests(round_)
            ledger.submit_gradient(round_, base, plan, body.samples, body.iterations, payload)
        else:
            ledger.post(slot_of_kind(kind, step), round_, self._payload(round_, kind, body))

    def _payload(self, round_: int, kind: str, body: Any) -> bytes:
        if kind == "plan":
            return bytes(body.payload)
        if kind == "close":
            return self._closed_list(round_, body).encode()
        return iterate_payload(body, self.founding) if kind == "iterate" else model_payload(body, self.founding)

    def _closed_list(self, round_: int, close: Close) -> ClosedList:
        """What the leader holds now, not what it held when the filters began: the rest is unavailable (B4)."""
        posts, name = self.ledger.posts(round_, Slot.GRADIENT), self.founding.network.name
        accepted = tuple(posts[sender].transaction_hash for sender in close.accepted)
        missing = {name(who): post for who, post in posts.items() if who not in close.accepted and not post.is_here}
        told = [(refusal.node, refusal.reason) for refusal in close.refused if refusal.node not in missing]
        refused = (*((who, why) for who, why in told if why != UNAVAILABLE), *((who, UNAVAILABLE) for who in missing))
        return ClosedList(round_, accepted, refused, tuple(post.transaction_hash for post in missing.values()))

    def digests(self, round_: int) -> tuple[bytes, bytes]:
        """Digests of the base model and the plan of a running round, as gradients name them."""
        return self.ledger.model_digest(), self._plan_post(round_).digest

    def _plan_post(self, round_: int) -> Post:
        return next(iter(self.ledger.posts(round_, Slot.PLAN).values()))

    def endorse(self, round_: int, sender: Address) -> None:
        """Sign the sealed block of a round, once: as its leader, or what its leader has signed (Q1)."""
        turn_s, time_ms = self.founding.settings.rounds.turn_s, int(self._clock.now() * 1000)
        try:
            endorse_round(self._ledgers[sender], sender, round_, lambda ready: self._wait(ready, turn_s), time_ms)
        except (ChainError, EndorsementWithheldError) as error:  # the others' endorsements may do
            _LOG.warning("%s does not endorse round %d: %s", self.founding.network.name(sender), round_, error)

    def post_endorsements(self, round_: int, sender: Address) -> None:
        """Post all signatures under the block of a round that are here."""
        try:
            post_endorsements(self._ledgers[sender], round_)
        except ChainError as error:  # they stay beside the chain
            _LOG.warning("%s cannot post endorsements: %s", self.founding.network.name(sender), error)

    def ledger_of(self, server: Address) -> Ledger:
        """The ledger as a server hosted here writes it."""
        return self._ledgers[server]

    # --- reading

    def read(self, slot: RoundSlot) -> dict[Address, Any]:
        """What is visible now and can be read, by sender in ascending order of address."""
        if slot.kind == _BESIDE:
            return self._beside.read(slot)
        posts = self.ledger.posts(slot.round, slot_of_kind(slot.kind, slot.step))
        bodies = {Address(sender): self._body(slot.kind, post) for sender, post in posts.items()}
        return {sender: body for sender, body in bodies.items() if body is not None}

    def _body(self, kind: str, post: Post) -> Any:
        """What a post says; None where it says nothing that can be read, or its payload is not here yet.

        Read once: a hash has one content.
        """
        if post.round != self._round:
            self._round, self._read = post.round, {}
        if post.transaction_hash not in self._read:
            payload = post.payload
            if payload is None:
                return None
            try:
                self._read[post.transaction_hash] = self._readers[kind](self, post, payload)
            except (ChainError, EdgeError):
                self._read[post.transaction_hash] = None
        return self._read[post.transaction_hash]

    def _read_close(self, post: Post, payload: bytes) -> Close:
        closed = ClosedList.decode(payload)
        posts = self.ledger.posts(post.round, Slot.GRADIENT)
        senders = {each.transaction_hash: Address(sender) for sender, each in posts.items()}
        unknown = [each for each in closed.accepted if each not in senders]
        if unknown:
            raise CodecError(f"the closed list accepts 0x{unknown[0].hex()}, which is no gradient of this round")
        accepted = tuple(senders[each] for each in closed.accepted)
        return Close(accepted, tuple(Refusal(who, reason, "") for who, reason in closed.refused))

    _readers: Mapping[str, Callable[["ChainBoard", Post, bytes], Any]] = {
        "plan": lambda _, __, payload: plan_in(payload),
        "gradient": lambda self, post, _: self.reader.read(post, self.plan(post.round)),
        "close": _read_close,
        "iterate": lambda self, _, payload: decode_iterate(payload, self.founding.sizes),
        "model": lambda self, _, payload: model_of(payload, self.founding),
    }

    def plan(self, round_: int) -> Plan:
        """The plan of a running round."""
        plan: Plan = next(iter(self.read(RoundSlot(round_, "plan")).values()))
        return plan

    def wait_for(self, slot: RoundSlot, senders: Iterable[Address], deadline_s: float) -> dict[Address, Any]:
        """Posts of the slot once all `senders` are among them, or what is there after `deadline_s`."""
        wanted, found = set(senders), dict[Address, Any]()

        def is_complete() -> bool:
            nonlocal found
            found = self.read(slot)
            return wanted <= found.keys()

        self._wait(is_complete, deadline_s)
        return found

    def posted_iterate(self, round_: int, step: int, sender: Address, deadline_s: float) -> Post | None:
        """One server's iterate as it was posted, waited for at most so long; None where it is missing."""
        found: Post | None = self._wait(lambda: self.ledger.posts(round_, iterate_slot(step)).get(sender), deadline_s)
        return found

    def posted_iterates(self, round_: int, step: int) -> dict[Address, Post]:
        """The iterates of a step that are visible now."""
        return {Address(sender): post for sender, post in self.ledger.posts(round_, iterate_slot(step)).items()}

    def wait_for_gradients(self, round_: int, senders: Iterable[Address], deadline_s: float) -> bool:
        """Whether the payloads of these gradients are here, waited for at most so long (B4)."""
        wanted = set(senders)

        def are_here() -> bool:
            posts = self.ledger.posts(round_, Slot.GRADIENT)
            return all(sender in posts and posts[sender].is_here for sender in wanted)

        return bool(self._wait(are_here, deadline_s))

    def _wait(self, ready: Callable[[], Any], deadline_s: float) -> Any:
        return wait_until(ready, deadline_s, self._poll_s, self._clock.now, self._clock.sleep)

    def record(self, round_: int) -> RoundRecord:
        """Everything of a running round."""
        return RoundRecord.of(round_, self.ledger.round_posts(round_))

    def drop(self, slot: RoundSlot, sender: Address) -> None:
        """Go on without a leader's post: the next in rank posts another."""
        post = self.ledger.posts(slot.round, slot_of_kind(slot.kind)).get(sender)
        if post is not None:
            self.ledger.drop(post.transaction_hash)

    def wait_turn(self, rank: int) -> None:
        """Let time pass until whoever has this rank may lead: rank * T after the parent block (P12)."""
        left_s = self.ledger.parent_time() + rank * self.founding.settings.rounds.turn_s - self._clock.now()
        if left_s > 0:
            self._clock.sleep(left_s)

    # --- devices

    def with_terms(self, orders: list[Order], addresses: Sequence[Address]) -> list[Order]:
        """Orders with what a device signs for, the plan as it was signed (Q5) and the proof of the model (P16)."""
        if not orders:
            return []
        round_ = orders[0].round
        base, plan = self.ledger.model_digest(), self._plan_post(round_)
        payload = plan.payload
        if payload is None:
            raise BoardError(f"the plan of round {round_} is not here any more")
        proof = self._proof(round_ - 1) if round_ > 1 else b""
        post = self.ledger.signed_bytes(plan)
        access, codec = self.ledger.access, self.founding.settings.rounds.codec
        terms = LedgerTerms(access.chain_id, access.registry.hex(), 0, codec, base.hex(), plan.digest.hex())
        return [
            replace(
                order,
                ledger=replace(terms, nonce=self.ledger.nonce(address)),
                proof=proof,
                plan_post=post,
                plan_payload=payload,
            )
            for order, address in zip(orders, addresses, strict=True)
        ]

    def _proof(self, round_: int) -> bytes:
        """The proof of a final model: signatures, no header chain, so a device may have been away for any time (Q2)."""
        if self._proven[0] != round_:
            try:
                proof = self.ledger.model_proof(round_)
            except ChainError as error:
                raise BoardError(f"devices have no proof of model {round_}, the network pauses: {error}") from error
            self._proven = (round_, json.dumps(proof.to_json()).encode())
        return self._proven[1]

    def read_signed(self, transaction: bytes, payload: bytes, sender: Address, plan: Plan) -> Gradient:
        """A device's signed gradient as the ledger will show it, checked before it is posted (P6)."""
        try:
            opened = decode_transaction(transaction)
            call = decode_call(opened.data)
            signer = Address(opened.sender)
        except ChainError as error:
            raise GradientRefusedError("malformed", str(error)) from error
        if signer != sender:
            raise GradientRefusedError("forged", f"found the signature of {signer}, expected {sender}")
        if call.name != "gradient" or int(call["round"]) != plan.round:
            raise GradientRefusedError("malformed", f"found a call of {call.name}, expected this round's gradient")
        sidecar, named = Sidecar(payload), Commitment(bytes(call["digest"]), int(call["size"]))
        if len(payload) != named.size or len(payload) != self.founding.payload_sizes.gradient:
            expected = self.founding.payload_sizes.gradient
            raise GradientRefusedError("malformed", f"found a gradient of {len(payload)} bytes, expected {expected}")
        if sidecar.digest != named.digest:
            raise GradientRefusedError("malformed", "found a gradient that is not the one it has signed")
        gradient = self.reader.read(Post.of(call, signer, opened.hash, MemoryShelf([sidecar])), plan)
        return replace(gradient, signed=SignedGradient(transaction, opened, sidecar))

    def is_excluded(self, server: Address) -> bool:
        """Whether the registry takes no more posts of a server in the running round."""
        return self.ledger.is_excluded(server)
