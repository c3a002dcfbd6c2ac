"""The proof of work (C5): seal = sha256(mining_hash || nonce) <= 2**256 / difficulty, with a nonce of 8 bytes.

Imports the standard library only: miner processes run this file, and importing eth or torch takes them seconds.
"""

import hashlib
import math
from collections.abc import Mapping
from fractions import Fraction

from chain.errors import InvalidSealError, MiningError, WorkError

HASH_BYTES = 32
NONCE_BYTES = 8
NONCES: int = 2 ** (8 * NONCE_BYTES)
_HASHES: int = 2 ** (8 * HASH_BYTES)
_ADDRESS_BYTES = 20
# A search of 64 times the expected length fails once in e^64 times.
_PATIENCE = 64


def target(difficulty: int) -> int:
    """The largest hash that seals. C5: 2**256 // difficulty; the real quotient admits the same whole numbers."""
    if difficulty < 1:
        raise InvalidSealError(f"found difficulty {difficulty}, expected at least 1")
    return _HASHES // difficulty


def seal_hash(mining_hash: bytes, nonce: bytes) -> bytes:
    """C5: sha256(mining_hash || nonce). Both lengths are fixed, or one hash would have two meanings."""
    if len(mining_hash) != HASH_BYTES or len(nonce) != NONCE_BYTES:
        raise InvalidSealError(
            f"found a mining hash of {len(mining_hash)} bytes and a nonce of {len(nonce)},"
            f" expected {HASH_BYTES} and {NONCE_BYTES}"
        )
    return hashlib.sha256(mining_hash + nonce).digest()


def check_seal(mining_hash: bytes, nonce: bytes, difficulty: int) -> None:
    """Raise `InvalidSealError` unless sha256(mining_hash || nonce) <= 2**256 / difficulty (C5)."""
    most = target(difficulty)
    found = int.from_bytes(seal_hash(mining_hash, nonce), "big")
    if found > most:
        raise InvalidSealError(
            f"found seal 0x{found:064x} of nonce 0x{nonce.hex()},"
            f" expected at most 0x{most:064x} (difficulty {difficulty})"
        )


def is_sealed(mining_hash: bytes, nonce: bytes, difficulty: int) -> bool:
    """Whether `check_seal` lets it pass."""
    try:
        check_seal(mining_hash, nonce, difficulty)
    except InvalidSealError:
        return False
    return True


def check_work(mining_hash: bytes, difficulty: int) -> None:
    """Raise `WorkError` unless this is something that can be mined."""
    if len(mining_hash) != HASH_BYTES:
        raise WorkError(f"found a mining hash of {len(mining_hash)} bytes, expected {HASH_BYTES}")
    if difficulty < 1:
        raise WorkError(f"found difficulty {difficulty}, expected at least 1")


def find_nonce(mining_hash: bytes, difficulty: int, start: int = 0, attempts: int | None = None) -> bytes | None:
    """The first nonce from `start` on that seals, or none in so many attempts (64 x difficulty); wraps around at 2**64.

    The state after `mining_hash` is copied instead of hashed again, and digests are compared as bytes, which order as
    the numbers do: 2.8 MH/s, against 2.3 for sha256(mining_hash + nonce) and 1.2 with numbers.
    """
    check_work(mining_hash, difficulty)
    most = min(target(difficulty), _HASHES - 1).to_bytes(HASH_BYTES, "big")
    begun = hashlib.sha256(mining_hash)
    first = start % NONCES
    end = first + min(_PATIENCE * difficulty if attempts is None else attempts, NONCES)
    for numbers in (range(first, min(end, NONCES)), range(end - NONCES)):
        for number in numbers:
            hashed = begun.copy()
            hashed.update(number.to_bytes(8, "big"))
            if hashed.digest() <= most:
                return number.to_bytes(NONCE_BYTES, "big")
    return None


def contract_puzzle(
    chain_id: int, registry: bytes, round: int, anchor_hash: bytes, model_digest: bytes, sender: bytes
) -> bytes:
    """What takes the place of `mining_hash` on an external network (C7), as the contract computes it.

    sha256 over six 32-byte words: chain_id, registry, round, anchor_hash, model_digest, sender. The sender is part of
    it, so nobody can send a nonce found by another.
    """
    for name, found, expected in (
        ("registry", registry, _ADDRESS_BYTES),
        ("anchor_hash", anchor_hash, HASH_BYTES),
        ("model_digest", model_digest, HASH_BYTES),
        ("sender", sender, _ADDRESS_BYTES),
    ):
        if len(found) != expected:
            raise WorkError(f"found {len(found)} bytes of {name}, expected {expected}")
    for name, number in (("chain_id", chain_id), ("round", round)):
        if not 0 <= number < _HASHES:
            raise WorkError(f"found {name} {number}, expected a uint256")
    numbers = [number.to_bytes(32, "big") for number in (chain_id, round)]
    words = (numbers[0], registry.rjust(32, b"\0"), numbers[1], anchor_hash, model_digest, sender.rjust(32, b"\0"))
    return hashlib.sha256(b"".join(words)).digest()


def draw_winner(hash_shares: Mapping[bytes, float], seed: bytes) -> bytes:
    """The device that wins a simulated race: each with the probability of its share of the hash power.

    sha256(seed || "winner") is a point on the line of all shares in ascending order of address. Fractions, not floats:
    the same device wins on every machine. Its nonce is then searched for real, by `find_nonce`.
    """
    if len(seed) != HASH_BYTES:
        raise MiningError(f"found a seed of {len(seed)} bytes, expected {HASH_BYTES}")
    for address, share in hash_shares.items():
        if not (math.isfinite(share) and share >= 0):
            raise MiningError(f"found hash share {share} of 0x{address.hex()}, expected a finite number >= 0")
    shares = {address: Fraction(float(hash_shares[address])) for address in sorted(hash_shares)}
    point = int.from_bytes(hashlib.sha256(seed + b"winner").digest(), "big") * sum(shares.values())
    covered = Fraction(0)
    for address, exact in shares.items():
        covered += exact
        if point < covered * _HASHES:
            return address
    raise MiningError(f"found no hash share above 0 among {len(shares)} devices, expected at least one")
