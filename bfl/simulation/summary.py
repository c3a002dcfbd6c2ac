"""The numbers of a run, from its metrics."""

from typing import TYPE_CHECKING, Any

import numpy as np

from bfl.show.measures import LAST_EVALUATIONS
from bfl.simulation.learned import why_nothing_learned

if TYPE_CHECKING:
    from bfl.simulation.run import Simulation


def summarise(
    simulation: "Simulation", metrics: list[dict[str, Any]], status: str, wall_s: float, stopped_by: str = ""
) -> dict[str, Any]:
    """The numbers of a run. Accuracy and loss are means of the last five evaluations."""
    settings = simulation.settings
    evaluated = [line for line in metrics if line["accuracy"] is not None][-LAST_EVALUATIONS:]
    losses = [line["loss"] for line in evaluated if line["loss"] is not None]
    timed = [line["seconds"] for line in metrics if line["seconds"]]
    training = [sum(s for phase, s in seconds.items() if phase != "evaluate") for seconds in timed]
    return {
        "status": status,
        **({"stopped-by": stopped_by} if status == "stopped" else {}),
        "problem": why_nothing_learned(metrics, simulation.dataset.classes) if status == "finished" else "",
        "scheme": settings.rounds.scheme,
        "seed": settings.data.seed,
        "rounds": len(metrics),
        "rounds-planned": settings.rounds.rounds,
        "accuracy": float(np.mean([line["accuracy"] for line in evaluated])) if evaluated else None,
        "loss": float(np.mean(losses)) if losses else None,
        "wall-seconds": round(wall_s, 3),
        "seconds-per-round": round(float(np.median(training)), 4) if training else None,
        "dataset": simulation.dataset.name,
        "data-source": simulation.dataset.source,
        "partition": settings.data.partition,
        "devices": settings.data.devices,
        "edges": settings.rounds.edges,
        "parameters": sum(p.numel() for p in simulation.network.parameters()),
        "refused": sum(len(line["refused"]) for line in metrics),
        "planner": settings.rounds.planner,
        "offloaded": _mean([line["offloaded"] for line in metrics]),
        "latency": _mean_latency(metrics),
        "offences": sum(len(line["offences"]) for line in metrics),
        "absent": sum(len(line.get("absent", [])) for line in metrics),
        "blocks": len([line for line in metrics if line["block"]]),
        "head": metrics[-1]["block"] if metrics else "",
        "environment": simulation.environment,
    }


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _mean_latency(metrics: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Mean T and T_wall over the rounds, as the paper counts and as the round really was (P24)."""
    kinds = metrics[-1]["latency"] if metrics else {}
    return {
        kind: {term: float(np.mean([line["latency"][kind][term] for line in metrics])) for term in ("T", "T_wall")}
        for kind in kinds
    }
