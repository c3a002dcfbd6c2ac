"""Payloads beside posts and blocks (B1-B4): another one than was named is refused, a missing one is waited for, and the
node goes on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from chain.client.keys import address_of
from chain.errors import (
    ChainError,
    LeaderError,
    MissingSidecarError,
    NonceError,
    SidecarDigestError,
    SidecarSizeError,
    StateRootError,
    TransactionOrderError,
    TransactionRefusedError,
    UnregisteredSenderError,
    UnwantedSidecarError,
    WaitingBlockError,
    WinnerError,
)
from chain.node.node import Node
from chain.node.vm import Execution
from chain.protocol.posts import Commitment
from chain.protocol.slots import iterate_slot
from chain.store.payloads import EVIDENCE
from chain.wire.blocks import Block, decode_block, encode_block
from chain.wire.documents import ClosedList
from chain.wire.headers import Header
from chain.wire.sidecar import Sidecar, payload_digest
from chain.wire.transactions import Envelope, Transaction, decode_transaction, sign_transaction
from tests.chain.network import (
    MODEL_0,
    PARAMETERS,
    SIZES,
    Clock,
    Network,
    account,
    founded_node,
    genesis,
    named,
    seal,
    sized,
)
from tests.chain.small_chain import forged, signed

NETWORK = Network()
GRADIENT = sized(b"a gradient", SIZES.gradient)
DIGEST = payload_digest(GRADIENT)
NAMED = Commitment(DIGEST, SIZES.gradient)


def planned_node() -> Node:
    """A node whose round has a plan."""
    node = founded_node(NETWORK)
    NETWORK.post_plan(node)
    return node


def signed_gradient(node: Node, payload: bytes = GRADIENT, device: int = 0) -> bytes:
    return NETWORK.signed(node, NETWORK.devices[device], "gradient", *NETWORK.gradient(node, payload))


def sealed_by(node: Node) -> Header:
    """Propose and seal what is pending."""
    node.propose(address_of(NETWORK.leader(node)))
    return seal(node, address_of(NETWORK.devices[0]))


# --- with a post


@pytest.mark.parametrize(
    ("beside", "error", "message"),
    [
        ([GRADIENT[:-1]], SidecarSizeError, "found a payload of 31 bytes, its post names 32"),
        ([GRADIENT + b"\0"], SidecarSizeError, "found a payload of 33 bytes, its post names 32"),
        ([b""], SidecarSizeError, "found a payload of 0 bytes, its post names 32"),
        ([bytes(SIZES.gradient)], SidecarDigestError, f"its post names 0x{DIGEST.hex()}"),
        ([GRADIENT, GRADIENT], UnwantedSidecarError, "found a payload of 32 bytes more than the post commits to"),
        ([GRADIENT, b"and more"], UnwantedSidecarError, "found a payload of 8 bytes more than the post commits to"),
    ],
    ids=["too small", "too large", "empty", "another one", "twice", "one more"],
)
def test_a_payload_that_its_post_does_not_name_is_refused_with_the_post(
    beside: list[bytes], error: type[ChainError], message: str
) -> None:
    node = planned_node()
    with pytest.raises(error, match=message) as refused:
        node.submit(signed_gradient(node), [Sidecar(each) for each in beside])
    assert type(refused.value) is error
    assert len(node.pending()) == 1
    assert [node.has_payload(payload_digest(each)) for each in beside] == [False] * len(beside)
    node.submit(signed_gradient(node), [Sidecar(GRADIENT)])
    assert node.payload(DIGEST) == GRADIENT
    sealed_by(node)


def test_what_has_no_payload_takes_none() -> None:
    node = founded_node(NETWORK)
    vote = NETWORK.signed(node, NETWORK.servers[0], "vote", address_of(account("newcomer")), bytes(20))
    with pytest.raises(UnwantedSidecarError, match="found a payload of 1 bytes more than the post commits to"):
        node.submit(vote, [Sidecar(b"x")])
    node.submit(vote)


def test_nothing_of_a_payload_is_hashed_before_signature_role_and_size_are_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = planned_node()
    hashed: list[bytes] = []

    def noted(payload: bytes) -> bytes:
        hashed.append(payload)
        return payload_digest(payload)

    monkeypatch.setattr("chain.wire.sidecar.payload_digest", noted)
    stranger = NETWORK.signed(node, account("stranger"), "gradient", *NETWORK.gradient(node, GRADIENT))
    with pytest.raises(UnregisteredSenderError):
        node.submit(stranger, [Sidecar(GRADIENT)])
    with pytest.raises(SidecarSizeError, match="found 64 bytes of gradient, this network was founded with 32"):
        node.submit(signed_gradient(node, bytes(64)), [Sidecar(bytes(64))])
    with pytest.raises(SidecarSizeError, match="its post names 32"):
        node.submit(signed_gradient(node), [Sidecar(bytes(1 << 20))])
    assert hashed == []
    node.submit(signed_gradient(node), [Sidecar(GRADIENT)])
    assert hashed == [GRADIENT]  # once


def test_a_refused_post_leaves_no_payload_behind() -> None:
    node = founded_node(NETWORK)
    with pytest.raises(TransactionRefusedError, match="gradient for another plan"):
        node.submit(signed_gradient(node), [Sidecar(GRADIENT)])
    assert not node.has_payload(DIGEST)


def test_the_founding_has_two_payloads_in_any_order() -> None:
    node = Node.in_memory(genesis(), now=Clock())
    NETWORK.found(node)
    founding = node.block(1)
    assert founding is not None
    for order in ((PARAMETERS, MODEL_0), (MODEL_0, PARAMETERS)):
        other = Node.in_memory(genesis(), now=Clock())
        for transaction in founding.transactions[:-1]:
            other.submit(transaction)
        with pytest.raises(SidecarSizeError, match="its post names 16 or 52"):
            other.submit(founding.transactions[-1], [Sidecar(b"other")])
        with pytest.raises(SidecarDigestError):
            other.submit(founding.transactions[-1], [Sidecar(bytes(SIZES.model))])
        other.submit(founding.transactions[-1], [Sidecar(each) for each in order])
        assert other.wanted() == []
        other.propose(address_of(NETWORK.founder))
        assert seal(other, b"") == node.head


def test_a_post_that_names_somebody_elses_payload_and_lies_about_its_size_is_refused() -> None:
    """It would never be missed, and an audit would find a payload of another size in every copy of the chain."""
    node = planned_node()
    arguments = (*NETWORK.gradient(node, b"plan")[:-1], SIZES.gradient)
    with pytest.raises(SidecarSizeError, match="found a payload of 4 bytes, its post names 32"):
        NETWORK.post(node, NETWORK.devices[0], "gradient", *arguments)
    sealed_by(node)
    arguments = (*NETWORK.gradient(node, b"plan")[:-1], SIZES.gradient)
    NETWORK.post_plan(node, payload=b"another plan")
    with pytest.raises(SidecarSizeError, match="found a payload of 4 bytes, its post names 32"):
        NETWORK.post(node, NETWORK.devices[0], "gradient", *arguments)
    NETWORK.post_gradient(node, NETWORK.devices[0])


# --- after a post


def test_a_post_without_its_payload_is_pending_and_visible_and_no_block_is_built_until_it_comes() -> None:
    node = planned_node()
    posted = node.submit(signed_gradient(node))
    entry = node.find_pending(posted)
    assert entry is not None
    assert entry.post.post is not None
    post = entry.post.post.beside(node)
    assert (entry.outcome.status, post.is_here, post.payload) == (1, False, None)
    assert node.wanted() == [NAMED]
    missing = f"1 payloads of this round are not here, the first is 0x{DIGEST.hex()}: a leader refuses as unavailable"
    with pytest.raises(MissingSidecarError, match=missing):
        node.propose(address_of(NETWORK.leader(node)))
    node.deliver(DIGEST, GRADIENT)
    assert (post.is_here, post.payload) == (True, GRADIENT)
    assert node.wanted() == []
    sealed_by(node)
    assert node.payload(DIGEST) == GRADIENT


@pytest.mark.parametrize(
    ("digest", "payload", "error", "message"),
    [
        (DIGEST, GRADIENT[:-1], SidecarSizeError, "found a payload of 31 bytes, its post names 32"),
        (DIGEST, GRADIENT + bytes(1 << 20), SidecarSizeError, "found a payload of 1048608 bytes, its post names 32"),
        (DIGEST, bytes(SIZES.gradient), SidecarDigestError, f"its post names 0x{DIGEST.hex()}"),
        (payload_digest(b"x"), b"x", UnwantedSidecarError, f"nothing here waits .* 0x{payload_digest(b'x').hex()}"),
        (payload_digest(b"plan"), b"plan", UnwantedSidecarError, "nothing here waits for a payload"),
        (b"", GRADIENT, UnwantedSidecarError, "nothing here waits for a payload with digest 0x$"),
    ],
    ids=["too small", "oversized", "another one", "unwanted", "here already", "no digest"],
)
def test_what_is_delivered_and_not_wanted_is_refused(
    digest: bytes, payload: bytes, error: type[ChainError], message: str
) -> None:
    node = planned_node()
    node.submit(signed_gradient(node))
    with pytest.raises(error, match=message) as refused:
        node.deliver(digest, payload)
    assert type(refused.value) is error
    assert node.wanted() == [NAMED]
    node.deliver(DIGEST, GRADIENT)
    with pytest.raises(UnwantedSidecarError, match="nothing here waits for a payload"):
        node.deliver(DIGEST, GRADIENT)
    sealed_by(node)


def test_an_iterate_is_not_missed_nor_asked_for() -> None:
    """It is judged by its digest, which follows from the gradients (B3)."""
    node = planned_node()
    NETWORK.post_close(node)
    payload = sized(b"an iterate", SIZES.iterate)
    NETWORK.post(node, NETWORK.servers[0], "iterate", 1, 0, 0, node.ask("close_digest"), *named(payload))
    assert node.wanted() == []
    with pytest.raises(UnwantedSidecarError):
        node.deliver(payload_digest(payload), payload)
    sealed_by(node)


def test_a_payload_that_an_earlier_block_keeps_is_not_asked_for_again() -> None:
    """The same plan in two rounds, say."""
    node = founded_node(NETWORK)
    NETWORK.run_round(node)
    leader = NETWORK.leader(node)
    NETWORK.post(node, leader, "plan", 2, 0, *named(b"plan"))
    assert node.wanted() == []
    sealed_by(node)


def test_a_payload_that_is_withheld_is_refused_as_unavailable_and_the_round_goes_on() -> None:
    node = planned_node()
    withheld = node.submit(signed_gradient(node))
    NETWORK.post_gradient(node, NETWORK.devices[1])
    accepted = node.pending()[-1].post.transaction.hash
    refused = ((f"0x{address_of(NETWORK.devices[0]).hex()}", "unavailable"),)
    NETWORK.post_close(node, payload=ClosedList(1, (accepted,), refused, (withheld,)).encode())
    with pytest.raises(MissingSidecarError):
        node.propose(address_of(NETWORK.leader(node)))  # no model names the list yet
    NETWORK.post_model(node)
    header = sealed_by(node)
    assert DIGEST not in {each.digest for each in node._store.kept_by(header.hash)}
    assert node.pruned() == []
    other = founded_node(NETWORK)
    other.sources = [node]
    assert other.import_block(raw_block(node, 2)) == header


def test_a_gradient_without_payload_that_no_list_names_does_not_stop_a_leader() -> None:
    node = planned_node()
    accepted = NETWORK.post_gradient(node, NETWORK.devices[1])
    late = node.submit(signed_gradient(node))  # after the leader has looked at what it holds
    NETWORK.post_close(node, payload=ClosedList(1, (accepted,)).encode())
    NETWORK.post_model(node)
    block = node.block(sealed_by(node).hash)
    assert block is not None
    sealed = {transaction.hash for transaction in block.transactions}
    assert accepted in sealed
    assert late not in sealed


# --- with a block


@dataclass(frozen=True)
class Sealed:
    """A round that one node has sealed, for others to import."""

    node: Node
    raw: bytes
    payloads: tuple[bytes, ...]
    """What the block keeps."""

    @property
    def header(self) -> Header:
        return self.node.head


def raw_block(node: Node, number: int) -> bytes:
    raw = node.raw_block(number)
    assert raw is not None
    return raw


def sealed_round(gradient: bytes = GRADIENT) -> Sealed:
    """Plan, one gradient, close, iterates and model."""
    node = planned_node()
    node.submit(signed_gradient(node, gradient), [Sidecar(gradient)])
    NETWORK.post_close(node)
    for server in NETWORK.servers:
        NETWORK.post_iterate(node, server, 0)
    NETWORK.post_model(node)
    sealed_by(node)
    return Sealed(node, raw_block(node, 2), (b"plan", gradient, b"close", sized(b"model 1", SIZES.model)))


def sidecars(payloads: Sequence[bytes]) -> list[Sidecar]:
    return [Sidecar(each) for each in payloads]


def without(payloads: Sequence[bytes], left_out: bytes) -> list[Sidecar]:
    return sidecars([each for each in payloads if each != left_out])


def test_a_block_comes_with_its_payloads_and_keeps_them_but_for_iterates() -> None:
    sealed, node = sealed_round(), founded_node(NETWORK)
    assert node.import_block(sealed.raw, sidecars(sealed.payloads)) == sealed.header
    kept = {each.digest: each for each in node._store.kept_by(sealed.header.hash)}
    assert set(kept) == {payload_digest(each) for each in sealed.payloads}
    assert sorted(each.kind for each in kept.values()) == ["close", "gradient", "model", "plan"]
    assert [node.payload(payload_digest(each)) for each in sealed.payloads] == list(sealed.payloads)
    iterate = payload_digest(sized(b"iterate", SIZES.iterate))
    assert not node.has_payload(iterate)
    assert not sealed.node.has_payload(iterate)


@pytest.mark.parametrize("left_out", range(4))
def test_a_block_waits_for_each_of_its_payloads_and_counts_as_soon_as_it_comes(left_out: int) -> None:
    sealed, node = sealed_round(), founded_node(NETWORK)
    missing = sealed.payloads[left_out]
    digest, head = payload_digest(missing), node.head
    with pytest.raises(WaitingBlockError, match=f"block 2 waits for 1 payloads, the first is 0x{digest.hex()}: nobody"):
        node.import_block(sealed.raw, without(sealed.payloads, missing))
    assert (node.head, node.header(sealed.header.hash), node.pending()) == (head, None, ())
    assert node.wanted() == [Commitment(digest, len(missing))]
    node.deliver(digest, missing)
    assert (node.head, node.wanted()) == (sealed.header, [])
    assert node.block(2) == sealed.node.block(2)
    NETWORK.run_round(node)


@pytest.mark.parametrize(
    "wrong",
    [GRADIENT[:-1], GRADIENT + b"\0", bytes(SIZES.gradient), bytes(1 << 20), b""],
    ids=["too small", "too large", "another one", "oversized", "empty"],
)
def test_a_wrong_payload_beside_a_block_is_none_and_is_not_kept(wrong: bytes) -> None:
    sealed, node = sealed_round(), founded_node(NETWORK)
    with pytest.raises(WaitingBlockError, match="block 2 waits for 1 payloads"):
        node.import_block(sealed.raw, [*without(sealed.payloads, GRADIENT), Sidecar(wrong)])
    assert not node.has_payload(payload_digest(wrong))
    assert node.wanted() == [NAMED]
    assert node.import_block(sealed.raw, [Sidecar(GRADIENT)]) == sealed.header == node.head


def test_unwanted_and_duplicate_payloads_beside_a_block_are_left_out() -> None:
    sealed, node = sealed_round(), founded_node(NETWORK)
    node.import_block(sealed.raw, sidecars([b"unwanted", *sealed.payloads, *sealed.payloads]))
    assert node.head == sealed.header
    assert not node.has_payload(payload_digest(b"unwanted"))
    assert node._store.payloads.sweep() == 0


def test_a_payload_of_another_size_than_its_post_names_never_completes_a_block() -> None:
    """Its digest fits, so who looks at nothing else would take it: one node would count the block, another never."""
    large = sized(b"large", SIZES.gradient + 1)
    node, other = planned_node(), founded_node(NETWORK)
    arguments = (*NETWORK.gradient(node, large)[:-1], SIZES.gradient)
    NETWORK.post(node, NETWORK.devices[0], "gradient", *arguments)
    with pytest.raises(SidecarSizeError, match="found a payload of 33 bytes, its post names 32"):
        node.deliver(payload_digest(large), large)
    transactions = [entry.post.transaction for entry in node.pending()]
    raw = block_of(node, transactions)
    for beside in ([b"plan", large], []):
        with pytest.raises(WaitingBlockError, match="block 2 waits for 1 payloads"):
            other.import_block(raw, sidecars(beside))
    with pytest.raises(SidecarSizeError, match="found a payload of 33 bytes, its post names 32"):
        other.deliver(payload_digest(large), large)
    NETWORK.run_round(other)


def test_a_block_with_a_post_that_lies_about_the_size_of_another_ones_payload_is_refused() -> None:
    """A leader may put it there, whatever its own node says."""
    node, other = planned_node(), founded_node(NETWORK)
    arguments = (*NETWORK.gradient(node, b"plan")[:-1], SIZES.gradient)
    lie = decode_transaction(NETWORK.signed(node, NETWORK.devices[0], "gradient", *arguments))
    raw = block_of(node, [node.pending()[0].post.transaction, lie])
    with pytest.raises(SidecarSizeError, match="found a payload of 4 bytes, its post names 32"):
        other.import_block(raw, sidecars([b"plan"]))
    assert (other.head.block_number, other.has_payload(payload_digest(b"plan"))) == (1, False)
    NETWORK.run_round(other)


def block_of(node: Node, transactions: Sequence[Transaction], **changes: Any) -> bytes:
    """A block of these transactions on the node's head, executed and sealed, whatever a node would say of it."""
    parent, leader = node.head, address_of(NETWORK.leader(node))
    execution = Execution(node._store, parent, leader, int(node._now()), parent.difficulty)
    receipts, gas = [], 0
    for each in transactions:
        outcome = execution.apply(each, each.sender, node.genesis.gas_limit - gas)
        receipts.append(outcome.receipt(gas))
        gas += outcome.gas
    header = replace(
        parent,
        parent_hash=parent.hash,
        block_number=parent.block_number + 1,
        coinbase=leader,
        timestamp=int(node._now()),
        extra_data=address_of(NETWORK.devices[0]),
        state_root=execution.state_root(),
    )
    block = forged(Block(header, (), (), 0), transactions, receipts, **changes)
    return encode_block(block.header, block.transactions)


def test_the_child_of_a_waiting_block_waits_with_it() -> None:
    sealed, node = sealed_round(), founded_node(NETWORK)
    NETWORK.run_round(sealed.node)
    child = raw_block(sealed.node, 3)
    node.sources = [sealed.node]
    withheld = sealed.node.payload
    sealed.node.payload = lambda digest: None if digest == DIGEST else withheld(digest)  # type: ignore[method-assign]
    with pytest.raises(WaitingBlockError, match="block 2 waits for 1 payloads"):
        node.import_block(sealed.raw)
    with pytest.raises(WaitingBlockError, match="block 3: its parent waits for payloads"):
        node.import_block(child)
    assert node.head.block_number == 1
    assert node.wanted() == [NAMED]
    node.deliver(DIGEST, GRADIENT)
    assert node.import_block(child) == sealed.node.head == node.head


def test_a_waiting_block_that_turns_out_to_be_invalid_is_told_to_who_sends_it_again() -> None:
    """Not to whoever delivers the payload, who has done nothing wrong."""
    node = planned_node()
    node.submit(signed_gradient(node), [Sidecar(GRADIENT)])
    transactions = [entry.post.transaction for entry in node.pending()]
    gap = decode_transaction(signed_again(transactions[1], nonce=5))
    forgeries = {
        StateRootError: block_of(node, transactions, state_root=node.head.state_root),
        NonceError: with_transactions(node, [transactions[0], gap]),
    }
    for error, raw in forgeries.items():
        victim = founded_node(NETWORK)
        with pytest.raises(WaitingBlockError):
            victim.import_block(raw, sidecars([b"plan"]))
        victim.deliver(DIGEST, GRADIENT)
        assert (victim.head.block_number, victim.wanted()) == (1, [])
        assert not victim.has_payload(DIGEST)
        with pytest.raises(error):
            victim.import_block(raw, sidecars([b"plan", GRADIENT]))
        NETWORK.run_round(victim)


def signed_again(sent: Transaction, nonce: int) -> bytes:
    sender = next(device for device in NETWORK.devices if address_of(device) == sent.sender)
    return sign_transaction(sender, Envelope(sent.chain_id, nonce, sent.gas, sent.to), sent.data)


def with_transactions(node: Node, transactions: Sequence[Transaction], **changes: Any) -> bytes:
    """A block whose transactions nobody can execute."""
    header, _ = decode_block(block_of(node, ()))
    block = forged(Block(header, (), (), 0), transactions, (), **changes)
    return encode_block(block.header, block.transactions)


def test_at_most_four_blocks_wait_and_the_oldest_is_given_up() -> None:
    rounds = [sealed_round(sized(b"gradient %d" % i, SIZES.gradient)) for i in range(5)]
    node = founded_node(NETWORK)
    for each in rounds:
        with pytest.raises(WaitingBlockError):
            node.import_block(each.raw, without(each.payloads, each.payloads[1]))
    assert [each.digest for each in node.wanted()] == [payload_digest(each.payloads[1]) for each in rounds[1:]]
    with pytest.raises(UnwantedSidecarError):
        node.deliver(payload_digest(rounds[0].payloads[1]), rounds[0].payloads[1])
    assert not node.has_payload(payload_digest(rounds[0].payloads[1]))
    node.deliver(payload_digest(rounds[4].payloads[1]), rounds[4].payloads[1])
    assert node.head == rounds[4].header
    best = min(rounds, key=lambda each: each.header.hash)
    node.import_block(best.raw, sidecars(best.payloads))  # it was given up, not refused
    assert node.head == best.header


def test_payloads_of_blocks_that_wait_no_longer_are_let_go() -> None:
    """Whether it was refused, came at once, or waited."""
    sealed, node = sealed_round(), founded_node(NETWORK)
    with pytest.raises(StateRootError):
        node.import_block(forged_state(sealed), sidecars(sealed.payloads))
    assert [node.has_payload(payload_digest(each)) for each in sealed.payloads] == [False] * 4
    with pytest.raises(WaitingBlockError):
        node.import_block(sealed.raw, without(sealed.payloads, GRADIENT))
    assert node.payload(payload_digest(b"close")) == b"close"
    node.deliver(DIGEST, GRADIENT)
    assert node._waiting._sidecars == {}
    other = founded_node(NETWORK)
    other.import_block(sealed.raw, sidecars(sealed.payloads))
    assert other._waiting._sidecars == {}
    assert other.head == node.head


def test_a_waiting_block_counts_however_its_payload_comes() -> None:
    """With its post, which was late, or with another block, which is refused itself."""
    sealed, with_post, with_block = sealed_round(), founded_node(NETWORK), founded_node(NETWORK)
    block = sealed.node.block(2)
    assert block is not None
    for node in (with_post, with_block):
        with pytest.raises(WaitingBlockError):
            node.import_block(sealed.raw, without(sealed.payloads, GRADIENT))
    with_post.submit(block.transactions[0], [Sidecar(b"plan")])
    with_post.submit(block.transactions[1], [Sidecar(GRADIENT)])
    with pytest.raises(StateRootError):
        with_block.import_block(forged_state(sealed), [Sidecar(GRADIENT)])
    assert with_post.head == with_block.head == sealed.header


def forged_state(sealed: Sealed) -> bytes:
    """The honest block under another state root, sealed again."""
    block = sealed.node.block(2)
    assert block is not None
    wrong = forged(block, state_root=bytes(32))
    return encode_block(wrong.header, wrong.transactions)


# --- strangers


def stranger_blocks() -> dict[str, tuple[Callable[[Node], list[bytes]], type[ChainError], str]]:
    """Posts that would make a node wait for what nobody has to have."""
    huge, slots = 1 << 40, bytes(32)
    device, stranger = NETWORK.devices[0], account("stranger")
    gradient = (1, 0, slots, slots, 1, 1)
    return {
        "a payload larger than founded": (
            lambda _: [signed(device, 0, "gradient", *gradient, DIGEST, huge)],
            SidecarSizeError, f"found {huge} bytes of gradient, which was not founded",
        ),
        "a post of a stranger": (
            lambda _: [signed(stranger, 0, "gradient", *gradient, DIGEST, SIZES.gradient)],
            UnregisteredSenderError, "is not registered in this network",
        ),
        "many posts for one slot": (
            lambda _: [signed(device, i, "gradient", *gradient, bytes([i]) * 32, SIZES.gradient) for i in range(2)],
            TransactionOrderError, "found two posts of 0x.* for one slot",
        ),
        "a founding by a stranger": (
            lambda _: [signed(stranger, 0, "found", DIGEST, huge, DIGEST, SIZES)],
            UnregisteredSenderError, "is not the founder",
        ),
        "a second founding": (
            lambda _: [signed(NETWORK.founder, 9, "found", DIGEST, huge, DIGEST, SIZES)],
            UnregisteredSenderError, "founds nothing in block 2",
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", stranger_blocks())
def test_a_strangers_block_cannot_make_a_node_wait_for_what_was_not_founded(name: str) -> None:
    make, error, message = stranger_blocks()[name]
    node = founded_node(NETWORK)
    raw = with_transactions(node, [decode_transaction(each) for each in make(node)])
    with pytest.raises(error, match=message):
        node.import_block(raw)
    assert node.wanted() == []
    NETWORK.run_round(node)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"coinbase": address_of(NETWORK.devices[0])}, LeaderError),
        ({"coinbase": b"\xaa" * 20}, LeaderError),
        ({"extra_data": b"\xaa" * 20}, WinnerError),
        ({"extra_data": address_of(NETWORK.servers[0])}, WinnerError),
    ],
    ids=["led by a device", "led by a stranger", "sealed by a stranger", "sealed by a server"],
)
def test_a_node_waits_only_for_blocks_of_a_lawful_builder_and_winner(
    changes: dict[str, Any], error: type[ChainError]
) -> None:
    node = founded_node(NETWORK)
    gradient = signed(NETWORK.devices[0], 0, "gradient", 1, 0, bytes(32), bytes(32), 1, 1, DIGEST, SIZES.gradient)
    raw = with_transactions(node, [decode_transaction(gradient)], **changes)
    with pytest.raises(error):
        node.import_block(raw)
    assert (node.wanted(), len(node._waiting)) == ([], 0)
    NETWORK.run_round(node)


def test_nobody_but_the_founder_makes_a_new_node_wait_for_a_founding() -> None:
    node = Node.in_memory(genesis(), now=Clock())
    transaction = decode_transaction(signed(account("stranger"), 0, "found", DIGEST, 1 << 40, DIGEST, SIZES))
    empty = replace(node.head, parent_hash=node.head.hash, block_number=1, extra_data=b"")
    block = forged(Block(empty, (), (), 0), [transaction], ())
    with pytest.raises(UnregisteredSenderError, match="is not the founder"):
        node.import_block(encode_block(block.header, block.transactions))
    assert node.wanted() == []
    NETWORK.found(node)


# --- what a payload is kept as


def test_a_model_stays_a_model_where_a_device_calls_it_a_gradient() -> None:
    """Gradients are pruned before models: a device must not choose which the next round starts from."""
    network = Network(sizes=SIZES._replace(gradient=SIZES.model))
    node = founded_node(network)
    network.post_plan(node)
    model = sized(b"model 1", SIZES.model)
    network.post_gradient(node, network.devices[0], model)
    network.post_close(node)
    network.post_model(node, payload=model)
    node.propose(address_of(network.leader(node)))
    header = seal(node, address_of(network.devices[0]))
    kinds = {each.digest: each.kind for each in node._store.kept_by(header.hash)}
    assert kinds[payload_digest(model)] == "model"
    node._store.prune(3)
    assert node.payload(payload_digest(model)) == model


# --- evidence (B3)


def flagged_round(node: Node, is_held: bool) -> tuple[bytes, Header]:
    """A round with an iterate that all others flag; returns its payload and the block."""
    NETWORK.post_plan(node)
    leader = NETWORK.leader(node)
    NETWORK.post_close(node)
    liar = next(server for server in NETWORK.servers if server is not leader)
    lie = sized(b"a lie", SIZES.iterate)
    sent = NETWORK.post_iterate(node, liar, 0, lie)
    for server in NETWORK.servers:
        if server is not liar and not node.ask("is_excluded", address_of(liar)):
            NETWORK.post(node, server, "flag", 1, address_of(liar), iterate_slot(0), sent, payload_digest(b"the truth"))
    if is_held:
        assert node.hold_evidence(payload_digest(lie))
    return lie, sealed_by(node)


@pytest.mark.parametrize("is_held", [True, False])
def test_evidence_of_a_flagged_iterate_is_kept_with_the_block_where_somebody_held_it(is_held: bool) -> None:
    node = founded_node(NETWORK)
    lie, header = flagged_round(node, is_held)
    kept = {each.digest: each.kind for each in node._store.kept_by(header.hash)}
    found = kept.get(payload_digest(lie)), node.payload(payload_digest(lie))
    assert found == ((EVIDENCE, lie) if is_held else (None, None))


def test_evidence_is_asked_of_others_and_what_nobody_names_is_not_held() -> None:
    node, other = planned_node(), planned_node()
    other.sources = [node]
    payload = sized(b"an iterate", SIZES.iterate)
    digest = payload_digest(payload)
    assert not other.hold_evidence(digest)
    for each in (node, other):
        NETWORK.post_close(each)
    NETWORK.post_iterate(node, NETWORK.servers[0], 0, payload)
    assert not other.hold_evidence(digest)  # no post of it is here
    other.submit(node.pending()[-1].post.transaction)
    assert other.hold_evidence(digest)
    assert other.payload(digest) == payload
    assert not node.hold_evidence(payload_digest(b"nobody posted this"))


def test_the_last_iterates_are_held_for_whoever_asks_and_evicted_ones_are_no_evidence() -> None:
    """Two per server: those of this step and the one before."""
    node = planned_node()
    NETWORK.post_close(node)
    payloads = [[sized(b"%d %d" % (step, i), SIZES.iterate) for i in range(3)] for step in range(4)]
    for step, made in enumerate(payloads):
        for server, payload in zip(NETWORK.servers, made, strict=True):
            NETWORK.post_iterate(node, server, step, payload)
    here = [[node.payload(payload_digest(each)) == each for each in made] for made in payloads]
    assert here == [[False] * 3] * 2 + [[True] * 3] * 2
    assert not node.hold_evidence(payload_digest(payloads[0][0]))
    assert node.hold_evidence(payload_digest(payloads[2][0]))
    for server in NETWORK.servers:
        NETWORK.post_iterate(node, server, 4, sized(b"4 " + address_of(server)[:4], SIZES.iterate))
    assert node.payload(payload_digest(payloads[2][0])) == payloads[2][0]
    assert not node.has_payload(payload_digest(payloads[2][1]))
    accused = NETWORK.servers[0]
    said = (1, address_of(accused), iterate_slot(2), b"\1" * 32, bytes(32))
    NETWORK.post(node, next(s for s in NETWORK.servers if s != accused), "flag", *said)
    header = sealed_by(node)
    kinds = [each.kind for each in node._store.kept_by(header.hash)]
    assert sorted(kinds) == ["close", EVIDENCE, "plan"]
    assert node.payload(payload_digest(payloads[2][0])) == payloads[2][0]


def test_what_is_held_of_somebody_whom_nobody_flags_is_not_kept() -> None:
    node = planned_node()
    NETWORK.post_close(node)
    NETWORK.post_iterate(node, NETWORK.servers[0], 0, b"honest")
    assert node.hold_evidence(payload_digest(sized(b"honest", SIZES.iterate)))
    header = sealed_by(node)
    assert EVIDENCE not in {each.kind for each in node._store.kept_by(header.hash)}


# --- no work twice (B9)


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Hashes of what is executed, in the pool or in a block."""
    found: list[bytes] = []

    def count(name: str) -> None:
        execute = getattr(Execution, name)

        def counted(self: Execution, transaction: Transaction, *arguments: Any, **options: Any) -> Any:
            found.append(transaction.hash)
            return execute(self, transaction, *arguments, **options)

        monkeypatch.setattr(Execution, name, counted)

    count("apply")
    count("try_apply")
    return found


def posted_in_order(node: Node) -> None:
    """A round whose posts arrive as they stand in the block."""
    NETWORK.post_plan(node)
    for device in sorted(NETWORK.devices, key=address_of):
        NETWORK.post_gradient(node, device)
    NETWORK.post_close(node)
    for server in sorted(NETWORK.servers, key=address_of):
        NETWORK.post_iterate(node, server, 0)
    NETWORK.post_model(node)


def test_a_node_that_imports_a_block_of_its_own_pools_posts_executes_nothing_twice(executed: list[bytes]) -> None:
    node, other = founded_node(NETWORK), founded_node(NETWORK)
    executed.clear()
    for each in (node, other):
        posted_in_order(each)
    sent = [entry.post.transaction.hash for entry in node.pending()]
    assert sorted(executed) == sorted(sent * 2)
    executed.clear()
    header = sealed_by(node)
    other.import_block(raw_block(node, 2))
    assert executed == []
    assert other.head == header
    assert other.block(2) == node.block(2)
    for each in (node, other):
        NETWORK.run_round(each)
    assert node.head == other.head


def test_a_node_with_another_pool_executes_the_block(executed: list[bytes]) -> None:
    node, other = founded_node(NETWORK), founded_node(NETWORK)
    posted_in_order(node)
    NETWORK.post_plan(other)
    sealed_by(node)
    executed.clear()
    other.sources = [node]
    other.import_block(raw_block(node, 2))
    block = node.block(2)
    assert block is not None
    assert executed == [each.hash for each in block.transactions]
    assert other.head == node.head


def test_a_block_of_the_own_pools_posts_that_lies_is_refused_and_the_pool_goes_on() -> None:
    node, other = founded_node(NETWORK), founded_node(NETWORK)
    for each in (node, other):
        posted_in_order(each)
    header = sealed_by(node)
    block = node.block(2)
    assert block is not None
    wrong = forged(block, state_root=bytes(32))
    before = [entry.post.transaction.hash for entry in other.pending()]
    with pytest.raises(StateRootError):
        other.import_block(encode_block(wrong.header, wrong.transactions))
    assert [entry.post.transaction.hash for entry in other.pending()] == before
    assert sealed_by(other) == header
