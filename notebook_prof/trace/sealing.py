"""Turns collected columns into the tables of a Trace: sort, nest, inherit, link. Pure and vectorised."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..background import checkpoint
from . import schema
from .arrays import IntArray, optional
from .intervals import Window, as_ints
from .nesting import MAX_DEPTH, inherit, nest, order_by_start
from .report import ImportReport
from .source_lines import Nested, source_lines
from .strings import Coded, Interner
from .taxonomy import FLOW_KINDS, STEP_SOURCES, TRACK_KINDS
from .trace import Trace

Columns = dict[str, npt.NDArray[Any]]

_EARLIEST: Final = np.iinfo(np.int64).min
_LATEST: Final = np.iinfo(np.int64).max

LONGEST_TEXT: Final = 2**20
"""Longest text in characters. The shapes of an operator on a few thousand tensors take 100,000."""


@dataclass(slots=True)
class Collected:
    """What a TraceBuilder collects, in absolute nanoseconds."""

    metadata: dict[str, Any]
    interners: dict[str, Interner]
    report: ImportReport = field(default_factory=ImportReport)
    columns: dict[str, list[npt.NDArray[Any]]] = field(default_factory=dict)
    tracks: list[dict[str, Any]] = field(default_factory=list)
    counters: list[Columns] = field(default_factory=list)
    flows: list[tuple[str, IntArray, IntArray]] = field(default_factory=list)
    steps: list[Columns] = field(default_factory=list)
    allocations: list[Columns] = field(default_factory=list)
    frames: dict[tuple[int, str, str, int], int] = field(default_factory=dict)
    other_tables: dict[str, tuple[pd.DataFrame, tuple[str, ...]]] = field(default_factory=dict)


def seal(parts: Collected, window: tuple[int, int] | None, start: int | None = None) -> Trace:
    """Make a Trace. See `TraceBuilder.seal`."""
    names = ("ts", "dur", "track", *parts.interners, "step", "correlation", "device", "stream", "stack")
    columns = {name: _joined(parts.columns.get(name, [])) for name in names}
    row_of = np.full(len(columns["ts"]), -1, np.int64)
    handles = np.arange(len(columns["ts"]))
    if window is not None:
        columns, handles = _cut(columns, window, parts.report)
    steps = _sorted(parts.steps, ("step", "ts", "dur", "loop", "source"), ("ts", "step"))
    counters = _sorted(parts.counters, ("track", "ts", "value"), ("ts", "track"), window)
    names = ("ts", "addr", "bytes", "device", "allocated", "reserved", "track")
    allocations = _sorted(parts.allocations, names, ("ts",), window)
    account = _account(parts)
    end = None
    if len(account["ts"]):
        start = int(account["ts"].min())
        end = max(
            int((table["ts"] + table["dur"]).max()) for table in (columns, steps, account) if len(table["ts"])
        )
    if window is None and start is not None:
        counters = _within(counters, start=start)
    if window is None and end is not None:
        # what follows a cell, such as the display of its error, is not part of it
        counters = _within(counters, end=end)
        allocations = {name: column[allocations["ts"] <= end] for name, column in allocations.items()}
    tables_of_times = (columns, steps, counters, allocations)
    starts = [int(table["ts"].min()) for table in (*tables_of_times, account) if len(table["ts"])]
    origin = window[0] if window is not None else min(starts, default=0)
    for table in tables_of_times:
        table["ts"] = table["ts"] - origin
    checkpoint()
    order = order_by_start(columns["ts"], columns["dur"])
    columns = {name: column[order] for name, column in columns.items()}
    row_of[handles[order]] = np.arange(len(order))
    checkpoint()
    flows = _flows(parts, row_of)
    for interner in parts.interners.values():
        long = interner.cut(LONGEST_TEXT)
        effect = f"names and other texts of slices are cut at {LONGEST_TEXT:,} characters"
        advice = "no profiler writes such texts: check which program wrote or changed the file"
        parts.report.add("long-text-cut", "loss", len(long), f"{long[0]}…" if long else "", effect, advice)
    nesting, home = _nest(columns, allocations, parts.interners["category"])
    effect = f"slices inside more than {MAX_DEPTH:,} others have that depth; their times are right"
    parts.report.add("nested-too-deep", "info", int((nesting[0] == MAX_DEPTH).sum()), effect=effect)
    checkpoint()
    _inherit(columns, nesting[1], flows, steps)
    checkpoint()
    lines = _lines(columns, nesting[1], flows, parts)
    checkpoint()
    tables = {
        "slices": _slice_frame(columns, nesting, parts.interners, lines),
        "tracks": _track_frame(parts.tracks),
        "counters": schema.COUNTERS.frame(counters),
        "flows": schema.FLOWS.frame(
            {"kind": _words(flows["kind"], FLOW_KINDS), "src": flows["src"], "dst": flows["dst"]}
        ),
        "stacks": _stack_frame(list(parts.frames)),
        "steps": schema.STEPS.frame({**steps, "source": _words(steps["source"], STEP_SOURCES)}),
        "allocations": schema.ALLOCATIONS.frame({**allocations, "slice": optional(home)}),
    }
    metadata = {**parts.metadata, **_other_tables(parts, int(origin)), "start_unix_ns": int(origin)}
    span = Window(0, window[1] - window[0]) if window is not None else None
    if span is None and end is not None:
        span = Window(0, end - origin)
    return Trace(tables, metadata=metadata, report=parts.report, span=span)


def _cut(columns: Columns, window: tuple[int, int], report: ImportReport) -> tuple[Columns, IntArray]:
    start, end = window
    ts, dur = columns["ts"], columns["dur"]
    ends = ts + dur
    inside = (ts < end) & ((ends > start) | ((dur == 0) & (ts >= start)))
    kept = np.flatnonzero(inside)
    columns = {name: column[kept] for name, column in columns.items()}
    new_ts, new_end = np.maximum(columns["ts"], start), np.minimum(columns["ts"] + columns["dur"], end)
    crossing = int(((new_ts != columns["ts"]) | (new_end - new_ts != columns["dur"])).sum())
    columns["ts"], columns["dur"] = new_ts, new_end - new_ts
    report.add("cut-at-window", "info", crossing, effect="slices across the edge are cut at it")
    report.add("outside-window", "info", len(ts) - len(kept), effect="dropped")
    return columns, kept


def _account(parts: Collected) -> Columns:
    """Return the window of the recorded cell, which becomes that of the trace."""
    frame, times = parts.other_tables.get("account", (pd.DataFrame(), ()))
    names = ("ts", "dur") if "ts" in times and "dur" in frame else ()
    return {name: as_ints(frame[name]) if names else np.empty(0, np.int64) for name in ("ts", "dur")}


def _other_tables(parts: Collected, origin: int) -> dict[str, Any]:
    """Return the tables outside the schema, and the names of their time columns."""
    if not parts.other_tables:
        return {}
    tables = dict(parts.metadata.get("tables", {}))
    time_columns = dict(parts.metadata.get("table_times", {}))
    for name, (frame, times) in parts.other_tables.items():
        tables[name] = frame.assign(**{column: frame[column] - origin for column in times})
        time_columns[name] = list(times)
    return {"tables": tables, "table_times": time_columns}


def _nest(
    columns: Columns, allocations: Columns, categories: Interner
) -> tuple[tuple[npt.NDArray[Any], ...], IntArray]:
    """Return depth, parent and self time of the slices, and the innermost slice of each allocation."""
    n = len(columns["ts"])
    code_of = {name: code for code, name in enumerate(categories.values)}
    frame, annotation = (columns["category"] == code_of.get(name, -2) for name in ("python", "annotation"))
    placed = np.flatnonzero(allocations["track"] >= 0)
    home = np.full(len(allocations["ts"]), -1, np.int64)
    if not len(placed):
        return nest(columns["track"], columns["ts"], columns["dur"], frame, annotation), home
    # an allocation is an instant on its track, so its parent is the innermost open slice
    track = np.concatenate([columns["track"], allocations["track"][placed]])
    ts = np.concatenate([columns["ts"], allocations["ts"][placed]])
    dur = np.concatenate([columns["dur"], np.zeros(len(placed), np.int64)])
    none = np.zeros(len(placed), bool)
    depth, parent, self_ns = nest(track, ts, dur, np.append(frame, none), np.append(annotation, none))
    home[placed] = parent[n:]
    return (depth[:n], parent[:n], self_ns[:n]), home


def _inherit(columns: Columns, parent: IntArray, flows: Columns, steps: Columns) -> None:
    """Inherit phases and modules from ancestors. Device slices get these, and the step, from their launch."""
    # An ancestor that ends before the middle of a slice passes nothing on: a sampled line may begin too
    # early, by up to the sampling interval, inside the previous line.
    parent = _parent_at_middle(parent, columns)
    for name in ("phase", "module"):
        columns[name] = inherit(parent, columns[name])
    if len(steps["step"]):
        columns["step"] = np.where(columns["step"] >= 0, columns["step"], step_at(columns["ts"], steps))
    launch = flows["kind"] == FLOW_KINDS.index("launch")
    src, dst = flows["src"][launch], flows["dst"][launch]
    for name in ("phase", "module", "step"):
        # the launch determines the step, even if the device runs late into the next one
        launched = columns[name][src] >= 0
        columns[name][dst[launched]] = columns[name][src[launched]]
    for name in ("phase", "module"):  # launched slices may enclose slices without a launch
        value = columns[name]
        if ((parent >= 0) & (value < 0) & (value[parent] >= 0)).any():
            columns[name] = inherit(parent, value)


def _parent_at_middle(parent: IntArray, columns: Columns) -> IntArray:
    """Return the nearest ancestor that is open at the middle of each slice; -1 if there is none."""
    ends, middle = columns["ts"] + columns["dur"], columns["ts"] + columns["dur"] // 2
    up = parent.copy()
    early = np.flatnonzero((up >= 0) & (ends[up] < middle))
    while len(early):
        up[early] = up[up[early]]
        early = early[(up[early] >= 0) & (ends[up[early]] < middle[early])]
    return up


def _lines(columns: Columns, parent: IntArray, flows: Columns, parts: Collected) -> Coded:
    launch = flows["kind"] == FLOW_KINDS.index("launch")
    slices = Nested(
        as_ints(columns["name"]),
        as_ints(columns["stack"]),
        as_ints(columns["track"]),
        parent,
        columns["ts"],
        columns["ts"] + columns["dur"],
        columns["category"] == parts.interners["category"].code("python"),
        columns["phase"] == parts.interners["phase"].code("backward"),
    )
    pids = np.array([-1 if track["pid"] is None else track["pid"] for track in parts.tracks], np.int64)
    files = [file for _, _, file, _ in parts.frames]
    launches = flows["src"][launch], flows["dst"][launch]
    return source_lines(slices, parts.interners["name"].values, files, pids, launches)


def step_at(ts: IntArray, steps: Columns) -> IntArray:
    """Return the step number at each instant; -1 between steps."""
    order = np.argsort(steps["ts"], kind="stable")
    starts, ends = steps["ts"][order], (steps["ts"] + steps["dur"])[order]
    i = np.searchsorted(starts, ts, side="right") - 1
    inside = (i >= 0) & (ts < ends[np.maximum(i, 0)])
    return np.asarray(np.where(inside, steps["step"][order][np.maximum(i, 0)], -1), dtype=np.int64)


def _flows(parts: Collected, row_of: IntArray) -> Columns:
    table = {
        "kind": _joined([np.full(len(src), FLOW_KINDS.index(kind)) for kind, src, _ in parts.flows]),
        "src": _joined([row_of[src] for _, src, _ in parts.flows]),
        "dst": _joined([row_of[dst] for _, _, dst in parts.flows]),
    }
    kept = np.flatnonzero((table["src"] >= 0) & (table["dst"] >= 0))
    kept = kept[np.lexsort((table["dst"][kept], table["src"][kept], table["kind"][kept]))]
    return {name: column[kept] for name, column in table.items()}


def _within(counters: Columns, start: int = _EARLIEST, end: int = _LATEST) -> Columns:
    """Move the nearest reading of each counter outside `start` and `end` there, and drop further ones."""
    # the last of those before `start`, and the first of those after `end`
    ts = np.clip(counters["ts"], start, end)
    table = pd.DataFrame({"track": counters["track"], "ts": ts})
    drop = ((ts == start) & table.duplicated(keep="last")) | ((ts == end) & table.duplicated())
    return {name: column[~drop] for name, column in {**counters, "ts": ts}.items()}


def _sorted(
    parts: list[Columns],
    columns: tuple[str, ...],
    keys: tuple[str, ...],
    window: tuple[int, int] | None = None,
) -> Columns:
    """Join the parts of a table, sort its rows, and drop those outside the window."""
    table = {name: _joined([part[name] for part in parts]) for name in columns}
    order = np.lexsort(tuple(table[key] for key in keys))
    if window is not None:
        ts = table["ts"][order]
        order = order[(ts >= window[0]) & (ts < window[1])]
    return {name: column[order] for name, column in table.items()}


def _joined(columns: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return np.concatenate(columns) if columns else np.empty(0, np.int64)


def _slice_frame(
    columns: Columns, nesting: tuple[npt.NDArray[Any], ...], interners: dict[str, Interner], lines: Coded
) -> pd.DataFrame:
    depth, parent, self_ns = nesting
    data: dict[str, Any] = {"ts": columns["ts"], "dur": columns["dur"], "depth": depth, "self_ns": self_ns}
    data["track"] = columns["track"].astype(np.int32, copy=False)
    data["parent"] = optional(parent)
    for name, interner in interners.items():
        data[name] = interner.categorical(columns[name].astype(np.int32, copy=False))
    data["line"] = pd.Categorical.from_codes(lines.codes, categories=pd.Index(lines.values, dtype="object"))
    for column in schema.SLICES.columns:
        if column.name not in data:
            data[column.name] = optional(columns[column.name], column.dtype)
    return schema.SLICES.frame(data)


def _track_frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    data: dict[str, Any] = {name: [row[name] for row in rows] for name in schema.TRACKS.names}
    data["kind"] = pd.Categorical(data["kind"], categories=list(TRACK_KINDS))
    for column in schema.TRACKS.columns:
        if column.dtype.startswith("Int"):
            data[column.name] = pd.array(data[column.name], dtype=column.dtype)
    return schema.TRACKS.frame(data)


def _stack_frame(frames: list[tuple[int, str, str, int]]) -> pd.DataFrame:
    parent, name, file, line = zip(*frames, strict=True) if frames else ((), (), (), ())
    return schema.STACKS.frame(
        {
            "stack": np.arange(len(frames), dtype=np.int64),
            "parent": optional(np.array(parent, np.int64)),
            "name": list(name),
            "file": list(file),
            "line": optional(np.array(line, np.int64), "Int32"),
        }
    )


def _words(codes: npt.NDArray[Any], words: tuple[str, ...]) -> pd.Categorical:
    return pd.Categorical.from_codes(codes.astype(np.int8), categories=list(words))
