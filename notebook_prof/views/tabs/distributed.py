"""The distributed tab: communication, hidden and exposed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from ... import analysis
from ...selection import filtered
from ...trace import Trace
from ...units import format_count, format_ns, format_share
from .. import figures
from .analyses import followed, selection_of, without_collectives
from .base import Absent, Fact, Facts, Panel, Part, Tab, Table, pictures

_SHOWN = ("operation", "name", "group", "group_size", "bytes", "dtype", "ts", "dur", "step")


def distributed(trace: Trace, state: Mapping[str, Any]) -> Panel | Absent:
    """Show `analysis.distributed` by step with its picture, and the collectives."""
    calls, table = filtered(analysis.collectives, trace, state), filtered(analysis.distributed, trace, state)
    if not len(calls) and not int(table["communication_ns"].sum()):
        return Absent(without_collectives(trace) or "There is no communication in the selection.")
    parts: list[Part] = [
        _facts(calls, table),
        *pictures(figures.distributed_figure(trace, selection_of(state))),
    ]
    if len(table):
        select = [None if pd.isna(number) else {"step": int(number)} for number in table["step"].tolist()]
        units = {"step": "text", "device": "text"}
        parts.append(Table(table, units, select=select, title="By step and device", call="p.distributed()",
                           of=analysis.distributed))  # fmt: skip
    if len(calls):
        by = calls.groupby(["operation", "dtype"], dropna=False, sort=False)
        sums = by.agg(
            count=("dur", "size"), total_ns=("dur", "sum"), mean_ns=("dur", "mean"), bytes=("bytes", "sum")
        )
        parts.append(Table(sums.sort_values("total_ns", ascending=False).reset_index(), title="By operation"))
        parts.append(_calls(calls))
    return Panel("Distributed", tuple(parts), (*followed(analysis.distributed), "name"))


def _facts(calls: pd.DataFrame, table: pd.DataFrame) -> Facts:
    spent, exposed = int(table["communication_ns"].sum()), int(table["exposed_ns"].sum())
    span = int(table["span_ns"].sum())
    facts = [
        Fact("collectives", format_count(len(calls))),
        Fact("communication", format_ns(spent), f"{format_share(spent / span)} of the steps" if span else ""),
        Fact("hidden by computation", format_share(1 - exposed / spent) if spent else "–"),
        Fact("exposed", format_ns(exposed), f"{format_share(exposed / span)} of the steps" if span else ""),
    ]
    return Facts(tuple(facts))


def _calls(calls: pd.DataFrame) -> Table:
    table = calls.sort_values("dur", ascending=False, kind="stable")
    gone = [name for name in ("group", "group_size", "bytes", "dtype", "step") if table[name].isna().all()]
    select = [
        {"window": (ts, ts + max(dur, 1)), "focus": row if row >= 0 else None}
        for ts, dur, row in zip(
            table["ts"].tolist(), table["dur"].tolist(), table["slice"].tolist(), strict=True
        )
    ]
    shown = [name for name in _SHOWN if name not in gone]
    return Table(table[shown], {"step": "text", "name": "name"}, select=select,
                 title="Collectives, the longest first", call="p.distributed.collectives()",
                 of=analysis.collectives)  # fmt: skip


TAB: Final = Tab(
    "Distributed",
    distributed,
    without_collectives,
    place=70,
    summary="Communication, what hides it, each collective.",
    calls=("p.distributed()", "p.distributed.collectives()"),
    plots={"distributed": "distributed_figure"},
)
