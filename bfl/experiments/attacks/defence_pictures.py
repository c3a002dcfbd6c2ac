"""The picture of all filters under all attacks: a table of coloured cells, IID above non-IID."""

from collections.abc import Sequence
from pathlib import Path

from bfl.experiments.attacks.defence_claims import Table
from bfl.experiments.learning.curves import PARTITIONS
from bfl.show.plots import pyplot

_MOST = 20.0
"""Points at which the colour is darkest"""


def draw_table(path: Path, title: str, table: Table, filters: Sequence[str], default: str) -> None:
    """Points lost, by filter and attack; the colour says it from afar, the number exactly."""
    plt = pyplot()
    attacks = list(next(iter(table.values())))
    height = 2.2 + 2 * (0.33 * len(filters) + 0.5)
    figure, both = plt.subplots(2, 1, figsize=(11.5, height), sharex=True)
    figure.subplots_adjust(left=0.23, right=0.98, bottom=0.06, top=1 - 1.35 / height, hspace=0.16)
    figure.suptitle(title, fontsize=12)
    for axes, (partition, shown) in zip(both, PARTITIONS.items(), strict=True):
        rows = [[table[partition, name][attack].mean for attack in attacks] for name in filters]
        axes.imshow([[min(max(value, 0.0), _MOST) for value in row] for row in rows], cmap="cividis_r", vmin=0,
                    vmax=_MOST, aspect="auto")  # fmt: skip
        for y, row in enumerate(rows):
            for x, value in enumerate(row):
                told = f"{round(value, 1) + 0.0:.1f}"  # never -0.0
                axes.text(x, y, told, ha="center", va="center", fontsize=9, color="white" if value > 11 else "black")
        axes.set_yticks(range(len(filters)), [f"{name}" for name in filters], fontsize=9)
        axes.get_yticklabels()[list(filters).index(default)].set_fontweight("bold")
        axes.set_ylabel(shown, fontsize=11)
        axes.axvline(0.5, color="white", linewidth=4)  # what a filter costs is another thing than what it stops
        axes.tick_params(length=0)
    both[0].xaxis.tick_top()
    names = ["no attack:\ncost of filter", *(attack.replace(" ", "\n", 1) for attack in attacks[1:])]
    both[0].set_xticks(range(len(attacks)), names, fontsize=9)
    both[0].tick_params(labeltop=True, labelbottom=False)
    both[1].tick_params(labeltop=False, labelbottom=False)
    figure.text(
        0.98, 0.015, "Points of accuracy lost against the run in which the attackers stay away. Bold: the default.",
        ha="right", fontsize=9,
    )  # fmt: skip
    figure.savefig(path, dpi=130)
    plt.close(figure)
