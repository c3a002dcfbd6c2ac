"""What came of a rehearsal: rounds, heads, audits, and whether anybody was accused. Nobody in a lab misbehaves."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bfl.network.kits import DATABASE
from bfl.network.lab.params import LabParams
from bfl.network.status import METRICS
from bfl.show.names import Names, names_in
from chain.audit.archive import Archive, open_archive
from chain.protocol.posts import read_signed_call
from chain.protocol.turns import FOUNDING_BLOCK
from policy.files import read_bounded_text

MOST_BYTES = 64 << 20
"""Of what an edge tells of its rounds"""
AUDIT_WORDS = {0: "fits", 1: "DOES NOT FIT", 2: "not all could be checked"}
_FLAGS = ("flag", "flag_equivocation", "flag_signatures")
_FIRST_ROUND_BLOCK = FOUNDING_BLOCK + 1


@dataclass(frozen=True)
class LabResult:
    """What came of it."""

    rounds: Mapping[str, int]
    """Sealed, by edge."""
    heads: Mapping[str, str]
    seconds: Mapping[str, float]
    """Of its steps: kits, start (to the first round), rounds, end, audits."""
    accuracy: float | None
    restarts: Mapping[str, int]
    """How often machines and parts of machines were started again."""
    audits: Mapping[str, int]
    """Exit code of `bfl audit check`, by edge."""
    accused: Mapping[str, Sequence[str]]
    """Accusations and exclusions, by the edge that has them, on its chain or in its log; all are honest here."""
    left_out: Mapping[str, int]
    """Gradients that did not count, by reason: nobody is accused of being late or away."""

    def faults(self, rounds: int) -> list[str]:
        """Why it did not end well; nothing where it did."""
        few = [f"{name} has {count} of {rounds} rounds" for name, count in self.rounds.items() if count < rounds]
        heads = ["the heads differ"] if len(set(self.heads.values())) != 1 else []
        audits = [f"audit of {name}: {audit_word(code)}" for name, code in self.audits.items() if code]
        return few + heads + audits + [f"{name}: {each}" for name, told in self.accused.items() for each in told]


def audit_word(code: int) -> str:
    """What an exit code of `bfl audit check` says."""
    return AUDIT_WORDS.get(code, f"exit code {code}")


def head_of(params: LabParams, name: str) -> str:
    """Hash of the last rehearsed round's block at an edge that has ended; an edge may have gone on after it."""
    with closing(open_archive(params.kits / name / DATABASE)) as archive:
        last = min(params.rounds + FOUNDING_BLOCK, archive.head().block_number)
        return "0x" + archive.header(last).hash.hex()


def accusations_at(kit: Path) -> list[str]:
    """Whom an edge's chain or the edge itself accuses, in words."""
    with closing(open_archive(kit / DATABASE)) as archive:
        names = names_in(archive)
        told = _flags(archive, names)
        pairs = [first.signer for first, _ in archive.contradictions()]
    told += [f"{names.short(signer)} has signed two things of which an honest server signs one" for signer in pairs]
    for line in _metrics(kit):
        told += [f"round {line['round']}: found that {each['detail']}" for each in line["offences"]]
        told += [f"round {line['round']}: server {index} is excluded" for index in line["excluded"]]
    return told


def _flags(archive: Archive, names: Names) -> list[str]:
    told = []
    for number in range(_FIRST_ROUND_BLOCK, archive.head().block_number + 1):
        for transaction in archive.block(number).transactions:
            post = read_signed_call(transaction, archive.genesis)
            if post.call is not None and post.call.name in _FLAGS:
                who, whom = names.short(post.sender), names.short(post.call["offender"])
                told.append(f"block {number}: {who} accuses {whom} ({post.call.name})")
    return told


def left_out_at(kit: Path) -> Counter[str]:
    """Gradients that did not count, by reason."""
    return Counter(str(each["reason"]) for line in _metrics(kit) for each in line["refused"])


def _metrics(kit: Path) -> Iterator[dict[str, Any]]:
    """Of the rounds that an edge has told, but for lines that a kill cut off."""
    path = kit / METRICS
    for line in read_bounded_text(path, MOST_BYTES).splitlines() if path.exists() else ():
        with suppress(ValueError):
            yield json.loads(line)
