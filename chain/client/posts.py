"""What was posted in a round, read back from any chain: plans, gradients, closed lists, iterates, models, flags."""

from collections.abc import Sequence
from dataclasses import dataclass

from chain.client.access import ChainAccess, FoundLog
from chain.errors import LedgerError, NotRegistryCallError
from chain.protocol.contract import Call, PayloadSizes, decode_call, decode_log, events
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
        read = [self._read_post(log) for log in self._slot_logs(round_, slot)]
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

    def _read_post(self, log: FoundLog) -> Post | None:
        """The post behind a log; None where its calldata is not canonical: two readers could read two things."""
        event = self._event(log)
        sender = next(event[name] for name in ("leader", "sender") if name in event)
        call = self._call(log)
        return None if call is None else Post.of(call, sender, log.transaction_hash, self._access)

    def _call(self, log: FoundLog) -> Call | None:
        transaction = self._access.transaction(log.transaction_hash)
        if transaction is None:
            raise LedgerError(f"the node has a log of transaction {log.transaction_hash.hex()} but not the transaction")
        try:
            return decode_call(transaction.data)
        except NotRegistryCallError:
            return None  # our own node admits none such; another network may

    def signed_bytes(self, post: Post) -> bytes:
        """A post as its sender signed it: whoever gets it can tell who that was."""
        found = self._access.raw_transaction(post.transaction_hash)
        if found is None:
            raise LedgerError(f"transaction 0x{post.transaction_hash.hex()} is not here any more")
        return found

    def founding(self) -> Call | None:
        """The call that founded the network: digests of the parameters and of model 0, sizes of payloads (P2, B2)."""
        logs = self._logs("Founded", 0, [])
        return self._call(logs[0]) if logs else None

    def _founding_model(self) -> Post | None:
        """Model 0, as if it had been posted in a round 0."""
        logs, call = self._logs("Founded", 0, []), self.founding()
        if call is None:
            return None
        founder, size = self._event(logs[0])["founder"], PayloadSizes(*call["sizes"]).model
        sent = logs[0].transaction_hash
        return Post(0, 0, Slot.MODEL, founder, bytes(call["model"]), size, sent, call, self._access)


def word(number: int) -> bytes:
    """A number as the topic of a log."""
    return number.to_bytes(32, "big")
