"""What the paper's analysis says of consensus, checked on real aggregates."""

from collections.abc import Mapping, Sequence

from bfl.experiments.claims import verdict
from bfl.experiments.figure import ClaimVerdict
from bfl.experiments.learning.curves import divergence_of, estimate_text, final_mean, seedwise_difference
from bfl.experiments.learning.mixing import WEIGHTED_GRAPHS, XIS, Key, MixingResult, error_bound
from bfl.experiments.learning.trials import RoundRecord

ROUNDING = 2.0**-24
"""One unit of the fixed point (P8). M of them per value and step are rounding, not mixing: a bound that has shrunk to
that size says nothing about integers"""


def convergence_claims(
    runs: Mapping[str, Sequence[Sequence[RoundRecord]]], mixed: Mapping[Key, MixingResult]
) -> list[ClaimVerdict]:
    """Assumption 1, the bound in the proof of Theorem 1, Corollary 1, and what non-IID data do to Xi."""
    return [_radii(), _optimal(), _bound(mixed), *_corollary(mixed), _divergence(runs)]


def _radii() -> ClaimVerdict:
    """Assumption 1 (iv)."""
    paper = {weighted: weighted.radius for weighted in WEIGHTED_GRAPHS if weighted.rule == "paper"}
    worst = max(paper, key=lambda weighted: paper[weighted])
    measured = f"largest λ {paper[worst]:.4f}, {worst.name} of {worst.servers}, of {len(paper)} graphs"
    return ClaimVerdict("λ < 1 with 0 < d < 1/M on connected graphs", measured, verdict(paper[worst] < 1))


def _optimal() -> ClaimVerdict:
    pairs = {(m.name, m.servers): m.radius for m in WEIGHTED_GRAPHS if m.rule == "optimal"}
    paper = {(m.name, m.servers): m.radius for m in WEIGHTED_GRAPHS if m.rule == "paper"}
    worse = [
        f"{name} of {servers}" for (name, servers), radius in pairs.items() if radius > paper[name, servers] + 1e-3
    ]
    measured = f"smaller or equal on {len(pairs) - len(worse)} of {len(pairs)} graphs"
    measured += f"; not {', '.join(worse)}" if worse else ""
    return ClaimVerdict("(ours) the optimal weight has no larger λ than the paper's", measured, verdict(not worse))


def _bound(mixed: Mapping[Key, MixingResult]) -> ClaimVerdict:
    """At every step; the share of the bound that is really used is told where the error is not rounding."""
    beyond, shares = [], []
    for (partition, weighted), found in mixed.items():
        floor = ROUNDING * weighted.servers**1.5 * found.size**0.5
        for step, error in enumerate(found.errors):
            bound = error_bound(weighted, found.xi, step)
            if error > bound + floor * (step + 1):
                beyond.append(f"{weighted.name} of {weighted.servers}, {partition}, step {step}")
            if error > 100 * floor:
                shares.append(error / bound)
    count = sum(len(found.errors) for found in mixed.values())
    measured = (
        f"{len(beyond)} of {count:,} errors beyond it and rounding; at most {100 * max(shares):.0f} % of it is used"
    )
    measured += f"; first {beyond[0]}" if beyond else ""
    return ClaimVerdict(
        "|c_m| ≤ M^(3/2) λ^l Ξ at every step (proof of Theorem 1, with L11)", measured, verdict(not beyond)
    )


def _corollary(mixed: Mapping[Key, MixingResult]) -> list[ClaimVerdict]:
    """phi is enough, whatever the graph; told with how many steps too many it asks for."""
    verdicts = []
    for xi in XIS:
        pairs = [(found.asked[xi], found.needed[xi]) for found in mixed.values()]
        short = sum(needed is None or asked < needed for asked, needed in pairs)
        more = [asked - needed for asked, needed in pairs if needed is not None]
        measured = (
            f"{len(pairs) - short} of {len(pairs)} cases; {sum(more) / max(1, len(more)):.1f} steps more than needed "
        )
        measured += f"in the mean, {max(more, default=0)} at most"
        verdicts.append(ClaimVerdict(f"φ of Corollary 1 is enough, ξ = {xi:g}", measured, verdict(short == 0)))
    return verdicts


def _divergence(runs: Mapping[str, Sequence[Sequence[RoundRecord]]]) -> ClaimVerdict:
    iid, non_iid = (final_mean(runs[partition], divergence_of) for partition in ("iid", "non-iid"))
    apart = seedwise_difference(non_iid, iid)
    measured = f"Ξ of the last five rounds {estimate_text(iid, 4)} in IID, {estimate_text(non_iid, 4)} in non-IID"
    return ClaimVerdict("(ours) non-IID data make Ξ larger", measured, verdict(apart.mean > apart.half_width))
