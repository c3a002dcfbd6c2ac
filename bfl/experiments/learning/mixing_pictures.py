"""The picture of convergence: spectral radii, divergence over the rounds, errors against their bound."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bfl.experiments.learning.curves import PARTITIONS, SeedCurve
from bfl.experiments.learning.mixing import GRAPHS, RULES, SIZES, XIS, Key, MixingResult, WeightedGraph, error_bound
from bfl.show.plots import COLOURS, pyplot

SHOWN = "non-iid"
"""Whose errors are drawn"""


def draw_convergence(
    path: Path, title: str, spread: Mapping[str, SeedCurve], mixed: Mapping[Key, MixingResult], steps: int
) -> None:
    """Four panels: lambda, Xi, errors with bounds, and phi of Corollary 1 beside the steps really needed."""
    plt = pyplot()
    figure, ((radii, xi), (errors, needed)) = plt.subplots(2, 2, figsize=(12, 8.8))
    figure.subplots_adjust(left=0.07, right=0.98, bottom=0.08, top=0.91, wspace=0.2, hspace=0.32)
    figure.suptitle(title)
    _draw_radii(radii)
    _draw_spread(xi, spread)
    _draw_errors(errors, mixed, steps)
    _draw_needed(needed, mixed)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _draw_radii(axes: Any) -> None:
    wide = 0.8 / (len(SIZES) * len(RULES))
    for place, name in enumerate(GRAPHS):
        for number, (servers, rule) in enumerate((m, rule) for m in SIZES for rule in RULES):
            x = place + wide * (number - (len(SIZES) * len(RULES) - 1) / 2)
            radius = WeightedGraph(name, servers, rule).radius
            colour, hatch = COLOURS[SIZES.index(servers)], "" if rule == "optimal" else "///"
            label = f"M = {servers}, {rule}" if place == 0 else None
            bar = axes.bar(x, radius, wide * 0.92, color=colour, hatch=hatch, edgecolor="white", label=label)
            axes.bar_label(bar, labels=[f"{radius:.2f}"], fontsize=7, padding=2, rotation=90)
    axes.set_xticks(range(len(GRAPHS)), GRAPHS)
    axes.set(ylabel="λ", title="spectral radius λ of Λ − 11ᵀ/M", ylim=(0, 1.42))
    axes.legend(fontsize=8, ncols=3, loc="upper center")
    axes.grid(axis="y", alpha=0.3)


def _draw_spread(axes: Any, spread: Mapping[str, SeedCurve]) -> None:
    for colour, (partition, each) in zip(COLOURS, spread.items(), strict=False):
        axes.plot(each.rounds, each.mean, color=colour, linewidth=1.5, label=PARTITIONS[partition])
        axes.fill_between(each.rounds, each.low, each.high, color=colour, alpha=0.18, linewidth=0)
    axes.set(xlabel="round", ylabel="Ξ", title="divergence Ξ of the servers' aggregates (M = 3)", ylim=(0, None))
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)


def _draw_errors(axes: Any, mixed: Mapping[Key, MixingResult], steps: int) -> None:
    """Lines and rings, whose lambda is large; complete graphs agree at once."""
    shown = (("line", 3, "optimal"), ("line", 3, "paper"), ("ring", 5, "optimal"), ("star", 5, "optimal"))
    chosen = [WeightedGraph(*each) for each in (*shown, ("line", 10, "optimal"), ("line", 10, "paper"))]
    for colour, weighted in zip(COLOURS, chosen, strict=False):
        found = mixed[SHOWN, weighted]
        label = f"{weighted.name} of {weighted.servers}, {weighted.rule}"
        axes.semilogy(range(steps + 1), found.errors[: steps + 1], "o-", color=colour, markersize=3, label=label)
        bounds = [error_bound(weighted, found.xi, step) for step in range(steps + 1)]
        axes.semilogy(range(steps + 1), bounds, "--", color=colour, linewidth=0.9)
    axes.set(
        xlabel="consensus step l", ylabel="|M x_m(l) − Σ x|, worst server", title="error (dots) and bound (dashed)"
    )
    axes.legend(fontsize=8, ncols=2, loc="lower left")
    axes.grid(alpha=0.3)


def _draw_needed(axes: Any, mixed: Mapping[Key, MixingResult]) -> None:
    markers = ("o", "s", "^")
    for colour, marker, xi in zip(COLOURS, markers, XIS, strict=False):
        points = [(found.needed[xi], found.asked[xi]) for found in mixed.values() if found.needed[xi] is not None]
        axes.plot(*zip(*points, strict=True), marker, color=colour, markersize=5, alpha=0.6, label=f"ξ = {xi:g}")
    high = max(found.asked[xi] for found in mixed.values() for xi in XIS)
    axes.plot([0, high], [0, high], color="#888888", linewidth=0.8, label="as many as needed")
    axes.set_xscale("symlog", linthresh=10)
    axes.set_yscale("symlog", linthresh=10)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set(xlabel="steps really needed", ylabel="φ of Corollary 1", title="Corollary 1, every graph, size and weight")
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
