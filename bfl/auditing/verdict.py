"""What an audit comes to, in three words (Q3): fits; fits, but N participants misbehaved; does not fit.

The third one is an error that names the place. Beside the word stands what was believed, and what nobody could check.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from chain.audit.found import Inspection
from edge_servers.founding.parameters import FoundingParameters
from edge_servers.learning.filters import make_filters
from edge_servers.replay.offences import DERIVED, FALSE_FLAG, WORD, Offence

if TYPE_CHECKING:
    from bfl.auditing.findings import Audit

WHAT = {
    "iterate": "a wrong iterate",
    "close": "the closed list",
    "plan": "the plan",
    "gradient": "its gradient",
    "model": "the model",
    "equivocation": "two posts for one slot",
    "double_endorsement": "two blocks in one attempt",
    "double_pass": "two passes to one attempt",
    "broken_pass": "a pass that hides a signature",
}
"""What an offence is about, in words, by its kind"""


def verdict(findings: Iterable[Offence], gaps: Sequence[str] = ()) -> str:
    """The word for a chain that fits; `gaps` are what could not be checked."""
    count = len(misbehaving(findings))
    told = f"fits, but {count} participant{'s' * (count > 1)} misbehaved" if count else "fits"
    return f"{told}, as far as it could be checked" if gaps else told


def misbehaving(findings: Iterable[Offence]) -> set[str]:
    """Names of those who did something that was derived again here: offenders, and accusers of what is right.

    What is not on the chain is the accusers' word, and convicts nobody; nor does being absent (D3.6).
    """
    found: set[str] = set()
    for finding in findings:
        if finding.is_absence:
            continue
        found |= {finding.name} if finding.verdict == DERIVED else set()
        found |= set(finding.flagged_by) if finding.verdict == FALSE_FLAG else set()
    return found


def deeds(findings: Sequence[Offence]) -> list[str]:
    """Who misbehaved, when, and what came of it: beside the verdict, so that nobody reads "fits" alone."""
    told = []
    for name in sorted(misbehaving(findings)):
        own = [each for each in findings if each.name == name and each.verdict == DERIVED and not each.is_absence]
        false = [each for each in findings if each.verdict == FALSE_FLAG and name in each.flagged_by]
        rounds = sorted({each.round for each in [*own, *false]})
        through = max((each.excluded_through or 0 for each in own), default=0)
        said = f"{name} in round{'s' * (len(rounds) > 1)} {', '.join(map(str, rounds))}"
        said += f": {', '.join(dict.fromkeys(WHAT.get(each.kind, each.kind) for each in own))}" if own else ""
        said += "; accused somebody of what is right" if false else ""
        told.append(said + (f"; excluded through round {through}" if through else ""))
    return told


def believed_in(audit: "Audit") -> list[str]:
    """What was taken as somebody says it is, line by line."""
    told = []
    if audit.not_executed:
        told.append(f"receipts of {audit.found.blocks - 1} blocks: nothing was executed ({audit.not_executed})")
        told.append(f"of them a majority of the servers endorsed those up to block {audit.found.final}")
    told += believed_of_the_last_blocks(audit.found)
    if audit.founding is not None and not audit.is_judged:
        told += believed_verdicts(audit.founding, [why for each in audit.rounds for _, why in each.refused])
    words = sum(finding.verdict == WORD for finding in audit.findings)
    if words:
        told.append(f"servers, about {words} posts that are not on the chain")
    return told


def believed_verdicts(founding: FoundingParameters, reasons: Iterable[str]) -> list[str]:
    """What an audit says of verdicts that it did not judge again, of all reasons for which somebody was refused."""
    verdicts = make_filters(founding.settings.rounds.filter).verdicts
    refused = sum(reason in verdicts for reason in reasons)
    if not founding.root or not refused:
        return []
    return [
        f"{refused} verdicts by the root set: a majority of the servers has endorsed them; "
        "`bfl audit check --judge` judges again"
    ]


def believed_of_the_last_blocks(found: Inspection) -> list[str]:
    """What rests on fewer than a majority of the servers (Q1), or on the only one there is."""
    (signed, servers), head = found.signed, found.blocks - 1
    told = []
    if found.final < head:
        last = f"block {head}" if found.final == head - 1 else f"blocks {found.final + 1} to {head}"
        told.append(f"{last}, not final: {signed} of {servers} servers signed the last one, no majority")
    if servers == 1:
        told.append("the only server: its key alone makes a block final")
    return told


def gaps_in(audit: "Audit") -> list[str]:
    """What could not be checked; where there is any, no chain simply fits."""
    told, found = [], audit.found
    if found.pruned:
        told.append(
            f"{len(found.pruned)} of {found.blocks} blocks are pruned: their models could not be derived again; "
            "`bfl chain fetch` brings their payloads back from a node that has them"
        )
    if audit.founding is None:
        told.append(f"no model could be derived again: {audit.obstacle}")
    elif not audit.rounds and not found.pruned:
        told.append("no round is sealed yet: there is no model to derive again")
    return told
