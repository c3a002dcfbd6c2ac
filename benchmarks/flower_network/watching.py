"""Rounds of a network of processes that run, and what they took, from the end of one round to the end of another."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.flower_network.trees import Memory, Tree

_LOOK_S, _MEMORY_LOOKS = 0.25, 8
"""Memory takes the kernel some time to tell, so not at every look"""
UNSEEN = "between looks"


@dataclass(frozen=True)
class Mark:
    """When a round had ended, and what had been taken by then."""

    at_s: float
    cpu_s: float
    by_kind: Mapping[str, float]


@dataclass(frozen=True)
class Measured:
    """What a network took."""

    first_s: float
    """From its start to the end of round 1."""
    first_cpu_s: float
    rounds_s: list[float]
    """Of each later round."""
    cpu_s: float
    """Per later round; ended children included."""
    by_kind: Mapping[str, float]
    """The same by kind of process."""
    memory: Mapping[str, Memory]
    sum_mb: float
    """PSS of all of them together, at most."""
    load: tuple[float, float, float]
    """Load averages of the machine at the end, everybody's work included."""

    @property
    def round_s(self) -> float:
        """Mean seconds of a later round."""
        return sum(self.rounds_s) / len(self.rounds_s)


def watch(done: Callable[[], int], rounds: int, patience_s: float, say: Callable[[str], None]) -> Measured:
    """Look at everything that this process has started until `done` says 1 + `rounds`."""
    tree, marks = Tree(os.getpid()), list[Mark]()
    began = time.monotonic()
    looks = 0
    while len(marks) < 1 + rounds:
        if time.monotonic() - began > patience_s:
            raise TimeoutError(f"found {len(marks)} rounds after {patience_s:g} s, expected {1 + rounds}")
        total, by_kind = tree.cpu_s()
        mark = Mark(time.monotonic() - began, total, by_kind)
        while len(marks) < min(done(), 1 + rounds):
            marks.append(mark)
            say(f"round {len(marks)} after {mark.at_s:.1f} s and {mark.cpu_s:.1f} CPU seconds")
        if marks and looks % _MEMORY_LOOKS == 0:
            tree.look_at_memory()
        looks += 1
        time.sleep(_LOOK_S)
    return measured(marks, tree)


def measured(marks: list[Mark], tree: Tree) -> Measured:
    """Of the rounds after the first."""
    first, last, rounds = marks[0], marks[-1], len(marks) - 1
    by_kind = {kind: (cpu_s - first.by_kind.get(kind, 0.0)) / rounds for kind, cpu_s in last.by_kind.items()}
    cpu_s = (last.cpu_s - first.cpu_s) / rounds
    by_kind[UNSEEN] = cpu_s - sum(by_kind.values())
    seconds = [after.at_s - before.at_s for before, after in pairwise(marks)]
    return Measured(first.at_s, first.cpu_s, seconds, cpu_s, by_kind, tree.memory, max(tree.sums_mb), os.getloadavg())
