"""The memory tab: curves by device, the peak and its owners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from ... import analysis
from ...analysis.memory.curve import RECORDER_SHARE
from ...selection import filtered
from ...trace import Trace
from ...units import format_bytes, format_count, format_items, format_ns
from .. import figures
from .analyses import arguments, followed, selection_of, without_memory
from .base import Absent, Fact, Facts, Note, Panel, Part, Tab, Table, pictures

_BLOCKS = ("operator", "module", "kind", "bytes", "birth_ts", "death_ts", "step")


_NAMES = (
    *("name", "kind", "device", "bytes", "share", "bytes_per_step", "new_bytes", "created_line"),
    *("type", "buffers", "operator", "kept_by", "moment"),
)
_WORTH_A_HINT: Final = 32 << 20


def memory(trace: Trace, state: Mapping[str, Any]) -> Panel | Absent:
    """Show peaks and curves, blocks at the peak by category and operator, and growth per step."""
    peaks = analysis.memory_peak(trace, **arguments(analysis.memory_peak, state))
    if not len(peaks):
        return Absent(without_memory(trace) or "There is no memory event in the selection.")
    selection = selection_of(state)
    failed = _out_of_memory(trace)
    parts: list[Part] = [
        *failed,
        *(_names(trace) if failed else ()),
        _facts(peaks),
        *_heap(trace, peaks),
        *(() if failed else _names(trace)),
        *_growth(trace),
        *pictures(figures.levels_figure(trace, selection), figures.memory_flow_figure(trace, selection)),
    ]
    if len(trace.allocations):
        allocated = peaks[peaks["source"] == "allocator"]
        at = int((allocated if len(allocated) else peaks).sort_values("peak_bytes")["ts"].iloc[-1])
        parts += _live(trace, at)
        operators = filtered(analysis.memory_operators, trace, state)
        select = [{"name": str(name)} for name in operators["name"]]
        parts.append(Table(operators, {"device": "text", "name": "name"}, select=select,
                           title="Operators, by what they kept", call="p.memory.operators()",
                           of=analysis.memory_operators))  # fmt: skip
    under = (*followed(analysis.memory_peak, analysis.memory_operators), "name")
    return Panel("Memory", tuple(parts), under)


def _facts(peaks: pd.DataFrame) -> Facts:
    facts: list[Fact] = []
    for row in peaks.sort_values("peak_bytes", ascending=False).to_dict("records"):
        where = f"GPU {row['device']}" if row["device"] >= 0 else "host"
        resident = "resident " if row["source"] != "allocator" else ""
        step = "" if pd.isna(row["step"]) else f", step {row['step']}"
        base = f", {format_bytes(row['base_bytes'])} at the start" if resident else ""
        if row["recorder_bytes"] >= RECORDER_SHARE * row["peak_bytes"] > 0:
            base += f", up to {format_bytes(row['recorder_bytes'])} held by the recording itself"
        facts.append(Fact(f"{resident}peak, {where}", format_bytes(row["peak_bytes"]),
                          f"at {format_ns(row['ts'])}{step}{base}"))  # fmt: skip
        if row["reserved_peak_bytes"]:
            facts.append(Fact(f"reserved, {where}", format_bytes(row["reserved_peak_bytes"])))
    return Facts(tuple(facts))


def _out_of_memory(trace: Trace) -> list[Note]:
    """Return the allocation that failed."""
    failed = trace.metadata.get("out_of_memory")
    if not isinstance(failed, Mapping):
        return []
    return [Note(f"The cell ran out of memory. {failed.get('error')}: {failed.get('text')}", warns=True)]


def _names(trace: Trace) -> list[Part]:
    """Return names that hold memory at the end, and what the cell left behind."""
    names = analysis.memory_names(trace)
    if not len(names):
        return []
    select = [None if pd.isna(row) else {"focus": int(row)} for row in names["slice"]]
    names["name"] = names["name"].fillna("")
    names["device"] = _where(names["device"])
    constant = [name for name in ("device", "moment") if names[name].nunique() < 2]
    empty = [name for name in names if names[name].isna().all() or (names[name] == "").all()]
    shown = [name for name in _NAMES if name not in (*constant, *empty)]
    heads = {"new_bytes": "new in the cell", "bytes_per_step": "per step", "created_line": "allocated in",
             "operator": "allocated by", "kept_by": "also kept by", "share": "of used",
             "moment": "at the end of the"}  # fmt: skip
    units = {"operator": "name", "created_line": "code", "name": "code"}
    parts: list[Part] = [
        *_unseen(trace),
        Table(names[shown], units, heads, select=select,
              title="Names that hold memory", call="p.memory.names()"),
    ]  # fmt: skip
    left = analysis.memory_left_behind(trace)
    if len(left):
        left["device"] = _where(left["device"])
        left = left.drop(columns=[name for name in ("device",) if left[name].nunique() < 2])
        parts.append(Table(left, {"created_line": "code", "release": "code", "name": "code"},
                           {"created_line": "allocated in", "release": "to release it"},
                           title="Left behind by the cell", call="p.memory.left_behind()"))  # fmt: skip
    return parts


def _heap(trace: Trace, peaks: pd.DataFrame) -> list[Part]:
    """Return the lines that allocated the heap at its peak, or how to record them."""
    table = analysis.memory_heap(trace)
    if not len(table):
        resident = peaks[peaks["source"] != "allocator"]
        grown = int((resident["peak_bytes"] - resident["base_bytes"]).max()) if len(resident) else 0
        ours = trace.metadata.get("source") == "recording" and not len(trace.allocations)
        hint = "%%profile --heap shows which lines allocate memory."
        told = f"Resident memory grew by {format_bytes(grown)}. {hint}"
        return [Note(told)] if ours and grown >= _WORTH_A_HINT else []
    facts = trace.metadata["heap"]
    recorded = set(trace.slices["line"].cat.categories)
    select = [{"line": str(line)} if line in recorded else None for line in table["line"]]
    table[["line", "text", "allocated_by"]] = table[["line", "text", "allocated_by"]].fillna("")
    title = f"On the heap at its peak of {format_bytes(facts['peak_bytes'])}, by {facts['tool']}"
    return [
        Table(table, {"line": "code", "text": "code", "allocated_by": "code"},
              {"allocated_by": "allocated by", "share": "of the peak", "kept_bytes": "kept at the end",
               "kept_count": "blocks kept", "count": "blocks"},
              select=select, title=title, call="p.memory.heap()")
    ]  # fmt: skip


def _where(device: pd.Series[Any]) -> pd.Series[Any]:
    return device.map(lambda number: f"GPU {number}" if number >= 0 else "host")


def _unseen(trace: Trace) -> list[Note]:
    """Return what the search from names to memory left out."""
    notes = []
    for walk in trace.metadata["tables"]["memory_walks"].tail(1).to_dict("records"):
        if walk["left"]:
            of = f", of {walk['left_names']}" if walk["left_names"] else ""
            notes.append(Note(f"Names are incomplete: {format_count(walk['left'])} objects{of} were not "
                              f"visited, since the time for the search was over.", warns=True))  # fmt: skip
        if walk["frames_left"]:
            count = format_items(walk["frames_left"], "function")
            notes.append(Note(f"Locals of {count} were not read, since they call locals() themselves."))
        if walk["saved_left"]:
            notes.append(Note("This torch does not show tensors that were saved for the backward pass: they "
                              "are without names."))  # fmt: skip
    return notes


def _growth(trace: Trace) -> list[Part]:
    table = analysis.memory_growth(trace)
    if not len(table):
        return []
    most = int(table["growth_bytes"].max())
    note = f"Memory grows by {format_bytes(most)} in every step: these blocks stay." if most > 0 else ""
    notes = [Note(note, True)] if note else []
    select = [
        {"name": str(name) if isinstance(name, str) else None, "focus": None if pd.isna(row) else int(row)}
        for name, row in zip(table["operator"], table["first_slice"], strict=True)
    ]
    empty = [name for name in ("operator", "module") if table[name].isna().all()]
    shown = table.drop(columns=["first_slice", *empty])
    units = {"blocks_per_step": "number", "device": "text", "bytes_per_step": "bytes", "operator": "name"}
    return [*notes, Table(shown, units, select=select, title="Growth a step", call="p.memory.growth()")]


def _live(trace: Trace, at: int) -> list[Part]:
    """Return the live blocks at an instant: by category, by operator, and one by one."""
    kinds = analysis.memory_by(trace, "kind", at=at)
    if not len(kinds):
        return []
    when = f"Alive at the peak, {format_ns(at)}"
    makers = analysis.memory_by(trace, "operator", at=at)
    blocks = analysis.memory_live(trace, at)
    blocks = blocks.sort_values("bytes", ascending=False, kind="stable")
    shown = [name for name in _BLOCKS if not blocks[name].isna().all()]
    named: list[Mapping[str, Any] | None] = [
        {"name": name} if isinstance(name, str) else None for name in makers["operator"]
    ]
    born: list[Mapping[str, Any] | None] = [
        None if pd.isna(row) else {"focus": int(row)} for row in blocks["slice"]
    ]
    return [
        Table(kinds, title=f"{when}: by category", call=f"p.memory.by('kind', at={at})"),
        Table(makers, {"operator": "name"}, select=named, title=f"{when}: by operator",
              call=f"p.memory.by('operator', at={at})"),
        Table(blocks[shown], {"step": "text", "operator": "name", "freed_by": "name"}, select=born,
              title=f"{when}: blocks", call=f"p.memory.live({at})"),
    ]  # fmt: skip


TAB: Final = Tab(
    "Memory",
    memory,
    without_memory,
    place=40,
    summary="Curves, names that hold memory, what the cell left behind, blocks at the peak, growth per step.",
    calls=("p.memory.names()", "p.memory.by()"),
    plots={"memory_flow": "memory_flow_figure"},
)
