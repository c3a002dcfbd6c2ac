"""Blocks that an auditor executes: what a sealer makes up and no inspection can see does not follow from the posts."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chain.audit.archive import FileArchive
from chain.audit.execution import Executor, execute_block
from chain.audit.inspection import inspect_chain, inspected
from chain.client.keys import address_of
from chain.errors import InspectionError
from chain.protocol.contract import events
from chain.protocol.posts import read_signed_call
from chain.protocol.slots import iterate_slot
from chain.wire.blocks import Block
from chain.wire.receipts import Log, Receipt
from chain.wire.transactions import Envelope, decode_transaction, sign_transaction
from tests.chain.network import account, genesis
from tests.chain.small_chain import NETWORK, NEW_DEVICE, StoredChain, forged, signed, story

REGISTRY = genesis().registry


def executed(blocks: Sequence[Block], payloads: dict[bytes, bytes] | None = None) -> int:
    """Inspect and execute a chain; how many blocks were executed."""
    archive = StoredChain(blocks, payloads=payloads)
    with closing(Executor(archive.genesis)) as executor:
        for block in inspected(archive):
            executor.execute(block)
        return executor.blocks


def refused(block: Block, message: str) -> None:
    """The block fits for who believes receipts, and not for who executes it."""
    blocks = (*story().blocks[: block.header.block_number], block)
    inspect_chain(StoredChain(blocks))
    with pytest.raises(InspectionError, match=f"^block {block.header.block_number}, executed here: {message}"):
        executed(blocks)


def at(index: int) -> str:
    return rf"transaction {index} \(0x[0-9a-f]{{64}}\): "


def with_receipt(number: int, index: int, **changes: Any) -> Block:
    """A block of the small chain, one receipt of which says something else; sealed again, the state as it was."""
    receipts = list(story().blocks[number].receipts)
    receipts[index] = replace(receipts[index], **changes)
    return forged(story().blocks[number], receipts=receipts)


def kinds(number: int) -> list[str]:
    calls = [read_signed_call(each, story().genesis).call for each in story().blocks[number].transactions]
    return [call.name if call else "creation" for call in calls]


def gas_of(number: int, index: int) -> int:
    return story().blocks[number].receipts[index].gas_used


# --- honest chains


def test_an_honest_chain_gives_its_receipts_and_state_roots_again() -> None:
    assert executed(story().blocks) == 7


def test_payloads_are_not_needed() -> None:
    assert executed(story().blocks, payloads={}) == 7


def test_every_prefix_of_a_chain_is_executed() -> None:
    assert [executed(story().blocks[:length]) for length in (1, 2, 4)] == [0, 1, 3]


# --- receipts


def test_an_honest_gradient_that_the_receipts_call_reverted_is_found() -> None:
    index = kinds(4).index("gradient")
    gas = gas_of(4, index)
    message = f"it has status 1 and gas {gas} with 1 events, its receipt says status 0 and gas {gas} with 0"
    refused(with_receipt(4, index, status=0, logs=()), at(index) + message)


def test_flags_that_the_receipts_call_reverted_are_found() -> None:
    """The liar would go on as if nobody had seen anything."""
    receipts = [
        replace(receipt, status=0, logs=()) if kind == "flag" else receipt
        for kind, receipt in zip(kinds(4), story().blocks[4].receipts, strict=True)
    ]
    refused(forged(story().blocks[4], receipts=receipts), at(kinds(4).index("flag")) + "it has status 1 and gas")


def test_an_exclusion_that_the_receipts_keep_back_is_found() -> None:
    index = len(kinds(4)) - 2
    flagged, _ = story().blocks[4].receipts[index].logs
    refused(with_receipt(4, index, logs=(flagged,)), at(index) + "it has other events than its receipt says$")


def test_an_exclusion_that_nobody_has_a_majority_for_is_found() -> None:
    index = kinds(4).index("flag")
    (flagged,) = story().blocks[4].receipts[index].logs
    _, excluded = story().blocks[4].receipts[index + 2].logs
    receipts = list(story().blocks[4].receipts)
    receipts[index] = replace(receipts[index], logs=(flagged, excluded))
    receipts[index + 2] = replace(receipts[index + 2], logs=receipts[index + 2].logs[:1])
    refused(forged(story().blocks[4], receipts=receipts), at(index) + "it has other events than its receipt says$")


def test_a_device_that_is_registered_by_one_vote_is_found() -> None:
    index = kinds(3).index("vote")
    logs = [receipt.logs for receipt in story().blocks[3].receipts]
    device, home = address_of(NEW_DEVICE), address_of(NETWORK.servers[0])
    joined = Log(REGISTRY, (events()["Registered"].topic, bytes(12) + device, bytes(12) + home), b"")
    made_up = next(i for i, each in enumerate(logs) if i >= index and joined.topics[1] in each[0].topics)
    assert logs[made_up][1:] == ()
    refused(with_receipt(3, made_up, logs=(*logs[made_up], joined)), at(made_up) + "it has other events")


@pytest.mark.parametrize("by", [-1, 1, 10_000])
def test_gas_that_was_not_used_is_found(by: int) -> None:
    receipts = [replace(receipt, gas_used=receipt.gas_used + by) for receipt in story().blocks[3].receipts]
    refused(forged(story().blocks[3], receipts=receipts), at(0) + rf"it has status 1 and gas {gas_of(3, 0)} with 1")


def test_a_second_flag_that_the_receipts_call_accepted_is_found() -> None:
    """The registry takes one per server and round; an auditor who executes nothing keeps no book of that."""
    block, count = story().blocks[4], len(kinds(4))
    first = block.transactions[kinds(4).index("flag")]
    server = next(each for each in NETWORK.servers if address_of(each) == first.sender)
    call = read_signed_call(first, story().genesis).call
    assert call is not None
    arguments = (3, story().liar, iterate_slot(1), call["transaction_hash"], call["expected"])
    again = decode_transaction(signed(server, first.nonce + 1, "flag", *arguments))
    place = kinds(4).index("flag") + 1
    transactions = [*block.transactions[:place], again, *block.transactions[place : count - 1]]
    receipts = [*block.receipts[:place], block.receipts[place - 1], *block.receipts[place : count - 1]]
    if transactions[place + 1].sender == first.sender:  # its later nonces would not fit
        transactions, receipts = transactions[: place + 1], receipts[: place + 1]
    made = forged(block, transactions, receipts)
    refused(made, at(place) + r"it has status 0 \(already flagged\)")


# --- states


def test_a_made_up_state_is_found() -> None:
    refused(forged(story().blocks[5], state_root=b"\1" * 32), "block 5: executed here it has state root 0x")
    refused(forged(story().blocks[5], state_root=story().headers[4].state_root), "block 5: executed here it has state ")


def test_the_state_of_another_coinbase_or_time_is_another_chain() -> None:
    """What is executed next stands on it: the parent's winner has the credit, its leader the term."""
    other = forged(story().blocks[6], extra_data=address_of(NETWORK.devices[3]))
    last = forged(story().blocks[7], parent_hash=other.header.hash)
    blocks = (*story().blocks[:6], other, last)
    with pytest.raises(InspectionError):
        executed(blocks)


# --- posts that only execution refuses


def reverted(sender: str, nonce: int = 0, **changes: Any) -> Block:
    """A last block with a post of anybody that is said to be reverted."""
    raw = signed(account(sender), nonce, "plan", 6, 0, bytes(32), 1, **changes)
    return forged(story().blocks[7], [decode_transaction(raw)], [Receipt(0, 30_000, ())])


def test_a_stranger_in_a_block_is_found_though_its_post_is_reverted() -> None:
    refused(reverted("stranger"), at(0) + "0x[0-9a-f]{40} is not registered in this network$")


def test_a_post_that_asks_for_more_gas_than_a_block_has_is_found() -> None:
    device = NETWORK.devices[2]
    nonce = sum(t.sender == address_of(device) for block in story().blocks for t in block.transactions)
    raw = signed(device, nonce, "plan", 6, 0, bytes(32), 1, gas=2**60)
    made = forged(story().blocks[7], [decode_transaction(raw)], [Receipt(0, 30_000, ())])
    refused(made, at(0) + f"found a gas allowance of {2**60}, the block has")


# --- one block on the state in a file


def audited(path: Path, number: int) -> None:
    """Execute one block of a file on the state that is in it."""
    with closing(FileArchive(path)) as archive:
        blocks = list(inspected(archive))
        execute_block(blocks[number], blocks[number - 1].block.header, archive.state)


@pytest.mark.parametrize("number", range(1, 8))
def test_any_block_is_executed_on_the_state_in_its_file_which_stays_as_it_is(tmp_path: Path, number: int) -> None:
    path = story().write(tmp_path)
    audited(path, number)
    assert path.read_bytes() == story().database


def edited(folder: Path, statement: str, *values: object) -> Path:
    path = story().write(folder)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, values)
    return path


def read_nodes(tmp_path: Path, number: int) -> list[bytes]:
    """The state nodes that the execution of a block reads."""
    with closing(FileArchive(story().write(tmp_path))) as archive:
        blocks = list(inspected(archive))
        execute_block(blocks[number], blocks[number - 1].block.header, archive.state)
        return sorted(archive.state._kept)


def test_whatever_state_node_is_replaced_or_missing_is_found(tmp_path: Path) -> None:
    nodes = read_nodes(tmp_path, 5)
    assert len(nodes) > 10
    missing = "the state after block 4 is not whole in this file"
    for node in nodes:
        other = f"the state has another node than 0x{node.hex()} in its place in this file"
        for statement, told in (
            ("UPDATE node SET value = (SELECT value FROM node WHERE key != ?1) WHERE key = ?1", other),
            ("UPDATE node SET value = 'text' WHERE key = ?1", other),
            ("DELETE FROM node WHERE key = ?1", missing),
        ):
            with pytest.raises(InspectionError, match=f"^block 5, executed here: .*{told}$"):
                audited(edited(tmp_path, statement, node), 5)


def test_the_state_in_a_file_is_not_looked_at_where_the_whole_chain_is_executed(tmp_path: Path) -> None:
    path = edited(tmp_path, "DELETE FROM node")
    with closing(FileArchive(path)) as archive, closing(Executor(archive.genesis)) as executor:
        for block in inspected(archive):
            executor.execute(block)
        assert executor.blocks == 7
        assert not archive.state.has_state(story().headers[3].state_root)


def test_a_contract_that_never_ends_is_not_executed_though_its_creation_is_said_to_be_reverted() -> None:
    """A founder may ask for as much gas as its genesis gives: JUMPDEST, PUSH1 0, JUMP, for years."""
    founding, envelope = story().blocks[1], Envelope(genesis().chain_id, 0, genesis().gas_limit, b"")
    endless = decode_transaction(sign_transaction(NETWORK.founder, envelope, bytes.fromhex("5b600056")))
    receipts = [Receipt(0, founding.receipts[0].gas_used, ()), *founding.receipts[1:]]
    made = forged(founding, [endless, *founding.transactions[1:]], receipts)
    with pytest.raises(InspectionError, match=r"^block 1: transaction 0 .*: the registry is none of this version's"):
        executed((story().blocks[0], made))


def test_a_forged_state_is_found_also_under_another_block() -> None:
    """Who audits one round alone believes the state before it, and says so; who audits the chain does not."""
    below = forged(story().blocks[5], state_root=b"\1" * 32)
    above = forged(story().blocks[6], parent_hash=below.header.hash)
    with pytest.raises(InspectionError, match=r"^block 5, executed here: block 5: executed here it has state root 0x"):
        executed((*story().blocks[:5], below, above))
