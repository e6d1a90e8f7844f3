"""The input tab: how steps got their data, and where a pipeline is held up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from ... import analysis
from ...selection import filtered
from ...trace import Trace
from ...units import format_count, format_ns, format_share
from .. import figures
from .analyses import followed, selection_of, without_input
from .base import Absent, Fact, Facts, Note, Panel, Part, Tab, Table, pictures
from .loader import loader_notes, loader_tables

_FINDINGS = {
    "data_process": "Steps found the queue empty: the data are made too slowly.",
    "device_process": "The queue was full: the data are ready before the steps need them.",
}


def input_data(trace: Trace, state: Mapping[str, Any]) -> Panel | Absent:
    """Fetch and wait times, queues and stages of the data pipeline, and the bottleneck found."""
    table = filtered(analysis.input_pipeline, trace, state)
    if not len(table):
        return Absent(without_input(trace) or "No step lies in what is selected.")
    selection = selection_of(state)
    queues, stages = analysis.input_queues(trace), analysis.input_operators(trace)
    drawn = (
        figures.pipeline_figure(trace, selection),
        figures.queues_figure(trace, selection),
        figures.input_figure(trace, selection),
    )
    parts: list[Part] = [_facts(table), *loader_notes(trace), *_bottleneck_notes(queues, stages)]
    parts += [*pictures(*drawn), *loader_tables(trace)]
    if len(stages):
        parts.append(_stages(stages))
    if len(queues):
        parts.append(Table(queues.drop(columns=_lone_rank(queues)), title="Queues", call="p.input.queues()",
                           units={"usage": "share"}))  # fmt: skip
    parts.append(_steps(table))
    return Panel("Input", tuple(parts), followed(analysis.input_pipeline))


def _facts(table: pd.DataFrame) -> Facts:
    whole = int(table["dur"].sum())
    kinds = [str(kind) for kind in table["loader"].unique() if str(kind) != "none"]
    facts = [Fact("loader", ", ".join(kinds) or "none")]
    if table["fetches"].any():
        facts.append(Fact("fetches", format_count(table["fetches"].sum())))
    for column, label in {
        "fetch_ns": "getting data",
        "wait_ns": "of it waiting",
        "push_ns": "pushing",
    }.items():
        spent = int(table[column].sum())
        if spent or column == "fetch_ns":
            share = format_share(spent / whole) + " of the steps" if whole else ""
            facts.append(Fact(label, f"{format_ns(spent / len(table))} a step", share))
    if table["workers"].max() > 0:
        facts.append(Fact("workers seen", format_count(int(table["workers"].max()))))
    if table["empty"].notna().any():
        facts.append(
            Fact("queue empty", f"{format_count(table['empty'].sum())} of {format_count(len(table))}")
        )
        facts.append(Fact("queue full", format_count(table["full"].sum())))
    return Facts(tuple(facts))


def _bottleneck_notes(queues: pd.DataFrame, stages: pd.DataFrame) -> list[Note]:
    """Return what holds the pipeline up, by MindData's rules."""
    out = [
        Note(f"Queue {name}: {_FINDINGS[finding]}", finding == "data_process")
        for name, finding in zip(queues["queue"], queues["finding"], strict=True)
        if finding in _FINDINGS
    ]
    slow = [str(name) for name in stages.loc[stages["suspect"], "name"]]
    if slow:
        names = ", ".join(slow)
        out.append(
            Note(f"The pipeline is held up at {names}: full queues before it, empty ones behind.", True)
        )
    return out


def _stages(stages: pd.DataFrame) -> Table:
    table = stages.drop(columns=[*_lone_rank(stages), "parent"])
    table["suspect"] = table["suspect"].map({True: "bottleneck", False: ""})
    units = {
        "usage": "share",
        "input_usage": "share",
        "op_id": "",
        "queue_mean": "number",
        "workers": "count",
    }
    units["queue_length"] = "count"
    heads = {"suspect": "finding", "usage": "queue behind it", "input_usage": "queue before it"}
    return Table(table, units, heads, title="Stages of the pipeline", call="p.input.operators()")


def _steps(table: pd.DataFrame) -> Table:
    empty = [
        name for name in table if table[name].isna().all() or (name.endswith("_ns") and not table[name].any())
    ]
    keep = table.drop(columns=[name for name in empty if name != "fetch_ns"])
    if "rank" in keep and keep["rank"].nunique() < 2:
        keep = keep.drop(columns="rank")
    if not keep["dur"].any():
        keep = keep.drop(columns="dur")
    select = [{"step": int(number)} for number in keep["step"].tolist()]
    return Table(keep, heads={"dur": "step takes"}, select=select, title="Steps", call="p.input.pipeline()")


def _lone_rank(table: pd.DataFrame) -> list[str]:
    """Return the column of ranks where there is one rank."""
    return ["rank"] if table["rank"].nunique() < 2 else []


TAB: Final = Tab(
    "Input",
    input_data,
    without_input,
    place=60,
    summary="Fetch and wait of each step; what bounds a DataLoader, its workers, transforms and batches; "
    "MindData's pipeline, queues and bottleneck.",
    calls=("p.input.pipeline()", "p.input.bounds()", "p.input.workers()"),
    plots={"input": ""},
)
