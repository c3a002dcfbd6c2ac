"""Pictures of federated runs: IID beside non-IID, one colour per scheme."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bfl.experiments.estimate import Estimate
from bfl.experiments.learning.curves import PARTITIONS, SeedCurve
from bfl.show.plots import COLOURS, pyplot

Lines = Mapping[tuple[str, str], SeedCurve]
"""By partition and label"""
GREY, PALE = "#888888", "#bbbbbb"


def colours_of(labels: Sequence[str]) -> dict[str, str]:
    """In their order; the first is ours."""
    return dict(zip(dict.fromkeys(labels), COLOURS, strict=False))


def draw_accuracy(path: Path, title: str, curves: Mapping[str, Lines]) -> None:
    """Accuracy above, loss below; IID left, non-IID right."""
    plt = pyplot()
    figure, grid = plt.subplots(len(curves), len(PARTITIONS), figsize=(11, 7.6), sharex=True)
    figure.subplots_adjust(left=0.07, right=0.98, bottom=0.13, top=0.9, wspace=0.15, hspace=0.12)
    figure.suptitle(title)
    for row, (what, lines) in zip(grid, curves.items(), strict=True):
        for axes, partition in zip(row, PARTITIONS, strict=True):
            _draw_lines(axes, partition, lines)
            axes.set(ylabel=what)
    for top, bottom, shown in zip(grid[0], grid[-1], PARTITIONS.values(), strict=True):
        top.set(title=shown)
        bottom.set(xlabel="round")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=min(4, len(labels)), frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _draw_lines(axes: Any, partition: str, lines: Lines) -> None:
    colours = colours_of([label for _, label in lines])
    for (where, label), each in lines.items():
        if where == partition:
            axes.plot(each.rounds, each.mean, color=colours[label], linewidth=1.5, label=label)
            axes.fill_between(each.rounds, each.low, each.high, color=colours[label], alpha=0.18, linewidth=0)
    axes.grid(alpha=0.3)


def draw_attack(
    path: Path,
    title: str,
    curves: Mapping[str, Lines],
    drops: Mapping[tuple[str, str, int], Estimate],
    paper: Mapping[str, float | None],
    rounds: Sequence[int],
) -> None:
    """Curves of both partitions above, drops below, beside what the paper reports."""
    plt = pyplot()
    figure, grid = plt.subplots(2, len(PARTITIONS), figsize=(11, 8), height_ratios=(3, 2))
    figure.subplots_adjust(left=0.07, right=0.98, bottom=0.12, top=0.91, wspace=0.15, hspace=0.28)
    figure.suptitle(title)
    for axes, (partition, shown) in zip(grid[0], PARTITIONS.items(), strict=True):
        _draw_lines(axes, partition, curves["twice"])
        colours = colours_of(list(paper))
        for (where, label), each in curves["honest"].items():
            if where == partition:
                axes.plot(each.rounds, each.mean, color=colours[label], linewidth=0.8, linestyle="--", alpha=0.7)
        for at in rounds:
            axes.axvline(at, color=GREY, linestyle=":", linewidth=1, zorder=0)
        axes.set(xlabel="round", ylabel="accuracy (%)", title=f"{shown} (dashed: honest; dotted: attacks)")
    for axes, (partition, shown) in zip(grid[1], PARTITIONS.items(), strict=True):
        _draw_drops(axes, partition, drops, paper, rounds)
        axes.set(ylabel="drop (points)", title=f"drop in the attacked round, {shown}")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _draw_drops(
    axes: Any,
    partition: str,
    drops: Mapping[tuple[str, str, int], Estimate],
    paper: Mapping[str, float | None],
    rounds: Sequence[int],
) -> None:
    """A group of bars per scheme: each attacked round, and the paper's in grey (it gives IID only)."""
    colours = colours_of(list(paper))
    is_told = partition == "iid" and any(said is not None for said in paper.values())
    for place, (label, said) in enumerate(paper.items()):
        for number, at in enumerate(rounds):
            found = drops[partition, label, at]
            x = place + 0.27 * (number - (1 if is_told else 0.5))
            bar = axes.bar(x, found.mean, 0.25, color=colours[label], yerr=found.half_width or None, capsize=3)
            axes.bar_label(bar, labels=[f"{round(found.mean, 1) + 0.0:.1f}"], fontsize=8, padding=2)  # never -0.0
        if said is not None and is_told:
            bar = axes.bar(place + 0.27, said, 0.25, color=PALE, label="paper" if place == 0 else None)
            axes.bar_label(bar, labels=[f"{said:g}"], fontsize=8, padding=2)
    axes.set_xticks(range(len(paper)), [label.partition(" (")[0] for label in paper], fontsize=8)
    axes.axhline(0, color="#000000", linewidth=0.8)
    axes.margins(y=0.15)
    axes.grid(axis="y", alpha=0.3)
    if is_told:
        axes.legend(loc="upper left", fontsize=8)


def draw_bars(path: Path, title: str, groups: Mapping[str, Mapping[str, Estimate]], label: str) -> None:
    """Horizontal bars, one for every name, a colour for each group; `groups` by group, then by name."""
    plt = pyplot()
    names = list(dict.fromkeys(name for some in groups.values() for name in some))
    colours, high = colours_of(list(groups)), 0.8 / len(groups)
    figure, axes = plt.subplots(figsize=(10, 1.6 + 0.27 * len(names)))
    figure.subplots_adjust(left=0.36, right=0.97, bottom=1.0 / (1.6 + 0.27 * len(names)), top=0.95)
    for number, (group, some) in enumerate(groups.items()):
        places = [names.index(name) + high * (number - (len(groups) - 1) / 2) for name in some]
        widths = [value.half_width for value in some.values()]
        axes.barh(
            places, [value.mean for value in some.values()], high, color=colours[group], label=group,
            xerr=widths if any(widths) else None, capsize=2,
        )  # fmt: skip
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.invert_yaxis()
    axes.axvline(0, color="#000000", linewidth=0.8)
    axes.margins(y=0.01)
    axes.set(xlabel=label, title=title)
    axes.grid(axis="x", alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=130)
    plt.close(figure)
