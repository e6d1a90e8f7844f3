"""The part of the input tab that is about PyTorch's DataLoaders: the sentence, and what it rests on."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from ... import analysis
from ...analysis.input.loader_bounds import NOT_THE_LOADER, TOO_FEW
from ...analysis.verdict.loader import BOUNDS
from ...trace import Trace
from ...units import format_items, format_ns, format_share
from .base import Note, Part, Table

MOST_BATCHES: Final = 500
"""The batches that were waited for longest; the call gives all."""
_KILLED: Final = -9


def loader_notes(trace: Trace) -> list[Note]:
    """Say what bounds each loader, and how workers ended that did not end well."""
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


def loader_tables(trace: Trace) -> list[Part]:
    """Return tables of the loaders: predicted rates, workers, parts of a batch, batches."""
    batches = analysis.loader_batches(trace)
    if not len(batches):
        return []
    parts: list[Part] = [_parts(trace), _rates(trace), _workers(trace), _batches(batches)]
    return [part for part in parts if isinstance(part, Table) and len(part.frame)]


def _parts(trace: Trace) -> Table:
    table = _short(analysis.loader_transforms(trace))
    heads = {"total_ns": "total", "mean_ns": "an item", "part": "part of a batch"}
    units = {"mean_ns": "ns"}
    return Table(table, units, heads, title="Making batches", call="p.input.transforms()", bars=["total_ns"])


def _rates(trace: Trace) -> Table:
    table = _short(analysis.loader_throughput(trace))
    units = {"rate": "number", "measured": "number", "workers": "count"}
    heads = {"rate": "predicted batches/s", "measured": "measured batches/s"}
    return Table(table, units, heads, title="With another number of workers", call="p.input.throughput()")


def _workers(trace: Trace) -> Table:
    table = _short(analysis.loader_workers(trace))
    units = {"pid": "code", "worker": "code", "exit": "code", "in_item": "code"}
    heads = {
        "items_ns": "making items",
        "collate_ns": "collating",
        "send_ns": "sending",
        "cpu_ns": "CPU time",
        "delay_ns": "ready, no core",
        "start_ns": "starting",
        "in_item": "was in item",
    }
    return Table(table, units, heads, title="Workers", call="p.input.workers()")


def _batches(batches: pd.DataFrame) -> Table:
    longest = batches.sort_values("wait_ns", ascending=False, kind="stable", na_position="last")
    table = _short(longest.head(MOST_BATCHES).drop(columns=["next_ts"]))
    if not table["failed"].any():
        table = table.drop(columns="failed")
    units = {"pid": "code", "worker": "code", "batch": "code", "epoch": "code"}
    heads = {
        "wait_ns": "waited for",
        "items_ns": "making items",
        "collate_ns": "collating",
        "send_ns": "sending",
        "receive_ns": "receiving",
        "loop_ns": "used for",
        "cpu_ns": "CPU time",
        "delay_ns": "ready, no core",
        "ts": "begun",
    }
    return Table(table, units, heads, title="Batches, longest wait first", call="p.input.batches()")


def _short(table: pd.DataFrame) -> pd.DataFrame:
    """Leave out numbers of loaders and the like where there is one, and columns without anything."""
    lone = [name for name in ("loader", "iterator", "epoch") if name in table and table[name].nunique() < 2]
    table = table.drop(columns=lone)
    return table.drop(columns=[name for name in table if table[name].isna().all()])
