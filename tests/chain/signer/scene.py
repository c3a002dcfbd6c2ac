"""A key's memory and what it is asked to sign, for the tests of this folder."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from chain.signer.memory import SignedMemory
from chain.signer.statements import Endorsed, Statement
from chain.wire.address import Address

CHAIN = 77
KEY = Address(b"k" * 20)


def block(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def post(round_: int, attempt: int = 0, slot: str = "plan", says: str = "this") -> Statement:
    return Statement.post(CHAIN, round_, attempt, slot, says.encode())


def endorsement(round_: int, attempt: int = 0, name: str = "X") -> Statement:
    return Statement.endorsement(CHAIN, round_, attempt, block(name))


def to_pass(round_: int, attempt: int, named: tuple[int, str] | None = None) -> Statement:
    return Statement.to_pass(CHAIN, round_, attempt, named and Endorsed(named[0], block(named[1])))


def signing(text: str) -> Callable[[], bytes]:
    return lambda: text.encode()


def never() -> bytes:
    raise AssertionError("asked to sign")


def founded(path: Path) -> SignedMemory:
    return SignedMemory.open(path, KEY, CHAIN, is_founding=True)


def opened(path: Path) -> SignedMemory:
    return SignedMemory.open(path, KEY, CHAIN)


class Hands:
    """A clock that is turned by hand."""

    def __init__(self, now_s: float) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s
