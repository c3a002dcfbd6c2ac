"""Pictures of figures, in colours that colour-blind people can tell apart (Okabe and Ito)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bfl.experiments.estimate import Estimate
from bfl.experiments.latency.learning_claims import MeanLearningCurve
from bfl.experiments.latency.sweep_claims import RANDOM, SweepResult
from bfl.show.plots import COLOURS, pyplot
from policy.agents import OPTIMUM, OURS

BLACK, GREY = "#000000", "#888888"
PALETTE = COLOURS[:6]
MARKERS = ["o", "s", "^", "v", "D", "P"]
PLACES = ("a2c", "ddpg", "a2c-vanilla", "actor-critic", "dqn", "threshold")
"""Agents that look the same in every figure"""
ALIKE = {"a2c-relaxed": "ddpg", "a2c-discretised": "dqn", "a2c-paper": "threshold"}
"""Never in one figure with those whose looks they have"""


def colour_and_marker(name: str, index: int) -> tuple[str, str]:
    """Colour and marker of an agent, or of the line with this index."""
    known = ALIKE.get(name, name)
    place = PLACES.index(known) if known in PLACES else index % len(PALETTE)
    return PALETTE[place], MARKERS[place]


def draw_curves(path: Path, title: str, runs: Sequence[MeanLearningCurve]) -> None:
    """T/N while learning over the rounds that were played; logarithmic where some need many more than others."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(8.5, 4.8))
    figure.subplots_adjust(left=0.08, right=0.7, bottom=0.12, top=0.92)
    for index, run in enumerate(runs):
        colour, marker = colour_and_marker(run.label, index)
        label = f"{run.label}: {run.final.mean:.2f} s"
        axes.plot(
            run.rounds,
            run.mean_s,
            color=colour,
            linewidth=1.6,
            marker=marker,
            markevery=[-1],
            markersize=6,
            label=label,
        )
        axes.fill_between(run.rounds, run.low_s, run.high_s, color=colour, alpha=0.2, linewidth=0)
    if len({run.rounds[-1] for run in runs}) > 1:
        axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    axes.set(xlabel="rounds of the environment", ylabel="T/N while learning (s)", title=title)
    axes.grid(alpha=0.3)
    figure.legend(title="T/N of the decisions\nat the end (N = 30)", loc="center left", bbox_to_anchor=(0.71, 0.5))
    figure.savefig(path, dpi=130)
    plt.close(figure)


def draw_sweep(path: Path, title: str, axis: str, sweep: SweepResult) -> None:
    """Left all agents; right T where the number of devices changes, else the same without random decisions."""
    plt = pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 4.8))
    figure.subplots_adjust(left=0.06, right=0.86, bottom=0.12, top=0.88, wspace=0.2)
    figure.suptitle(title)
    _draw_lines(left, sweep.xs, sweep.series)
    left.set(xlabel=axis, ylabel="T/N (s)", title="latency per device T/N", ylim=(0, None))
    if len(set(sweep.devices)) > 1:
        _draw_lines(right, sweep.xs, sweep.totals)
        right.set(xlabel=axis, ylabel="T (s)", title="system latency T")
    else:
        _draw_lines(right, sweep.xs, {name: line for name, line in sweep.series.items() if name != RANDOM})
        right.set(xlabel=axis, ylabel="T/N (s)", title="without random decisions")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="center right")
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _draw_lines(axes: Any, xs: Sequence[float], series: Any) -> None:
    for index, (name, line) in enumerate(series.items()):
        points: Sequence[Estimate] = line
        colour, marker = colour_and_marker(name, index)
        axes.errorbar(
            xs,
            [point.mean for point in points],
            yerr=[point.half_width for point in points],
            label=f"{name} (ours)" if name == OURS else name,
            color={OPTIMUM: BLACK, RANDOM: GREY}.get(name, colour),
            linestyle="--" if name == OPTIMUM else "-",
            marker={OPTIMUM: None, RANDOM: "x"}.get(name, marker),
            markersize=5,
            linewidth=2.2 if name == OURS else 1.4,
            capsize=3,
            zorder=3 if name == OURS else 2,
        )
    axes.set_xticks(xs)
    axes.grid(alpha=0.3)
