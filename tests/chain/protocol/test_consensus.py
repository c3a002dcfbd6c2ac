"""The rules that need no state: canonical order, difficulty, time, fork choice."""

import itertools
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from eth_account.signers.local import LocalAccount
from hypothesis import given
from hypothesis import strategies as st

from chain.client.keys import address_of
from chain.errors import (
    ChainIdError,
    DifficultyError,
    GasError,
    GasLimitError,
    InvalidSealError,
    NotRegistryCallError,
    SignatureError,
    TimestampError,
    TransactionOrderError,
    UnknownParentError,
)
from chain.protocol.consensus import check_header, check_order, check_time, is_better, next_difficulty
from chain.protocol.contract import encode_call
from chain.protocol.genesis import RETARGET
from chain.protocol.posts import PHASES, SignedCall, read_signed_call
from chain.wire.blocks import EMPTY_UNCLES_HASH
from chain.wire.headers import Header
from chain.wire.seal import find_nonce
from chain.wire.transactions import Envelope, decode_transaction, sign_transaction
from tests.chain.network import CHAIN_ID, START, account, genesis

REPOSITORY = Path(__file__).parents[3]
GENESIS = genesis()
SLOW = genesis(difficulty_rule=RETARGET, difficulty=800, block_s=10)
ONE, TWO = sorted((account("one"), account("two")), key=address_of)
DIGEST = b"\x01" * 32
CALLS: dict[str, tuple[Any, ...]] = {
    "register": ([], []),
    "found": (DIGEST, 2, DIGEST, (1, 1, 1, 1, 1)),
    "plan": (1, 0, DIGEST, 1),
    "endorse": (1, 0, DIGEST, [], b""),
    "vote": (address_of(ONE), address_of(TWO)),
    "gradient": (1, 0, DIGEST, DIGEST, 1, 1, DIGEST, 1),
    "close": (1, 0, DIGEST, DIGEST, 1),
    "iterate": (1, 0, 3, DIGEST, DIGEST, 1),
    "flag": (1, address_of(ONE), 0, DIGEST, DIGEST),
    "model": (1, 0, DIGEST, DIGEST, 1),
    "begin_attempt": (1, 1, [], b""),
    "roll": (1, 0, DIGEST, DIGEST, 1),
    "flag_equivocation": (1, address_of(ONE), b"", bytes(65), b"", bytes(65)),
    "flag_signatures": (1, address_of(ONE), b"", bytes(65), b"", bytes(65)),
}


def post(name: str, *arguments: Any, sender: LocalAccount = ONE, nonce: int = 0) -> SignedCall:
    envelope = Envelope(CHAIN_ID, nonce, 100_000, GENESIS.registry)
    raw = sign_transaction(sender, envelope, encode_call(name, *(arguments or CALLS[name])))
    return read_signed_call(decode_transaction(raw), GENESIS)


def creation(sender: LocalAccount, nonce: int = 0, data: bytes = b"\x00") -> SignedCall:
    raw = sign_transaction(sender, Envelope(CHAIN_ID, nonce, 100_000, b""), data)
    return read_signed_call(decode_transaction(raw), GENESIS)


# --- order (C3)


def test_the_phases_are_the_protocols_in_its_order() -> None:
    """plan, train, close, gossip, verify, model; sealing is no transaction, and founding is before the first round."""
    assert PHASES == ("founding", "plan", "train", "close", "gossip", "verify", "model")
    named = {name: post(name).phase for name in CALLS}
    assert named == {
        "register": "founding", "found": "founding", "plan": "plan", "endorse": "plan", "vote": "plan",
        "gradient": "train", "close": "close", "iterate": "gossip", "flag": "verify", "model": "model",
        "begin_attempt": "plan", "roll": "train", "flag_equivocation": "verify", "flag_signatures": "verify",
    }  # fmt: skip


def test_posts_stand_by_phase_then_step_then_sender_then_nonce() -> None:
    ordered = [
        creation(account("founder")),
        post("register", nonce=1),
        post("register", nonce=2),
        post("found"),
        post("begin_attempt", sender=TWO),
        post("plan", nonce=1),
        post("endorse", nonce=2),
        post("vote", nonce=3),
        post("gradient", sender=ONE, nonce=9),
        post("gradient", sender=TWO),
        post("roll", sender=ONE, nonce=4),
        post("roll", sender=TWO),
        post("close"),
        post("iterate", 1, 0, 0, DIGEST, DIGEST, 1, sender=TWO),
        post("iterate", 1, 0, 1, DIGEST, DIGEST, 1, sender=ONE),
        post("iterate", 1, 0, 10, DIGEST, DIGEST, 1, sender=ONE),
        post("flag"),
        post("model"),
    ]
    check_order(ordered)
    for one, other in itertools.combinations(range(len(ordered)), 2):
        with pytest.raises(TransactionOrderError, match=r"expected ascending \(phase, step, sender, nonce\)"):
            check_order([ordered[other], ordered[one]])


def test_the_error_names_the_first_post_out_of_order() -> None:
    right, wrong = post("plan"), post("gradient")
    with pytest.raises(TransactionOrderError, match=rf"transaction 2 \(plan, step 1, 0x{address_of(ONE).hex()}\)"):
        check_order([right, wrong, right])


def test_the_same_post_twice_is_out_of_order() -> None:
    with pytest.raises(TransactionOrderError):
        check_order([post("plan"), post("plan")])


def test_no_posts_and_one_post_are_in_order() -> None:
    check_order([])
    check_order([post("model")])


# --- what is a post


def test_transactions_of_other_networks_and_contracts_are_no_posts() -> None:
    honest = decode_transaction(
        sign_transaction(ONE, Envelope(CHAIN_ID, 0, 100_000, GENESIS.registry), encode_call("plan", *CALLS["plan"]))
    )
    assert read_signed_call(honest, GENESIS).sender == address_of(ONE)
    changes: list[tuple[dict[str, Any], type[Exception]]] = [
        ({"chain_id": 1}, ChainIdError),
        ({"to": b"\x01" * 20}, NotRegistryCallError),
        ({"data": b""}, NotRegistryCallError),
        ({"data": b"\x00" * 4}, NotRegistryCallError),
        ({"data": encode_call("round")}, NotRegistryCallError),
        ({"value": 1}, GasError),
        ({"max_fee": 1}, GasError),
        ({"max_priority_fee": 1}, GasError),
        ({"s": 0}, SignatureError),
    ]
    for change, error in changes:
        with pytest.raises(error):
            read_signed_call(replace(honest, **change), GENESIS)


def test_only_the_founder_creates_and_only_first() -> None:
    assert creation(account("founder")).call is None
    for sender, nonce in ((ONE, 0), (account("founder"), 1)):
        with pytest.raises(NotRegistryCallError, match="only the founder creates, once"):
            creation(sender, nonce)


# --- difficulty


def header(**changes: Any) -> Header:
    fields: dict[str, Any] = {
        "parent_hash": GENESIS.header.hash, "block_number": 1, "timestamp": START + 5, "extra_data": b""
    }  # fmt: skip
    return replace(GENESIS.header, **(fields | changes))


def sealed(unsealed: Header) -> Header:
    nonce = find_nonce(unsealed.mining_hash, unsealed.difficulty)
    assert nonce is not None
    return unsealed.with_nonce(nonce)


def test_a_fixed_difficulty_stays_whatever_the_time() -> None:
    for seconds in (0, 1, 10, 10_000):
        assert next_difficulty(genesis(difficulty=77), GENESIS.header, START + seconds) == 77


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, 900), (1, 890), (5, 850), (9, 810), (10, 800), (11, 790), (15, 750), (20, 700), (21, 700), (1000, 700)],
)
def test_a_retarget_moves_by_an_eighth_at_most(seconds: int, expected: int) -> None:
    """800 at 10 s per block: 1/8 = 100 for a block at once, none for one in time, -100 from 20 s on."""
    assert next_difficulty(SLOW, SLOW.header, START + seconds) == expected


def test_a_retarget_rises_from_1_and_never_falls_below() -> None:
    """Rounded to whole numbers an eighth of 1 is 0: a network that starts with 1 would stay there."""
    parent, seen = replace(SLOW.header, difficulty=1), [1]
    for _ in range(40):
        difficulty = next_difficulty(SLOW, parent, parent.timestamp)
        parent = replace(parent, difficulty=difficulty)
        seen.append(difficulty)
    assert seen == sorted(set(seen))
    assert seen[-1] > 200
    for _ in range(200):
        parent = replace(parent, difficulty=next_difficulty(SLOW, parent, parent.timestamp + 20))
    assert parent.difficulty == 1


def test_retargeting_by_the_time_of_the_proposal_would_never_hear_of_the_search() -> None:
    """Training takes 4 of 10 s here and the search 1 s per 100 of difficulty (D3.4): by the header's time both come to
    10 s together; by the time of the proposal the difficulty would rise for ever.
    """
    found = {}
    for counts_search in (True, False):
        parent = replace(SLOW.header, difficulty=100)
        for _ in range(200):
            seconds = 4 + parent.difficulty // 100 if counts_search else 4
            difficulty = next_difficulty(SLOW, parent, parent.timestamp + seconds)
            parent = replace(parent, difficulty=difficulty, timestamp=parent.timestamp + seconds)
        found[counts_search] = parent.difficulty
    assert 4 + found[True] // 100 == SLOW.block_s
    assert found[False] > 10**6


@given(st.integers(1, 2**200), st.integers(0, 10**6), st.integers(1, 1000))
def test_a_retarget_is_bounded_and_monotonic(difficulty: int, seconds: int, block_s: int) -> None:
    rules = genesis(difficulty_rule=RETARGET, block_s=block_s)
    parent = replace(rules.header, difficulty=difficulty)
    found = next_difficulty(rules, parent, START + seconds)
    assert abs(found - difficulty) <= max(1, difficulty // 8)
    assert found >= max(1, next_difficulty(rules, parent, START + seconds + 1))
    if seconds == block_s:
        assert found == difficulty


# --- headers


def test_an_honest_header_passes_with_and_without_a_clock() -> None:
    honest = sealed(header())
    check_header(honest, GENESIS.header, GENESIS, now=START + 5)
    check_header(honest, GENESIS.header, GENESIS)
    check_header(sealed(header(timestamp=START)), GENESIS.header, GENESIS, now=START)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"parent_hash": DIGEST}, UnknownParentError, "names parent 0x0101.*, expected 0x.* of block 0"),
        ({"block_number": 2}, UnknownParentError, "block 2 names parent"),
        ({"difficulty": 2}, DifficultyError, "has difficulty 2, expected 1"),
        ({"timestamp": START - 1}, TimestampError, f"of {START - 1}, before its parent of {START}"),
        ({"timestamp": START + 21}, TimestampError, "16 s in the future; at most 15 s are allowed"),
        ({"gas_limit": 1}, GasLimitError, "has gas limit 1 and base fee 0, expected"),
        ({"base_fee_per_gas": 1}, GasLimitError, "and base fee 1, expected .* and 0"),
        ({"mix_hash": DIGEST}, GasLimitError, "mix hash, expected none"),
        ({"uncles_hash": DIGEST}, GasLimitError, "uncles or a mix hash, expected none"),
    ],
)
def test_a_header_that_breaks_a_rule_is_refused(change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        check_header(sealed(header(**change)), GENESIS.header, GENESIS, now=START + 5)


def test_the_seal_is_checked_before_everything_else() -> None:
    unsealed = header(difficulty=2**200, parent_hash=DIGEST, timestamp=0, gas_limit=1)
    with pytest.raises(InvalidSealError):
        check_header(unsealed, GENESIS.header, GENESIS)


def test_an_auditor_of_old_blocks_has_no_clock() -> None:
    late = sealed(header(timestamp=START + 10**6))
    check_header(late, GENESIS.header, GENESIS, now=None)
    with pytest.raises(TimestampError):
        check_header(late, GENESIS.header, GENESIS, now=START)


def test_the_drift_is_the_genesis_own() -> None:
    strict = genesis(max_drift_s=0)
    check_time(header(timestamp=START + 5), strict.header, strict, now=START + 5)
    with pytest.raises(TimestampError, match="1 s in the future; at most 0 s"):
        check_time(header(timestamp=START + 6), strict.header, strict, now=START + 5)


def test_uncles_are_none() -> None:
    assert GENESIS.header.uncles_hash == EMPTY_UNCLES_HASH


# --- fork choice


def test_more_work_wins_and_on_a_tie_the_smaller_hash() -> None:
    small, large = b"\x01" * 32, b"\x02" * 32
    assert is_better(3, large, 2, small)
    assert not is_better(2, small, 3, large)
    assert is_better(2, small, 2, large)
    assert not is_better(2, large, 2, small)


@given(
    st.lists(st.tuples(st.integers(1, 3), st.binary(min_size=32, max_size=32)), min_size=1, unique=True), st.randoms()
)
def test_replicas_choose_the_same_head_in_whatever_order_blocks_arrive(
    blocks: list[tuple[int, bytes]], rng: Any
) -> None:
    heads = set()
    for _ in range(3):
        rng.shuffle(blocks)
        head = blocks[0]
        for block in blocks[1:]:
            head = block if is_better(*block, *head) else head
        heads.add(head)
    assert len(heads) == 1


@given(st.integers(1, 5), st.binary(min_size=32, max_size=32))
def test_no_block_is_better_than_itself(difficulty: int, block_hash: bytes) -> None:
    assert not is_better(difficulty, block_hash, difficulty, block_hash)


def test_consensus_needs_no_py_evm() -> None:
    code = (
        "import sys; sys.modules['eth'] = sys.modules['web3'] = None;"
        "import chain.protocol.consensus, chain.protocol.proof"
    )
    shown = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0, shown.stderr
