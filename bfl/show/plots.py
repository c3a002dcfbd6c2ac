"""Pictures of a run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bfl.errors import BflError
from clients.partition import Share


def plot_curves(metrics: Sequence[dict[str, Any]], folder: Path, title: str) -> list[Path]:
    """accuracy.png and loss.png over the rounds."""
    evaluated = [line for line in metrics if line["accuracy"] is not None]
    rounds = [line["round"] for line in evaluated]
    accuracy = [100 * line["accuracy"] for line in evaluated]
    losses = [float("nan") if line["loss"] is None else line["loss"] for line in evaluated]
    return [
        _curve(rounds, accuracy, "test accuracy (%)", title, folder / "accuracy.png"),
        _curve(rounds, losses, "test loss", title, folder / "loss.png"),
    ]


def plot_latency(metrics: Sequence[dict[str, Any]], folder: Path, title: str) -> Path | None:
    """latency.png: what each round would have taken, as the paper counts it and as it was (P24); None without plans."""
    kinds = list(metrics[-1]["latency"]) if metrics else []
    if not kinds:
        return None
    lines = {
        f"{term} ({kind})": [(line["round"], line["latency"][kind][term]) for line in metrics]
        for term in ("T", "T_wall")
        for kind in kinds
    }
    return plot_lines(lines, "round", "simulated seconds", title, folder / "latency.png")


def _curve(x: Sequence[int], y: Sequence[float], label: str, title: str, path: Path) -> Path:
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(7, 4.2))
    figure.subplots_adjust(left=0.1, right=0.97, bottom=0.12, top=0.92)  # a layout engine would draw everything twice
    axes.plot(x, y, color="#1f5fa8", linewidth=1.6, marker="o" if len(x) < 25 else None, markersize=3.5)
    if len(y):
        axes.annotate(f"{y[-1]:.4g}", (x[-1], y[-1]), xytext=(0, 6), textcoords="offset points", ha="right", fontsize=9)
    axes.margins(y=0.12)
    axes.set(xlabel="round", ylabel=label, title=title)
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


def plot_partition(shares: Sequence[Share], labels: NDArray[np.int64], classes: int, path: Path, title: str) -> Path:
    """How many images of each label each device holds, as a picture of devices x labels."""
    plt = pyplot()
    counts = np.stack([np.bincount(labels[share], minlength=classes) for share in shares])
    height = min(12.0, 1.6 + 0.28 * len(shares))
    figure, axes = plt.subplots(figsize=(1.8 + 0.55 * classes, height), layout="constrained")
    picture = axes.imshow(counts, aspect="auto", cmap="Blues", interpolation="nearest", vmin=0)
    axes.set(xlabel="label", ylabel="device", title=title, xticks=range(classes))
    if len(shares) <= 30:
        axes.set_yticks(range(len(shares)))
        for (device, label), count in np.ndenumerate(counts):
            dark = count > 0.6 * counts.max()
            axes.text(label, device, count or "", ha="center", va="center", fontsize=7, color="w" if dark else "k")
    figure.colorbar(picture, label="images")
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
        raise BflError("matplotlib is not installed; get it with: pip install 'bfl[simulation]'") from error
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt
