"""A majority signs what this node refuses (D3.5): it says so with both digests, and builds nothing beside it."""

from dataclasses import replace
from pathlib import Path

import pytest

from chain.client.connection import Connection
from chain.client.keys import address_of
from chain.client.ledger import Ledger
from chain.errors import (
    ChainError,
    DivergedError,
    EndorsementError,
    InvalidBlockError,
    LeaderError,
    RoundRefusedError,
    TimestampError,
    TransactionRootError,
    WorkError,
)
from chain.node.access import LocalLedger
from chain.node.node import Node
from chain.node.waiting import MOST_REFUSED, RefusedBlocks
from chain.protocol.round_check import ChainReader, RoundBody
from chain.protocol.slots import Slot
from chain.rpc.in_process import web3_in_process
from chain.wire.address import Address
from chain.wire.blocks import decode_block, encode_block
from chain.wire.headers import Header
from tests.chain.endorsing import signed
from tests.chain.network import Clock, Network, account, endorsements_of, founded_node, genesis, seal

NETWORK = Network()
SERVERS = NETWORK.servers
WHY = "its model has digest 0xaa, its own gradients give 0xbb"


def refuse(body: RoundBody, _: ChainReader) -> None:
    raise RoundRefusedError(f"block {body.header.block_number}: {WHY}")


def sealed_elsewhere(plan: bytes = b"plan") -> tuple[Header, bytes, Node]:
    """A block of round 1, as bytes, and the node that has it and its payloads."""
    other = founded_node(NETWORK)
    NETWORK.post_plan(other, payload=plan)
    other.propose(address_of(NETWORK.leader(other)))
    header = seal(other, address_of(NETWORK.devices[0]))
    return header, other.raw_block(2) or b"", other


def refusing(other: Node) -> Node:
    """A node that refuses every round, and can ask for payloads."""
    node = founded_node(NETWORK, check_round=refuse)
    node.sources = [other]
    return node


def import_refused(node: Node, raw: bytes, kind: type[ChainError] = RoundRefusedError) -> None:
    with pytest.raises(kind):
        node.import_block(raw)


# --- noticing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_first", ["block", "signatures"])
def test_a_majority_for_a_block_that_is_refused_is_told_with_both_digests(
    is_first: str, caplog: pytest.LogCaptureFixture
) -> None:
    header, raw, other = sealed_elsewhere()
    node = refusing(other)
    founding = node.head
    if is_first == "block":
        import_refused(node, raw)
    for each in endorsements_of(header, SERVERS[:2]):
        assert node.divergence is None
        node.take_endorsement(each)
    if is_first == "signatures":
        assert node.divergence is None, "it is missing, which is not refused"
        import_refused(node, raw)
    found = node.divergence
    assert found is not None
    assert (found.signed.round, found.signed.attempt, found.signed.block_hash) == (1, 0, header.hash)
    assert found.signed.signers == {Address(address_of(each)) for each in SERVERS[:2]}
    assert (found.own, found.reason) == (founding, f"block 2: {WHY}")
    with pytest.raises(DivergedError, match=f"DIVERGED at round 1: found block 0x{header.hash.hex()}.*{WHY}") as told:
        node.check_agrees()
    assert f"which is at block 1, 0x{founding.hash.hex()}. Nothing is posted or signed from here." in str(told.value)
    import_refused(node, raw)
    NETWORK.endorse(node, header, SERVERS[2:])
    assert [record.message for record in caplog.records] == [str(told.value)], "once"
    assert node.head == node.final == founding


def test_what_this_node_has_instead_is_its_own_block_of_that_round() -> None:
    header, raw, other = sealed_elsewhere(b"other")
    node = founded_node(NETWORK)
    NETWORK.post_plan(node)
    node.propose(address_of(NETWORK.leader(node)))
    own = seal(node, address_of(NETWORK.devices[0]))
    node.sources, node._check_round = [other], refuse
    import_refused(node, raw)
    NETWORK.endorse(node, header, SERVERS[:2])
    found = node.divergence
    assert found is not None
    assert (found.signed.block_hash, found.own) == (header.hash, own)


def test_nothing_is_built_posted_or_signed_beside_what_a_majority_signed() -> None:
    header, raw, other = sealed_elsewhere(b"other")
    node = refusing(other)
    leader = NETWORK.leader(node)
    node._check_round = None
    NETWORK.post_plan(node)
    node.propose(address_of(leader))
    node._check_round = refuse
    import_refused(node, raw)
    NETWORK.endorse(node, header, SERVERS[1:])
    with pytest.raises(DivergedError, match="DIVERGED"):
        node.propose(address_of(leader))
    with pytest.raises(WorkError, match="there is no candidate block"):
        node.work(address_of(NETWORK.devices[0]))
    far = Connection(web3_in_process(node), node.genesis.registry)
    for ledger in (LocalLedger(node, SERVERS[2]), Ledger(far, SERVERS[2])):
        with pytest.raises(DivergedError, match=header.hash.hex()):
            ledger.endorse(1, 0, b"\7" * 32, 0)
        with pytest.raises(DivergedError, match=header.hash.hex()):
            ledger.sign_pass(1, 1, None, 0)
        with pytest.raises(DivergedError, match=header.hash.hex()):
            ledger.submit_vote(address_of(account("new")), address_of(account("new")))
        with pytest.raises(DivergedError, match=header.hash.hex()):
            ledger.post(Slot.ROLL, 1, b"roll")


# --- what is none -----------------------------------------------------------------------------------------------------


def test_too_few_signatures_or_those_of_different_attempts_are_none() -> None:
    header, raw, other = sealed_elsewhere()
    node = refusing(other)
    import_refused(node, raw)
    NETWORK.endorse(node, header, SERVERS[:1])
    NETWORK.endorse(node, header, SERVERS[1:2], attempt=1)
    for each in signed([account("stranger 1"), account("stranger 2")], 1, header.hash):
        with pytest.raises(EndorsementError, match="is no edge server"):
            node.take_endorsement(each)
    assert node.divergence is None
    NETWORK.endorse(node, header, SERVERS[2:], attempt=1)
    assert node.divergence is not None


def test_a_block_that_is_only_missing_is_caught_up_with() -> None:
    header, raw, other = sealed_elsewhere()
    node = founded_node(NETWORK)
    node.sources = [other]
    NETWORK.endorse(node, header)
    node.check_agrees()
    with pytest.raises(EndorsementError, match="which is not here: nothing is built until it is fetched"):
        node.propose(address_of(NETWORK.leader(node)))
    node.import_block(raw)
    assert node.final == header


def test_who_puts_another_body_under_a_signed_header_does_not_make_the_block_refused() -> None:
    header, raw, other = sealed_elsewhere()
    node = founded_node(NETWORK)
    node.sources = [other]
    _, transactions = decode_block(raw)
    import_refused(node, encode_block(header, ()), TransactionRootError)
    import_refused(node, encode_block(header, (replace(transactions[0], raw=b"\x02\xc0"),)), ChainError)
    NETWORK.endorse(node, header)
    assert node.divergence is None
    node.import_block(raw)
    assert node.final == header


def test_a_block_of_a_time_that_has_not_come_is_not_refused_for_good() -> None:
    header, raw, other = sealed_elsewhere()
    clock = Clock()
    node = founded_node(NETWORK, clock=clock)
    node.sources = [other]
    clock.pass_s(-1000)
    import_refused(node, raw, TimestampError)
    clock.pass_s(1000)
    NETWORK.endorse(node, header)
    assert node.divergence is None


def test_started_again_with_what_is_mended_it_takes_the_block(tmp_path: Path) -> None:
    header, raw, other = sealed_elsewhere()
    node = Node.create(tmp_path / "chain.db", genesis(), now=Clock(), check_round=refuse)
    NETWORK.found(node)
    node.sources = [other]
    import_refused(node, raw)
    NETWORK.endorse(node, header, SERVERS[:2])
    assert node.divergence is not None
    node.close()
    for check, is_diverged in ((refuse, True), (None, False)):
        again = Node.open(tmp_path / "chain.db", now=Clock(), check_round=check)
        again.sources = [other]
        assert again.divergence is None, "nothing of it is on the disk"
        if is_diverged:
            import_refused(again, raw)
        else:
            again.import_block(raw)
        assert (again.divergence is not None) == is_diverged
        assert (again.final == header) == (not is_diverged)
        again.close()


def test_a_block_that_is_accepted_after_all_ends_it() -> None:
    header, raw, other = sealed_elsewhere()
    node = refusing(other)
    import_refused(node, raw)
    NETWORK.endorse(node, header)
    node._check_round = None
    node.import_block(raw)
    node.check_agrees()
    assert node.final == header


# --- what is remembered -----------------------------------------------------------------------------------------------


def test_what_servers_signed_is_not_pushed_out_by_any_number_of_wrong_blocks() -> None:
    refused, who = RefusedBlocks(), Address(b"\1" * 20)
    stood_by = {b"signed": {who}}
    assert refused.note(b"signed", LeaderError("why"), lambda: stood_by)
    for number in range(1000):
        refused.note(b"%d" % number, InvalidBlockError("why"), lambda: stood_by)
    assert len(refused) == MOST_REFUSED
    assert refused.reason(b"signed") == "why"
    assert refused.reason(b"0") is None
    assert refused.reason(b"999") == "why"


# --- telling ----------------------------------------------------------------------------------------------------------


def test_a_nodes_status_says_running_and_then_diverged_with_both_digests() -> None:
    header, raw, other = sealed_elsewhere()
    node = refusing(other)
    far = Connection(web3_in_process(node), node.genesis.registry)
    head = "0x" + node.head.hash.hex()
    assert far.request("bfl_status") == {
        "state": "RUNNING", "told": "", "head": head, "final": head, "pending": "0x0", "diverged": None,
    }  # fmt: skip
    far.check_agrees()
    import_refused(node, raw)
    NETWORK.endorse(node, header, SERVERS[:2])
    status = far.request("bfl_status")
    assert (status["state"], status["told"]) == ("DIVERGED", str(node.divergence))
    assert status["diverged"] == {
        "round": "0x1",
        "attempt": "0x0",
        "signed": "0x" + header.hash.hex(),
        "signers": sorted("0x" + address_of(each).hex() for each in SERVERS[:2]),
        "refused": f"block 2: {WHY}",
        "own": head,
    }
    with pytest.raises(DivergedError, match=header.hash.hex()):
        far.check_agrees()
