"""The account of a cell: every instant belongs to exactly one part."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace import Trace, union
from ...trace.arrays import IntArray
from ...trace.intervals import as_ints, clip, first_claims
from ...trace.schema import Table
from ...units import format_items
from ..busy_time import busy_within
from ..notebook.recorded import is_notebook
from ..scope import bounds, on_device, on_host, once, step_spans
from .cpu import cpu_clocks, cpu_within, edges

KINDS: Final = ("steps", "code", "outside-window", "profiler", "not-recorded", "display")
"""Kinds of parts of the account."""

ACCOUNT: Final = "account"
"""Name of the table in ``metadata["tables"]`` that a recorded cell leaves."""

COLUMNS: Final = Table.of(
    "account",
    "part:str kind:str line:Int64 text:str ts:int64 dur:int64 share:float64 steps:int64 cpu_ns:Int64 "
    "wait_ns:Int64 device_ns:int64 loop:Int64",
)
_DRAWN: Final = "flush_figures (backend_inline.py)"
_MOSTLY: Final = 0.5
_UNREAD: Final = 0.1
"""CPU time of a part is unknown if it was not read during more than this share of the part."""
_SPANS: Final = ("ts", "dur", "kind", "line", "text", "loop", "steps")


def account(trace: Trace) -> pd.DataFrame:
    """Divide the time of a cell, or the span of a file, among its parts.

    Returns
    -------
    DataFrame
        One row per part, by first instant; empty if the trace has no length.

        - ``part`` str: in words; ``kind`` str: ``steps`` (of one loop), ``code`` (a statement outside of
          steps), ``outside-window`` (steps that were counted, not recorded), ``profiler`` (our own start and
          stop), ``not-recorded``, or ``display`` (of the cell's result and its figures). The parts of a
          notebook are its cells, and ``not-recorded``, the time between them;
        - ``line`` Int64 and ``text`` str: the statement or the head of the loop in the cell;
        - ``ts``, ``dur`` int64 ns: first instant, and total time of the part. Durations sum exactly to the
          length of the cell;
        - ``share`` float64: of that length; ``steps`` int64: steps that ended in it;
        - ``cpu_ns`` Int64: CPU time of the process and its children meanwhile; ``wait_ns`` Int64: time in
          which the cell's thread neither ran nor waited for a core (not on macOS and Windows); both missing
          if CPU time was not recorded during more than a tenth of the part;
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
    ts, end = bounds(spans)
    host = on_host(trace)
    cpu, wait, unread = _cpu(trace, ts, end)
    times = {
        "dur": end - ts,
        "steps": spans["steps"].to_numpy(np.int64),
        "evaluation": busy_within(host.only(host.among("phase", ("evaluation",))), ts, end),
        "cpu_ns": cpu,
        "wait_ns": 0 if wait is None else wait,
        "device_ns": busy_within(on_device(trace), ts, end),
        "unread": unread,
    }
    sums = pd.DataFrame(times).groupby(spans["part"].to_numpy()).sum()
    first = spans.drop_duplicates("part").reset_index(drop=True)
    loop = first["loop"].to_numpy(np.int64)
    several = len(np.unique(loop[loop >= 0])) > 1
    shown = sums["dur"].to_numpy()[(first["kind"] == "display").to_numpy()].sum()
    drawn = trace.slices.loc[trace.slices["name"] == _DRAWN, "dur"].sum()
    drawing = bool(drawn >= _MOSTLY * shown > 0)
    parts = first["text"].tolist()
    if not is_notebook(trace):
        evaluated = sums["evaluation"] > 0.5 * np.maximum(sums["dur"], 1)
        rows = zip(first["kind"], first["line"], first["text"], sums["steps"], evaluated, strict=True)
        parts = [
            _words(*row, drawing) + (f" (loop {number + 1})" if several and number >= 0 else "")
            for row, number in zip(rows, loop.tolist(), strict=True)
        ]
    missing = (sums["unread"] > _UNREAD * sums["dur"]).to_numpy()
    data: dict[str, Any] = {
        **{name: first[name] for name in ("kind", "text", "ts")},
        **{name: sums[name] for name in ("dur", "steps", "device_ns")},
        "cpu_ns": sums["cpu_ns"].astype("Int64").mask(missing),
        "wait_ns": sums["wait_ns"].astype("Int64").mask(missing | (wait is None)),
        **{name: first[name].astype("Int64").mask(first[name] < 0) for name in ("line", "loop")},
    }
    return COLUMNS.frame(data | {"part": parts, "share": sums["dur"] / max(int(sums["dur"].sum()), 1)})


def account_spans(trace: Trace) -> pd.DataFrame:
    """Return the spans that `account` sums, by time, gapless: ``ts dur kind line text loop steps part``."""
    return once(trace, "account spans", lambda: _account_spans(trace))


def _account_spans(trace: Trace) -> pd.DataFrame:
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
    span, steps = trace.span, step_spans(trace)
    loops = steps["loop"].to_numpy(np.int64) if "loop" in steps else np.zeros(len(steps), np.int64)
    by_loop = [(int(loop), steps[loops == loop]) for loop in np.unique(loops)]
    host, work = on_host(trace), on_device(trace)
    busy = union(np.concatenate([host.ts, work.ts]), np.concatenate([host.end, work.end]))
    claims = [union(*bounds(own)) for _, own in by_loop]
    claims += [clip(busy, span), union([span.start], [span.end])]
    pieces = list(first_claims(claims))
    loop_of = np.array([*(loop for loop, _ in by_loop), -1, -1])
    kinds = [*["steps"] * len(by_loop), "code", "not-recorded"]
    found = (f"found by {own['source'].iloc[0]}" for _, own in by_loop)
    texts = [*found, "outside of steps" if len(steps) else "all work", ""]
    piece = np.repeat(np.arange(len(pieces)), [len(own) for own, _ in pieces])
    ts, end = (np.concatenate(side) for side in zip(*pieces, strict=True))
    ended = np.zeros(len(ts), np.int64)
    for number, (_, own) in enumerate(by_loop):
        rows = np.flatnonzero(piece == number)
        at = np.searchsorted(ts[rows], bounds(own)[1], side="left") - 1
        np.add.at(ended, rows[np.maximum(at, 0)] if len(rows) else rows, 1)
    return pd.DataFrame(
        {
            "ts": ts,
            "dur": end - ts,
            "kind": pd.Categorical(kinds, categories=list(KINDS)).take(piece),
            "line": np.int64(-1),
            "text": pd.Categorical(texts).take(piece),
            "loop": loop_of[piece],
            "steps": ended,
        }
    )


def _words(kind: str, line: int, text: str, steps: int, evaluated: bool, drawing: bool) -> str:
    where = f"line {line}" if line > 0 else ""
    fixed = {
        "profiler": "starting and stopping the recording",
        "not-recorded": "not recorded",
        "display": "drawing the figure" if drawing else text,
    }
    if kind == "steps":
        return format_items(steps, "step") + (f" of {where}" if where else "")
    if kind == "outside-window":
        return f"{format_items(steps, 'step')} not recorded" + (f", {where}" if where else "")
    return fixed.get(kind) or ", ".join(filter(None, ["evaluation" * evaluated, where])) or "outside of steps"


def _cpu(trace: Trace, ts: IntArray, end: IntArray) -> tuple[IntArray, IntArray | None, IntArray]:
    """Return, by span, CPU ns with children, blocked ns of the cell's thread, and ns that were not read."""
    columns = cpu_within(trace, ts, end)
    if columns is None:
        return np.zeros_like(ts), None, end - ts
    first, last = edges(cpu_clocks(trace), None)
    read = np.maximum(np.minimum(end, last) - np.maximum(ts, first), 0)
    return columns[0], columns[2], end - ts - read
