"""What an auditor checks without executing: an honest chain passes, and the first place that does not fit is named."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import pytest
from eth_account.signers.local import LocalAccount

from chain.audit.found import Inspection
from chain.audit.inspection import checked_block, inspect_chain, inspected
from chain.client.keys import address_of
from chain.errors import InspectionError, NodeUnreachableError
from chain.protocol.posts import read_signed_call
from chain.protocol.slots import Slot
from chain.wire.blocks import Block
from chain.wire.sidecar import payload_digest
from tests.chain.network import SIZES, Network, account, endorsements_of, founded_node, genesis, seal
from tests.chain.small_chain import (
    NETWORK,
    NEW_DEVICE,
    NEW_SERVER,
    PARAMETERS,
    ROUNDS,
    StoredChain,
    forged,
    model_of,
    story,
)


def inspection_of(blocks: Sequence[Block]) -> Inspection:
    return inspect_chain(StoredChain(blocks))


# --- honest chains


def test_an_honest_chain_passes_and_is_counted() -> None:
    found = inspection_of(story().blocks)
    assert (found.blocks, found.transactions, found.reverted, found.pruned) == (8, 59, 1, [])
    assert found.by_kind == {
        "creation": 1, "register": 1, "found": 1, "plan": 6, "endorse": 1, "vote": 4, "gradient": 16, "close": 5,
        "iterate": 14, "flag": 3, "model": 5, "begin_attempt": 1,
    }  # fmt: skip
    assert sum(found.by_kind.values()) + found.reverted == found.transactions
    assert found.hashes == [header.hash for header in story().headers]


@pytest.mark.parametrize(("signers", "final"), [(0, 1), (1, 1), (2, 2), (3, 2)])
def test_the_signatures_that_lie_beside_the_head_are_counted(signers: int, final: int) -> None:
    chain = StoredChain(story().blocks[:3])
    chain.signed = endorsements_of(story().headers[2], NETWORK.servers[:signers], story().genesis)
    found = inspect_chain(chain)
    assert (found.signed, found.final) == ((signers, 3), final)


def test_it_keeps_the_registrys_books() -> None:
    found = inspection_of(story().blocks)
    home = address_of(NETWORK.servers[0])
    joined = {address_of(NEW_DEVICE): home, address_of(NEW_SERVER): address_of(NEW_SERVER)}
    assert found.members == NETWORK.homes | joined
    assert found.models == {round_: payload_digest(model_of(round_)) for round_ in range(ROUNDS)}
    assert found.excluded_through[story().liar] == 5
    assert found.sealed == {
        address_of(NETWORK.devices[0]): 3,
        address_of(NEW_DEVICE): 1,
        address_of(NETWORK.devices[1]): 1,
        address_of(NETWORK.devices[3]): 1,
    }
    assert sum(found.led.values()) == ROUNDS


def test_payload_bytes_are_those_of_the_payloads() -> None:
    """Of those that are stored: not of iterates, nor of the gradient that nobody has; the same one counts once."""
    plans, gradients, models = 6 * len(b"plan"), 5 * SIZES.gradient, 7 * SIZES.model
    closed = sum(
        post.size
        for block in story().blocks[2:]
        for transaction in block.transactions
        if (post := read_signed_call(transaction, story().genesis).post) is not None and post.slot == Slot.CLOSE
    )
    assert inspection_of(story().blocks).payload_bytes == len(PARAMETERS) + plans + gradients + models + closed


def _digests(block: int, name: str) -> set[bytes]:
    """Of the payloads of one kind of post of a block."""
    posts = [read_signed_call(transaction, story().genesis) for transaction in story().blocks[block].transactions]
    return {each.digest for post in posts if post.call and post.call.name == name for each in post.commitments}


def test_blocks_whose_payloads_are_not_here_are_named_and_the_rest_of_them_is_checked() -> None:
    gone = _digests(4, "model")
    left = {digest: payload for digest, payload in story().payloads.items() if digest not in gone}
    blocks = list(inspected(StoredChain(story().blocks, payloads=left)))
    assert [each.is_pruned for each in blocks] == [False] * 4 + [True] + [False] * 3
    assert blocks[-1].found.pruned == [4]
    assert blocks[4].source.payload(gone.pop()) is None
    assert inspect_chain(StoredChain(story().blocks, payloads={})).pruned == list(range(1, 8))


def test_a_gradient_that_the_leader_did_not_hold_is_not_missed() -> None:
    [withheld] = _digests(6, "gradient") - story().payloads.keys()
    *_, block, _ = inspected(StoredChain(story().blocks))
    assert (block.number, block.is_pruned, block.source.has_payload(withheld)) == (6, False, False)


@pytest.mark.parametrize(("number", "name"), [(1, "found"), (3, "plan"), (3, "gradient"), (4, "close"), (5, "model")])
def test_a_payload_with_another_digest_is_named(number: int, name: str) -> None:
    """The same size, one bit flipped; the block is the first one that keeps it."""
    digest = min(_digests(number, name))
    other = bytes([story().payloads[digest][0] ^ 1]) + story().payloads[digest][1:]
    first = 2 if name in ("plan", "gradient") else number
    message = f"^block {first}: the payload 0x{digest.hex()} has another digest: 0x{payload_digest(other).hex()}$"
    with pytest.raises(InspectionError, match=message):
        inspect_chain(StoredChain(story().blocks, payloads={**story().payloads, digest: other}))


def test_blocks_come_one_by_one_with_their_calls_and_what_was_found_so_far() -> None:
    done = 0
    for block, checked in zip(story().blocks, inspected(StoredChain(story().blocks)), strict=True):
        done += 1
        assert (checked.block, checked.found.blocks) == (block, done)
        assert [each.transaction for each in checked.calls] == list(block.transactions)
    assert done == 8


def test_blocks_before_a_misfit_are_told_and_the_head_is_judged_at_the_end() -> None:
    blocks = inspected(StoredChain((*story().blocks[:3], story().blocks[4], *story().blocks[4:])))
    assert [next(blocks).block for _ in range(3)] == list(story().blocks[:3])
    with pytest.raises(InspectionError, match="block 3: found block 4 in its place"):
        next(blocks)
    other = replace(story().headers[-1], extra_data=bytes(20))
    told = inspected(StoredChain(story().blocks, head=other))
    assert [next(told).block for _ in story().blocks] == list(story().blocks)
    with pytest.raises(InspectionError, match="is not the head"):
        next(told)


def test_a_chain_that_is_not_founded_yet_passes() -> None:
    assert inspection_of(story().blocks[:1]).blocks == 1


def test_every_prefix_of_a_chain_is_a_chain() -> None:
    for length in range(1, 9):
        assert inspection_of(story().blocks[:length]).blocks == length


def test_a_server_that_joins_changes_no_turn_of_the_running_round() -> None:
    """It would have ranked before the leader, who closes and publishes after the vote."""
    network = Network()
    node = founded_node(network)
    leader = network.leader(node)

    def place(server: LocalAccount) -> bytes:
        return hashlib.sha256(node.head.hash + address_of(server)).digest()

    candidates = (account(f"newcomer {i}") for i in range(1000))
    newcomer = next(each for each in candidates if place(each) < place(leader))
    network.post_plan(node, leader)
    for server in network.servers:
        if node.ask("is_excluded", address_of(newcomer)) is False:  # until it is in, for the next round
            network.post(node, server, "vote", address_of(newcomer), address_of(newcomer))
    network.post_close(node, leader)
    network.post_model(node, leader)
    node.propose(address_of(leader))
    seal(node, address_of(network.devices[0]))
    blocks = [block for number in range(3) if (block := node.block(number)) is not None]
    assert inspect_chain(StoredChain(blocks, node.genesis)).members[address_of(newcomer)] == address_of(newcomer)


# --- blocks that are not where they belong


def _without(number: int) -> tuple[Block, ...]:
    return story().blocks[:number] + story().blocks[number + 1 :]


def _with(number: int, block: Block) -> tuple[Block, ...]:
    return (*story().blocks[:number], block, *story().blocks[number + 1 :])


@pytest.mark.parametrize("number", [0, 1, 6])
def test_a_missing_block_is_named(number: int) -> None:
    with pytest.raises(InspectionError, match=f"^block {number}: found block {number + 1} in its place$"):
        inspection_of(_without(number))


def test_swapped_blocks_are_named() -> None:
    blocks = list(story().blocks)
    blocks[3], blocks[4] = blocks[4], blocks[3]
    with pytest.raises(InspectionError, match=r"^block 3: found block 4 in its place$"):
        inspection_of(blocks)


def test_the_genesis_is_a_genesis_once() -> None:
    with pytest.raises(InspectionError, match=r"^block 3: found block 0 in its place$"):
        inspection_of(_with(3, story().blocks[0]))


def test_another_genesis_is_named() -> None:
    with pytest.raises(InspectionError, match=r"^block 0: found genesis 0x[0-9a-f]{64}, expected 0x[0-9a-f]{64}$"):
        inspect_chain(StoredChain(story().blocks, genesis(chain_id=7)))


def test_another_head_is_named() -> None:
    other = forged(story().blocks[7], timestamp=story().headers[7].timestamp + 1).header
    with pytest.raises(InspectionError, match=f"^block 7: 0x[0-9a-f]{{64}} is not the head 0x{other.hash.hex()}$"):
        inspect_chain(StoredChain(story().blocks, head=other))
    with pytest.raises(InspectionError, match=r"^block 8: there is no block 8$"):
        inspect_chain(StoredChain(story().blocks, head=replace(other, block_number=8)))


def test_a_block_that_changes_between_two_readings_is_named() -> None:
    found = inspection_of(story().blocks)
    assert checked_block(StoredChain(story().blocks), 3, found) == story().blocks[3]
    swapped = _with(3, forged(story().blocks[3], state_root=bytes(32)))
    with pytest.raises(InspectionError, match=r"^block 3: now 0x[0-9a-f]{64}, 0x[0-9a-f]{64} before$"):
        checked_block(StoredChain(swapped), 3, found)
    emptied = _with(3, replace(story().blocks[3], transactions=()))
    with pytest.raises(InspectionError, match=r"^block 3: its transactions are not those the header commits to"):
        checked_block(StoredChain(emptied), 3, found)


def test_a_node_that_does_not_answer_is_no_verdict() -> None:
    class Silent(StoredChain):
        def block(self, number: int) -> Block:
            raise NodeUnreachableError("no node answers")

    with pytest.raises(NodeUnreachableError):
        inspect_chain(Silent(story().blocks))
