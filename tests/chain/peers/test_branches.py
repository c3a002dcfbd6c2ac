"""Chains that a peer makes up (Q6): walked forwards from what this node has, sealed or not at all, and not twice."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from web3 import Web3

from chain.errors import (
    ChainError,
    DifficultyError,
    InvalidSealError,
    MalformedBlockError,
    StateRootError,
    TimestampError,
    UnknownParentError,
)
from chain.node.node import Node
from chain.peers import branches
from chain.peers.branches import Refusals
from chain.peers.peers import Peers
from chain.rpc.in_process import web3_in_process
from chain.wire.blocks import encode_block
from chain.wire.headers import Header
from tests.chain.answers import saying
from tests.chain.headers_made import sealed, unsealed
from tests.chain.network import Clock, Network, genesis

NETWORK = Network()
RULES = genesis(difficulty=20)


def chain(rounds: int) -> Node:
    node = Node.in_memory(RULES, now=Clock())
    NETWORK.found(node)
    for _ in range(rounds):
        NETWORK.run_round(node)
    return node


def replica(of: Node, blocks: int) -> Node:
    node = Node.in_memory(RULES, now=Clock())
    Peers(node, []).fetch_from(limited(of, blocks))
    assert node.head.block_number == blocks
    return node


def limited(of: Node, last: int) -> Web3:
    """A peer that has no more than so many blocks."""
    behind = web3_in_process(of)
    return saying(behind, bfl_getRawHeader=lambda which: raw_header(of, last if which == "latest" else int(which, 16)))


def raw_header(of: Node, which: int) -> str:
    header = of.header(which)
    assert header is not None
    return "0x" + header.to_bytes().hex()


class Peer:
    """An honest node behind somebody who answers for it, and counts what he is asked."""

    def __init__(self, behind: Node, **answers: Callable[..., Any]) -> None:
        self.asked: Counter[str] = Counter()
        honest = web3_in_process(behind)
        methods = ("bfl_getRawHeader", "bfl_getRawBlock")
        self.web3 = saying(
            honest, **{each: self._counted(each, answers.get(each) or self._of(honest, each)) for each in methods}
        )

    def _of(self, honest: Web3, method: str) -> Callable[..., Any]:
        return lambda *params: honest.provider.make_request(method, params)["result"]  # type: ignore[arg-type]

    def _counted(self, method: str, answer: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*params: Any) -> Any:
            self.asked[method] += 1
            return answer(*params)

        return counted


@pytest.fixture(scope="module")
def long() -> Node:
    return chain(6)


# --- honest chains


def test_what_is_missing_comes_forwards_and_a_few_at_a_time(long: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branches, "MOST_BLOCKS", 3)
    node, peer = Node.in_memory(RULES, now=Clock()), Peer(long)
    peers = Peers(node, [])
    assert [peers.fetch_from(peer.web3) for _ in range(4)] == [3, 3, 1, 0]
    assert node.head.hash == long.head.hash


@pytest.mark.parametrize("common", [1, 2, 5, 6])
def test_a_branch_is_found_from_the_last_common_block(long: Node, common: int) -> None:
    node = replica(long, common)
    while node.head.block_number < 7:
        NETWORK.run_round(node, winner=NETWORK.devices[1])
    peer = Peer(long)
    assert Peers(node, []).fetch_from(peer.web3) == 7 - common
    assert node.header(long.head.hash) is not None
    assert peer.asked["bfl_getRawBlock"] == 7 - common
    assert Peers(node, []).fetch_from(peer.web3) == 0


# --- made-up chains


def made_up(long: Node, change: Callable[[Header], Header]) -> Callable[[str], str]:
    """From block 3 on, all headers are changed, each the parent of the next."""
    headers = [long.header(number) for number in range(8)]
    for number in range(3, 8):
        before, header = headers[number - 1], headers[number]
        assert before is not None
        assert header is not None
        headers[number] = change(replace(header, parent_hash=before.hash))

    def answer(which: str) -> str:
        header = headers[7 if which == "latest" else int(which, 16)]
        assert header is not None
        return "0x" + header.to_bytes().hex()

    return answer


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (unsealed, InvalidSealError),
        (lambda of: sealed(replace(of, difficulty=1)), DifficultyError),
        (lambda of: sealed(replace(of, timestamp=1)), TimestampError),
        (lambda of: sealed(replace(of, parent_hash=b"\7" * 32)), UnknownParentError),
    ],
    ids=["no seal", "an easier seal", "an earlier time", "no parent"],
)
def test_a_chain_that_nobody_worked_for_is_not_walked(
    long: Node, change: Callable[[Header], Header], error: type[ChainError]
) -> None:
    node = replica(long, 3)
    peer = Peer(long, bfl_getRawHeader=made_up(long, change))
    with pytest.raises(error):
        Peers(node, []).fetch_from(peer.web3)
    assert peer.asked == {"bfl_getRawHeader": 4}  # the head, ours, one before it, and the first of the branch
    assert node.head.block_number == 3


def test_a_chain_of_any_length_takes_a_few_questions(long: Node) -> None:
    node = replica(long, 7)

    def answer(which: str) -> str:
        number = 2**200 if which == "latest" else int(which, 16)
        return "0x" + unsealed(replace(long.head, block_number=number)).to_bytes().hex()

    peer = Peer(long, bfl_getRawHeader=answer)
    with pytest.raises(UnknownParentError, match="another network"):
        Peers(node, []).fetch_from(peer.web3)
    assert peer.asked["bfl_getRawHeader"] < 10


def test_a_header_with_another_number_is_refused(long: Node) -> None:
    peer = Peer(long, bfl_getRawHeader=lambda which: raw_header(long, 7 if which == "latest" else 4))
    with pytest.raises(UnknownParentError, match="answers with header 4, expected 2"):
        Peers(replica(long, 2), []).fetch_from(peer.web3)


# --- invalid blocks


def forged(long: Node) -> tuple[Header, bytes]:
    block = long.block(3)
    assert block is not None
    header = sealed(replace(block.header, state_root=b"\1" * 32))
    return header, encode_block(header, block.transactions)


def test_an_invalid_block_is_not_asked_for_at_every_poll(long: Node) -> None:
    header, raw = forged(long)
    node = replica(long, 2)
    peer = Peer(
        long,
        bfl_getRawHeader=lambda which: (
            "0x" + header.to_bytes().hex() if which in ("latest", "0x3") else raw_header(long, int(which, 16))
        ),
        bfl_getRawBlock=lambda _: "0x" + raw.hex(),
    )
    peers = Peers(node, [])
    node.sources.append(long)
    for _ in range(5):
        with pytest.raises(StateRootError):
            peers.fetch_from(peer.web3)
    assert peer.asked["bfl_getRawBlock"] == 1


def test_a_liar_does_not_turn_us_against_an_honest_block(long: Node) -> None:
    node = replica(long, 2)
    liar = Peer(long, bfl_getRawBlock=lambda _: "0xc0")
    peers = Peers(node, [])
    for _ in range(2):
        with pytest.raises(MalformedBlockError):
            peers.fetch_from(liar.web3)
    assert liar.asked["bfl_getRawBlock"] == 1
    assert peers.fetch_from(web3_in_process(long)) == 5
    assert peers.fetch_from(liar.web3) == 0


def test_a_peer_that_sends_another_block_than_it_names_ends_the_walk(long: Node) -> None:
    raw = long.raw_block(2)
    assert raw is not None
    peer = Peer(long, bfl_getRawBlock=lambda _: "0x" + raw.hex())
    node = replica(long, 2)
    assert Peers(node, []).fetch_from(peer.web3) == 1
    assert peer.asked["bfl_getRawBlock"] == 1
    assert node.head.block_number == 2


def test_a_refusal_is_forgotten_after_a_while_and_what_passes_is_none() -> None:
    clock = Clock(0.0)
    refusals = Refusals(clock)
    refusals.note(b"a", StateRootError("wrong"))
    refusals.note(b"b", TimestampError("too early"))
    refusals.note(b"c", UnknownParentError("unknown"))
    with pytest.raises(StateRootError, match="wrong"):
        refusals.check(b"a")
    for block in (b"b", b"c", b"d"):
        refusals.check(block)
    clock.pass_s(601)
    refusals.check(b"a")


def test_refusals_do_not_fill_the_memory() -> None:
    refusals = Refusals(Clock(0.0))
    for number in range(5000):
        refusals.note(number.to_bytes(32, "big"), StateRootError("wrong"))
    assert len(refusals._refused) == 1024
