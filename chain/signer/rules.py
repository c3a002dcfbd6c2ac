"""What a key never signs, given what it has signed in the round: in the spirit of EIP-3076, and a server's passes.

Two final blocks of one round need somebody who breaks one of these rules; so does every proof of a double signature.
"""

from collections.abc import Iterable

from chain.errors import SigningRefusedError
from chain.signer.statements import ENDORSE, PASS, Endorsed, Signed, Statement


def check_place(asked: Statement, stored: Signed) -> None:
    """Raise `SigningRefusedError` unless the slot's one statement is the one that is asked for."""
    if stored.said != asked.said:
        raise SigningRefusedError(
            f"{asked}: found {asked.said.hex():.12}, but this key has said {stored.said.hex():.12} there; "
            "two would convict it. Post again what it has signed"
        )


def check_new(asked: Statement, lowest_round: int, in_round: Iterable[Signed]) -> None:
    """Raise `SigningRefusedError` unless a slot that is empty so far may be filled.

    `lowest_round`: the highest one that this key has signed in. `in_round`: what it has signed in the round asked for.
    """
    if asked.round < lowest_round:
        raise SigningRefusedError(f"{asked}: this key has come to round {lowest_round}, and signs for no lower one")
    signed = list(in_round)
    passed = max((each.attempt for each in signed if each.slot == PASS), default=0)
    if asked.attempt < passed:
        raise SigningRefusedError(f"{asked}: this key has passed to attempt {passed}, and signs for no lower one")
    if asked.slot == PASS:
        _check_pass(asked, passed, highest_endorsement(signed))


def highest_endorsement(signed: Iterable[Signed]) -> Endorsed | None:
    """What a pass has to name."""
    return max((Endorsed(each.attempt, each.said) for each in signed if each.slot == ENDORSE), default=None)


def _check_pass(asked: Statement, passed: int, highest: Endorsed | None) -> None:
    if asked.attempt <= passed:
        raise SigningRefusedError(f"{asked}: expected an attempt above {passed}; passes rise, and nobody passes to 0")
    if highest is not None and asked.attempt <= highest.attempt:
        raise SigningRefusedError(f"{asked}: this key has endorsed in attempt {highest.attempt}, so it passes above it")
    if asked.named != highest:
        raise SigningRefusedError(
            f"{asked}: found it naming {_name(asked.named)}, expected {_name(highest)}: "
            "the highest that this key has endorsed in the round"
        )


def _name(block: Endorsed | None) -> str:
    return "no block" if block is None else f"block {block.block_hash.hex():.12} of attempt {block.attempt}"
