"""Every post that is accepted has exactly the events that the registry emits, also where nobody executes (Q3)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from chain.audit.events import read_events
from chain.audit.inspection import inspect_chain
from chain.audit.light import LightInspector
from chain.errors import InspectionError
from chain.protocol.contract import events
from chain.protocol.posts import read_signed_call
from chain.wire.blocks import Block
from chain.wire.receipts import Log, Receipt
from tests.chain.network import genesis
from tests.chain.small_chain import StoredChain, forged, story

REGISTRY = genesis().registry
KINDS = ("begin_attempt", "plan", "endorse", "vote", "gradient", "close", "iterate", "flag", "model")
Change = Callable[[tuple[Log, ...]], tuple[Log, ...]]


def place_of(kind: str) -> tuple[int, int]:
    """Block and position of the first accepted post of a kind."""
    for number, block in enumerate(story().blocks):
        for index, transaction in enumerate(block.transactions):
            post = read_signed_call(transaction, story().genesis)
            if (post.call.name if post.call else "creation") == kind and block.receipts[index].status == 1:
                return number, index
    raise AssertionError(f"no {kind}")


def with_logs(number: int, index: int, change: Change, **changes: Any) -> Block:
    """A block of the small chain, one receipt of which says something else; sealed again."""
    receipts = list(story().blocks[number].receipts)
    receipts[index] = replace(receipts[index], logs=change(receipts[index].logs), **changes)
    return forged(story().blocks[number], receipts=receipts)


def inspected(number: int, block: Block) -> None:
    inspect_chain(StoredChain((*story().blocks[:number], block)))


def _first(log: Log) -> Log:
    """Another first field."""
    return replace(log, topics=(log.topics[0], bytes(31) + b"\x63", *log.topics[2:]))


CHANGES: dict[str, Change] = {
    "no event": lambda logs: (),
    "its event twice": lambda logs: (*logs, *logs),
    "another field": lambda logs: (_first(logs[0]), *logs[1:]),
    "a byte more": lambda logs: (replace(logs[0], data=logs[0].data + b"\0"), *logs[1:]),
    "another kind": lambda logs: (replace(logs[0], topics=(events()["Founded"].topic, *logs[0].topics[1:])), *logs[1:]),
    "another contract": lambda logs: (replace(logs[0], address=bytes(20)), *logs[1:]),
    "one more": lambda logs: (*logs, Log(REGISTRY, (events()["Registered"].topic, b"\1" * 32, b"\1" * 32), b"")),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", CHANGES)
def test_an_accepted_post_with_other_events_is_named(kind: str, change: str) -> None:
    number, index = place_of(kind)
    told = (
        rf"^block {number}: transaction {index} \(0x[0-9a-f]{{64}}\): {kind} was accepted with other events than the "
    )
    with pytest.raises(InspectionError, match=told):
        inspected(number, with_logs(number, index, CHANGES[change]))


@pytest.mark.parametrize("kind", ["creation", "register", "found"])
def test_the_founding_has_its_events_too(kind: str) -> None:
    number, index = place_of(kind)
    for change in (CHANGES["one more"], CHANGES["no event"], CHANGES["a byte more"]):
        if kind == "creation" and change is not CHANGES["one more"]:
            continue
        with pytest.raises(InspectionError, match=f"^block 1: .*{kind} was accepted with other events"):
            inspected(number, with_logs(number, index, change))


def excluding() -> tuple[int, int]:
    """Where the last flag that was needed stands."""
    topic = events()["Excluded"].topic
    for number, block in enumerate(story().blocks):
        for index, receipt in enumerate(block.receipts):
            if any(log.topics[0] == topic for log in receipt.logs):
                return number, index
    raise AssertionError("nobody is excluded")


@pytest.mark.parametrize("field", ["participant", "last_round", "round"])
def test_a_flag_excludes_whom_it_accuses_for_as_long_as_the_terms_say(field: str) -> None:
    def change(logs: tuple[Log, ...]) -> tuple[Log, ...]:
        flagged, excluded = logs
        at = {"round": 1, "participant": 2}.get(field)
        if at is None:
            return flagged, replace(excluded, data=bytes(31) + b"\x63")
        topics = list(excluded.topics)
        topics[at] = bytes(12) + b"\7" * 20
        return flagged, replace(excluded, topics=tuple(topics))

    number, index = excluding()
    with pytest.raises(InspectionError, match="flag was accepted with other events than the registry emits"):
        inspected(number, with_logs(number, index, change))


def test_a_rank_that_the_leader_has_not_is_named() -> None:
    number, index = place_of("plan")
    with pytest.raises(InspectionError, match="plan was accepted with other events"):
        inspected(
            number,
            with_logs(number, index, lambda logs: (replace(logs[0], data=logs[0].data[:-1] + b"\1"),)),
        )


# --- receipts alone


def test_a_reverted_post_says_nothing() -> None:
    """Neither to who reads the whole block, nor to who reads receipts alone."""
    excluded = Log(REGISTRY, (events()["Excluded"].topic, bytes(32), bytes(32)), bytes(32))
    made = with_logs(7, 1, lambda _: (excluded,))
    assert made.receipts[1].status == 0
    with pytest.raises(InspectionError, match=r"^block 7: transaction 1 \(0x.{64}\): a reverted post has events$"):
        inspected(7, made)
    follower = LightInspector(story().genesis, StoredChain(story().blocks))
    for block in story().blocks[:2]:
        follower.check(block)
    for block in story().blocks[2:7]:
        follower.follow(block.header, block.receipts)
    with pytest.raises(InspectionError, match=r"^block 7: a reverted post has events$"):
        follower.follow(made.header, made.receipts)


@pytest.mark.parametrize(
    "log",
    [
        Log(bytes(20), (events()["Planned"].topic, bytes(32), bytes(32)), bytes(96)),
        Log(REGISTRY, (), b""),
        Log(REGISTRY, (bytes(32),), b""),
        Log(REGISTRY, (events()["Planned"].topic, bytes(32)), bytes(96)),
        Log(REGISTRY, (events()["Planned"].topic, bytes(32), bytes(32)), bytes(97)),
        Log(REGISTRY, (events()["Registered"].topic, b"\xff" * 32, bytes(32)), b""),
    ],
)
def test_a_log_that_is_no_event_of_the_registry_is_refused(log: Log) -> None:
    with pytest.raises(InspectionError, match=r"^a log that is no event of the registry$"):
        list(read_events(Receipt(1, 0, (log,)), REGISTRY))
