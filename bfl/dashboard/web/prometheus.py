"""/metrics in Prometheus' text format, and a Grafana dashboard made from the same list."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from bfl.dashboard.facts import TERMS, Snapshot, Status
from bfl.dashboard.index.dashboard import Dashboard
from bfl.dashboard.index.figures import KeyFigures, key_figures
from bfl.dashboard.web.columns import SUMS

Sample = tuple[Mapping[str, str], float | int | None]
"""(labels, value); a value that nobody knows is left out"""
_STATUSES: tuple[Status, ...] = (
    "waiting", "running", "finished", "interrupted", "paused", "unreachable", "diverged",
)  # fmt: skip
_NONE: Mapping[str, str] = {}


@dataclass(frozen=True)
class Metric:
    """What Prometheus collects, and how Grafana shows it."""

    name: str
    kind: str
    """gauge or counter."""
    help: str
    samples: Callable[[Snapshot, KeyFigures], Iterable[Sample]]
    unit: str = "short"
    """As Grafana calls it."""
    labels: tuple[str, ...] = ()
    """For the legend."""


def _one(value: Callable[[Snapshot, KeyFigures], float | int | None]) -> Callable[[Snapshot, KeyFigures], list[Sample]]:
    return lambda snapshot, figures: [(_NONE, value(snapshot, figures))]


def _latency(snapshot: Snapshot, _: KeyFigures) -> Iterable[Sample]:
    if snapshot.rounds:
        last = snapshot.rounds[-1]
        kinds = {**last.latency, "measured": last.measured}
        for kind, terms in kinds.items():
            yield from (({"kind": kind, "term": term}, terms.get(term)) for term in (*TERMS, *SUMS))


def _phases(snapshot: Snapshot, _: KeyFigures) -> Iterable[Sample]:
    if snapshot.rounds:
        yield from (({"phase": name}, each) for name, each in snapshot.rounds[-1].seconds.items())


def _machines(name: str) -> Callable[[Snapshot, KeyFigures], list[Sample]]:
    return lambda snapshot, _: [({"machine": each.name}, getattr(each, name)) for each in snapshot.machines]


def _seen(snapshot: Snapshot, _: KeyFigures) -> Iterable[Sample]:
    return [({"machine": each.name}, each.last_seen_s) for each in snapshot.machines]


METRICS = (
    Metric("bfl_up", "gauge", "Whether the source can be read.", _one(lambda s, _: int(s.status != "unreachable"))),
    Metric(
        "bfl_status",
        "gauge",
        "1 for the status that holds.",
        lambda s, _: [({"status": each}, int(s.status == each)) for each in _STATUSES],
        labels=("status",),
    ),
    Metric("bfl_round", "gauge", "The last finished round.", _one(lambda s, _: len(s.rounds))),
    Metric("bfl_rounds_planned", "gauge", "Rounds that were asked for.", _one(lambda s, _: s.about.rounds_planned)),
    Metric(
        "bfl_accuracy_ratio",
        "gauge",
        "Test accuracy of the last evaluated round.",
        _one(lambda _, f: f.accuracy),
        "percentunit",
    ),
    Metric(
        "bfl_loss", "gauge", "Test loss of the last round.", _one(lambda s, _: s.rounds[-1].loss if s.rounds else None)
    ),
    Metric(
        "bfl_latency_seconds",
        "gauge",
        "Latency of the last round by term: paper and real are simulated.",
        _latency,
        "s",
        ("kind", "term"),
    ),
    Metric("bfl_phase_seconds", "gauge", "Wall time of the last round by phase.", _phases, "s", ("phase",)),
    Metric(
        "bfl_offloading_devices", "gauge", "Devices that offload in the last round.", _one(lambda _, f: f.offloading)
    ),
    Metric(
        "bfl_training_nodes",
        "gauge",
        "Gradients that counted in the last round.",
        _one(lambda s, _: s.rounds[-1].training_nodes if s.rounds else None),
    ),
    Metric("bfl_offences_total", "counter", "Offences that were found.", _one(lambda _, f: f.offences)),
    Metric("bfl_refused_gradients_total", "counter", "Gradients that did not count.", _one(lambda _, f: f.refused)),
    Metric(
        "bfl_excluded_servers",
        "gauge",
        "Servers that may not post in the next round.",
        _one(lambda s, _: len(s.rounds[-1].excluded) if s.rounds else 0),
    ),
    Metric(
        "bfl_devices_set_aside",
        "gauge",
        "Devices that took no part in the last round, because the filter took them out too often.",
        _one(lambda s, _: len(s.rounds[-1].aside) if s.rounds else 0),
    ),
    Metric("bfl_block_number", "gauge", "Number of the head.", _one(lambda _, f: f.block_number)),
    Metric(
        "bfl_final_block_number",
        "gauge",
        "Number of the last final block.",
        _one(lambda s, _: max((each.number for each in s.blocks[-64:] if each.is_final), default=None)),
    ),
    Metric(
        "bfl_block_bytes",
        "gauge",
        "Size of the last block with its payloads.",
        _one(lambda _, f: f.block_bytes),
        "bytes",
    ),
    Metric(
        "bfl_chain_bytes", "gauge", "Size of all blocks with their payloads.", _one(lambda _, f: f.total_bytes), "bytes"
    ),
    Metric(
        "bfl_reorganisations_total",
        "counter",
        "How often shown blocks were replaced.",
        _one(lambda s, _: s.reorganised),
    ),
    Metric("bfl_machine_well", "gauge", "Whether a machine is well.", _machines("is_well"), labels=("machine",)),
    Metric("bfl_machine_head", "gauge", "Head of a machine's node.", _machines("head"), labels=("machine",)),
    Metric(
        "bfl_machine_pool", "gauge", "Posts in the pool of a machine's node.", _machines("pool"), labels=("machine",)
    ),
    Metric(
        "bfl_machine_skew_seconds", "gauge", "By how much this clock is ahead.", _machines("skew_s"), "s", ("machine",)
    ),
    Metric(
        "bfl_machine_last_seen_timestamp_seconds",
        "gauge",
        "When a machine last answered.",
        _seen,
        "dateTimeAsIso",
        ("machine",),
    ),
)


def prometheus_routes(dashboards: Mapping[str, Dashboard]) -> list[Route]:
    """/metrics of all that is shown, and /grafana.json."""

    def metrics(_: Request) -> Response:
        shown = [dashboard.snapshot for dashboard in dashboards.values()]
        return PlainTextResponse(exposition(shown), media_type="text/plain; version=0.0.4")

    def grafana(_: Request) -> Response:
        headers = {"content-disposition": 'attachment; filename="bfl-grafana.json"'}
        return JSONResponse(grafana_dashboard(), headers=headers)

    return [Route("/metrics", metrics), Route("/grafana.json", grafana)]


def exposition(snapshots: Iterable[Snapshot]) -> str:
    """All metrics of all runs."""
    shown = [(snapshot, key_figures(snapshot)) for snapshot in snapshots]
    lines: list[str] = []
    for metric in METRICS:
        lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
        for snapshot, figures in shown:
            run = {"run": snapshot.about.name, "scheme": snapshot.about.scheme}
            samples = metric.samples(snapshot, figures)
            lines += [_line(metric.name, {**run, **labels}, value) for labels, value in samples if value is not None]
    return "\n".join(lines) + "\n"


def _line(name: str, labels: Mapping[str, str], value: float | int) -> str:
    told = ",".join(f'{label}="{_escaped(each)}"' for label, each in labels.items())
    return f"{name}{{{told}}} {float(value):.15g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


# --- Grafana

_WIDTH, _HEIGHT, _PER_ROW = 8, 8, 3


def grafana_dashboard() -> dict[str, Any]:
    """One panel per metric, for Grafana 10 and later; the data source is asked for when it is imported."""
    return {
        "__inputs": [
            {"name": "DS_PROMETHEUS", "label": "Prometheus", "type": "datasource", "pluginId": "prometheus"}
        ],
        "title": "bfl",
        "uid": "bfl",
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_run_variable()]},
        "panels": [_panel(number, metric) for number, metric in enumerate(METRICS)],
    }  # fmt: skip


def _run_variable() -> dict[str, Any]:
    query = "label_values(bfl_up, run)"
    return {
        "name": "run", "type": "query", "datasource": _source(), "query": query, "refresh": 2, "includeAll": True,
        "multi": True,
    }  # fmt: skip


def _source() -> dict[str, str]:
    return {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}


def _panel(number: int, metric: Metric) -> dict[str, Any]:
    legend = " ".join(f"{{{{{label}}}}}" for label in ("run", *metric.labels))
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": metric.help.rstrip("."),
        "datasource": _source(),
        "gridPos": {
            "x": number % _PER_ROW * _WIDTH, "y": number // _PER_ROW * _HEIGHT, "w": _WIDTH, "h": _HEIGHT,
        },
        "fieldConfig": {"defaults": {"unit": metric.unit}, "overrides": []},
        "targets": [{"refId": "A", "expr": f'{metric.name}{{run=~"$run"}}', "legendFormat": legend}],
    }  # fmt: skip
