"""What a figure is, whatever it shows: it measures and hands over rows, a table, verdicts and a picture."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from bfl.experiments.context import ExperimentContext

if TYPE_CHECKING:
    from bfl.experiments.estimate import Estimate


@dataclass(frozen=True)
class AgentPoint:
    """A line of the CSV file: one point of one agent."""

    agent: str
    quantity: str
    x: float
    value: "Estimate"


@dataclass(frozen=True)
class ClaimVerdict:
    """What the paper claims beside what we measured."""

    claim: str
    measured: str
    verdict: str


@dataclass(frozen=True)
class TextTable:
    """The measurements as a person reads them."""

    header: list[str]
    lines: list[list[str]]


@dataclass(frozen=True)
class FigureResult:
    """A figure that has been measured."""

    name: str
    title: str
    rows: list[AgentPoint]
    table: TextTable
    verdicts: list[ClaimVerdict]
    notes: list[str]
    draw: Callable[[Path], None]
    csv: TextTable | None = None
    """In place of `rows`, for what is not seconds of an agent"""
    spent: str = ""
    """What was run, where it was no training of agents"""


class Figure(Protocol):
    """One of the paper's figures."""

    def check(self) -> None:
        """Raise before anything is trained if something that will be needed is missing."""

    def measure(self, context: ExperimentContext) -> FigureResult:
        """Measure what has not been measured yet."""


@runtime_checkable
class FederatedFigure(Protocol):
    """A figure of federated runs."""

    def on(self, dataset: str, data_dir: str) -> Figure:
        """The same figure on another data set, or with its files in a folder; empty leaves its own."""
