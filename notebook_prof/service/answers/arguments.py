"""The arguments of a slice: those of the call or of the launch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from ...trace import Trace
from ...units import format_number

OF_SLICE: Final = frozenset(
    {"device", "stream", "start_unix_ns", "start_ns", "correlation", "name", "kind", "track"}
)
_DEVICE_TABLES: Final = (("device_events", "start_unix_ns"), ("collectives", "start_ns"))
_MOST: Final = 30
_LONGEST: Final = 200


def arguments_of(trace: Trace, row: int) -> list[list[str]]:
    """Return names and values of a slice's arguments, at most 30; empty if its reader kept none."""
    tables = trace.metadata.get("tables") or {}
    info = trace.slices.iloc[row]
    start = int(info["ts"]) + int(trace.metadata.get("start_unix_ns", 0))
    values: dict[str, Any] = {}
    if (events := _frame(tables, "event_arguments")) is not None:
        matches = events[(events["track"] == info["track"]) & (events["start_unix_ns"] == start)]
        matches = matches[
            (matches["dur_ns"] == info["dur"]) & (matches["name"].astype(str) == str(info["name"]))
        ]
        for text in matches["arguments"].head(1):
            values.update(json.loads(text))
    if (kernels := _frame(tables, "fused_kernels")) is not None:
        values |= _fused(kernels[kernels["kernel"].astype(str) == str(info["name"])])
    if not pd.isna(info["device"]) and not pd.isna(info["stream"]):
        for name, when in _DEVICE_TABLES:
            if (table := _frame(tables, name)) is None or when not in table:
                continue
            at = (
                (table["device"] == info["device"])
                & (table["stream"] == info["stream"])
                & (table[when] == start)
            )
            for facts in table[at].head(1).to_dict("records"):
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


def _frame(tables: Any, name: str) -> pd.DataFrame | None:
    table = tables.get(name)
    return table if isinstance(table, pd.DataFrame) and len(table) else None


def _has_value(value: Any) -> bool:
    return isinstance(value, list | dict) or (value is not None and not pd.isna(value))


def _text(value: Any) -> str:
    if isinstance(value, float):
        return format_number(value)
    return (value if isinstance(value, str) else json.dumps(value, default=str))[:_LONGEST]
