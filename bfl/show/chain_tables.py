"""A chain in tables a person can read."""

from collections import Counter

from rich.table import Table
from rich.text import Text

from bfl.show.names import Names, full_hex, names_in, short_hex
from bfl.show.posts import describe_post, find_post, format_value, post_name, said_in
from bfl.show.text import size_text, utc_time
from chain.audit.archive import Archive
from chain.audit.found import Inspection
from chain.protocol.contract import decode_log
from chain.protocol.genesis import Genesis
from chain.protocol.turns import FOUNDING_BLOCK
from chain.wire.blocks import Block
from chain.wire.headers import Header

SHOWN_BLOCKS = 20


def count_kinds(block: Block, genesis: Genesis) -> Counter[str]:
    """How many transactions of each kind a block has."""
    found: Counter[str] = Counter()
    for transaction, receipt in zip(block.transactions, block.receipts, strict=True):
        name = post_name(find_post(transaction, genesis))
        found[name if receipt.status == 1 else f"{name} (reverted)"] += 1
    return found


def chain_table(archive: Archive, last: int = SHOWN_BLOCKS) -> Table:
    """One row for each of the last blocks."""
    head = archive.head()
    names = names_in(archive)
    first = max(0, head.block_number - last + 1)
    title = f"chain {archive.genesis.chain_id}, {head.block_number + 1} blocks, head {full_hex(head.hash)}"
    table = Table(title=title, title_justify="left")
    for column in ("block", "round", "hash", "time (UTC)", "leader", "winner", "transactions", "size", "difficulty"):
        table.add_column(column, justify="right" if column in ("block", "round", "size", "difficulty") else "left")
    for number in range(first, head.block_number + 1):
        block = archive.block(number)
        header = block.header
        listed = ", ".join(f"{count} {kind}" for kind, count in count_kinds(block, archive.genesis).items())
        table.add_row(
            str(number),
            str(number - 1) if number > 1 else "-",
            short_hex(header.hash),
            utc_time(header.timestamp),
            _builder(header, names),
            names.short(header.winner) if header.winner else "-",
            listed or ("genesis" if number == 0 else "none"),
            size_text(sum(len(transaction.raw) for transaction in block.transactions)),
            str(header.difficulty),
        )
    return table


def _builder(header: Header, names: Names) -> str:
    """Who led the block; the first one is the founder's, who is no participant."""
    if not header.block_number:
        return "-"
    founder = "founder " * (header.block_number == FOUNDING_BLOCK and not names.find(header.coinbase))
    return founder + names.short(header.coinbase)


def block_tables(block: Block, genesis: Genesis, names: Names) -> list[Table]:
    """One block: its header, and its transactions."""
    header = block.header
    rows = {
        "hash": full_hex(header.hash),
        "parent": full_hex(header.parent_hash),
        "time (UTC)": utc_time(header.timestamp),
        "leader": names.full(header.coinbase),
        "winner": names.full(header.winner) if header.winner else "-",
        "difficulty": str(header.difficulty),
        "nonce": full_hex(header.nonce),
        "gas": f"{header.gas_used:,} of {header.gas_limit:,}",
        "state root": full_hex(header.state_root),
        "transactions root": full_hex(header.transaction_root),
        "receipts root": full_hex(header.receipt_root),
    }
    table = Table(title=f"block {header.block_number}", title_justify="left")
    for column in ("#", "phase", "what", "sender", "says", "size", "status", "transaction"):
        table.add_column(column, overflow="fold")
    for index, (transaction, receipt) in enumerate(zip(block.transactions, block.receipts, strict=True)):
        post = find_post(transaction, genesis)
        table.add_row(
            str(index),
            post.phase if post else "-",
            post_name(post),
            names.short(transaction.sender),
            describe_post(post, names),
            size_text(len(transaction.raw)),
            "ok" if receipt.status == 1 else "reverted",
            short_hex(transaction.hash),
        )
    return [pairs_table("", rows), table]


def pairs_table(title: str, rows: dict[str, str]) -> Table:
    """Names and values. What a chain says is not taken for markup."""
    table = Table(title=title or None, show_header=False, title_justify="left")
    for name, value in rows.items():
        table.add_row(name, Text(value))
    return table


def transaction_tables(block: Block, index: int, genesis: Genesis, names: Names) -> list[Table]:
    """One transaction: what it is, what it says, what the registry made of it."""
    transaction, receipt = block.transactions[index], block.receipts[index]
    post = find_post(transaction, genesis)
    rows = {
        "hash": full_hex(transaction.hash),
        "block": f"{block.header.block_number} (position {index})",
        "sender": names.full(transaction.sender),
        "what": post_name(post),
        "nonce": str(transaction.nonce),
        "status": "accepted" if receipt.status == 1 else "reverted",
        "size": size_text(len(transaction.raw)),
    }
    rows |= {name: format_value(value, names) for name, value in said_in(post).items()}
    events = Table(title="events", title_justify="left")
    for column in ("event", "fields"):
        events.add_column(column, overflow="fold")
    for log in receipt.logs:
        event = decode_log(log.topics, log.data)
        if event is not None:
            fields = ", ".join(f"{name} {format_value(value, names)}" for name, value in event.arguments.items())
            events.add_row(event.name, fields)
    return [pairs_table("", rows), events]


def participants_table(found: Inspection, names: Names) -> Table:
    """Who takes part: role, home, rounds led and sealed."""
    running = found.blocks - 1  # number of the round
    table = Table(title=f"{len(found.members)} participants after {max(0, running - 1)} rounds", title_justify="left")
    named = ["name"] if names else []
    for column in (*named, "address", "role", "home server", "blocks led", "blocks sealed", "standing"):
        table.add_column(column)
    for who, home in sorted(found.members.items(), key=lambda item: (item[0] != item[1], item[1], item[0])):
        is_server = who == home
        through = found.excluded_through.get(who, 0)
        table.add_row(
            *([names.find(who) or "-"] if names else []),
            full_hex(who),
            "edge server" if is_server else "device",
            "-" if is_server else names.short(home),
            str(found.led[who]) if is_server else "-",
            "-" if is_server else str(found.sealed[who]),
            f"excluded through round {through}" if through >= running else "ok",
        )
    return table
