"""The schemes under the paper's attack: how each is hit, and what the paper reports of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

SERVERS, VICTIM, STEP, SIGMA = 3, 1, 3, 0.08


@dataclass(frozen=True)
class AttackedScheme:
    """A scheme, its attacker, and the paper's drop in points (IID) by data set."""

    label: str
    scheme: str
    attack: Callable[[str], str]
    """The attack of given rounds, as docs/attacks.md writes it"""
    paper: Mapping[str, float]
    weight: float = 1.0
    """Of the drop: the chance that the attacked server matters"""


def _iterate(rounds: str) -> str:
    return f"iterate-noise@{rounds}:server={VICTIM},step={STEP},strength={SIGMA}"


def _leader(rounds: str) -> str:
    return f"wrong-model@{rounds}:server=leader,strength={SIGMA}"


def _aggregators(rounds: str) -> str:
    return "; ".join(f"iterate-noise@{rounds}:server={m},strength={SIGMA}" for m in range(SERVERS))


ATTACKED_SCHEMES = (
    AttackedScheme("bfl (chain, replay and repair)", "bfl", _iterate, {"fashion-mnist": 2.67, "svhn": 3.7}),
    AttackedScheme("consensus without chain", "consensus-no-chain", _iterate, {"fashion-mnist": 5.6, "svhn": 7.6}),
    AttackedScheme("no consensus", "no-consensus-no-chain", _leader, {"fashion-mnist": 6.8, "svhn": 16.9}, 1 / SERVERS),
    AttackedScheme("traditional FL", "traditional", _aggregators, {"fashion-mnist": 16.7, "svhn": 32.1}),
)
"""From the least drop to the largest, as the paper has it"""
REFERENCE = {"bfl": 0.0, "consensus-no-chain": 2.2, "no-consensus-no-chain": 5.8, "traditional": 16.8}
"""An independent implementation of the same rules, one seed (the project's specification, "Poisoning")"""
