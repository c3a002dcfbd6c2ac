"""The board of the schemes on the chain: posts are signed transactions, what is read is what the ledger shows (P20)."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from chain.client.ledger import Ledger
from chain.client.payloads import MemoryShelf
from chain.client.waiting import wait_until
from chain.errors import ChainError, CodecError, DivergedError
from chain.protocol.contract import decode_call
from chain.protocol.posts import Commitment, Post
from chain.protocol.slots import Slot, slot_of_kind
from chain.wire.address import Address
from chain.wire.codec import decode_iterate, encode_floats
from chain.wire.documents import ClosedList, Roll
from chain.wire.plan import Plan
from chain.wire.plan import read_plan as plan_in
from chain.wire.sidecar import Sidecar
from chain.wire.transactions import decode_transaction
from clients.orders import LedgerTerms, Order
from edge_servers.errors import AttemptOverError, BoardError, EdgeError, GradientRefusedError
from edge_servers.learning.gradients import Attendance, Close, Gradient, Refusal, SignedGradient
from edge_servers.ledger.attempts import Attempts
from edge_servers.ledger.board import Clock, RoundSlot, hashes_of
from edge_servers.replay.record import UNAVAILABLE, GradientReader, RoundRecord, model_of
from edge_servers.replay.replay import iterate_payload, model_payload


class ChainBoard:
    """One node's ledger as a board, written with the keys of the servers that this process hosts. Waiting ends early
    where the network has left the attempt: `AttemptOverError`.
    """

    is_signed = True

    def __init__(
        self,
        ledger: Ledger,
        reader: GradientReader,
        ledgers: Mapping[Address, Ledger],
        attempts: Attempts,
        clock: Clock,
        poll_s: float = 0.5,
    ) -> None:
        self.ledger, self.reader, self.founding = ledger, reader, reader.founding
        self._ledgers = dict(ledgers)
        self._attempts, self._clock, self._poll_s = attempts, clock, poll_s
        self._read: dict[bytes, Any] = {}
        self._round = 0
        self._proven = (0, b"")

    # --- posting

    def post(self, slot: RoundSlot, sender: Address, body: Any) -> Any:
        """Sign and post `body`; the registry refuses a second post of the same sender in the same slot."""
        try:
            if isinstance(body, Gradient) and body.signed is not None:  # by the device itself
                self.ledger.access.check_agrees()
                self.ledger.access.send_raw(body.signed.raw, body.signed.opened, (body.signed.sidecar,))
            else:
                self.send(slot, body, self._ledgers[sender])
        except DivergedError:
            raise  # this is no failed post: the server stops
        except ChainError as error:
            raise BoardError(f"{self.founding.network.name(sender)} cannot post {slot}: {error}") from error
        return body

    def send(self, slot: RoundSlot, body: Any, ledger: Ledger) -> None:
        """Write `body` as the ledger wants it, and post it through `ledger`, whose account signs."""
        round_, kind, step, attempt = slot
        if kind == "gradient":
            payload = encode_floats(body.values, self.founding.sizes, self.founding.settings.rounds.codec)
            base, plan = self.digests(round_)
            ledger.submit_gradient(round_, base, plan, body.samples, body.iterations, payload, attempt)
        else:
            ledger.post(slot_of_kind(kind, step), round_, self._payload(round_, kind, body), attempt)

    def _payload(self, round_: int, kind: str, body: Any) -> bytes:
        if kind == "plan":
            return bytes(body.payload)
        if kind == "roll":
            return self._roll(round_, body).encode()
        if kind == "close":
            return self._closed_list(round_, body).encode()
        return iterate_payload(body, self.founding) if kind == "iterate" else model_payload(body, self.founding)

    def _roll(self, round_: int, said: Attendance) -> Roll:
        posts = self.ledger.posts(round_, Slot.GRADIENT)
        held = tuple(posts[sender].transaction_hash for sender in said.held if sender in posts)
        return Roll(round_, held, tuple((refusal.node, refusal.reason) for refusal in said.refused))

    def _closed_list(self, round_: int, close: Close) -> ClosedList:
        """What the leader holds now, not what it held when the filters began: the rest is unavailable (B4)."""
        posts, name = self.ledger.posts(round_, Slot.GRADIENT), self.founding.network.name
        accepted = hashes_of(posts, close.accepted)
        missing = {who: post for who, post in posts.items() if who not in close.accepted and not post.is_here}
        gone = [name(who) for who in missing]
        told = [(refusal.node, refusal.reason) for refusal in close.refused if refusal.node not in gone]
        refused = (*((who, why) for who, why in told if why != UNAVAILABLE), *((who, UNAVAILABLE) for who in gone))
        rolls = self.ledger.posts(round_, Slot.ROLL)
        return ClosedList(round_, accepted, refused, hashes_of(missing, missing), hashes_of(rolls, close.rolls))

    def digests(self, round_: int) -> tuple[bytes, bytes]:
        """Digests of the base model and the plan of a running round, as gradients name them."""
        return self.ledger.model_digest(), self._plan_post(round_).digest

    def _plan_post(self, round_: int) -> Post:
        posts = self.ledger.posts(round_, Slot.PLAN)
        if not posts:
            raise AttemptOverError(f"the plan of round {round_} is not here any more")
        return next(iter(posts.values()))

    def ledger_of(self, server: Address) -> Ledger:
        """The ledger as a server hosted here writes it."""
        return self._ledgers[server]

    # --- reading

    def read(self, slot: RoundSlot) -> dict[Address, Any]:
        """What is visible now and can be read, by sender in ascending order of address."""
        posts = self._posts(slot)
        bodies = {sender: self._body(slot.kind, post) for sender, post in posts.items()}
        return {sender: body for sender, body in bodies.items() if body is not None}

    def _posts(self, slot: RoundSlot) -> dict[Address, Post]:
        found = self.ledger.posts(slot.round, slot_of_kind(slot.kind, slot.step))
        return {Address(sender): post for sender, post in found.items() if post.attempt == slot.attempt}

    def _body(self, kind: str, post: Post) -> Any:
        """What a post says; None where it says nothing that can be read, or its payload is not here yet.

        Read once: a hash has one content. What cannot be read may be one day: a list came before what it names.
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
                return None
        return self._read[post.transaction_hash]

    def _read_close(self, post: Post, payload: bytes) -> Close:
        closed = ClosedList.decode(payload)
        posts = self.ledger.posts(post.round, Slot.GRADIENT)
        senders = {each.transaction_hash: Address(sender) for sender, each in posts.items()}
        unknown = [each for each in closed.accepted if each not in senders]
        if unknown:
            raise CodecError(f"the closed list accepts 0x{unknown[0].hex()}, which is no gradient of this round")
        accepted = tuple(senders[each] for each in closed.accepted)
        rolls = self.ledger.posts(post.round, Slot.ROLL)
        cited = tuple(Address(who) for who, each in rolls.items() if each.transaction_hash in closed.rolls)
        return Close(accepted, tuple(Refusal(who, reason, "") for who, reason in closed.refused), cited)

    def _read_roll(self, post: Post, payload: bytes) -> Attendance:
        roll = Roll.decode(payload)
        posts = self.ledger.posts(post.round, Slot.GRADIENT)
        held = tuple(Address(sender) for sender, each in posts.items() if each.transaction_hash in roll.held)
        return Attendance(held, tuple(Refusal(who, reason, "") for who, reason in roll.refused))

    _readers: Mapping[str, Callable[["ChainBoard", Post, bytes], Any]] = {
        "plan": lambda _, __, payload: plan_in(payload),
        "gradient": lambda self, post, _: self.reader.read(post, self.plan(post)),
        "roll": _read_roll,
        "close": _read_close,
        "iterate": lambda self, _, payload: decode_iterate(payload, self.founding.sizes),
        "model": lambda self, _, payload: model_of(payload, self.founding),
    }

    def plan(self, post: Post) -> Plan:
        """The plan of the attempt that a post is of."""
        plans = self.read(RoundSlot(post.round, "plan", attempt=post.attempt)).values()
        if not plans:
            raise CodecError(f"attempt {post.attempt} at round {post.round} has no plan")
        plan: Plan = next(iter(plans))
        return plan

    def wait_for(self, slot: RoundSlot, senders: Iterable[Address], until_s: float) -> dict[Address, Any]:
        """Posts of the slot once all `senders` are among them, or what is there at the deadline."""
        wanted, found = set(senders), dict[Address, Any]()

        def is_complete() -> bool:
            nonlocal found
            found = self.read(slot)
            return wanted <= found.keys()

        self._wait(is_complete, until_s, slot)
        return found

    def wait(self, ready: Callable[[], Any], until_s: float) -> Any:
        """What `ready` gives once it gives something, or at the deadline."""
        clock = self._clock
        return wait_until(ready, max(0.0, until_s - clock.now()), self._poll_s, clock.now, clock.sleep)

    def _wait(self, ready: Callable[[], Any], until_s: float, slot: RoundSlot) -> Any:
        """The same, as long as the network has not left the slot's attempt."""

        def ready_or_over() -> Any:
            found = ready()
            if not found and self._attempts.is_over(slot.round, slot.attempt):
                raise AttemptOverError(f"the network has left attempt {slot.attempt} at round {slot.round}")
            return found

        return self.wait(ready_or_over, until_s)

    def is_with_us(self, slot: RoundSlot, server: Address) -> bool:
        """Whether a server is waited for in an attempt: in the first all are, then those that have passed to it."""
        return slot.attempt == 0 or server in self._attempts.joined(slot.round, slot.attempt)

    def posted_iterate(self, slot: RoundSlot, sender: Address, until_s: float) -> Post | None:
        """One server's iterate as it was posted, waited for until the deadline; None where it is missing."""
        found: Post | None = self._wait(lambda: self._posts(slot).get(sender), until_s, slot)
        return found

    def posted_iterates(self, slot: RoundSlot) -> dict[Address, Post]:
        """The iterates of a step that are visible now."""
        return self._posts(slot)

    def wait_for_gradients(self, slot: RoundSlot, senders: Iterable[Address], until_s: float) -> bool:
        """Whether these gradients and the rolls of the close are here, waited for until the deadline (B4)."""
        wanted = set(senders)

        def are_here() -> bool:
            posts = self._posts(slot)
            are_complete = all(sender in posts and posts[sender].is_here for sender in wanted)
            return are_complete and self.record(slot.round).has_rolls()

        return bool(self._wait(are_here, until_s, slot))

    def record(self, round_: int) -> RoundRecord:
        """Everything of a running round."""
        return RoundRecord.of(round_, self.ledger.round_posts(round_))

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
        terms = LedgerTerms(
            access.chain_id, access.registry.hex(), 0, codec, base.hex(), plan.digest.hex(), plan.attempt
        )
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
