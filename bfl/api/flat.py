"""A round as one flat row: what pandas, CSV, TensorBoard and the like take. No lists, no NaN, the same keys always."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

Value = int | float | str | bool | None
Row = dict[str, Value]


def flat_row(line: Mapping[str, Any]) -> Row:
    """A line of metrics.jsonl: lists as their length, latencies as `latency_KIND_TERM`, times as `seconds_PHASE`."""
    row: Row = {}
    for key, value in line.items():
        name = key.replace("-", "_")
        if name == "assignment":  # which server each device offloaded to: its sum is `offloaded`
            continue
        if name == "seconds":
            row |= {f"seconds_{phase}": _plain(seconds) for phase, seconds in value.items()}
            row["seconds"] = sum(value.values())
        elif isinstance(value, Mapping):
            row |= _nested(name, value)
        elif isinstance(value, list):
            row[name] = len(value)
        else:
            row[name] = _plain(value)
    return row


def _nested(name: str, content: Mapping[str, Any]) -> Row:
    row: Row = {}
    for key, value in content.items():
        inner = f"{name}_{key.replace('-', '_')}"
        row |= _nested(inner, value) if isinstance(value, Mapping) else {inner: _plain(value)}
    return row


def _plain(value: Any) -> Value:
    """NaN and infinity are no values: None stands for what there is not."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def same_keys(rows: Iterable[Row]) -> list[Row]:
    """Rows that all have the keys of all, in the order in which they came up first."""
    found = list(rows)
    keys = list(dict.fromkeys(key for row in found for key in row))
    return [{key: row.get(key) for key in keys} for row in found]
