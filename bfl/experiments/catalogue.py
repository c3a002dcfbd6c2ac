"""Every figure by its name. What a figure needs is loaded when it is made, so that a list of names costs nothing."""

from dataclasses import dataclass
from importlib import import_module

from bfl.errors import BflError
from bfl.experiments.figure import FederatedFigure, Figure

ALL = "all"


@dataclass(frozen=True)
class CatalogueEntry:
    """A figure and the module of this package whose `FIGURES` holds it."""

    name: str
    shows: str
    module: str


ENTRIES = [
    CatalogueEntry("actor-rate", "learning curves, step sizes of the actor", "latency.learning_curves"),
    CatalogueEntry("critic-rate", "learning curves, learning rates of the critic", "latency.learning_curves"),
    CatalogueEntry(
        "action-spaces",
        "learning curves, parameterised against relaxed and discretised actions",
        "latency.learning_curves",
    ),
    CatalogueEntry("schemes", "learning curves, A2C with trust region against its rivals", "latency.learning_curves"),
    CatalogueEntry("devices", "latency against the number of devices", "latency.sweeps"),
    CatalogueEntry("consensus-rounds", "latency against the rounds of consensus", "latency.sweeps"),
    CatalogueEntry("power", "latency against the maximum transmit power", "latency.sweeps"),
    CatalogueEntry("bandwidth", "latency against the bandwidth", "latency.sweeps"),
    CatalogueEntry("hash", "latency against the hash power", "latency.sweeps"),
    CatalogueEntry("accuracy", "accuracy and loss of the schemes", "learning.accuracy"),
    CatalogueEntry(
        "consensus-accuracy", "accuracy and loss with 5, 10 and 15 rounds of consensus", "learning.accuracy"
    ),
    CatalogueEntry("attack", "accuracy under the paper's poisoning attack", "attacks.poisoning"),
    CatalogueEntry("detection", "attacks that break a rule, and what catches them", "attacks.rules_catch"),
    CatalogueEntry("defences", "poisoned gradients that look honest, under every filter", "attacks.defences"),
    CatalogueEntry("convergence", "divergence, consensus error and Corollary 1, measured", "learning.convergence"),
    CatalogueEntry("accuracy-svhn", "accuracy on SVHN", "learning.accuracy"),
    CatalogueEntry("attack-svhn", "the poisoning attack on SVHN", "attacks.poisoning"),
]


def figure_names(wanted: str) -> list[str]:
    """The figures a person asks for; `BflError` names those there are."""
    known = [entry.name for entry in ENTRIES]
    if wanted == ALL:
        return known
    if wanted not in known:
        raise BflError(f"found figure {wanted!r}, expected {ALL} or one of {', '.join(known)}")
    return [wanted]


def find_figure(name: str, dataset: str = "", data_dir: str = "") -> Figure:
    """The figure with this name; one that learns from images perhaps on another data set, or from another folder."""
    entry = next(entry for entry in ENTRIES if entry.name == name)
    figure: Figure = import_module(f"bfl.experiments.{entry.module}").FIGURES[name]
    return figure.on(dataset, data_dir) if isinstance(figure, FederatedFigure) else figure
