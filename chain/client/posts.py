"""What was posted in a round, read back through any web3: plans, gradients, closed lists, iterates, models, flags."""

from dataclasses import dataclass
from typing import Any

from eth_hash.auto import keccak

from chain.client.connection import Connection
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

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

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
                Address(event["offender"]),
                Address(event["server"]),
                int(event["slot"]),
                bytes(event["transaction_hash"]),
                bytes(event["expected"]),
            )
            for event in found
        ]

    def _first(self, round_: int, slot: int) -> Post | None:
        return next(iter(self.posts(round_, slot).values()), None)

    def _slot_logs(self, round_: int, slot: int) -> list[Any]:
        kind, step = kind_of(slot), step_of(slot)
        if kind not in _EVENTS:
            return []
        return self._logs(_EVENTS[kind], round_, [word(round_)] + ([] if step is None else [None, word(step)]))

    def _logs(self, event: str, round_: int, topics: list[Any]) -> list[Any]:
        first, last = self._span(round_)
        return self._connection.logs(["0x" + events()[event].topic.hex(), *topics], first, last)

    def _span(self, round_: int) -> tuple[Any, Any]:
        """The blocks a round can be in: one on our own chain (P1), any on another.

        A round that is not sealed yet may be by the time the node looks for it.
        """
        if not self._connection.is_embedded:
            return "earliest", "latest"
        number = round_ + 1
        return number, number if number <= self._connection.head() else "pending"

    def _event(self, log: Any) -> Call:
        event = decode_log(tuple(bytes(topic) for topic in log["topics"]), bytes(log["data"]))
        if event is None:
            raise LedgerError("the registry's log is none of its events; is this the registry?")
        return event

    def _read_post(self, log: Any, round_: int, slot: int) -> Post | None:
        """The post behind a log; None where its calldata is not canonical: two readers could read two things."""
        event, transaction = self._event(log), self._transaction(log)
        sender = next(Address(event[name]) for name in ("leader", "sender", "founder") if name in event)
        try:
            call = decode_call(bytes(transaction["input"]))
        except NotRegistryCallError:
            return None  # our own node admits none such; another network may
        digest, chunks = bytes(event["model" if "model" in event else "digest"]), int(event["chunks"])
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
        topics = [word(round_), "0x" + sender.rjust(32, b"\0").hex(), word(slot)]
        sent = [self._transaction(log) for log in self._logs("ChunkPosted", round_, topics)]
        before = sorted((each for each in sent if each["nonce"] < post["nonce"]), key=lambda each: int(each["nonce"]))
        return b"".join(bytes(decode_call(bytes(each["input"]))["data"]) for each in before[-chunks:])

    def _founding_model(self) -> Post | None:
        logs = self._logs("Founded", 0, [])
        return self._read_post(logs[0], 0, Slot.MODEL) if logs else None


def word(number: int) -> str:
    """A number as a topic."""
    return "0x" + number.to_bytes(32, "big").hex()
