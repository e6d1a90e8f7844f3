"""The arguments of a slice: those of the call or of the launch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from ...analysis.scope import recorded_table
from ...trace import Trace
from ...trace.event_tables import ARGUMENTS, DEVICE_TABLES, event_table
from ...units import format_number

OF_SLICE: Final = frozenset(
    {"device", "stream", "start_unix_ns", "start_ns", "correlation", "name", "kind", "track"}
)
_MOST: Final = 30
_LONGEST: Final = 200


def arguments_of(trace: Trace, row: int) -> list[list[str]]:
    """Return names and values of a slice's arguments, at most 30; empty if its reader kept none."""
    info = trace.slices.iloc[row]
    start = int(info["ts"]) + int(trace.metadata.get("start_unix_ns", 0))
    values: dict[str, Any] = {}
    if (events := event_table(trace, ARGUMENTS)) is not None:
        near = events[(events["track"] == info["track"]) & (events["start_unix_ns"] == start)]
        near = near[(near["dur_ns"] == info["dur"]) & (near["name"].astype(str) == str(info["name"]))]
        for text in near["arguments"].head(1):
            values.update(json.loads(text))
    if (kernels := recorded_table(trace, "fused_kernels")) is not None:
        values |= _fused(kernels[kernels["kernel"].astype(str) == str(info["name"])])
    if not pd.isna(info["device"]) and not pd.isna(info["stream"]):
        for name, when in DEVICE_TABLES.items():
            if (table := event_table(trace, name)) is None:
                continue
            here = (table["device"] == info["device"]) & (table["stream"] == info["stream"])
            for facts in table[here & (table[when] == start)].head(1).to_dict("records"):
                values.update({str(key): value for key, value in facts.items() if key not in OF_SLICE})
    return pairs(values)


def _fused(rows: pd.DataFrame) -> dict[str, Any]:
    """Return the operators and the user's lines from which a compiled kernel was made."""
    if not len(rows):
        return {}
    distinct = rows[rows["line"] > 0].drop_duplicates(["file", "line"])
    columns = (distinct[name].tolist() for name in ("file", "line", "text"))
    lines = "; ".join(f"{file}:{line}  {text}" for file, line, text in zip(*columns, strict=True))
    return {"fused operators": str(rows["operators"].iloc[0]), "fused lines": lines or None}


def pairs(values: Mapping[str, Any]) -> list[list[str]]:
    """Return names and values as text, at most 30."""
    return [[name, _text(value)] for name, value in values.items() if _has_value(value)][:_MOST]


def _has_value(value: Any) -> bool:
    return isinstance(value, list | dict) or (value is not None and not pd.isna(value))


def _text(value: Any) -> str:
    if isinstance(value, float):
        return format_number(value)
    return (value if isinstance(value, str) else json.dumps(value, default=str))[:_LONGEST]
