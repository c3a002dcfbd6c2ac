"""The puzzle by hand, at its edges, and as a lottery."""

import hashlib
import math
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from eth_abi.abi import encode
from hypothesis import given
from hypothesis import strategies as st

from chain.errors import InvalidSealError, MiningError, WorkError
from chain.wire.seal import check_seal, contract_puzzle, draw_winner, find_nonce, is_sealed, seal_hash, target

REPOSITORY = Path(__file__).parents[3]
ZERO = bytes(32)
HASHES = st.binary(min_size=32, max_size=32)
NONCES = st.binary(min_size=8, max_size=8)
ALICE, BOB, CAROL = b"\x0a" * 20, b"\x0b" * 20, b"\x0c" * 20


def seed(number: int) -> bytes:
    return number.to_bytes(32, "big")


def number_of(mining_hash: bytes, nonce: int) -> int:
    return int(hashlib.sha256(mining_hash + nonce.to_bytes(8, "big")).hexdigest(), 16)


def test_the_seal_of_zeros_is_the_sha256_of_forty_zero_bytes() -> None:
    # printf of 40 zero bytes | sha256sum
    known = "2c34ce1df23b838c5abf2a7f6437cca3d3067ed509ff25f11df6b11b582b51eb"
    assert seal_hash(ZERO, bytes(8)).hex() == known


@pytest.mark.parametrize(
    ("difficulty", "expected"), [(1, 2**256), (2, 2**255), (3, (2**256 - 1) // 3), (2**256, 1), (2**256 + 1, 0)]
)
def test_the_target_is_the_quotient_rounded_down(difficulty: int, expected: int) -> None:
    assert target(difficulty) == expected


@given(HASHES, NONCES)
def test_with_difficulty_one_every_nonce_seals(mining_hash: bytes, nonce: bytes) -> None:
    check_seal(mining_hash, nonce, 1)


@given(HASHES, NONCES)
def test_a_hash_seals_up_to_exactly_its_own_difficulty(mining_hash: bytes, nonce: bytes) -> None:
    hardest = 2**256 // int.from_bytes(seal_hash(mining_hash, nonce), "big")
    assert is_sealed(mining_hash, nonce, hardest)
    assert not is_sealed(mining_hash, nonce, hardest + 1)


def test_a_refusal_tells_found_and_expected() -> None:
    with pytest.raises(InvalidSealError) as refused:
        check_seal(ZERO, bytes(8), 100)
    assert f"found seal 0x{number_of(ZERO, 0):064x} of nonce 0x0000000000000000" in str(refused.value)
    assert f"expected at most 0x{2**256 // 100:064x} (difficulty 100)" in str(refused.value)


@pytest.mark.parametrize(
    ("mining_hash", "nonce", "difficulty"),
    [(ZERO, bytes(7), 1), (ZERO, bytes(9), 1), (bytes(31), bytes(9), 1), (ZERO, bytes(8), 0), (ZERO, bytes(8), -1)],
)
def test_other_lengths_and_difficulties_never_seal(mining_hash: bytes, nonce: bytes, difficulty: int) -> None:
    assert not is_sealed(mining_hash, nonce, difficulty)
    with pytest.raises(InvalidSealError, match=r"found .* expected"):
        check_seal(mining_hash, nonce, difficulty)


@given(HASHES, st.integers(1, 300), st.integers(0, 2**64 - 1))
def test_the_nonce_found_is_the_first_that_seals(mining_hash: bytes, difficulty: int, start: int) -> None:
    nonce = find_nonce(mining_hash, difficulty, start)
    assert nonce is not None
    tried = (int.from_bytes(nonce, "big") - start) % 2**64
    sealing = [number_of(mining_hash, (start + i) % 2**64) <= 2**256 // difficulty for i in range(tried + 1)]
    assert sealing == [False] * tried + [True]


def test_a_search_ends_after_its_attempts() -> None:
    nonce = find_nonce(ZERO, 5000)
    assert nonce is not None
    before = int.from_bytes(nonce, "big")
    assert find_nonce(ZERO, 5000, attempts=before) is None
    assert find_nonce(ZERO, 5000, attempts=before + 1) == nonce
    assert find_nonce(ZERO, 1, attempts=0) is None
    assert find_nonce(ZERO, 2**256, attempts=1000) is None


def test_nonces_wrap_around() -> None:
    nonce = find_nonce(ZERO, 50)
    assert nonce is not None
    before = int.from_bytes(nonce, "big")
    high = next(s for s in range(2**64 - 1, 0, -1) if number_of(ZERO, s) <= 2**256 // 50) + 1
    assert find_nonce(ZERO, 50, high) == nonce
    assert find_nonce(ZERO, 50, high, attempts=2**64 - high + before) is None


def test_what_cannot_be_mined_is_refused() -> None:
    with pytest.raises(WorkError, match="31 bytes, expected 32"):
        find_nonce(bytes(31), 1)
    with pytest.raises(WorkError, match="difficulty 0, expected at least 1"):
        find_nonce(ZERO, 0)


@given(st.integers(0, 2**256 - 1), st.integers(0, 2**256 - 1), HASHES, HASHES)
def test_the_contract_puzzle_is_sha256_of_the_abi_encoding(
    chain_id: int, round_: int, anchor: bytes, model: bytes
) -> None:
    kinds = ["uint256", "address", "uint256", "bytes32", "bytes32", "address"]
    packed = encode(kinds, [chain_id, ALICE, round_, anchor, model, BOB])
    assert len(packed) == 192
    assert contract_puzzle(chain_id, ALICE, round_, anchor, model, BOB) == hashlib.sha256(packed).digest()


def test_the_contract_puzzle_is_sealed_like_a_header() -> None:
    puzzle = contract_puzzle(1337, ALICE, 5, ZERO, ZERO, BOB)
    nonce = find_nonce(puzzle, 100)
    assert nonce is not None
    assert is_sealed(puzzle, nonce, 100)
    assert puzzle != contract_puzzle(1337, ALICE, 5, ZERO, ZERO, CAROL)


def test_a_contract_puzzle_of_wrong_words_is_refused() -> None:
    with pytest.raises(WorkError, match="19 bytes of registry, expected 20"):
        contract_puzzle(1, ALICE[:-1], 1, ZERO, ZERO, BOB)
    with pytest.raises(WorkError, match="33 bytes of model_digest, expected 32"):
        contract_puzzle(1, ALICE, 1, ZERO, ZERO + b"x", BOB)
    with pytest.raises(WorkError, match="round -1, expected a uint256"):
        contract_puzzle(1, ALICE, -1, ZERO, ZERO, BOB)


def test_the_winner_is_where_the_seed_points_on_the_line_of_shares() -> None:
    point = int(hashlib.sha256(seed(3) + b"winner").hexdigest(), 16) / 2**256
    expected = ALICE if point < 0.2 else BOB if point < 0.7 else CAROL
    assert draw_winner({CAROL: 3.0, ALICE: 2.0, BOB: 5.0}, seed(3)) == expected


def test_winners_come_in_proportion_to_their_shares() -> None:
    wins = Counter(draw_winner({ALICE: 0.1, BOB: 0.6, CAROL: 0.3}, seed(i)) for i in range(2000))
    assert [round(wins[a] / 2000, 1) for a in (ALICE, BOB, CAROL)] == [0.1, 0.6, 0.3]


@given(st.dictionaries(st.binary(min_size=20, max_size=20), st.floats(0, 1e300), min_size=1), HASHES, st.randoms())
def test_order_and_scale_of_the_shares_do_not_matter_and_zero_never_wins(
    shares: dict[bytes, float], seed_: bytes, rng: random.Random
) -> None:
    shares[b"one more device here"] = 1.0
    winner = draw_winner(shares, seed_)
    assert shares[winner] > 0
    shuffled = list(shares.items())
    rng.shuffle(shuffled)
    assert draw_winner(dict(shuffled), seed_) == winner
    if all(share == 0 or share > 1e-290 for share in shares.values()):
        assert draw_winner({a: share / 4 for a, share in shares.items()}, seed_) == winner


@pytest.mark.parametrize("share", [-1.0, -1e-300, math.nan, math.inf])
def test_shares_that_are_none_are_refused(share: float) -> None:
    with pytest.raises(MiningError, match="found hash share"):
        draw_winner({ALICE: 1.0, BOB: share}, seed(1))


@pytest.mark.parametrize("shares", [{}, {ALICE: 0.0}, {ALICE: 0.0, BOB: -0.0}])
def test_a_race_without_runners_is_refused(shares: dict[bytes, float]) -> None:
    with pytest.raises(MiningError, match="no hash share above 0"):
        draw_winner(shares, seed(1))


def test_a_seed_of_another_length_is_refused() -> None:
    with pytest.raises(MiningError, match="3 bytes, expected 32"):
        draw_winner({ALICE: 1.0}, b"abc")


def test_seals_need_the_standard_library_only() -> None:
    code = (
        "import sys; sys.path.append('.'); import chain.wire.seal;"
        "print({m.split('.')[0] for m in sys.modules} - sys.stdlib_module_names - {'__main__'})"
    )
    shown = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], cwd=REPOSITORY, capture_output=True, text=True, timeout=30
    )
    assert shown.stdout.strip() == "{'chain'}", shown.stderr
