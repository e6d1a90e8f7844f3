"""The steps tab: the parts of each step, by two rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from ... import analysis
from ...selection import filtered
from ...trace import Trace
from ...units import format_count, format_ns, format_share
from .. import figures
from .analyses import NO_STEPS, followed, selection_of, without_steps
from .base import Absent, Fact, Facts, Panel, Tab, Table, pictures

_OF_TRACE = ("step", "rank", "total_ns", "gap_ns", "fp_bp_ns", "tail_ns", "all_reduce_ns", "data_ns")
_POINTS = ("fp_point", "bp_point", "points")


def steps(trace: Trace, state: Mapping[str, Any]) -> Panel | Absent:
    """Show averages, a stacked bar a step, and the tables of `analysis.step_trace` and `step_breakdown`."""
    of = (analysis.step_trace, analysis.step_breakdown)
    table, parts = (filtered(function, trace, state) for function in of)
    if not len(table):
        return Absent(NO_STEPS if not len(trace.steps) else "There is no step in the selection.")
    selection = selection_of(state)
    kinds = ("breakdown", "step_trace")
    drawn = pictures(*(figures.steps_figure(trace, selection, kind=kind) for kind in kinds))
    shown = [name for name in _OF_TRACE if name != "rank" or table["rank"].notna().any()]
    tables = (
        Table(
            table[[*shown, *_POINTS]], {"fp_point": "name", "bp_point": "name"},
            heads={"fp_bp_ns": "forward + backward", "all_reduce_ns": "all-reduce"},
            select=_choose(table), title="From the first operator to the last gradient",
            call="p.steps.trace()", of=analysis.step_trace,
        ),
        Table(
            parts, select=_choose(parts), title="What ran: each instant counts for the first of these",
            call="p.steps.breakdown()", of=analysis.step_breakdown,
        ),
    )  # fmt: skip
    return Panel("Steps", (_facts(table), *drawn, *tables), followed(analysis.step_trace))


def _choose(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{"step": int(number)} for number in table["step"].tolist()]


def _facts(table: pd.DataFrame) -> Facts:
    total = table["total_ns"]
    number = table["step"].nunique()
    slow, fast = table.loc[total.idxmax()], table.loc[total.idxmin()]
    facts = [
        Fact("step" if number == 1 else "steps", format_count(number)),
        Fact("mean", format_ns(total.mean())),
        Fact("fastest", format_ns(fast["total_ns"]), f"step {fast['step']}"),
        Fact("slowest", format_ns(slow["total_ns"]), f"step {slow['step']}"),
    ]
    whole = max(int(total.sum()), 1)
    for column, label in {"gap_ns": "gap", "fp_bp_ns": "forward + backward", "tail_ns": "tail"}.items():
        facts.append(Fact(label, format_share(table[column].sum() / whole), format_ns(table[column].mean())))
    return Facts(tuple(facts))


TAB: Final = Tab(
    "Steps",
    steps,
    without_steps,
    place=50,
    summary="The step trace and what ran in each step.",
    calls=("p.steps.trace()", "p.steps.breakdown()"),
    plots={"steps": "steps_figure"},
)
