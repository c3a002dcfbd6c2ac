"""A run in sentences, for somebody who decides and does not program."""

from collections.abc import Sequence
from dataclasses import dataclass

from bfl.dashboard.decoded import AuditState
from bfl.dashboard.facts import Snapshot
from bfl.dashboard.index.figures import KeyFigures

_LIMITS = (
    "A gradient that looks honest and is not: whoever trains on wrong data, or bends its gradient a little, breaks no "
    "rule that can be checked. What filters do about that is measured, not proven.",
    "Whether the data were good, and whose they are: data never leave a device, or only to the server that trains on "
    "them.",
    "Privacy of the gradients: they stay on the chain, and a gradient tells something of the data that it was computed "
    "on.",
    "Who is behind a key: a signature shows that the same key signed, not whose it is.",
)
_SIMULATED = (
    "Keys, clock, radio channels, processor speeds and hash rates of this run are simulated: the arithmetic is "
    "checked, but anybody who knows the seed could have signed, and the latencies are computed, not measured."
)


@dataclass(frozen=True)
class Verdict:
    """What an audit comes to: a word for the banner, what it means, and how sure that is."""

    tone: str
    """good, bad or open: classes of the report."""
    word: str
    means: str


def verdict_of(audit: AuditState) -> Verdict:
    """Of an audit, or of none."""
    if audit.status in ("impossible", "not started", "running"):
        return Verdict("open", "Not checked", f"Nobody has derived this run again: {audit.told}.")
    if audit.status == "failed":
        return Verdict("open", "Could not be checked", audit.told)
    if audit.verdict.startswith("does not fit"):
        means = "What is recorded does not follow from what the participants signed. Do not use this model."
        return Verdict("bad", "It does not fit", f"{means} {audit.told}")
    means = (
        "Every model of this run was computed again, here, from the gradients that the participants signed, and came "
        "out the same to the last bit."
    )
    if "misbehaved" in audit.verdict:
        means += " Somebody broke the rules on the way. It was noticed: the models are those of honest servers."
    if "as far as" in audit.verdict:
        means += " Not everything could be checked; what is missing is listed below."
    return Verdict("good" if audit.exit_code == 0 else "open", f"It {audit.verdict}", means)


def summary_of(snapshot: Snapshot, figures: KeyFigures) -> list[str]:
    """What was done and what came of it, in a few sentences."""
    about, rounds = snapshot.about, len(snapshot.rounds)
    told = [f"{about.devices} devices and {about.edges} edge servers trained one model together in {rounds:,} rounds."]
    if figures.accuracy_summary is not None:
        told.append(
            f"It is right about {100 * figures.accuracy_summary:.1f} % of the test samples of "
            f"{about.dataset or 'its data set'} (mean of the last five evaluations)."
        )
    if figures.offences:
        liars = dict.fromkeys(each.offender for each in snapshot.offences)
        told.append(f"{_counted(figures.offences, 'offence')} by {_listed(list(liars))}: each with its evidence below.")
    else:
        told.append("Nobody was found breaking the rules.")
    if figures.refused:
        told.append(
            f"{_counted(figures.refused, 'gradient')} did not count, because they were late, refused or filtered."
        )
    if snapshot.blocks:
        told.append(
            f"All of it is on a chain of {len(snapshot.blocks):,} blocks, {figures.total_bytes / 1e6:,.1f} MB in all."
        )
    return told


def limits_of(snapshot: Snapshot, audit: AuditState) -> list[str]:
    """What this report does NOT show."""
    told = [*audit.not_shown, *(_LIMITS if not audit.not_shown else _LIMITS[:1] + _LIMITS[2:3])]
    return [*([_SIMULATED] if snapshot.about.is_simulated else []), *dict.fromkeys(told)]


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _listed(names: Sequence[str], most: int = 6) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} others"
