"""A block for a dashboard: small, whatever is in it."""

import json
from pathlib import Path
from typing import Any

from chain.client.asking import request
from chain.client.keys import address_of
from chain.node.node import Node
from chain.rpc.in_process import web3_in_process
from tests.chain.network import MODEL_0, PARAMETERS, SIZES, START, Clock, Network, founded_node
from tests.chain.small_chain import story

NETWORK = Network()


def summary(node: Any, which: Any) -> Any:
    return request(web3_in_process(node), "bfl_getBlockSummary", which)


def test_a_round_is_told_in_numbers() -> None:
    node = founded_node(NETWORK)
    leader = NETWORK.leader(node)
    header = NETWORK.run_round(node, endorsers=NETWORK.servers[:1])
    raw = node.raw_block(2)
    assert raw is not None
    assert summary(node, "0x2") == {
        "number": "0x2",
        "hash": "0x" + header.hash.hex(),
        "parentHash": "0x" + header.parent_hash.hex(),
        "timestamp": hex(START),
        "round": "0x1",
        "attempt": "0x0",
        "leader": leader.address.lower(),
        "winner": NETWORK.devices[0].address.lower(),
        "difficulty": hex(header.difficulty),
        "totalDifficulty": hex(node.total_difficulty(header.hash)),
        "posts": {"close": "0x1", "gradient": "0x4", "iterate": "0x6", "model": "0x1", "plan": "0x1"},
        "size": hex(len(raw)),
        # four devices posted the same gradient: it is kept once
        "payloadSize": hex(SIZES.gradient + SIZES.model + len(b"plan") + len(b"close")),
        "gasUsed": hex(header.gas_used),
        "endorsements": "0x1",
        "final": False,
    }
    assert len(json.dumps(dict(summary(node, "0x2")), default=dict)) < 1000


def test_what_is_final_says_so_and_so_does_what_was_before_it() -> None:
    node = founded_node(NETWORK)
    NETWORK.run_round(node)
    header = NETWORK.run_round(node, endorsers=NETWORK.servers[:2])
    NETWORK.run_round(node)
    assert [summary(node, hex(number))["final"] for number in range(5)] == [True, True, True, True, False]
    assert summary(node, "finalized") == summary(node, "0x" + header.hash.hex())


def test_a_founding_block_has_no_winner_and_a_genesis_no_posts() -> None:
    node = founded_node(NETWORK)
    founding, genesis = summary(node, "0x1"), summary(node, "earliest")
    assert (founding["winner"], founding["round"]) == (None, "0x0")
    assert founding["leader"] == "0x" + address_of(NETWORK.founder).hex()
    assert founding["posts"] == {"creation": "0x1", "found": "0x1", "register": "0x1"}
    assert founding["payloadSize"] == hex(len(PARAMETERS) + len(MODEL_0))
    assert (genesis["posts"], genesis["payloadSize"], genesis["final"]) == ({}, "0x0", True)


def test_a_block_that_is_not_there_has_none() -> None:
    assert summary(founded_node(NETWORK), "0x9") is None


def test_a_round_of_a_later_attempt_says_so(tmp_path: Path) -> None:
    story().write(tmp_path)
    node = Node.open(tmp_path / "chain.db", now=Clock())
    try:
        assert [int(summary(node, hex(number))["attempt"], 16) for number in range(2, 8)] == [0, 0, 0, 1, 0, 0]
    finally:
        node.close()
