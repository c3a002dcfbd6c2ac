"""A node: the same posts give the same chain byte for byte, branches converge, and only lawful work seals."""

import random
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from eth_account.signers.local import LocalAccount
from web3 import Web3
from web3.exceptions import TransactionNotFound

from chain.client.keys import address_of
from chain.errors import (
    ChainError,
    LeaderError,
    NonceError,
    RevertedError,
    StoreError,
    TimestampError,
    UnknownParentError,
    WinnerError,
    WorkError,
)
from chain.node.node import Node
from chain.protocol.genesis import RETARGET
from chain.protocol.posts import PHASES, SignedCall
from chain.protocol.round_check import RoundBody
from chain.rpc.in_process import web3_in_process
from chain.wire.headers import Header
from chain.wire.seal import draw_winner, find_nonce
from chain.wire.sidecar import Sidecar, payload_digest
from chain.wire.transactions import decode_transaction
from tests.chain.network import (
    SIZES,
    START,
    Clock,
    Network,
    account,
    addresses,
    founded_node,
    genesis,
    named,
    seal,
    sized,
)

SEED = b"\x05" * 32


def raw_block(node: Node, number: int) -> bytes:
    raw = node.raw_block(number)
    assert raw is not None
    return raw


def sidecars_of(node: Node, post: SignedCall) -> list[Sidecar]:
    """The payloads beside a post, from a node that has them."""
    found = [node.payload(each.digest) for each in post.commitments]
    return [Sidecar(payload) for payload in found if payload is not None]


def import_from(source: Node, target: Node, number: int) -> Header:
    """Give a node a block of another one, which it may ask for the payloads."""
    target.sources = [source]
    return target.import_block(raw_block(source, number))


def exchange(one: Node, other: Node) -> None:
    """Give each node the other's chain, oldest block first."""
    for source, target in ((one, other), (other, one)):
        for number in range(1, source.head.block_number + 1):
            import_from(source, target, number)


def propose_and_seal(node: Node, leader: LocalAccount, winner: LocalAccount) -> Header:
    node.propose(address_of(leader))
    return seal(node, address_of(winner))


# --- determinism (C3)


def test_two_nodes_with_the_same_posts_have_the_same_chain_byte_for_byte() -> None:
    network = Network()
    nodes = [founded_node(network, Clock()) for _ in range(2)]
    for _ in range(3):
        for node in nodes:
            network.run_round(node)
    chains = [[raw_block(node, number) for number in range(5)] for node in nodes]
    assert chains[0] == chains[1]
    assert nodes[0].head.hash == nodes[1].head.hash


@pytest.mark.parametrize("seed", range(2))
def test_the_block_does_not_depend_on_the_order_of_arrival(seed: int) -> None:
    network, rng = Network(), random.Random(seed)
    ordered, shuffled = founded_node(network), founded_node(network)
    leader = network.post_round(ordered)
    entries = list(ordered.pending())
    for phase in PHASES:
        arriving = [entry.post for entry in entries if entry.post.phase == phase]
        rng.shuffle(arriving)
        for post in sorted(arriving, key=lambda post: post.transaction.nonce):
            shuffled.submit(post.transaction.raw, sidecars_of(ordered, post))
    assert [e.post.transaction for e in shuffled.pending()] != [e.post.transaction for e in entries]
    heads = [propose_and_seal(node, leader, network.devices[0]) for node in (ordered, shuffled)]
    assert heads[0] == heads[1]
    assert raw_block(ordered, 2) == raw_block(shuffled, 2)


def test_reused_and_repeated_execution_build_the_same_block() -> None:
    """The first proposal takes over what was executed on arrival, the second one executes again."""
    network = Network()
    node = founded_node(network)
    leader = network.leader(node)
    network.post_plan(node)
    for device in sorted(network.devices, key=address_of):
        network.post_gradient(node, device)
    pending = node.pool.execution
    first = node.propose(address_of(leader))
    assert node._candidates.of(address_of(leader)).body.execution is pending
    second = node.propose(address_of(leader))
    assert node._candidates.of(address_of(leader)).body.execution is not pending
    assert first == second


def test_a_drawn_winner_is_the_same_everywhere_and_its_nonce_is_real() -> None:
    network = Network()
    shares: dict[bytes, float] = {address_of(device): 1.0 + i for i, device in enumerate(network.devices)}
    heads = []
    for _ in range(2):
        node = founded_node(network, rules=genesis(difficulty=300))
        leader = network.post_round(node)
        node.propose(address_of(leader))
        heads.append(node.seal_by_draw(shares, SEED))
    assert heads[0] == heads[1]
    assert heads[0].winner == draw_winner(shares, SEED)
    assert heads[0].nonce == find_nonce(heads[0].mining_hash, 300)
    replica = founded_node(network, rules=genesis(difficulty=300))
    assert import_from(node, replica, 2) == heads[0]


def test_a_draw_among_strangers_seals_nothing() -> None:
    network = Network()
    node = founded_node(network)
    node.propose(address_of(network.leader(node)))
    with pytest.raises(WinnerError, match="expected a registered device"):
        node.seal_by_draw({address_of(account("stranger")): 1.0}, SEED)
    assert node.head.block_number == 1


# --- importing


def test_a_second_node_imports_the_chain_and_is_the_same() -> None:
    network, clock = Network(), Clock()
    node = founded_node(network, clock)
    for _ in range(2):
        clock.pass_s(7)
        network.run_round(node)
    other = Node.in_memory(node.genesis, now=clock)
    for number in (1, 2, 3):
        assert import_from(node, other, number) == node.header(number)
    assert other.head == node.head
    assert other.block(3) == node.block(3)
    assert other.total_difficulty(other.head.hash) == node.total_difficulty(node.head.hash) == 4
    assert other.ask("model_digest") == payload_digest(sized(b"model 2", SIZES.model))
    network.run_round(other)
    import_from(other, node, 4)
    assert node.head == other.head


def test_blocks_in_the_wrong_order_wait_for_their_parents() -> None:
    network = Network()
    node = founded_node(network)
    network.run_round(node)
    other = Node.in_memory(node.genesis, now=Clock())
    with pytest.raises(UnknownParentError, match=r"block 2: parent 0x.* is unknown"):
        import_from(node, other, 2)
    for number in (1, 2):
        import_from(node, other, number)
    assert other.head == node.head


def test_a_known_block_is_no_error_and_nobody_is_told_twice() -> None:
    network = Network()
    node, other = founded_node(network), founded_node(network)
    told: list[tuple[str, bytes, int]] = []
    other.listeners.append(lambda kind, raw, sidecars: told.append((kind, raw, len(sidecars))))
    network.run_round(node)
    for _ in range(2):
        assert import_from(node, other, 2) == node.head
        assert import_from(node, other, 0) == node.genesis.header
    assert told == [("block", raw_block(node, 2), 0)]


def test_listeners_hear_of_what_is_accepted_only() -> None:
    network = Network()
    node = founded_node(network)
    told: list[tuple[str, list[bytes]]] = []
    node.listeners.append(lambda kind, raw, sidecars: told.append((kind, [each.payload for each in sidecars])))
    with pytest.raises(RevertedError):
        network.post_close(node)
    network.post_plan(node)
    propose_and_seal(node, network.leader(node), network.devices[0])
    assert told == [("transaction", [b"plan"]), ("block", [])]


def test_a_nodes_chain_is_there_after_reopening(tmp_path: Path) -> None:
    network, clock = Network(), Clock()
    node = Node.create(tmp_path / "chain.db", genesis(), now=clock)
    network.found(node)
    network.run_round(node)
    head, block = node.head, node.block(2)
    network.post_plan(node)
    node.close()
    again = Node.open(tmp_path / "chain.db", now=clock)
    assert (again.head, again.block(2), again.pending()) == (head, block, ())
    network.run_round(again)
    again.close()


def test_a_node_that_cannot_start_gives_its_file_back(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="colour"):
        Node.create(tmp_path / "chain.db", genesis(), colour="red")
    Node.open(tmp_path / "chain.db", now=Clock()).close()


# --- branches


def branches(clock: Clock | None = None) -> tuple[Network, Node, Node]:
    """Two nodes with different blocks 2, that of the first being the better one."""
    network, nodes = Network(), []
    for payload in (b"plan of one", b"plan of other"):
        node = founded_node(network, clock)
        network.post_plan(node, payload=payload)
        propose_and_seal(node, network.leader(node), network.devices[0])
        nodes.append(node)
    one, other = sorted(nodes, key=lambda node: node.head.hash)
    assert one.head != other.head
    return network, one, other


def test_on_a_tie_both_nodes_take_the_smaller_hash() -> None:
    _, one, other = branches()
    smaller = min(one.head.hash, other.head.hash)
    exchange(one, other)
    assert one.head.hash == other.head.hash == smaller


def test_the_longer_branch_wins_even_with_the_larger_hash() -> None:
    network, one, other = branches()
    network.run_round(other)
    exchange(one, other)
    assert one.head == other.head
    assert one.head.block_number == 3
    network.run_round(one)
    exchange(one, other)
    assert one.head == other.head


def test_a_long_branch_replaces_a_long_branch_and_back_again() -> None:
    network, one, other = branches()
    old = [one.head, network.run_round(one)]
    for _ in range(2):
        network.run_round(other)
    exchange(one, other)
    assert one.head == other.head
    assert [one.header(number) for number in (2, 3)] != old
    assert [one.header(header.hash) for header in old] == old, "an abandoned block is still known by its hash"
    abandoned = [one.raw_block(header.hash) for header in old]
    revenge = founded_node(network)
    revenge.sources = [one]
    for raw in abandoned:
        assert raw is not None
        revenge.import_block(raw)
    for _ in range(2):
        network.run_round(revenge)
    exchange(one, revenge)
    assert one.head == revenge.head
    assert [one.header(number) for number in (2, 3)] == old


def test_transactions_of_an_abandoned_branch_are_gone_and_those_of_the_new_one_are_found() -> None:
    network, one, other = branches()
    network.run_round(one)
    old = [t.hash for number in (2, 3) for t in block_of(one, number).transactions]
    for _ in range(2):
        network.run_round(other)
    new = {t.hash: (number, i) for number in (2, 3, 4) for i, t in enumerate(block_of(other, number).transactions)}
    exchange(one, other)
    for transaction_hash in set(old) - set(new):
        assert one.place(transaction_hash) is None
        assert one.find_sealed(transaction_hash) is None
        with pytest.raises(TransactionNotFound):
            web3_in_process(one).eth.get_transaction_receipt(Web3.to_hex(transaction_hash))
        with pytest.raises(TransactionNotFound):
            web3_in_process(one).eth.get_transaction(Web3.to_hex(transaction_hash))
    for transaction_hash, place in new.items():
        assert one.place(transaction_hash) == place


def block_of(node: Node, number: int) -> Any:
    block = node.block(number)
    assert block is not None
    return block


def test_a_transaction_in_both_branches_answers_with_its_own_receipt() -> None:
    """py-evm's chain database keeps the old place and answers with the receipt of whoever stands there now."""
    network = Network()
    one, other = founded_node(network), founded_node(network)
    leader = network.leader(one)
    network.post_plan(one)
    for device in network.devices:
        network.post_gradient(one, device)
    for server in (each for each in network.servers if each != leader):
        network.post(other, server, "vote", address_of(account("newcomer")), address_of(leader))
    for entry in one.pending():
        other.submit(entry.post.transaction.raw, sidecars_of(one, entry.post))
    for node in (one, other):
        propose_and_seal(node, leader, network.devices[0])
    network.run_round(other)
    shared = [entry.hash for entry in block_of(one, 2).transactions]
    before = {each: one.place(each) for each in shared}
    exchange(one, other)
    moved = [each for each in shared if one.place(each) != before[each]]
    assert len(moved) >= len(network.devices), "the gradients moved back by two"
    for each in shared:
        found = web3_in_process(one).eth.get_transaction_receipt(Web3.to_hex(each))
        theirs = web3_in_process(other).eth.get_transaction_receipt(Web3.to_hex(each))
        assert found == theirs
        assert found["transactionHash"] == each
        block, position = one.find_sealed(each) or (None, 0)
        assert block is not None
        assert block.transactions[position].hash == each
        sender = block.transactions[position].sender
        assert {bytes(log["topics"][2][12:]) for log in found["logs"]} == {bytes(sender)}
        assert found["from"].lower() == str(sender)


def test_a_vote_in_an_abandoned_branch_is_pending_again() -> None:
    network, newcomer = Network(), account("newcomer")
    one, other = founded_node(network), founded_node(network)
    leader = network.leader(one)
    voter = next(server for server in network.servers if server != leader)
    vote = network.post(one, voter, "vote", address_of(newcomer), address_of(leader))
    plan = network.post_plan(one)
    propose_and_seal(one, leader, network.devices[0])
    assert one.place(vote) is not None
    for _ in range(2):
        propose_and_seal(other, network.leader(other), network.devices[1])
    exchange(one, other)
    assert one.head == other.head
    assert [entry.post.transaction.hash for entry in one.pending()] == [vote]
    assert one.find_pending(plan) is None, "its round is over"
    propose_and_seal(one, network.leader(one), network.devices[0])
    assert one.place(vote) == (4, 0)


def test_the_state_follows_the_branch() -> None:
    network, one, other = branches()
    network.run_round(other)
    digest = one.ask("plan_digest", header=one.head)
    exchange(one, other)
    assert one.ask("plan_digest", header=one.header(2)) != digest
    assert one.ask("model_digest") == other.ask("model_digest") == payload_digest(sized(b"model 2", SIZES.model))
    for who in addresses([*network.servers, *network.devices]):
        assert one.nonce(who) == other.nonce(who)


def test_a_side_branch_does_not_disturb_what_is_pending() -> None:
    network, one, other = branches()
    network.post_plan(one)
    network.post_gradient(one, network.devices[0])
    candidate = one.propose(address_of(network.leader(one)))
    before = [entry.post.transaction.hash for entry in one.pending()]
    import_from(other, one, 2)
    assert [entry.post.transaction.hash for entry in one.pending()] == before
    assert one.work(address_of(network.devices[0])).transaction_root == candidate.transaction_root
    assert seal(one, address_of(network.devices[0])).parent_hash == candidate.parent_hash


# --- candidates


def test_posts_after_a_proposal_leave_the_candidate_as_it_was() -> None:
    network = Network()
    node, other = founded_node(network), founded_node(network)
    leader = network.leader(node)
    network.post_plan(node)
    candidate = node.propose(address_of(leader))
    for device in network.devices:
        network.post_gradient(node, device)
    network.post_close(node)
    sealed = seal(node, address_of(network.devices[0]))
    assert (sealed.transaction_root, sealed.state_root) == (candidate.transaction_root, candidate.state_root)
    assert len(block_of(node, 2).transactions) == 1
    assert import_from(node, other, 2) == sealed
    assert node.pending() == ()
    network.run_round(node)


def test_the_candidate_of_an_attempt_that_is_over_is_mined_no_more() -> None:
    network, clock = Network(), Clock()
    node = founded_node(network, clock)
    first, second = network.leader(node, 0), network.leader(node, 1)
    device = address_of(network.devices[0])
    network.post_plan(node, first)
    node.propose(address_of(first))
    old = node.work(device)
    assert old.coinbase == address_of(first)
    network.begin_attempt(node)
    with pytest.raises(WorkError, match="there is no candidate block to mine"):
        node.work(device)
    with pytest.raises(WorkError, match="ask for new work"):
        node.submit_work(old.mining_hash, find_nonce(old.mining_hash, old.difficulty) or b"", device)
    with pytest.raises(LeaderError):
        node.propose(address_of(first))
    network.post_plan(node, second)
    header = node.propose(address_of(second))
    assert node.work(device) == header.for_winner(device)
    with pytest.raises(WorkError, match=r"0x.* has proposed no block on this head"):
        node.work(device, address_of(first))
    sealed = seal(node, device, address_of(second))
    assert sealed.coinbase == address_of(second)
    with pytest.raises(WorkError, match="there is no candidate block to mine"):
        node.work(device)


def test_work_is_stale_once_another_block_is_sealed() -> None:
    network = Network()
    node, other = founded_node(network), founded_node(network)
    device = address_of(network.devices[0])
    stale = []
    for each in (node, other):
        each.propose(address_of(network.leader(each)))
        stale.append(each.work(device))
    seal(node, address_of(network.devices[1]))
    import_from(node, other, 2)
    for each, work in zip((node, other), stale, strict=True):
        head = each.head
        nonce = find_nonce(work.mining_hash, work.difficulty)
        assert nonce is not None
        with pytest.raises(WorkError, match=r"another block was sealed, .* ask for new work"):
            each.submit_work(work.mining_hash, nonce, device)
        assert each.head == head


def test_work_for_an_older_proposal_of_the_same_leader_is_stale() -> None:
    network = Network()
    node = founded_node(network)
    leader, device = address_of(network.leader(node)), address_of(network.devices[0])
    node.propose(leader)
    old = node.work(device)
    network.post_plan(node)
    node.propose(leader)
    with pytest.raises(WorkError, match="ask for new work"):
        node.submit_work(old.mining_hash, bytes(8), device)
    assert seal(node, device).transaction_root != old.transaction_root


@pytest.mark.parametrize("who", ["a stranger", "a server", "nobody"])
def test_there_is_no_work_but_for_devices(who: str) -> None:
    network = Network()
    node = founded_node(network)
    node.propose(address_of(network.leader(node)))
    address = {
        "a stranger": address_of(account("stranger")),
        "a server": address_of(network.servers[0]),
        "nobody": b"",
    }[who]
    with pytest.raises(WinnerError, match=f"names winner 0x{address.hex()}, expected a registered device"):
        node.work(address)


def test_there_is_no_work_before_a_proposal() -> None:
    node = founded_node()
    with pytest.raises(WorkError, match="there is no candidate block to mine; a leader proposes one first"):
        node.work(address_of(account("device 0")))


def test_a_block_is_proposed_for_a_time_that_others_accept() -> None:
    network, clock = Network(), Clock()
    node = founded_node(network, clock)
    leader = address_of(network.leader(node))
    with pytest.raises(TimestampError, match="before its parent"):
        node.propose(leader, START - 1)
    with pytest.raises(TimestampError, match="16 s in the future"):
        node.propose(leader, START + 16)
    assert node.propose(leader, START + 15).timestamp == START + 15
    clock.pass_s(-1000)
    assert node.propose(leader).timestamp == START, "a clock that goes backwards does not stop the chain"


def test_only_the_founder_proposes_the_founding() -> None:
    network, node = Network(), Node.in_memory(genesis(), now=Clock())
    with pytest.raises(ChainError):
        node.propose(address_of(network.servers[0]))
    network.found(node)
    with pytest.raises(LeaderError):
        node.propose(address_of(network.founder))


# --- a wrong model (P13)


def test_after_the_model_it_refuses_a_successor_publishes_its_own_in_another_attempt() -> None:
    network, clock = Network(), Clock()
    node = founded_node(network, clock)
    leader = network.post_round(node)
    wrong = node.pending()[-1].post.transaction.hash
    node.propose(address_of(leader))
    successor = network.leader(node, 1)
    with pytest.raises(RevertedError, match="not the leader of this attempt"):
        network.post_model(node, successor, b"right")
    network.begin_attempt(node)
    with pytest.raises(WorkError, match="there is no candidate block"):
        node.work(address_of(network.devices[0]))
    network.post_plan(node, successor)
    network.post_close(node, successor)
    network.post_model(node, successor, b"right")
    sealed = propose_and_seal(node, successor, network.devices[0])
    assert sealed.coinbase == address_of(successor)
    assert node.ask("model_digest") == payload_digest(sized(b"right", SIZES.model))
    assert node.place(wrong) is None
    replica = Node.in_memory(node.genesis, now=clock)
    assert [import_from(node, replica, number) for number in (1, 2)][1] == sealed


def test_check_round_sees_the_block_as_it_will_be() -> None:
    network, seen = Network(), []

    def note(body: RoundBody, _: object) -> None:
        seen.append(body)

    node = founded_node(network, check_round=note)
    assert seen == [], "the founding block is no round"
    replica = founded_node(network, check_round=note)
    network.run_round(node)
    import_from(node, replica, 2)
    proposed, imported = seen
    assert proposed.posts == imported.posts
    assert proposed.parent == imported.parent == node.header(1)
    assert imported.header == node.head
    assert proposed.statuses == imported.statuses == (1,) * len(block_of(node, 2).transactions)


# --- difficulty


def test_a_retargeted_chain_follows_the_clock_and_replicas_agree() -> None:
    """1,000 at 10 s: +125 for the founding block at once, then a block in time, then a slow one."""
    network, clock = Network(), Clock()
    rules = genesis(difficulty=1000, difficulty_rule=RETARGET, block_s=10)
    node = founded_node(network, clock, rules)
    for seconds in (10, 15, 3):
        clock.pass_s(seconds)
        network.run_round(node)
    difficulties = [block_of(node, number).header.difficulty for number in range(5)]
    assert difficulties == [1000, 1125, 1125, 1125 - 1125 * 5 // 80, 1055 + 1055 * 7 // 80]
    assert node.total_difficulty(node.head.hash) == sum(difficulties)
    replica = Node.in_memory(rules, now=clock)
    for number in range(1, 5):
        import_from(node, replica, number)
    assert replica.head == node.head


def test_more_work_beats_more_blocks() -> None:
    """Two slow blocks of little work lose against one of more; the genesis' difficulty rule decides, not the height."""
    network = Network()
    rules = genesis(difficulty=8, difficulty_rule=RETARGET, block_s=1000)
    slow_clock, quick_clock = Clock(), Clock()
    slow, quick = founded_node(network, slow_clock, rules), founded_node(network, quick_clock, rules)
    for _ in range(8):
        slow_clock.pass_s(10_000)
        propose_and_seal(slow, network.leader(slow), network.devices[0])
    for _ in range(6):
        propose_and_seal(quick, network.leader(quick), network.devices[0])
    heavy, light = (node.total_difficulty(node.head.hash) for node in (quick, slow))
    assert heavy > light
    assert quick.head.block_number < slow.head.block_number
    quick_clock.now = slow_clock.now
    exchange(slow, quick)
    assert slow.head == quick.head
    assert slow.head.block_number == 7
    assert slow.header(8) is None


# --- closing, threads


def test_a_closed_node_refuses_everything_and_closes_twice() -> None:
    network = Network()
    node = founded_node(network)
    raw, leader = raw_block(node, 1), address_of(network.leader(node))
    plan = network.signed(node, network.leader(node), "plan", 1, 0, *named(b"p"))
    node.close()
    node.close()
    uses: list[Callable[[], Any]] = [
        lambda: node.head, lambda: node.pool, lambda: node.submit(plan), lambda: node.import_block(raw),
        lambda: node.propose(leader), lambda: node.work(leader), lambda: node.block(0), lambda: node.header(0),
        lambda: node.ask("round"), lambda: node.call(b""), lambda: node.nonce(leader), lambda: node.place(bytes(32)),
        lambda: node.attempt, lambda: node.votes(1), lambda: node.pending(),
        lambda: node.submit_work(bytes(32), bytes(8), leader),
        lambda: node.seal_by_draw({leader: 1.0}, SEED), lambda: node.total_difficulty(bytes(32)),
        lambda: node.deliver(bytes(32), b""), lambda: node.wanted(), lambda: node.hold_evidence(bytes(32)),
        lambda: node.payload(bytes(32)), lambda: node.has_payload(bytes(32)), lambda: node.pruned(),
        lambda: node.payload_range(bytes(32), 0, 1), lambda: node.largest_payload,
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(StoreError, match="this node is closed"):
            use()


def test_numbers_and_hashes_that_are_no_blocks_find_none() -> None:
    node = founded_node()
    for which in (2, 2**63 - 1, 2**63, 2**300, b"", bytes(32), b"x" * 99):
        assert node.block(which) is None
        assert node.header(which) is None
        assert node.raw_block(which) is None
    with pytest.raises(StoreError, match=r"block 0x0000.* is not in the database"):
        node.total_difficulty(bytes(32))


def run_at_once(works: Sequence[Callable[[], Any]], background: Sequence[Callable[[], Any]]) -> list[BaseException]:
    """Do each in a thread of its own, those in the background again and again meanwhile; returns what they raised."""
    done, failures = threading.Event(), list[BaseException]()

    def guarded(work: Callable[[], Any]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test shows it
            failures.append(error)

    def repeat(work: Callable[[], Any]) -> None:
        while not done.is_set():
            work()

    others = [threading.Thread(target=guarded, args=(partial(repeat, work),)) for work in background]
    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        for thread in others + threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        done.set()
        for thread in others:
            thread.join(60)
        sys.setswitchinterval(interval)
    return failures


def test_threads_that_post_ask_and_propose_at_once_get_along() -> None:
    """Every device posts from a thread of its own while others read, propose and post nonsense."""
    network = Network(devices=[account(f"device {i}") for i in range(8)])
    node, calm = founded_node(network), founded_node(network)
    leader, web3 = network.leader(node), web3_in_process(node)
    network.post_plan(node)

    def post(device: LocalAccount) -> Callable[[], Any]:
        return lambda: network.post_gradient(node, device, b"of " + address_of(device))

    def read() -> None:
        node.ask("rank", address_of(leader))
        assert node.nonce(address_of(leader)) == 1
        for entry in node.pending():
            assert web3.eth.get_transaction(Web3.to_hex(entry.post.transaction.hash))["blockHash"] is None
        assert web3.eth.get_transaction_count(leader.address, "pending") == 1

    def propose() -> None:
        header = node.propose(address_of(leader))
        assert node.work(address_of(network.devices[0])).state_root == header.state_root

    def disturb() -> None:
        with pytest.raises((RevertedError, NonceError)):
            network.post_close(node, network.leader(node, 1))

    works = [post(device) for device in network.devices]
    assert run_at_once(works, background=[read, read, propose, disturb]) == []
    assert len(node.pending()) == 9
    for entry in sorted(node.pending(), key=lambda entry: entry.post.place):
        calm.submit(entry.post.transaction.raw, sidecars_of(node, entry.post))
    heads = [propose_and_seal(each, leader, network.devices[0]) for each in (node, calm)]
    assert heads[0] == heads[1]


def test_one_of_many_threads_seals() -> None:
    network = Network(devices=[account(f"device {i}") for i in range(6)])
    node = founded_node(network)
    node.propose(address_of(network.leader(node)))
    works = {device: node.work(device) for device in addresses(network.devices)}
    sealed, stale = list[Header](), list[WorkError]()

    def submit(device: bytes) -> None:
        nonce = find_nonce(works[device].mining_hash, 1)
        assert nonce is not None
        try:
            sealed.append(node.submit_work(works[device].mining_hash, nonce, device))
        except WorkError as error:
            stale.append(error)

    threads = [threading.Thread(target=submit, args=(device,)) for device in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(sealed) == 1
    assert len(stale) == 5
    assert node.head == sealed[0]


def test_a_sealed_transaction_cannot_be_posted_again_and_pending_ones_can_be_found() -> None:
    network = Network()
    node = founded_node(network)
    plan = network.signed(node, network.leader(node), "plan", 1, 0, *named(b"p"))
    posted = node.submit(plan, [Sidecar(b"p")])
    assert node.find_sealed(posted) is None
    found = node.find_pending(posted)
    assert found is not None
    assert found.post.transaction == decode_transaction(plan)
    propose_and_seal(node, network.leader(node), network.devices[0])
    assert node.find_pending(posted) is None
    block, position = node.find_sealed(posted) or (None, -1)
    assert (block, position) == (node.block(2), 0)
    with pytest.raises(NonceError, match="is sealed in block 2 already"):
        node.submit(plan)
