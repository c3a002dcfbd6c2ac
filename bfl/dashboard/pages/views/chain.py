"""Blocks and transactions."""

from collections.abc import Sequence
from dataclasses import dataclass

from bfl.dashboard.decoded import BlockDetail, Said, TransactionDetail
from bfl.dashboard.facts import BlockFact, Snapshot
from bfl.dashboard.pages.views.links import Links
from bfl.dashboard.pages.views.numbers import UNKNOWN, clock, count, moment, short_hash, whole
from bfl.dashboard.pages.views.tables import Cell, Column, Table, hash_cell, several, slice_of, who
from bfl.show.text import size_text

_FIRST = ("gradient", "iterate")
_PLURAL = {"roll": "rolls", "close": "lists", "begin_attempt": "attempts begun"}


def posts_text(posts: dict[str, int]) -> str:
    """ "28: 7 gradients, 18 iterates, 3 others"."""
    total = sum(posts.values())
    told = [count(posts[kind], kind, f"{kind}s") for kind in _FIRST if posts.get(kind)]
    return f"{total:,}: {', '.join(told)}" if told else f"{total:,}" if total else "none"


def all_posts_text(posts: dict[str, int]) -> str:
    """Every kind, for a title."""
    return ", ".join(count(n, kind.replace("_", " "), _PLURAL.get(kind, "")) for kind, n in posts.items())


def block_table(blocks: Sequence[BlockFact], to: Links, is_long: bool = True) -> Table:
    """The given blocks, in the given order."""
    columns = [
        Column("block", "num"), Column("round", "num"), Column("hash", "mono"), Column("leader"), Column("winner"),
        Column("transactions", "wide"), Column("size", "num", "with the payloads that it names"),
    ]  # fmt: skip
    if is_long:
        columns += [
            Column("final", "", "more than half of the servers signed it"),
            Column("difficulty", "num", "hashes that a seal takes on average"),
        ]
    columns.append(Column("sealed (UTC)", "num"))
    return Table("blocks", tuple(columns), tuple(_row(each, to, is_long) for each in blocks), "no chain here (yet)")


def _row(block: BlockFact, to: Links, is_long: bool) -> tuple[Cell, ...]:
    round_ = Cell(f"{block.round:,}", to(f"/round/{block.round}")) if block.round else Cell(UNKNOWN, tone="muted")
    posts = dict(block.posts)
    attempt = f", attempt {block.attempt}" if block.attempt else ""
    more = (
        Cell("final" if block.is_final else "not yet", title=count(block.endorsements, "signature")),
        Cell(whole(block.difficulty)),
    )
    return (
        Cell(f"{block.number:,}", to(f"/block/{block.number}")),
        round_,
        hash_cell(block.hash, to(f"/block/{block.number}")),
        who(block.leader, to) if block.leader else Cell(UNKNOWN),
        who(block.winner, to) if block.winner else Cell(UNKNOWN),
        Cell(posts_text(posts) + attempt, title=all_posts_text(posts)),
        Cell(size_text(block.size + block.payload_size)),
        *(more if is_long else ()),
        Cell(clock(block.timestamp), title=moment(block.timestamp)),
    )


def blocks_page(snapshot: Snapshot, to: Links, page: int, rows: int = 50, is_long: bool = True) -> Table:
    """Newest first."""
    blocks = snapshot.blocks
    part = slice_of(len(blocks), page, rows)
    table = block_table([blocks[len(blocks) - 1 - index] for index in range(part.first, part.end)], to, is_long)
    return Table(table.name, table.columns, table.rows, table.empty, part.pager(to, "/blocks"))


# --- one block


@dataclass(frozen=True)
class BlockView:
    """A block, opened."""

    number: int
    title: str
    previous: str
    next: str
    round: int
    round_href: str
    model: str
    finality: str
    tone: str
    rows: tuple[tuple[str, Cell], ...]
    signers: Cell
    posts: Table
    kinds: tuple[tuple[str, str], ...]
    size: str


def block_view(detail: BlockDetail, snapshot: Snapshot, to: Links, page: int) -> BlockView:
    """All of it by names and with units."""
    fact = detail.fact
    has_model = fact.round > 0
    return BlockView(
        number=fact.number,
        title=_title(fact),
        previous=to(f"/block/{fact.number - 1}") if fact.number else "",
        next=to(f"/block/{fact.number + 1}") if fact.number + 1 < len(snapshot.blocks) else "",
        round=fact.round,
        round_href=to(f"/round/{fact.round}") if 0 < fact.round <= len(snapshot.rounds) else "",
        model=to(f"/api/v1/models/{fact.round}") if has_model else "",
        finality=_finality(fact, snapshot.about.edges),
        tone="good" if fact.is_final else "warn",
        rows=tuple((each.name, said_cell(each, to)) for each in detail.rows),
        signers=several(detail.signers, to),
        posts=_posts(detail, to, page),
        kinds=tuple((kind.replace("_", " "), whole(n)) for kind, n in fact.posts.items()),
        size=f"{size_text(fact.size)}, and {size_text(fact.payload_size)} of payloads that it names",
    )


def _title(fact: BlockFact) -> str:
    if fact.number == 0:
        return "Block 0: genesis, the rules of this network"
    if fact.round == 0:
        return f"Block {fact.number:,}: the founding, who takes part"
    return f"Block {fact.number:,}: round {fact.round:,}"


def _finality(fact: BlockFact, servers: int) -> str:
    if fact.is_final:
        signed = (
            f"{fact.endorsements:,} of {servers:,} servers signed it" if fact.endorsements else "blocks after it are"
        )
        return f"final: {signed}, and no honest one leaves it"
    return f"not final yet: {fact.endorsements:,} of {servers:,} servers signed it, more than half are needed"


def said_cell(said: Said, to: Links) -> Cell:
    """What somebody said; long hexadecimal is cut."""
    is_hash = said.value.startswith("0x") and " " not in said.value
    if is_hash:
        return (
            hash_cell(said.value, to.told(said.link))
            if len(said.value) > 70
            else Cell(said.value, to.told(said.link), "hash")
        )
    return Cell(said.value, to.told(said.link))


def _posts(detail: BlockDetail, to: Links, page: int) -> Table:
    part = slice_of(len(detail.posts), page)
    columns = (
        Column("", "num"), Column("phase"), Column("what"), Column("who"), Column("says", "wide"),
        Column("size", "num"), Column("hash", "mono"),
    )  # fmt: skip
    rows = tuple(
        (
            Cell(str(each.index)),
            Cell(each.phase),
            Cell(each.what.replace("_", " "), to(f"/tx/{each.hash}"), tone="" if each.is_accepted else "warn"),
            who(each.sender, to),
            Cell(each.says + ("" if each.is_accepted else " (the registry did not take it)")),
            Cell(size_text(each.size)),
            hash_cell(each.hash, to(f"/tx/{each.hash}")),
        )
        for each in detail.posts[part.first : part.end]
    )
    pager = part.pager(to, f"/block/{detail.fact.number}")
    return Table("transactions", columns, rows, "none: nobody posted anything", pager)


# --- one transaction


@dataclass(frozen=True)
class TransactionView:
    """A transaction, opened."""

    title: str
    hash: str
    facts: tuple[tuple[str, Cell], ...]
    said: tuple[tuple[str, Cell], ...]
    events: tuple[tuple[str, tuple[tuple[str, Cell], ...]], ...]
    payloads: Table


def transaction_view(detail: TransactionDetail, to: Links) -> TransactionView:
    """What it says, who signed it, what the registry made of it."""
    accepted = "accepted by the registry" if detail.is_accepted else "not taken by the registry: it says nothing"
    block = Cell(f"{detail.block:,}", to(f"/block/{detail.block}"))
    facts = [
        ("sent by", who(detail.sender, to)),
        ("what", Cell(detail.what.replace("_", " "))),
        ("phase", Cell(detail.phase)),
        ("block", block),
        ("place in the block", Cell(str(detail.index))),
        ("size", Cell(size_text(detail.size))),
        ("result", Cell(accepted, tone="" if detail.is_accepted else "warn")),
        ("hash", Cell(detail.hash, mark="hash")),
    ]
    if detail.round is not None and detail.round > 0:
        facts.insert(3, ("round", Cell(f"{detail.round:,}", to(f"/round/{detail.round}"))))
    return TransactionView(
        title=f"{detail.what.replace('_', ' ')} of {short_hash(detail.sender)}",
        hash=detail.hash,
        facts=tuple(facts),
        said=_rows(detail.said, to),
        events=tuple((each.name, _rows(each.fields, to)) for each in detail.events),
        payloads=_payloads(detail),
    )


def _rows(said: Sequence[Said], to: Links) -> tuple[tuple[str, Cell], ...]:
    return tuple((each.name, said_cell(each, to)) for each in said)


def _payloads(detail: TransactionDetail) -> Table:
    columns = (Column("digest (sha256)", "mono"), Column("size", "num"), Column("here", "wide"))
    rows = tuple(
        (
            hash_cell(each.digest),
            Cell(size_text(each.size)),
            Cell("yes" if each.is_here else "no: pruned, or not fetched"),
        )
        for each in detail.payloads
    )
    return Table("payloads", columns, rows, "it names none")
