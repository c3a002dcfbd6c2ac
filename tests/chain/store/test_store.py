"""The chain database: killed at every single write it opens with the old head or the new one, and it loses nothing."""

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from chain.client.keys import address_of
from chain.errors import StoreError
from chain.node.node import Node
from chain.protocol.genesis import Genesis
from chain.protocol.posts import Commitment, read_signed_call
from chain.store.database import IN_MEMORY
from chain.store.store import Store
from chain.wire.blocks import Block
from chain.wire.headers import Header
from chain.wire.receipts import EMPTY_TRIE_ROOT, Log, Receipt
from chain.wire.sidecar import Sidecar, payload_digest
from chain.wire.transactions import Envelope, Transaction, decode_transaction, sign_transaction
from tests.chain.network import CHAIN_ID, SIZES, Clock, Network, account, genesis, seal, sized
from tests.chain.store.faults import die, disk_error, make_faulty

REPOSITORY = Path(__file__).parents[3]
GENESIS = genesis()


# --- blocks, branches, places


def transaction(number: int) -> Transaction:
    envelope = Envelope(CHAIN_ID, number, 21_000, b"\x11" * 20)
    return decode_transaction(sign_transaction(account("alice"), envelope, b""))


def block(parent: Header, *numbers: int, salt: int = 0) -> Block:
    """A block after `parent` with these transactions; no execution stands behind it."""
    header = replace(
        parent,
        parent_hash=parent.hash,
        block_number=parent.block_number + 1,
        timestamp=parent.timestamp + 1 + salt,
        extra_data=b"",
    )
    log = Log(b"\x0a" * 20, (b"\x0b" * 32,), b"data")
    receipts = tuple(Receipt(i % 2, 21_000 * (i + 1), (log,)) for i in range(len(numbers)))
    return Block(header, tuple(map(transaction, numbers)), receipts, parent.block_number + 2)


def added(store: Store, *blocks: Block) -> None:
    with store.transaction():
        for each in blocks:
            store.add_block(each)


def test_a_new_store_has_block_0_and_knows_its_network() -> None:
    store = Store.create(IN_MEMORY, GENESIS)
    assert store.head() == GENESIS.header
    assert store.genesis == GENESIS
    assert store.canonical_hash(0) == GENESIS.header.hash
    assert store.block(GENESIS.header.hash) == Block(GENESIS.header, (), (), 1)
    assert GENESIS.header.state_root == EMPTY_TRIE_ROOT


def test_a_block_is_read_back_whole() -> None:
    store = Store.create(IN_MEMORY, GENESIS)
    first = block(GENESIS.header, 0, 1, 2)
    added(store, first)
    assert store.block(first.header.hash) == first
    assert store.transactions(first.header.hash) == first.transactions
    assert store.receipts(first.header.hash) == first.receipts
    assert store.total_difficulty(first.header.hash) == 2


def test_a_block_is_canonical_only_once_it_is_made_so() -> None:
    store = Store.create(IN_MEMORY, GENESIS)
    first = block(GENESIS.header, 0)
    added(store, first)
    assert store.head() == GENESIS.header
    assert store.canonical_hash(1) is None
    assert store.place(first.transactions[0].hash) is None
    assert store.make_canonical(first.header) == []
    assert store.head() == first.header
    assert store.canonical_hash(1) == first.header.hash
    assert store.place(first.transactions[0].hash) == (1, 0)


def test_a_branch_takes_over_with_the_places_of_its_transactions() -> None:
    """Transactions 0-2 in both branches, 3 in the old one only, 4 in the new one only."""
    store = Store.create(IN_MEMORY, GENESIS)
    old_1 = block(GENESIS.header, 0, 1)
    old_2 = block(old_1.header, 2, 3)
    new_1 = block(GENESIS.header, 4, 0, salt=5)
    new_2 = block(new_1.header, 1)
    new_3 = block(new_2.header, 2)
    added(store, old_1, old_2, new_1, new_2, new_3)
    store.make_canonical(old_2.header)
    assert [store.place(transaction(i).hash) for i in range(5)] == [(1, 0), (1, 1), (2, 0), (2, 1), None]
    assert store.make_canonical(new_3.header) == [old_2.header, old_1.header]
    assert [store.place(transaction(i).hash) for i in range(5)] == [(1, 1), (2, 0), (3, 0), None, (1, 0)]
    assert [store.canonical_hash(i) for i in range(4)] == [
        each.hash for each in (GENESIS.header, new_1.header, new_2.header, new_3.header)
    ]
    assert store.header_by_hash(old_2.header.hash) == old_2.header
    assert store.make_canonical(old_2.header) == [new_3.header, new_2.header, new_1.header]
    assert [store.place(transaction(i).hash) for i in range(5)] == [(1, 0), (1, 1), (2, 0), (2, 1), None]
    assert store.canonical_hash(3) is None


def test_what_is_not_there_is_none_or_named() -> None:
    store = Store.create(IN_MEMORY, GENESIS)
    assert store.find_header(bytes(32)) is None
    assert store.place(bytes(32)) is None
    assert store.node(bytes(32)) is None
    assert [store.canonical_hash(number) for number in (1, -1, 2**63 - 1, 2**63, 2**256)] == [None] * 5
    assert store.transactions(bytes(32)) == ()
    assert store.receipts(bytes(32)) == ()
    for missing in (store.header_by_hash, store.total_difficulty, store.block):
        with pytest.raises(StoreError, match=r"block 0x0000.* is not in the database"):
            missing(bytes(32))


def test_state_nodes_are_named_by_their_hash_and_stay() -> None:
    store = Store.create(IN_MEMORY, GENESIS)
    store.put_nodes([(b"a", b"1"), (b"b", b"2")])
    store.put_nodes([(b"a", b"other")])
    assert (store.node(b"a"), store.node(b"b")) == (b"1", b"2")


def test_a_block_twice_is_refused_by_the_database() -> None:
    store = Store.create(IN_MEMORY, GENESIS)
    first = block(GENESIS.header)
    added(store, first)
    with pytest.raises(StoreError, match="cannot be written: UNIQUE"):
        added(store, first)
    assert store.find_header(first.header.hash) == first.header


# --- a chain on disk


@dataclass(frozen=True)
class Chain:
    """A founded chain in a file, and the posts of its next round, signed."""

    path: Path
    network: Network
    posts: tuple[tuple[bytes, tuple[Sidecar, ...]], ...]
    """Each with the payloads beside it."""
    leader: bytes
    old: Header
    new: Header
    """What the head is once the next round is sealed."""

    def copy(self, folder: Path) -> Path:
        folder.mkdir()
        return Path(shutil.copy(self.path, folder / "chain.db"))

    def ready(self, path: Path) -> Node:
        """A node on a copy, with the round proposed."""
        node = Node.open(path, now=Clock())
        for raw, beside in self.posts:
            node.submit(raw, beside)
        node.propose(self.leader)
        return node

    @property
    def raw_posts(self) -> list[bytes]:
        return [raw for raw, _ in self.posts]

    @property
    def payloads(self) -> list[bytes]:
        """What the next block keeps."""
        return [each.payload for _, beside in self.posts for each in beside]

    def seal(self, node: Node) -> Header:
        return seal(node, address_of(self.network.devices[0]))


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    network, path = Network(), tmp_path_factory.mktemp("chain") / "chain.db"
    node = Node.create(path, GENESIS, now=Clock())
    network.found(node)
    node.close()
    untouched = path.read_bytes()
    node = Node.open(path, now=Clock())
    leader = network.leader(node)
    network.post_plan(node, leader)
    network.post_gradient(node, network.devices[0])
    payloads = [Sidecar(b"plan")], [Sidecar(sized(b"gradient", SIZES.gradient))]
    raws, old = [entry.post.transaction.raw for entry in node.pending()], node.head
    posts = tuple((raw, tuple(beside)) for raw, beside in zip(raws, payloads, strict=True))
    node.propose(address_of(leader))
    new = seal(node, address_of(network.devices[0]))
    node.close()
    path.write_bytes(untouched)
    return Chain(path, network, posts, address_of(leader), old, new)


def statements_of_a_seal(chain: Chain, folder: Path) -> int:
    node = chain.ready(chain.copy(folder))
    faulty = make_faulty(node, disk_error, at=0)
    assert chain.seal(node) == chain.new
    node.close()
    return faulty.statements


def commitments_of(sent: Transaction) -> tuple[Commitment, ...]:
    return read_signed_call(sent, GENESIS).commitments


def check_sound(path: Path, chain: Chain) -> Header:
    """The database is whole, its head valid with everything it needs, and a round can go on; returns the head."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    node = Node.open(path, now=Clock())
    head = node.head
    assert head in (chain.old, chain.new)
    found = node.block(head.block_number)
    assert found is not None
    assert [node.place(each.hash) for each in found.transactions] == [
        (head.block_number, i) for i in range(len(found.transactions))
    ]
    held = [node.payload(payload_digest(each)) for each in chain.payloads]
    kept = {each.digest for each in node._store.kept_by(head.hash)}
    assert kept == {each.digest for sent in found.transactions for each in commitments_of(sent)}
    assert all(node.has_payload(digest) for digest in kept)
    assert node._store.payloads.sweep() == 0
    if head == chain.old:
        assert held == [None] * len(held)
        assert all(node.place(decode_transaction(raw).hash) is None for raw in chain.raw_posts)
        for raw, beside in chain.posts:
            node.submit(raw, beside)
    else:
        assert held == chain.payloads
        chain.network.post_plan(node)
    node.propose(address_of(chain.network.leader(node)))
    sealed = chain.seal(node)
    assert sealed == chain.new or head == chain.new
    node.close()
    return head


def test_a_failed_write_is_undone_and_the_node_goes_on(chain: Chain, tmp_path: Path) -> None:
    """At every single statement of a seal: no part of the block stays, and the next attempt is the same block."""
    total = statements_of_a_seal(chain, tmp_path / "count")
    assert total > 20
    failed = 0
    node = chain.ready(chain.copy(tmp_path / "one"))
    real = node._store._db._connection
    for at in range(1, total + 1):
        before = list(real.iterdump())
        make_faulty(node, disk_error, at)
        try:
            chain.seal(node)
        except StoreError as error:
            assert "disk I/O error" in str(error)  # noqa: PT017 - reading after the commit may fail, too
            failed += 1
        node._store._db._connection = real
        assert not real.in_transaction
        if node._store.head() == chain.new:
            break
        assert list(real.iterdump()) == before
        assert node.head == chain.old
        assert [entry.post.transaction.raw for entry in node.pending()] == chain.raw_posts
        node.propose(chain.leader)
    assert failed >= total // 2
    node.close()
    check_sound(tmp_path / "one" / "chain.db", chain)


def killed(at_work: Callable[[], None]) -> int:
    """Run something in a process of its own; returns the signal that ended it."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            at_work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def test_whoever_dies_at_any_write_leaves_the_old_head_or_the_new_one(chain: Chain, tmp_path: Path) -> None:
    """At every single statement of a seal: by turns a process is killed, and a connection fails for good."""
    total = statements_of_a_seal(chain, tmp_path / "count")
    heads = []
    for at in range(1, total + 1):
        path = chain.copy(tmp_path / str(at))
        if at % 2:
            assert killed(lambda path=path, at=at: seal_until(chain, path, at, die)) == signal.SIGKILL  # type: ignore[misc]
        else:
            seal_until(chain, path, at, disk_error)
        heads.append(check_sound(path, chain).block_number)
    assert heads == sorted(heads)
    assert set(heads) == {1, 2}
    assert heads.index(2) > total // 2


def seal_until(chain: Chain, path: Path, at: int, fault: Callable[[], None]) -> None:
    """Seal a round on a connection that fails from its n-th statement on."""
    node = chain.ready(path)
    make_faulty(node, fault, at, dead=True)
    with contextlib.suppress(StoreError):
        chain.seal(node)
    node.close()


CRASHING = """
import os, signal, sys
from pathlib import Path
from tests.chain.network import Clock, Network, seal
from chain.client.keys import address_of
from chain.node.node import Node
from tests.chain.store.faults import die, make_faulty
node, network = Node.open(Path(sys.argv[1]), now=Clock()), Network()
leader = network.post_round(node)
node.propose(address_of(leader))
make_faulty(node, (lambda: os._exit(9)) if sys.argv[3] == "exit" else die, int(sys.argv[2]))
seal(node, address_of(network.devices[0]))
"""


@pytest.mark.parametrize(("at", "how"), [(15, "kill"), (40, "exit")])
def test_a_whole_program_that_ends_amid_a_block_loses_that_block_only(
    chain: Chain, tmp_path: Path, at: int, how: str
) -> None:
    path = chain.copy(tmp_path / "crash")
    command = [sys.executable, "-c", CRASHING, str(path), str(at), how]
    shown = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert shown.returncode == (9 if how == "exit" else -signal.SIGKILL), shown.stderr
    assert check_sound(path, chain) == chain.old


# --- what cannot be opened


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is no chain database; expected a file made by a run"),
        (b"", "is no chain database, or is damaged: no such table"),
        (b"not SQLite at all, but long enough to look like a file" * 100, "file is not a database"),
        (b"SQLite format 3\x00", "is no chain database, or is damaged"),
    ],
    ids=["missing", "empty", "foreign", "cut"],
)
def test_a_file_that_is_no_chain_database_is_named_and_left_alone(
    tmp_path: Path, content: bytes | None, message: str, read_only: bool
) -> None:
    path = tmp_path / "chain.db"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StoreError, match=message):
        Store.open(path, read_only)
    assert (path.read_bytes() if path.exists() else None) == content


@pytest.mark.parametrize("read_only", [False, True])
def test_another_programs_database_is_left_alone(tmp_path: Path, read_only: bool) -> None:
    path = tmp_path / "photos.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE photos (name); INSERT INTO photos VALUES ('cat');")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="no such table: meta"):
        Store.open(path, read_only)
    assert path.read_bytes() == before
    assert not (tmp_path / "photos.db-wal").exists()


def test_a_directory_is_no_chain_database(tmp_path: Path) -> None:
    for read_only in (False, True):
        with pytest.raises(StoreError, match="is no chain database"):
            Store.open(tmp_path, read_only)
    with pytest.raises(StoreError, match="exists; open it, or choose another place"):
        Store.create(tmp_path, GENESIS)
    with pytest.raises(StoreError, match="cannot be opened"):
        Store.create(tmp_path / "missing" / "chain.db", GENESIS)


def test_a_database_cut_anywhere_is_refused(chain: Chain, tmp_path: Path) -> None:
    whole, path = chain.path.read_bytes(), tmp_path / "cut.db"
    for length in (*range(0, len(whole), 4096), 1, 99, 100, 101, 5000):
        path.write_bytes(whole[:length])
        for read_only in (False, True):
            with pytest.raises(StoreError, match="is no chain database, or is damaged"):
                Store.open(path, read_only)


def test_a_database_without_its_last_byte_is_refused(chain: Chain, tmp_path: Path) -> None:
    """SQLite itself reads zeros there."""
    path = tmp_path / "cut.db"
    for missing in (1, 4095):
        path.write_bytes(chain.path.read_bytes()[:-missing])
        for read_only in (False, True):
            with pytest.raises(StoreError, match=f"found {4096 - missing} bytes of its last page, expected 4096"):
                Store.open(path, read_only)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE meta SET value = 99 WHERE name = 'format'", "has format 99, expected 4"),
        (
            "UPDATE meta SET value = 1 WHERE name = 'format'",
            r"is a chain of version 0\.4 or 0\.5\.0, .* read it with that version .*, or start a new run",
        ),
        ("DELETE FROM meta WHERE name = 'format'", "has format None, expected 4"),
        ("DELETE FROM meta WHERE name = 'head'", "has no head; it is damaged"),
        ("UPDATE meta SET value = x'00' WHERE name = 'head'", "has no head; it is damaged"),
        ("UPDATE meta SET value = '{' WHERE name = 'genesis'", "genesis: found no JSON"),
        ("UPDATE meta SET value = 7 WHERE name = 'genesis'", "genesis"),
        ("DELETE FROM meta WHERE name = 'genesis'", "genesis: found no JSON"),
        ("UPDATE block SET header = x'c0'", "the head is damaged in the chain database"),
        ("DELETE FROM block", "has no head; it is damaged"),
    ],
)
def test_a_damaged_database_says_where(chain: Chain, tmp_path: Path, statement: str, message: str) -> None:
    path = chain.copy(tmp_path / "damaged")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()
    for read_only in (False, True):
        with pytest.raises(StoreError, match=message):
            Store.open(path, read_only)


@pytest.mark.parametrize("column", ["header", "body", "receipts"])
@pytest.mark.parametrize("damage", [b"", b"\xc1\xc0"])
def test_a_damaged_block_says_so_when_it_is_read(chain: Chain, tmp_path: Path, column: str, damage: bytes) -> None:
    path = chain.copy(tmp_path / "damaged")
    store = Store.open(path, read_only=True)
    head = store.head().hash
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"UPDATE block SET {column} = ?", (damage,))  # noqa: S608 - a column of ours
        connection.commit()
    with pytest.raises(StoreError, match="is damaged in the chain database"):
        store.block(head)
    store.close()


def test_an_existing_file_is_never_overwritten(chain: Chain, tmp_path: Path) -> None:
    path = chain.copy(tmp_path / "old")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="exists; open it, or choose another place for a new chain"):
        Store.create(path, GENESIS)
    assert path.read_bytes() == before


def test_strange_file_names_are_files(tmp_path: Path) -> None:
    for name in ("a?mode=memory", "b#c", "d%20e", "f g", "ü", "'; DROP TABLE meta; --"):
        Store.create(tmp_path / name, GENESIS).close()
        assert (tmp_path / name).is_file()
        Store.open(str(tmp_path / name)).close()


# --- reading beside a writer


def test_readers_follow_a_writer_and_cannot_write(chain: Chain, tmp_path: Path) -> None:
    path = chain.copy(tmp_path / "shared")
    writer = chain.ready(path)
    readers = [Store.open(path, read_only=True) for _ in range(2)]
    assert [reader.head() for reader in readers] == [chain.old] * 2
    chain.seal(writer)
    readers.append(Store.open(path, read_only=True))
    assert [reader.head() for reader in readers] == [chain.new] * 3
    assert readers[0].block(chain.new.hash) == writer.block(2)
    with pytest.raises(StoreError, match="cannot be written: attempt to write a readonly database"):
        readers[0].put_nodes([(b"key", b"value")])
    with pytest.raises(StoreError, match="cannot be written"):
        added(readers[0], block(chain.new))
    writer.close()
    assert readers[0].head() == chain.new
    for reader in readers:
        reader.close()
    with pytest.raises(StoreError, match="closed"):
        readers[0].head()


def test_a_reader_amid_a_transaction_sees_the_old_chain(chain: Chain, tmp_path: Path) -> None:
    path = chain.copy(tmp_path / "shared")
    writer, reader = Store.open(path), Store.open(path, read_only=True)
    after = block(chain.old, 0)
    with writer.transaction():
        writer.add_block(after)
        writer.make_canonical(after.header)
        assert writer.head() == after.header
        assert reader.head() == chain.old
    assert reader.head() == after.header
    reader.close()
    writer.close()


def test_a_chain_is_read_after_its_writer_was_killed(chain: Chain, tmp_path: Path) -> None:
    path = chain.copy(tmp_path / "shared")

    def work() -> None:
        chain.seal(chain.ready(path))
        die()

    assert killed(work) == signal.SIGKILL
    reader = Store.open(path, read_only=True)
    assert reader.head() == chain.new
    reader.close()


# --- a full disk


def test_a_full_disk_is_an_error_that_loses_nothing(chain: Chain, tmp_path: Path) -> None:
    """One page more at each attempt, until the block fits."""
    path = chain.copy(tmp_path / "full")
    node = chain.ready(path)
    connection = node._store._db._connection
    pages, failures = int(connection.execute("PRAGMA page_count").fetchone()[0]), 0
    while node.head == chain.old:
        connection.execute(f"PRAGMA max_page_count = {pages + failures}")
        try:
            chain.seal(node)
        except StoreError as error:
            assert "database or disk is full" in str(error)  # noqa: PT017 - it is counted
            failures += 1
            assert node.head == chain.old
            assert [entry.post.transaction.raw for entry in node.pending()] == chain.raw_posts
            assert not connection.in_transaction
            node.propose(chain.leader)
    assert failures >= 2
    assert node.head == chain.new
    node.close()
    assert check_sound(path, chain) == chain.new


def test_a_new_chain_on_a_full_disk_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_store: Store, _block: Block, *_beside: object) -> None:
        raise StoreError("database or disk is full")

    monkeypatch.setattr(Store, "add_block", full)
    with pytest.raises(StoreError, match="is full"):
        Store.create(tmp_path / "chain.db", GENESIS)
    assert not (tmp_path / "chain.db").exists()
    monkeypatch.undo()
    Store.create(tmp_path / "chain.db", GENESIS).close()


# --- one writer


def test_a_second_writer_is_refused_and_let_in_once_the_first_is_gone(chain: Chain, tmp_path: Path) -> None:
    path = chain.copy(tmp_path / "mine")
    link = tmp_path / "link.db"
    link.symlink_to(path)
    first = Store.open(path)
    for name in (path, link, str(path)):
        with pytest.raises(StoreError, match="is in use by another process"):
            Store.open(name)
    with pytest.raises(StoreError, match="is in use by another process"):
        Store.create(path, GENESIS)
    Store.open(path, read_only=True).close()
    first.close()
    first.close()
    Store.open(link).close()


@contextlib.contextmanager
def another_process(work: Callable[[], Any]) -> Iterator[int]:
    """A process that does something, says so, and waits to be killed."""
    heard, said = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            kept = work()
            os.write(said, b"!" if kept is not None else b"?")
            signal.pause()
        finally:
            os._exit(1)
    os.close(said)
    try:
        assert os.read(heard, 1) == b"!"
        yield child
    finally:
        os.close(heard)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_two_processes_cannot_write_one_file_and_a_killed_one_gives_it_back(chain: Chain, tmp_path: Path) -> None:
    path = chain.copy(tmp_path / "contested")
    with another_process(lambda: Node.open(path, now=Clock())):
        with pytest.raises(StoreError, match=r"contested/chain\.db is in use by another process"):
            Node.open(path, now=Clock())
        reader = Store.open(path, read_only=True)
        assert reader.head() == chain.old
        reader.close()
    assert check_sound(path, chain) == chain.old


def test_a_reader_in_another_process_keeps_nobody_out(chain: Chain, tmp_path: Path) -> None:
    path = chain.copy(tmp_path / "contested")
    with another_process(lambda: Store.open(path, read_only=True)):
        check_sound(path, chain)


def test_a_file_that_could_not_be_opened_is_not_kept_locked(tmp_path: Path) -> None:
    path = tmp_path / "chain.db"
    path.write_bytes(b"")
    with pytest.raises(StoreError, match="is no chain database"):
        Store.open(path)
    path.unlink()
    Store.create(path, GENESIS).close()


# --- memory


GROWING = """
import gc, sys
from pathlib import Path
from chain.client.keys import address_of
from chain.node.node import Node
from tests.chain.network import SIZES, Clock, Network, account, genesis, seal

def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

size = 250_000
network = Network(devices=[account(f"device {i}") for i in range(8)], sizes=SIZES._replace(gradient=size))
node, other = Node.create(sys.argv[1], genesis(), now=Clock()), Node.create(sys.argv[2], genesis(), now=Clock())
other.sources.append(node)
network.found(node)
for number in range(16):
    leader = network.leader(node)
    network.post_plan(node, leader)
    for i, device in enumerate(network.devices):
        network.post_gradient(node, device, bytes([number, i]) * (size // 2))
    node.propose(address_of(leader))
    seal(node, address_of(network.devices[0]))
    for height in range(other.head.block_number, number + 2):
        other.import_block(node.raw_block(height + 1))
    if number in (7, 15):
        gc.collect()
        print(resident_bytes())
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc")
def test_memory_stays_flat_over_many_blocks(tmp_path: Path) -> None:
    """16 blocks of 8 x 250 KB: the last 8 are 16 MB of payload, of which nothing stays in memory.

    Neither where they are sealed nor where they are imported.
    """
    command = [sys.executable, "-c", GROWING, str(tmp_path / "chain.db"), str(tmp_path / "other.db")]
    shown = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120)
    assert shown.returncode == 0, shown.stderr
    middle, end = map(int, shown.stdout.split())
    assert end - middle < 6_000_000


def test_the_store_needs_no_py_evm() -> None:
    code = "import sys; sys.modules['eth'] = sys.modules['web3'] = None; import chain.store.store"
    shown = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0, shown.stderr


def test_a_genesis_of_another_network_is_another_chain(tmp_path: Path) -> None:
    rules: list[Genesis] = [GENESIS, genesis(chain_id=7)]
    stores = [Store.create(tmp_path / f"{i}.db", each) for i, each in enumerate(rules)]
    assert stores[0].head().hash != stores[1].head().hash
    for store in stores:
        store.close()
