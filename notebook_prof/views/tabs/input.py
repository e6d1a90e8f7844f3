"""The input tab: how steps got their data, and the pipeline's bottleneck."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from ... import analysis
from ...analysis.input.loader_bounds import NOT_THE_LOADER, TOO_FEW
from ...analysis.verdict.waits import BOUNDS
from ...selection import filtered
from ...trace import Trace
from ...units import format_count, format_items, format_ns, format_share
from .. import figures
from .analyses import followed, selection_of, without_input
from .base import Absent, Fact, Facts, Note, Panel, Part, Tab, Table, pictures

_FINDINGS = {
    "data_process": "Steps found the queue empty: the data is made too slowly.",
    "device_process": "The queue was full: the data is ready before the steps need it.",
}


def input_data(trace: Trace, state: Mapping[str, Any]) -> Panel | Absent:
    """Show fetch and wait times, queues and stages of the data pipeline, and the bottleneck."""
    table = filtered(analysis.input_pipeline, trace, state)
    if not len(table):
        return Absent(without_input(trace) or "There is no step in the selection.")
    selection = selection_of(state)
    queues, stages = analysis.input_queues(trace), analysis.input_operators(trace)
    draw = (figures.pipeline_figure, figures.queues_figure, figures.input_figure)
    drawn = (figure(trace, selection) for figure in draw)
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
    labels = {"fetch_ns": "getting data", "wait_ns": "of it waiting", "push_ns": "pushing"}
    for column, label in labels.items():
        spent = int(table[column].sum())
        if spent or column == "fetch_ns":
            share = format_share(spent / whole) + " of the steps" if whole else ""
            facts.append(Fact(label, f"{format_ns(spent / len(table))} a step", share))
    if table["workers"].max() > 0:
        facts.append(Fact("workers seen", format_count(int(table["workers"].max()))))
    if table["empty"].notna().any():
        empty = f"{format_count(table['empty'].sum())} of {format_count(len(table))}"
        facts.append(Fact("queue empty", empty))
        facts.append(Fact("queue full", format_count(table["full"].sum())))
    return Facts(tuple(facts))


def _bottleneck_notes(queues: pd.DataFrame, stages: pd.DataFrame) -> list[Note]:
    """Return the pipeline's bottleneck by MindData's rules."""
    out = [
        Note(f"Queue {name}: {_FINDINGS[finding]}", finding == "data_process")
        for name, finding in zip(queues["queue"], queues["finding"], strict=True)
        if finding in _FINDINGS
    ]
    slow = [str(name) for name in stages.loc[stages["suspect"], "name"]]
    if slow:
        names = ", ".join(slow)
        out.append(
            Note(f"The bottleneck of the pipeline is {names}: full queues before it, empty ones after.", True)
        )
    return out


def _stages(stages: pd.DataFrame) -> Table:
    table = stages.drop(columns=[*_lone_rank(stages), "parent"])
    table["suspect"] = table["suspect"].map({True: "bottleneck", False: ""})
    units = {"usage": "share", "input_usage": "share", "op_id": "", "queue_mean": "number"}
    units |= {"workers": "count", "queue_length": "count"}
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
    return Table(keep, heads={"dur": "step takes"}, select=select, title="Steps", call="p.input.pipeline()",
                 of=analysis.input_pipeline)  # fmt: skip


def _lone_rank(table: pd.DataFrame) -> list[str]:
    """Return the column of ranks, to be dropped, if there is only one rank."""
    return ["rank"] if table["rank"].nunique() < 2 else []


MOST_BATCHES: Final = 500
"""The batches with the longest waits; the Python call returns all."""


def loader_notes(trace: Trace) -> list[Note]:
    """Say what limits each loader, and which workers failed."""
    notes = [note for row in analysis.loader_bounds(trace).to_dict("records") if (note := _bound(row))]
    workers = analysis.loader_workers(trace)
    ended = workers[workers["exit"].notna() & (workers["exit"] != 0)]
    return notes + [Note(_ending(row), warns=True) for row in ended.to_dict("records")]


def _bound(row: dict[str, Any]) -> Note | None:
    if row["bound"] == TOO_FEW:
        return None
    name, waits = str(row["dataset"]), format_share(row["wait_share"])
    if row["bound"] == NOT_THE_LOADER:
        return Note(f"{name}: not the loader. The loop waits for {waits} of its time.")
    text = f"{name}: bound by {BOUNDS[str(row['bound'])]}. The loop waits for {waits} of its time. "
    making = f"A batch takes {format_ns(row['batch_ns'])} to make and {format_ns(row['loop_ns'])} to use"
    before = "" if row["workers"] else ", before what sending them would take"
    now, then = _rate(row["rate"]), _rate(row["best_rate"])
    best = format_items(int(row["best"]), "worker")
    if row["bound"] == "order":
        text += f"{making}; batches as they are ready (in_order=False) would be "
        return Note(f"{text}{format_share(row['order_gain'])} faster.", warns=True)
    if row["best"] > row["workers"]:
        reach = "would do" if pd.notna(row["enough"]) else "are as good as any"
        return Note(f"{text}{making}: {best} {reach}, {then} in place of {now}{before}.", warns=True)
    return Note(f"{text}{making}: more workers would not be faster.", warns=True)


def _rate(rate: float) -> str:
    return f"{rate:.3g} batches/s"


def _ending(row: dict[str, Any]) -> str:
    how = f"was ended by signal {-row['exit']}" if row["exit"] < 0 else f"ended with status {row['exit']}"
    item = f", in item {row['in_item']}" if pd.notna(row["in_item"]) else ""
    return f"Worker {row['worker']} (process {row['pid']}) {how}{item}."


_CODES: Final = dict.fromkeys(("pid", "worker", "batch", "epoch", "exit", "in_item"), "code")
_HEADS: Final = {
    "mean_ns": "an item",
    "part": "part of a batch",
    "rate": "predicted batches/s",
    "measured": "measured batches/s",
    "wait_ns": "waited for",
    "items_ns": "making items",
    "collate_ns": "collating",
    "send_ns": "sending",
    "receive_ns": "receiving",
    "loop_ns": "used for",
    "cpu_ns": "CPU time",
    "delay_ns": "ready, no core",
    "start_ns": "starting",
    "in_item": "was in item",
    "ts": "begun",
}


def loader_tables(trace: Trace) -> list[Part]:
    """Return tables of the loaders: predicted rates, workers, parts of a batch, batches."""
    batches = analysis.loader_batches(trace)
    if not len(batches):
        return []
    longest = batches.sort_values("wait_ns", ascending=False, kind="stable", na_position="last")
    longest = longest.head(MOST_BATCHES).drop(columns="next_ts")
    tables = (
        ("Making batches", "transforms", analysis.loader_transforms(trace)),
        ("With another number of workers", "throughput", analysis.loader_throughput(trace)),
        ("Workers", "workers", analysis.loader_workers(trace)),
        (
            "Batches, longest wait first", "batches",
            longest if longest["failed"].any() else longest.drop(columns="failed"),
        ),
    )  # fmt: skip
    return [
        Table(_short(table), _CODES, _HEADS, title=title, call=f"p.input.{call}()",
              bars=["total_ns"] if call == "transforms" else [])
        for title, call, table in tables if len(table)
    ]  # fmt: skip


def _short(table: pd.DataFrame) -> pd.DataFrame:
    """Drop the numbers of loaders and the like if there is only one, and empty columns."""
    lone = [name for name in ("loader", "iterator", "epoch") if name in table and table[name].nunique() < 2]
    table = table.drop(columns=lone)
    return table.drop(columns=[name for name in table if table[name].isna().all()])


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
