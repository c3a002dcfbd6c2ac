"""Every figure by its name. What a figure needs is loaded when it is made, so that a list of names costs nothing."""

from dataclasses import dataclass
from importlib import import_module

from bfl.errors import BflError
from bfl.experiments.figure import Figure, LearnsFromImages

ALL = "all"


@dataclass(frozen=True)
class Entry:
    """A figure and the module of this package whose `FIGURES` holds it."""

    name: str
    shows: str
    module: str


ENTRIES = [
    Entry("actor-rate", "learning curves, step sizes of the actor", "races"),
    Entry("critic-rate", "learning curves, learning rates of the critic", "races"),
    Entry("action-spaces", "learning curves, parameterised against relaxed and discretised actions", "races"),
    Entry("schemes", "learning curves, A2C with trust region against its rivals", "races"),
    Entry("devices", "latency against the number of devices", "sweeps"),
    Entry("consensus-rounds", "latency against the rounds of consensus", "sweeps"),
    Entry("power", "latency against the maximum transmit power", "sweeps"),
    Entry("bandwidth", "latency against the bandwidth", "sweeps"),
    Entry("hash", "latency against the hash power", "sweeps"),
    Entry("accuracy", "accuracy and loss of the schemes", "accuracy"),
    Entry("consensus-accuracy", "accuracy and loss with 5, 10 and 15 rounds of consensus", "accuracy"),
    Entry("attack", "accuracy under the paper's poisoning attack", "poisoning"),
    Entry("defences", "every other attack, and what catches it", "defences"),
    Entry("convergence", "divergence, consensus error and Corollary 1, measured", "convergence"),
    Entry("accuracy-svhn", "accuracy on SVHN", "accuracy"),
    Entry("attack-svhn", "the poisoning attack on SVHN", "poisoning"),
]


def names_of(wanted: str) -> list[str]:
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
    return figure.on(dataset, data_dir) if isinstance(figure, LearnsFromImages) else figure
