"""The account of a cell: every instant belongs to exactly one part."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd
from pandas.api.types import union_categoricals

from ...trace import Trace, add, complement, overlap, subtract, union
from ...trace.arrays import BoolArray, IntArray
from ...trace.intervals import Intervals, as_ints
from ...trace.schema import Table
from ...units import format_items
from ..busy_time import busy_within
from ..notebook.recorded import is_notebook
from ..scope import on_device, on_host, step_spans
from .cpu import cpu_clocks, cpu_within, edges

KINDS: Final = ("steps", "code", "outside-window", "profiler", "not-recorded", "display")
"""What a part of the account can be."""

ACCOUNT: Final = "account"
"""Name of the table in ``metadata["tables"]`` that a recorded cell leaves."""

COLUMNS: Final = Table.of(
    "account",
    "part:str kind:str line:Int64 text:str ts:int64 dur:int64 share:float64 steps:int64 cpu_ns:Int64 "
    "wait_ns:Int64 device_ns:int64 loop:Int64",
)
_SHOWN: Final = "display of the result"
_DRAWN: Final = "flush_figures (backend_inline.py)"
_MOSTLY: Final = 0.5
_UNREAD: Final = 0.1
"""CPU time of a part is unknown if it was not read during more than this share of the part."""
_SPANS: Final = ("ts", "dur", "kind", "line", "text", "loop", "steps")


def account(trace: Trace) -> pd.DataFrame:
    """Divide the time of a cell, or the span of a file, among its parts.

    Parameters
    ----------
    trace : Trace

    Returns
    -------
    DataFrame
        One row per part, by first instant; empty if the trace has no length.

        - ``part`` str: in words; ``kind`` str: ``steps`` (the steps of one loop), ``code`` (a statement
          outside of steps), ``outside-window`` (steps outside the requested window: counted, not recorded),
          ``profiler`` (our own start and stop), ``not-recorded``, or ``display`` (of the cell's result and
          its figures, after its last statement). The parts of a notebook are its cells, and
          ``not-recorded`` the time between them;
        - ``line`` Int64 and ``text`` str: the statement or the head of the loop in the cell;
        - ``ts``, ``dur`` int64 ns: first instant, and total time of the part. Durations sum exactly to the
          length of the cell;
        - ``share`` float64: of that length; ``steps`` int64: steps that ended in it;
        - ``cpu_ns`` Int64: CPU time of the process and its children meanwhile; ``wait_ns`` Int64: time in
          which the cell's thread neither ran nor waited for a core; both missing if CPU time was not
          recorded during more than a tenth of the part; `wait_ns` also on macOS and Windows;
        - ``device_ns`` int64: time with work on any device;
        - ``loop`` Int64: number of the loop of steps.

    Notes
    -----
    A recorded cell has its own account. For recordings of other profilers the span of the file is divided:
    into its steps; ``code`` while a slice of any host thread, or device work, is open outside of steps;
    ``not-recorded`` otherwise.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... steps: [0    ][1    ]
    ... main:  [mm ] [mm ]     [save  ]
    ... ''')
    >>> account(trace)[["kind", "steps", "dur"]].values.tolist()
    [['steps', 2, 14], ['not-recorded', 0, 2], ['code', 0, 8]]
    """
    spans = account_spans(trace)
    if not len(spans):
        return COLUMNS.empty()
    number = spans["part"].to_numpy()
    first = spans.drop_duplicates("part")
    size = len(first)
    dur = _sum(number, spans["dur"].to_numpy(), size)
    ts, end = spans["ts"].to_numpy(), (spans["ts"] + spans["dur"]).to_numpy()
    busy = busy_within(on_device(trace), ts, end)
    steps = _sum(number, spans["steps"].to_numpy(), size)
    line, loop = as_ints(first["line"].to_numpy()), as_ints(first["loop"].to_numpy())
    kinds, texts = first["kind"].tolist(), first["text"].tolist()
    evaluated = _evaluated(trace, ts, end, number, size) > 0.5 * np.maximum(dur, 1)
    several = len(np.unique(loop[loop >= 0])) > 1
    names = [f" (loop {number + 1})" if several and number >= 0 else "" for number in loop.tolist()]
    drawing, in_notebook = _draws_figures(trace), is_notebook(trace)
    words = [
        row_text
        if in_notebook
        else ("drawing the figure" if row[0] == "display" and drawing else _words(*row)) + name
        for *row, name, row_text in zip(
            kinds, line.tolist(), steps.tolist(), evaluated.tolist(), names, texts, strict=True
        )
    ]
    cpu, wait, unread = _cpu(trace, ts, end)
    missing = _sum(number, unread, size) > _UNREAD * dur
    return COLUMNS.frame(
        {
            "part": words,
            "kind": kinds,
            "line": pd.arrays.IntegerArray(line, line < 0),
            "text": texts,
            "ts": as_ints(first["ts"].to_numpy()),
            "dur": dur,
            "share": dur / max(int(dur.sum()), 1),
            "steps": steps,
            "cpu_ns": _optional(cpu, number, missing),
            "wait_ns": _optional(wait, number, missing),
            "device_ns": _sum(number, busy, size),
            "loop": pd.arrays.IntegerArray(loop, loop < 0),
        }
    )


def account_spans(trace: Trace) -> pd.DataFrame:
    """Return the spans that `account` sums, by time, gapless: ``ts dur kind line text loop steps part``."""
    recorded = (trace.metadata.get("tables") or {}).get(ACCOUNT)
    usable = isinstance(recorded, pd.DataFrame) and set(_SPANS) <= set(recorded.columns)
    spans = recorded[list(_SPANS)] if usable and recorded is not None else _derived(trace)
    if recorded is not None and "cell" in recorded:  # of a notebook, whose parts are its cells
        spans = spans.assign(cell=recorded["cell"])
    spans = spans[spans["dur"] > 0].sort_values("ts", kind="stable").reset_index(drop=True)
    kind = pd.Categorical(spans["kind"], categories=list(KINDS)).codes.astype(np.int64)
    line, loop = (np.maximum(as_ints(spans[name].to_numpy()), -1) for name in ("line", "loop"))
    # the steps of a loop are one part; code is a part per line
    key = np.where(np.isin(kind, (KINDS.index("steps"), KINDS.index("outside-window"))), loop, line)
    key = np.where(kind > KINDS.index("outside-window"), -1, key)
    key = as_ints(spans.pop("cell").to_numpy()) if "cell" in spans else key
    spans["part"] = pd.factorize(kind * (int(key.max(initial=0)) + 2) + key + 1)[0].astype(np.int64)
    return spans


def _derived(trace: Trace) -> pd.DataFrame:
    """Derive the account of a trace that has none."""
    window = (trace.span.start, trace.span.end)
    steps = step_spans(trace)
    loops = as_ints(steps["loop"].to_numpy()) if "loop" in steps else np.zeros(len(steps), np.int64)
    host, work = on_host(trace), on_device(trace)
    ts, end = np.concatenate([host.ts, work.ts]), np.concatenate([host.end, work.end])
    busy = overlap(union(ts, end), union([window[0]], [window[1]]))
    pieces: list[pd.DataFrame] = []
    explained: Intervals = (np.empty(0, np.int64), np.empty(0, np.int64))
    for loop in np.unique(loops):
        steps_of_loop = steps[loops == loop]
        open_ = union(steps_of_loop["ts"].to_numpy(), (steps_of_loop["ts"] + steps_of_loop["dur"]).to_numpy())
        own = subtract(open_, explained)
        ends = (steps_of_loop["ts"] + steps_of_loop["dur"]).to_numpy()
        pieces.append(
            _rows(own, "steps", f"steps found by {steps_of_loop['source'].iloc[0]}", int(loop), ends)
        )
        explained = add(explained, own)
    pieces.append(_rows(subtract(busy, explained), "code", "outside of steps" if len(steps) else "all work"))
    either = add(busy, explained)
    pieces.append(_rows(complement(either, window), "not-recorded", ""))
    text = union_categoricals([piece["text"] for piece in pieces])
    return pd.concat([piece.drop(columns="text") for piece in pieces], ignore_index=True).assign(text=text)


def _rows(
    intervals: Intervals, kind: str, text: str, loop: int = -1, step_ends: IntArray | None = None
) -> pd.DataFrame:
    ts, end = intervals
    ended = np.zeros(len(ts), np.int64)
    if step_ends is not None and len(ts):
        interval = np.maximum(np.searchsorted(ts, step_ends, side="left") - 1, 0)
        ended += np.bincount(interval, minlength=len(ts)).astype(np.int64)
    one = np.zeros(len(ts), np.int8)  # there may be millions of rows with the same text, so store codes
    fixed: dict[str, Any] = {
        "kind": pd.Categorical.from_codes(one + KINDS.index(kind), list(KINDS)),
        "line": np.int64(-1),
        "text": pd.Categorical.from_codes(one, [text]),
        "loop": np.int64(loop),
    }
    return pd.DataFrame({"ts": ts, "dur": end - ts, **fixed, "steps": ended})


def _words(kind: str, line: int, steps: int, evaluated: bool) -> str:
    where = f"line {line}" if line > 0 else ""
    if kind == "steps":
        return format_items(steps, "step") + (f" of {where}" if where else "")
    if kind == "outside-window":
        return f"{format_items(steps, 'step')} not recorded" + (f", {where}" if where else "")
    if kind == "profiler":
        return "starting and stopping the recording"
    if kind == "not-recorded":
        return "not recorded"
    if kind == "display":
        return "display of the result"
    return ", ".join(filter(None, ["evaluation" if evaluated else "", where])) or "outside of steps"


def _draws_figures(trace: Trace) -> bool:
    """Return whether matplotlib's inline figures take most of the display of the result."""
    whole, drawn = (trace.slices.loc[trace.slices["name"] == name, "dur"].sum() for name in (_SHOWN, _DRAWN))
    return bool(drawn >= _MOSTLY * whole > 0)


def _evaluated(trace: Trace, ts: IntArray, end: IntArray, number: IntArray, size: int) -> IntArray:
    host = on_host(trace)
    if "evaluation" not in host.slices["phase"].cat.categories:
        return np.zeros(size, np.int64)
    evaluates = host.among("phase", ("evaluation",))
    return _sum(number, busy_within(host.only(evaluates), ts, end), size)


def _cpu(trace: Trace, ts: IntArray, end: IntArray) -> tuple[IntArray, IntArray | None, IntArray]:
    """Return, by span, CPU ns with children, blocked ns of the cell's thread, and ns that were not read."""
    columns = cpu_within(trace, ts, end)
    if columns is None:
        return np.zeros_like(ts), None, end - ts
    first, last = edges(cpu_clocks(trace), None)
    read = np.maximum(np.minimum(end, last) - np.maximum(ts, first), 0)
    return columns[0], columns[2], end - ts - read


def _sum(number: IntArray, values: IntArray, size: int) -> IntArray:
    total = np.zeros(size, np.int64)
    np.add.at(total, number, values)
    return total


def _optional(values: IntArray | None, number: IntArray, missing: BoolArray) -> pd.arrays.IntegerArray:
    if values is None:
        return pd.arrays.IntegerArray(np.zeros(len(missing), np.int64), np.ones(len(missing), bool))
    return pd.arrays.IntegerArray(_sum(number, values, len(missing)), missing)
