"""What was posted in a round, read back from any chain: plans, gradients, closed lists, iterates, models, flags."""

from collections.abc import Sequence
from dataclasses import dataclass

from eth_hash.auto import keccak

from chain.client.access import ChainAccess, FoundLog, SentCall
from chain.errors import LedgerError, NotRegistryCallError
from chain.protocol.contract import Call, decode_call, decode_log, events
from chain.protocol.posts import Post
from chain.protocol.slots import Slot, iterate_slot, kind_of, step_of
from chain.wire.address import Address

_EVENTS = {
    "plan": "Planned",
    "gradient": "GradientPosted",
    "close": "Closed",
    "iterate": "IteratePosted",
    "model": "ModelPublished",
}
"""What the registry tells of each kind of post."""


@dataclass(frozen=True)
class Flag:
    """A server's accusation (P15)."""

    round: int
    offender: Address
    server: Address
    slot: int
    transaction_hash: bytes
    expected: bytes


class PostReader:
    """Reads the posts of one network; needs no key."""

    def __init__(self, access: ChainAccess) -> None:
        self._access = access

    def plan(self, round_: int) -> Post | None:
        """The plan of a round, if it is visible."""
        return self._first(round_, Slot.PLAN)

    def gradients(self, round_: int) -> dict[bytes, Post]:
        """Gradients of a round by sender, in ascending order of address."""
        return self.posts(round_, Slot.GRADIENT)

    def close(self, round_: int) -> Post | None:
        """The closed list of a round."""
        return self._first(round_, Slot.CLOSE)

    def iterates(self, round_: int, step: int) -> dict[bytes, Post]:
        """Iterates of one step by sender."""
        return self.posts(round_, iterate_slot(step))

    def model(self, round_: int) -> Post | None:
        """Model k; model 0 is the founding one."""
        return self._founding_model() if round_ == 0 else self._first(round_, Slot.MODEL)

    def posts(self, round_: int, slot: int) -> dict[bytes, Post]:
        """What is visible in a slot of a round, by sender in ascending order of address."""
        read = [self._read_post(log, round_, slot) for log in self._slot_logs(round_, slot)]
        found = [post for post in read if post is not None]
        return {post.sender: post for post in sorted(found, key=lambda post: post.sender)}

    def flags(self, round_: int) -> list[Flag]:
        """The accusations of a round."""
        found = [self._event(log) for log in self._logs("Flagged", round_, [word(round_)])]
        return [
            Flag(
                round_,
                event["offender"],
                event["server"],
                int(event["slot"]),
                bytes(event["transaction_hash"]),
                bytes(event["expected"]),
            )
            for event in found
        ]

    def _first(self, round_: int, slot: int) -> Post | None:
        return next(iter(self.posts(round_, slot).values()), None)

    def _slot_logs(self, round_: int, slot: int) -> list[FoundLog]:
        kind, step = kind_of(slot), step_of(slot)
        if kind not in _EVENTS:
            return []
        return self._logs(_EVENTS[kind], round_, [word(round_), *([] if step is None else [None, word(step)])])

    def _logs(self, event: str, round_: int, topics: Sequence[bytes | None]) -> list[FoundLog]:
        first, last = self._span(round_)
        return self._access.logs([events()[event].topic, *topics], first, last)

    def _span(self, round_: int) -> tuple[int, int | None]:
        """The blocks a round can be in: one on our own chain (P1), any on another.

        A round that is not sealed yet may be by the time the node looks for it.
        """
        if not self._access.is_embedded:
            return 0, None
        number = round_ + 1
        return number, number if number <= self._access.head() else None

    def _event(self, log: FoundLog) -> Call:
        event = decode_log(log.topics, log.data)
        if event is None:
            raise LedgerError("the registry's log is none of its events; is this the registry?")
        return event

    def _read_post(self, log: FoundLog, round_: int, slot: int) -> Post | None:
        """The post behind a log; None where its calldata is not canonical: two readers could read two things."""
        event, transaction = self._event(log), self._transaction(log)
        sender = next(event[name] for name in ("leader", "sender", "founder") if name in event)
        try:
            call = decode_call(transaction.data)
        except NotRegistryCallError:
            return None  # our own node admits none such; another network may
        digest, chunks = bytes(event["model" if "model" in event else "digest"]), int(event["chunks"])
        payload = self._join_chunks(round_, slot, sender, transaction, chunks) if chunks else bytes(call["payload"])
        intact = not chunks or keccak(payload) == digest
        return Post(round_, slot, sender, digest, payload, log.transaction_hash, call, intact)

    def _transaction(self, log: FoundLog) -> SentCall:
        transaction = self._access.transaction(log.transaction_hash)
        if transaction is None:
            raise LedgerError(f"the node has a log of transaction {log.transaction_hash.hex()} but not the transaction")
        return transaction

    def _join_chunks(self, round_: int, slot: int, sender: Address, post: SentCall, chunks: int) -> bytes:
        """The chunks the post refers to: the sender's last ones for the slot before it."""
        topics = [word(round_), sender.rjust(32, b"\0"), word(slot)]
        sent = [self._transaction(log) for log in self._logs("ChunkPosted", round_, topics)]
        before = sorted(each for each in sent if each.nonce < post.nonce)
        return b"".join(bytes(decode_call(each.data)["data"]) for each in before[-chunks:])

    def _founding_model(self) -> Post | None:
        logs = self._logs("Founded", 0, [])
        return self._read_post(logs[0], 0, Slot.MODEL) if logs else None


def word(number: int) -> bytes:
    """A number as the topic of a log."""
    return number.to_bytes(32, "big")
