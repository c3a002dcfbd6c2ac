"""The genesis: its hash names every rule, its JSON has one form, and what is impossible is refused."""

import dataclasses
import hashlib
import json
from typing import Any

import pytest
import rlp
from eth.constants import BLANK_ROOT_HASH, EMPTY_UNCLE_HASH
from eth_hash.auto import keccak
from hypothesis import given
from hypothesis import strategies as st

from chain.errors import StoreError
from chain.protocol.contract import PayloadSizes, call_gas
from chain.protocol.genesis import RETARGET, Genesis, block_gas, read_genesis
from chain.wire.address import Address
from chain.wire.blocks import EMPTY_UNCLES_HASH
from chain.wire.receipts import EMPTY_TRIE_ROOT
from chain.wire.sidecar import payload_digest
from tests.chain.network import Network, account, founded_node, genesis

PLAIN = genesis()
CHANGES: list[dict[str, Any]] = [
    {"chain_id": 4243},
    {"founder": account("another").address.lower()},
    {"timestamp": 1},
    {"gas_limit": 2_000_000},
    {"difficulty": 7},
    {"difficulty_rule": RETARGET},
    {"block_s": 11},
    {"max_drift_s": 16},
]


def test_the_empty_roots_are_ethereums() -> None:
    assert EMPTY_TRIE_ROOT == BLANK_ROOT_HASH
    assert EMPTY_UNCLES_HASH == EMPTY_UNCLE_HASH


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_every_rule_is_in_the_hash_of_block_0(change: dict[str, Any]) -> None:
    other = dataclasses.replace(PLAIN, **change)
    assert other.header.hash != PLAIN.header.hash
    assert {field.name for field in dataclasses.fields(Genesis)} == {next(iter(each)) for each in CHANGES}


def test_block_0_holds_the_digest_of_the_canonical_json() -> None:
    text = json.dumps(dataclasses.asdict(PLAIN), sort_keys=True, separators=(",", ":"))
    assert PLAIN.canonical_json() == text
    assert PLAIN.header.extra_data == hashlib.sha256(text.encode()).digest()
    assert PLAIN.header.winner is None
    assert (PLAIN.header.block_number, PLAIN.header.parent_hash) == (0, bytes(32))


def test_the_registry_is_the_founders_first_contract() -> None:
    """CREATE: the last 20 bytes of keccak(rlp([sender, nonce])); geth's well-known example."""
    known = genesis(founder="0x6ac7ea33f8831ea9dcc53393aaa88b25a785dbf0")
    assert known.registry == Address("0xcd234a471b72ba2f1ccf0a70fcaba648a5eecd8d")
    founder = bytes.fromhex(PLAIN.founder[2:])
    assert PLAIN.registry == keccak(rlp.encode([founder, b""]))[12:]


@given(
    st.builds(
        Genesis,
        chain_id=st.integers(1, 2**256 - 1),
        founder=st.binary(min_size=20, max_size=20).map(lambda raw: "0x" + raw.hex()),
        timestamp=st.integers(0, 2**63 - 1),
        gas_limit=st.integers(1_000_000, 2**63 - 1),
        difficulty=st.integers(1, 2**255 - 1),
        difficulty_rule=st.sampled_from(["fixed", "retarget"]),
        block_s=st.integers(1, 10**9),
        max_drift_s=st.integers(0, 10**9),
    )
)
def test_a_genesis_survives_its_json(any_genesis: Genesis) -> None:
    read = read_genesis(any_genesis.canonical_json())
    assert read == any_genesis
    assert read.header.hash == any_genesis.header.hash


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("chain_id", 0), ("chain_id", -1), ("chain_id", 2**256), ("founder", "0x00"), ("founder", "00" * 20),
        ("founder", account("founder").address), ("founder", "0x" + "0" * 40 + "\n"), ("timestamp", -1),
        ("timestamp", 2**63), ("gas_limit", 999_999), ("gas_limit", 2**63), ("difficulty", 0),
        ("difficulty", 2**255), ("difficulty_rule", "none"), ("block_s", 0), ("max_drift_s", -1),
    ],
)  # fmt: skip
def test_impossible_rules_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(StoreError, match=f"genesis: {name} = "):
        dataclasses.replace(PLAIN, **{name: value})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"chain_id": "1"}, "found chain_id = '1', expected int"),
        ({"chain_id": True}, "found chain_id = True, expected int"),
        ({"chain_id": 1.0}, "found chain_id = 1.0, expected int"),
        ({"chain_id": None}, "found chain_id = None, expected int"),
        ({"founder": 1}, "found founder = 1, expected str"),
        ({"block_s": float("nan")}, "found block_s = nan, expected int"),
        ({"colour": "red"}, "found unknown keys 'colour', expected only chain_id, founder"),
        ({"difficulty": 0}, "difficulty = 0 is impossible"),
    ],
)
def test_json_that_is_no_genesis_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(StoreError, match=message):
        read_genesis(json.dumps(dataclasses.asdict(PLAIN) | change))


@pytest.mark.parametrize("text", ["", "null", "[]", "1", "{", "[" * 99_000, '{"chain_id":' + "1" * 5000 + "}", None, 7])
def test_text_that_is_no_object_is_refused(text: Any) -> None:
    with pytest.raises(StoreError, match="genesis"):
        read_genesis(text)


def test_a_missing_rule_is_named() -> None:
    with pytest.raises(StoreError, match=r"^genesis: found no founder$"):
        read_genesis('{"chain_id":1,"timestamp":0,"gas_limit":2000000}')
    with pytest.raises(StoreError, match=r"^genesis: found no chain_id, founder, timestamp, gas_limit$"):
        read_genesis("{}")


# --- gas


def test_the_gas_limit_holds_a_founding_and_a_round_whatever_the_size_of_the_payloads() -> None:
    """With allowances of `call_gas` each, which is what the ledger gives its posts."""
    size = 200_000
    network = Network(sizes=PayloadSizes(size, size, size, size, size))
    calls = len(network.devices) + 2 * len(network.servers) + 3
    node = founded_node(network, rules=genesis(gas_limit=block_gas(calls)))
    leader, payload, allowance = network.leader(node), b"\xff" * size, {"gas": call_gas()}
    digest = payload_digest(payload)
    for sender, name, arguments in [
        (leader, "plan", ()),
        *((device, "gradient", (node.ask("model_digest"), digest, 1, 1)) for device in network.devices),
        (leader, "close", (digest,)),
        *((server, "iterate", (step, digest)) for step in range(2) for server in network.servers),
        (leader, "model", (digest,)),
    ]:
        network.post(node, sender, name, 1, 0, *arguments, digest, size, beside=(payload,), **allowance)
    assert len(node.pending()) == calls
