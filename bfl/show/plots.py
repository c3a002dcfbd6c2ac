"""Pictures of a run."""

import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bfl.errors import BflError
from bfl.show.measures import LAST_EVALUATIONS
from clients.partition import Share
from policy.extras import install_command


def plot_curves(metrics: Sequence[dict[str, Any]], folder: Path, title: str) -> list[Path]:
    """accuracy.png and loss.png over the rounds, with what went wrong; the number is that of the summary."""
    evaluated = [line for line in metrics if line["accuracy"] is not None]
    rounds = [line["round"] for line in evaluated]
    accuracy = [100 * line["accuracy"] for line in evaluated]
    losses = [float("nan") if line["loss"] is None else line["loss"] for line in evaluated]
    return [
        _curve(rounds, accuracy, "test accuracy (%)", title, folder / "accuracy.png", metrics),
        _curve(rounds, losses, "test loss", title, folder / "loss.png", metrics),
    ]


def plot_latency(metrics: Sequence[dict[str, Any]], folder: Path, title: str) -> Path | None:
    """latency.png: what each round would have taken, as the paper counts it and as it was (P24), with T, the sum over
    devices, above T_wall, what a clock would show: they differ by an order of magnitude. None without plans.
    """
    kinds = list(metrics[-1]["latency"]) if metrics else []
    if not kinds:
        return None
    plt = pyplot()
    figure, both = plt.subplots(2, 1, figsize=(8, 6.4), sharex=True)
    figure.subplots_adjust(left=0.12, right=0.97, bottom=0.08, top=0.93, hspace=0.16)
    for axes, (term, told) in zip(both, _TOTALS.items(), strict=True):
        for number, kind in enumerate(kinds):
            points = [(line["round"], line["latency"][kind][term]) for line in metrics]
            axes.plot(*zip(*points, strict=True), label=f"{term} ({kind})", color=COLOURS[number], linewidth=1.6)
        _mark(axes, metrics)
        axes.set(ylabel=told, ylim=(0, None))
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    both[0].set_title(title)
    both[1].set_xlabel("round")
    both[1].xaxis.get_major_locator().set_params(integer=True)
    path = folder / "latency.png"
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path


_TOTALS = {"T": "T, all devices (s)", "T_wall": "T_wall, on a clock (s)"}
_RED, _BAND = "#d5360a", "#d55e00"


def _mark(axes: Any, metrics: Sequence[dict[str, Any]]) -> None:
    """An offence is a dashed red line, rounds in which somebody is excluded a tinted band."""
    wrong = [line["round"] for line in metrics if line.get("offences")]
    for number, round_ in enumerate(wrong):
        axes.axvline(round_, color=_RED, linestyle="--", linewidth=1.1, label=None if number else "offence")
    shut = [line["round"] + 1 for line in metrics if line.get("excluded")]  # `excluded` is for the next round
    for number, round_ in enumerate(shut):
        axes.axvspan(round_ - 0.5, round_ + 0.5, color=_BAND, alpha=0.08, lw=0, label=None if number else "excluded")


def _curve(
    x: Sequence[int], y: Sequence[float], label: str, title: str, path: Path, metrics: Sequence[dict[str, Any]]
) -> Path:
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(7, 4.2))
    figure.subplots_adjust(left=0.12, right=0.97, bottom=0.12, top=0.92)  # a layout engine would draw everything twice
    axes.plot(x, y, color="#1f5fa8", linewidth=1.6, marker="o" if len(x) < 25 else None, markersize=3.5)
    last = [value for value in y[-LAST_EVALUATIONS:] if not np.isnan(value)]
    if last:
        told = f"{np.mean(last):.4g}" + (f" (mean of the last {len(last)})" if len(last) > 1 else "")
        rises = y[-1] >= y[0]  # the corner that the line leaves free: a mean is no label of its last point
        axes.annotate(
            told, (0.98, 0.04 if rises else 0.94), xycoords="axes fraction", ha="right", va="center", fontsize=9
        )
    _mark(axes, metrics)
    if any(line.get("offences") or line.get("excluded") for line in metrics):
        axes.legend(fontsize=8)
    axes.margins(y=0.14)
    axes.set(xlabel="round", ylabel=label, title=title)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path


COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999933", "#882255", "#44aa99")
"""Told apart also by the colour-blind (Okabe-Ito, Tol)"""


def plot_lines(
    lines: Mapping[str, Sequence[tuple[float, float]]], x: str, y: str, title: str, path: Path, dashed: str = ""
) -> Path:
    """Several named lines of (x, y) on one picture; the one called `dashed` is drawn so."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(8, 4.8))
    figure.subplots_adjust(left=0.09, right=0.97, bottom=0.12, top=0.92)
    for number, (name, points) in enumerate(lines.items()):
        xs, ys = zip(*points, strict=True) if points else ((), ())
        style = "--" if name == dashed else "-"
        marker = "o" if len(points) < 12 else None
        colour = COLOURS[number % len(COLOURS)]
        axes.plot(xs, ys, style, label=name, color=colour, linewidth=1.6, marker=marker, markersize=4)
    axes.set(xlabel=x, ylabel=y, title=title)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path


@dataclass(frozen=True)
class Banded:
    """A line of means, and between which values it lies, by x; no band where there is one run."""

    name: str
    points: Sequence[tuple[float, float | None]]
    spread: Sequence[tuple[float, float, float]] = ()


_DASHES = ("-", "--", "-.", ":")
_LEGEND_WIDTH, _LEGEND_ROOM = 36, 2.6
"""In letters, and in inches beside the axes"""


def plot_banded(lines: Sequence[Banded], x: str, y: str, title: str, path: Path) -> Path:
    """Means with their bands on one picture. Lines that are one upon the other are drawn once, under all their names;
    those that are nearly so are told apart by their dashes.
    """
    plt = pyplot()
    drawn = _without_doubles(lines)
    names = [
        "\n= ".join(textwrap.fill(name, _LEGEND_WIDTH, subsequent_indent="   ") for name in same) for same in drawn
    ]
    height = max(4.6, 1.0 + 0.19 * sum(name.count("\n") + 1.4 for name in names))
    figure, axes = plt.subplots(figsize=(7.4 + _LEGEND_ROOM, height))
    figure.subplots_adjust(left=0.07, right=7.2 / (7.4 + _LEGEND_ROOM), bottom=0.5 / height, top=1 - 0.4 / height)
    for number, (name, line) in enumerate(zip(names, drawn.values(), strict=True)):
        colour, dash = COLOURS[number % len(COLOURS)], _DASHES[number % len(_DASHES)]
        marker = "o" if len(line.points) == 1 else None
        axes.plot(*zip(*line.points, strict=True), dash, label=name, color=colour, linewidth=1.8, marker=marker)
        if line.spread:
            xs, low, high = zip(*line.spread, strict=True)
            axes.fill_between(xs, low, high, color=colour, alpha=0.12, linewidth=0)
    axes.set(xlabel=x, ylabel=y)
    axes.set_title(title, fontsize=10, loc="left")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, handlelength=3.2)
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path


def _without_doubles(lines: Sequence[Banded]) -> dict[tuple[str, ...], Banded]:
    """By the names of all that are the same."""
    same: dict[tuple[object, ...], list[Banded]] = {}
    for line in lines:
        same.setdefault((*line.points, *line.spread), []).append(line)
    return {tuple(each.name for each in those): those[0] for those in same.values()}


def plot_partition(shares: Sequence[Share], labels: NDArray[np.int64], classes: int, path: Path, title: str) -> Path:
    """How many samples of each label each device holds, as a picture of devices x labels."""
    plt = pyplot()
    counts = np.stack([np.bincount(labels[share], minlength=classes) for share in shares])
    height = min(12.0, 1.6 + 0.28 * len(shares))
    width = max(4.0, 1.8 + 0.55 * classes)
    figure, axes = plt.subplots(figsize=(width, height), layout="constrained")
    picture = axes.imshow(counts, aspect="auto", cmap="Blues", interpolation="nearest", vmin=0)
    axes.set(xlabel="label", ylabel="device", xticks=range(classes))
    figure.suptitle(textwrap.fill(title, int(8 * width)), fontsize=12)
    if len(shares) <= 30:
        axes.set_yticks(range(len(shares)))
        for (device, label), count in np.ndenumerate(counts):
            dark = count > 0.6 * counts.max()
            axes.text(label, device, count or "", ha="center", va="center", fontsize=7, color="w" if dark else "k")
    figure.colorbar(picture, label="samples")
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path


def can_plot() -> bool:
    """Whether matplotlib is installed (extra `simulation`)."""
    try:
        pyplot()
    except BflError:
        return False
    return True


def pyplot() -> Any:
    """matplotlib without a display; `BflError` says how to get it."""
    try:
        import matplotlib
    except ModuleNotFoundError as error:
        raise BflError(f"matplotlib is not installed; get it with: {install_command('simulation')}") from error
    if "MPLBACKEND" not in os.environ and "matplotlib.pyplot" not in sys.modules:
        matplotlib.use("Agg")  # a notebook or a program that has chosen how to show pictures keeps its choice
    import matplotlib.pyplot as plt

    return plt
