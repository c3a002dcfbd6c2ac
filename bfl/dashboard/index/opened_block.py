"""A block or a transaction with everything that it says, by names and with units."""

from typing import Any

from bfl.dashboard.decoded import BlockDetail, EventDetail, PayloadDetail, PostDetail, Said, TransactionDetail
from bfl.dashboard.errors import NotFoundError
from bfl.dashboard.facts import Snapshot
from bfl.dashboard.reading.block_facts import block_fact
from bfl.dashboard.reading.clean import text
from bfl.dashboard.reading.founded import Founded, read_founded
from bfl.show.posts import describe_post, find_post, format_value, post_name, said_in, slot_text
from bfl.show.text import size_text, utc_time
from chain.audit.archive import Archive
from chain.errors import ChainError
from chain.protocol.contract import decode_log
from chain.protocol.posts import SignedCall
from chain.protocol.turns import FOUNDING_BLOCK
from chain.wire.address import Address
from chain.wire.blocks import Block
from chain.wire.transactions import Transaction

_UNITS = {"payload size": size_text, "parameters_size": size_text}
_SLOT_FIELDS = ("slot",)


def opened_block(archive: Archive, number: int, snapshot: Snapshot) -> BlockDetail:
    """A block of the chain, by number."""
    if number >= len(snapshot.blocks):
        raise NotFoundError(f"found block {number}, expected 0 to {len(snapshot.blocks) - 1}")
    block, founded, known = archive.block(number), read_founded(archive), snapshot.blocks[number]
    signers = {each.signer for each in archive.endorsements(block.header.hash)}
    fact = block_fact(block, founded, len(signers), known.is_final)
    return BlockDetail(
        fact=fact,
        parent=f"0x{block.header.parent_hash.hex()}",
        rows=_header_rows(block, founded),
        posts=tuple(_post(index, block, founded, archive) for index in range(len(block.transactions))),
        post_count=len(block.transactions),
        signers=tuple(sorted(founded.name_of(each) for each in signers)),
    )


def _header_rows(block: Block, founded: Founded) -> tuple[Said, ...]:
    header = block.header
    before = f"/block/{header.block_number - 1}" if header.block_number else ""
    said = [
        Said("hash", f"0x{header.hash.hex()}"),
        Said("parent", f"0x{header.parent_hash.hex()}", before),
        Said("time (UTC)", utc_time(header.timestamp)),
        _who("leader", header.coinbase, founded) if header.block_number else Said("leader", "-"),
        _who("winner", header.winner, founded) if header.winner else Said("winner", "-"),
        Said("difficulty", f"{header.difficulty:,} hash{'es' * (header.difficulty != 1)} on average"),
        Said("nonce", f"0x{header.nonce.hex()}"),
        Said("gas", f"{header.gas_used:,} of {header.gas_limit:,}"),
        Said("state root", f"0x{header.state_root.hex()}"),
        Said("transactions root", f"0x{header.transaction_root.hex()}"),
        Said("receipts root", f"0x{header.receipt_root.hex()}"),
    ]
    return tuple(said)


def _who(label: str, address: bytes, founded: Founded) -> Said:
    return Said(label, founded.names.full(address), link_of(founded.names.find(address)))


def link_of(name: str) -> str:
    """The page of "server 1" or "device 3"; empty for an address without a name."""
    role, _, number = name.partition(" ")
    return f"/{role}/{number}" if role in ("server", "device") and number.isdigit() else ""


def _post(index: int, block: Block, founded: Founded, archive: Archive) -> PostDetail:
    transaction, receipt = block.transactions[index], block.receipts[index]
    post = find_post(transaction, archive.genesis)
    sender, link = _sender(transaction, founded)
    return PostDetail(
        index=index,
        hash=f"0x{transaction.hash.hex()}",
        phase="-" if post is None else post.phase,
        what=post_name(post),
        sender=sender,
        sender_link=link,
        says=describe_post(post, founded.names),
        size=len(transaction.raw),
        is_accepted=receipt.status == 1,
    )


def _sender(transaction: Transaction, founded: Founded) -> tuple[str, str]:
    try:
        name = founded.name_of(transaction.sender)
    except ChainError:  # the signature is nobody's: only in a file that no node has written
        return "nobody", ""
    return name, link_of(name)


def opened_transaction(archive: Archive, block: Block, index: int) -> TransactionDetail:
    """A transaction of a block."""
    founded = read_founded(archive)
    transaction, receipt = block.transactions[index], block.receipts[index]
    post = find_post(transaction, archive.genesis)
    sender, link = _sender(transaction, founded)
    return TransactionDetail(
        hash=f"0x{transaction.hash.hex()}",
        block=block.header.block_number,
        block_hash=f"0x{block.header.hash.hex()}",
        index=index,
        round=_round(post, block),
        phase="-" if post is None else post.phase,
        what=post_name(post),
        sender=sender,
        sender_link=link,
        is_accepted=receipt.status == 1,
        size=len(transaction.raw),
        said=tuple(_said(name, value, founded) for name, value in said_in(post).items()),
        events=tuple(_events(receipt.logs, founded)),
        payloads=_payloads(post, archive),
    )


def _round(post: SignedCall | None, block: Block) -> int | None:
    if post is not None and post.call is not None and "round" in post.call:
        return min(int(post.call["round"]), 2**53)
    return block.header.block_number - FOUNDING_BLOCK if block.header.block_number > FOUNDING_BLOCK else None


def _said(name: str, value: Any, founded: Founded) -> Said:
    label = name.replace("_", " ")
    if isinstance(value, Address):
        return _who(label, value, founded)
    if name in _UNITS:
        return Said(label, _UNITS[name](int(value)))
    if name in _SLOT_FIELDS:
        return Said("about", slot_text(int(value)))
    link = f"/round/{value}" if name == "round" and int(value) > 0 else ""
    return Said(label, text(format_value(value, founded.names)), link)


def _events(logs: Any, founded: Founded) -> list[EventDetail]:
    decoded = (decode_log(log.topics, log.data) for log in logs)
    return [
        EventDetail(event.name, tuple(_said(name, value, founded) for name, value in event.arguments.items()))
        for event in decoded
        if event is not None
    ]


def _payloads(post: SignedCall | None, archive: Archive) -> tuple[PayloadDetail, ...]:
    named = () if post is None else post.commitments
    return tuple(PayloadDetail(f"0x{each.digest.hex()}", each.size, archive.has_payload(each.digest)) for each in named)
