"""Payloads in the database (B5, B6): in parts, each once, kept with their blocks whatever breaks, pruned by rule."""

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chain.errors import StoreError
from chain.store import payloads as payloads_module
from chain.store.database import IN_MEMORY
from chain.store.payloads import EVIDENCE, KeptPayload
from chain.store.store import Store
from chain.wire.blocks import Block
from chain.wire.headers import Header
from chain.wire.sidecar import payload_digest
from tests.chain.network import genesis
from tests.chain.store.faults import Faulty, disk_error

GENESIS = genesis()
PART = 10


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payloads_module, "PART_BYTES", PART)


@pytest.fixture
def store() -> Iterator[Store]:
    made = Store.create(IN_MEMORY, GENESIS)
    yield made
    made.close()


def after(parent: Header, salt: int = 0) -> Header:
    """A header after another one; nothing stands behind it."""
    number, timestamp = parent.block_number + 1, parent.timestamp + 1 + salt
    return replace(parent, parent_hash=parent.hash, block_number=number, timestamp=timestamp, extra_data=b"")


def kept(kind: str, payload: bytes) -> KeptPayload:
    return KeptPayload(payload_digest(payload), kind, len(payload))


def add(store: Store, header: Header, *keeping: tuple[str, bytes], is_canonical: bool = True) -> None:
    """A block that keeps these payloads, by kind."""
    beside = {payload_digest(payload): payload for _, payload in keeping}
    with store.transaction():
        block = Block(header, (), (), header.block_number + 1)
        store.add_block(block, [kept(*each) for each in keeping], beside)
        if is_canonical:
            store.make_canonical(header)


def rows(store: Store) -> int:
    """Parts of all payloads."""
    return int(store._db.rows("SELECT COUNT(*) FROM part")[0][0])


# --- parts and ranges


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize(("size", "parts"), [(0, 1), (1, 1), (PART, 1), (PART + 1, 2), (3 * PART, 3), (35, 4)])
def test_a_payload_lies_in_parts_and_is_read_as_one(store: Store, size: int, parts: int) -> None:
    payload = bytes(range(size))
    digest = payload_digest(payload)
    assert (store.payloads.read(digest), store.payloads.size(digest), store.payloads.has(digest)) == (None, None, False)
    add(store, after(GENESIS.header), ("plan", payload))
    assert (store.payloads.read(digest), store.payloads.size(digest)) == (payload, size)
    assert store.payloads.has(digest)
    assert rows(store) == parts


@pytest.mark.usefixtures("small_parts")
def test_any_range_is_that_of_the_whole(store: Store) -> None:
    payload = bytes(range(35))
    add(store, after(GENESIS.header), ("plan", payload))
    for start in range(40):
        for length in (0, 1, PART - 1, PART, PART + 1, 25, 1000):
            found = store.payloads.read_range(payload_digest(payload), start, length)
            assert found == payload[start : start + length], (start, length)
    assert store.payloads.read_range(bytes(32), 0, PART) == b""


# --- keeping


@pytest.mark.usefixtures("small_parts")
def test_a_payload_that_two_blocks_keep_is_there_once(store: Store) -> None:
    first, shared = after(GENESIS.header), bytes(25)
    second = after(first)
    add(store, first, ("plan", shared))
    with store.transaction():  # of what is there nothing need be at hand
        store.add_block(Block(second, (), (), 3), [kept("plan", shared)], {})
    assert rows(store) == 3
    assert store.kept_by(first.hash) == store.kept_by(second.hash) == [kept("plan", shared)]
    third = after(second)
    add(store, third, ("plan", b"one thing"), ("close", b"one thing"))
    assert rows(store) == 4
    assert [each.digest for each in store.kept_by(third.hash)] == [payload_digest(b"one thing")]


def test_a_block_whose_payload_is_not_at_hand_is_not_added(store: Store) -> None:
    header = after(GENESIS.header)
    block = Block(header, (), (), 2)
    with pytest.raises(StoreError, match=f"the payload 0x{payload_digest(b'plan').hex()} of a block is not at hand"):
        add_without_payloads(store, block)
    assert store.find_header(header.hash) is None
    with pytest.raises(StoreError, match="is not in the database"):
        store.kept_by(header.hash)


def add_without_payloads(store: Store, block: Block) -> None:
    with store.transaction():
        store.add_block(block, [kept("plan", b"plan")], {payload_digest(b"other"): b"other"})


def test_a_block_takes_the_room_of_its_payloads_too(store: Store) -> None:
    first = after(GENESIS.header)
    second = after(first)
    add(store, first)
    add(store, second, ("plan", bytes(1000)), ("close", bytes(500)))
    assert store.block_bytes(second.hash) - store.block_bytes(first.hash) in range(1500, 1510)


def test_what_no_block_keeps_is_swept_and_nothing_else(store: Store) -> None:
    header = after(GENESIS.header)
    add(store, header, ("plan", b"plan"))
    for stray in (b"stray", b"another"):
        store.payloads.put(payload_digest(stray), stray)
    assert store.payloads.sweep() == 2
    assert store.payloads.sweep() == 0
    assert not store.payloads.has(payload_digest(b"stray"))
    assert store.payloads.read(payload_digest(b"plan")) == b"plan"


# --- crashes


@pytest.mark.usefixtures("small_parts")
def test_a_write_that_fails_leaves_neither_a_block_without_its_payloads_nor_payloads_without_their_block(
    tmp_path: Path,
) -> None:
    """At every single statement, and again by a process that comes after the one that died there."""
    header, at, total = after(GENESIS.header), 1, 0
    payloads = [("plan", bytes(range(35))), ("gradient", b"g" * 25), ("model", b"m" * 5)]
    while not total:
        path = tmp_path / f"{at}.db"
        store = Store.create(path, GENESIS)
        real = store._db._connection
        faulty = Faulty(real, disk_error, at, dead=True)
        store._db._connection = faulty  # type: ignore[assignment]
        try:
            add(store, header, *payloads)
            total = faulty.statements
        except StoreError:
            store._db._connection = real
        store.close()
        check_all_or_nothing(path, header, [each for _, each in payloads])
        at += 1
    assert total > 10  # the parts alone are eight
    assert at > total


def check_all_or_nothing(path: Path, header: Header, payloads: list[bytes]) -> None:
    """What another process finds."""
    store = Store.open(path)
    is_there = store.find_header(header.hash) is not None
    assert [store.payloads.read(payload_digest(each)) for each in payloads] == [
        each if is_there else None for each in payloads
    ]
    assert store.payloads.sweep() == 0
    if is_there:
        assert {each.digest for each in store.kept_by(header.hash)} == set(map(payload_digest, payloads))
        assert store.pruned() == []
    else:
        add(store, header, ("plan", b"another try"))
    assert store.head() == header
    store.close()


# --- pruning (B6)


HEAD = 25


def payload_of(kind: str, number: int) -> bytes:
    return b"%s of block %d" % (kind.encode(), number)


def long_chain(store: Store, head: int = HEAD) -> list[Header]:
    """Blocks 1 (which founds) to 25, each with a payload of each kind."""
    headers = [GENESIS.header]
    for number in range(1, head + 1):
        headers.append(after(headers[-1]))
        kinds = ("found",) if number == 1 else ("plan", "gradient", "close", "model", EVIDENCE)
        add(store, headers[-1], *((kind, payload_of(kind, number)) for kind in kinds))
    return headers


def here(store: Store, kind: str, head: int = HEAD) -> list[int]:
    """Blocks whose payload of a kind is here."""
    return [n for n in range(1, head + 1) if store.payloads.has(payload_digest(payload_of(kind, n)))]


def test_pruning_takes_gradients_and_evidence_and_leaves_the_models_that_others_start_from(store: Store) -> None:
    headers = long_chain(store)
    gone = [("gradient", n) for n in range(2, 23)] + [(EVIDENCE, n) for n in range(2, 23)]
    gone += [("model", n) for n in range(2, 22) if n not in (10, 20)]
    assert store.prune(23) == sum(len(payload_of(*each)) for each in gone)
    assert here(store, "gradient") == here(store, EVIDENCE) == [23, 24, 25]
    assert here(store, "model") == [10, 20, 22, 23, 24, 25]
    assert here(store, "plan") == here(store, "close") == list(range(2, HEAD + 1))
    assert here(store, "found") == [1]
    assert store.pruned() == list(range(2, 23))
    assert [each.kind for each in store.kept_by(headers[2].hash)].count("gradient") == 1  # it is still named
    assert store.prune(23) == 0


@pytest.mark.parametrize("first_kept", [HEAD + 1, HEAD + 10, 2**63, 2**300])
def test_the_heads_model_stays_however_much_is_pruned(store: Store, first_kept: int) -> None:
    long_chain(store)
    store.prune(first_kept)
    assert here(store, "model") == [10, 20, HEAD]
    assert here(store, "gradient") == []
    assert here(store, "found") == [1]


@pytest.mark.parametrize("first_kept", [-1, 0, 1, 2])
def test_nothing_is_pruned_before_the_first_round(store: Store, first_kept: int) -> None:
    long_chain(store, head=4)
    assert store.prune(first_kept) == 0
    assert store.pruned() == []


def test_a_payload_that_a_kept_block_shares_stays(store: Store) -> None:
    """The same gradient in an old round and in a new one, and one that was a gradient here and a plan there."""
    header = GENESIS.header
    old = [("gradient", b"same"), ("gradient", b"a plan, too"), ("gradient", b"alone")]
    for keeping in ([("found", b"f")], old, [("plan", b"a plan, too")], [("gradient", b"same")]):
        header = after(header)
        add(store, header, *keeping)
    assert store.prune(4) == len(b"alone")
    assert [store.payloads.has(payload_digest(each)) for _, each in old] == [True, True, False]


def test_pruned_blocks_of_an_abandoned_branch_are_nobodys_gap(store: Store) -> None:
    headers = long_chain(store, head=4)
    side = after(headers[2], salt=7)
    add(store, side, ("gradient", b"of the side"), is_canonical=False)
    store.prune(5)
    assert not store.payloads.has(payload_digest(b"of the side"))
    assert store.pruned() == [2, 3, 4]


def test_what_was_pruned_can_be_put_back(store: Store) -> None:
    headers = long_chain(store, head=4)
    store.prune(4)
    assert store.pruned() == [2, 3]
    for number in (2, 3):
        missing = store.payloads.missing(store._block_id(headers[number].hash))
        for each in missing:
            store.payloads.put(each.digest, payload_of(each.kind, number))
            store.payloads.put(each.digest, b"it is here: nothing happens")
    assert store.pruned() == []
    assert here(store, "gradient", 4) == [2, 3, 4]


def test_a_pruned_file_is_smaller(tmp_path: Path) -> None:
    path = tmp_path / "chain.db"
    store, header = Store.create(path, GENESIS), after(GENESIS.header)
    add(store, header)
    for i in range(4):
        header = after(header)
        add(store, header, ("gradient", bytes([i]) * (1 << 20)))
    store.close()
    before = path.stat().st_size
    store = Store.open(path)
    assert store.prune(4) == 2 << 20
    store.close()
    assert path.stat().st_size == before  # it has room for what comes
    store = Store.open(path)
    assert store.prune(5, shrinks=True) == 1 << 20
    store.close()
    assert before - path.stat().st_size in range(3 << 20, (3 << 20) + 65536)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def test_pruning_that_fails_at_any_write_is_done_or_not_and_can_be_done_again(tmp_path: Path) -> None:
    at, is_done = 1, False
    while not is_done:
        path = tmp_path / f"{at}.db"
        store = Store.create(path, GENESIS)
        long_chain(store, head=4)
        real = store._db._connection
        store._db._connection = Faulty(real, disk_error, at, dead=True)  # type: ignore[assignment]
        try:
            store.prune(4, shrinks=True)
            is_done = True
        except StoreError:
            store._db._connection = real
        store.close()
        store = Store.open(path)
        assert here(store, "gradient", 4) in ([2, 3, 4], [4])
        assert here(store, "plan", 4) == [2, 3, 4]
        store.prune(4)
        assert (here(store, "gradient", 4), store.pruned()) == ([4], [2, 3])
        store.close()
        at += 1
    assert at > 5
