"""A comparison as text, for terminals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from ..units import format_ns
from .parts import MISSING
from .tables import ComparedTables
from .verdict import name_of, sentences, signed_ns

_ROWS = 8


def comparison_text(c: ComparedTables, rows: int = _ROWS) -> str:
    """Return the verdict, the phases, and the most different lines and operators (`rows` of each, and a
    rest).
    """
    parts = [" ".join(sentences(c))]
    tables = {"Phases": c.phases, "Lines": c.lines, "Operators": c.operators, "Kernels": c.kernels}
    for title, table in tables.items():
        if title == "Lines" and not (table["file"] != "").any():
            continue
        if len(table):
            parts.append("\n".join([f"\n{title}", *_rows(c, table, rows)]))
    return "\n".join(parts)


def _rows(c: ComparedTables, table: pd.DataFrame, most: int) -> list[str]:
    lines = [f"{'Δ a step':>12}  {'a':>9}  {'b':>9}  {'':10}"]
    for row in table.head(most).to_dict("records"):
        sure = "  " if row["significant"] else "≈ "
        change = "" if row["change"] == "same" else str(row["change"]).replace("-", " ")
        times = f"{format_ns(float(row['a_ns'])):>9}  {format_ns(float(row['b_ns'])):>9}"
        lines.append(
            f"{sure + signed_ns(float(row['delta_ns'])):>12}  {times}  {change:10} {label(row, c.labels)}"
        )
    if len(others := table.iloc[most:]):
        times = f"{format_ns(float(others['a_ns'].sum())):>9}  {format_ns(float(others['b_ns'].sum())):>9}"
        lines.append(f"{signed_ns(float(others['delta_ns'].sum())):>12}  {times}  {'':10} {len(others)} more")
    return lines


def label(row: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """Return the name of a row, with its phase if it has one."""
    if "name" not in row and "phase" in row:
        return str(row["phase"])
    phase = row.get("phase", MISSING["phase"])
    text = name_of(row, labels)
    return text if phase == MISSING["phase"] else f"{phase}: {text}"
