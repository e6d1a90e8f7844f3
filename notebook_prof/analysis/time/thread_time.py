"""States of the steps' thread, which is in exactly one of them at each instant."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ...trace import Intervals, Trace, Window, add, length, nest, overlap, subtract, union
from ...trace.arrays import BoolArray
from ...trace.schema import Table
from ..scope import Scope, WindowLike, on_host, step_spans
from .host_states import waiting
from .phases import stepping_track

STATES: Final = ("waiting", "launch", "small operators", "operators", "python", "range", "idle")
"""States of the thread, by priority for an instant at which several apply."""

SMALL_NS: Final = 10_000
"""An operator with less self time than this is mostly the framework's overhead."""

_OPERATORS: Final = ("operator", "collective")
_COLUMNS: Final = Table.of(
    "thread_time",
    "state:str ns:int64 share:float64 count:int64",
)


def thread_time(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """Divide the time of the thread that runs the steps by state.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns.

    Returns
    -------
    DataFrame
        One row per state, always all of them, in this order; ``ns`` sums to the steps or, without steps, to
        the window or the span of the trace.

        - ``state`` str: ``waiting`` for a device, as in `host_waits`; ``launch``: calls that start device
          work or copy; ``small operators``: operators with less than 10 µs of self time; ``operators``: the
          others; ``python``: Python frames outside of all these, and those called by operators, as in an
          ``autograd.Function`` written in Python; ``range``: annotations and modules with nothing below them;
          ``idle``: nothing is open;
        - ``ns`` int64; ``share`` float64; ``count`` int64: slices that begin in it.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main: [step         ]
    ... main:    [mm   ]
    ... ''', categories={"step": "python"}, unit_ns=1_000_000)
    >>> table = thread_time(trace)
    >>> table.loc[table["ns"] > 0, ["state", "share"]].values.tolist()
    [['operators', 0.4666666666666667], ['python', 0.5333333333333333]]
    """
    spans = step_spans(trace, window)
    whole = Window.of(window) if window is not None else trace.span
    inside = union([whole.start], [whole.end])
    if len(spans):
        inside = union(spans["ts"].to_numpy(), (spans["ts"] + spans["dur"]).to_numpy())
    host = on_host(trace, window)
    thread = host.only(host.ints("track") == stepping_track(trace))
    operators = thread.among("category", _OPERATORS)
    kinds: dict[str, BoolArray] = {
        "waiting": waiting(trace, thread),
        "launch": thread.among("category", ("launch", "memcpy", "memset")),
        "operators": operators,
        "python": thread.among("category", ("python",)),
    }
    kinds["range"] = ~np.logical_or.reduce(list(kinds.values()))
    called = _called_by_operators(thread, operators, kinds["python"])
    total = length(inside)
    spent, count = dict.fromkeys(STATES, 0), dict.fromkeys(STATES, 0)
    explained: Intervals = (np.empty(0, np.int64), np.empty(0, np.int64))
    for state, keep in kinds.items():
        time = union(thread.ts[keep], thread.end[keep])
        time = subtract(time, called) if state == "operators" else time
        own = overlap(subtract(time, explained), inside)
        spent[state], count[state] = length(own), int(keep.sum())
        explained = add(explained, own)
    small = _small_operators(thread, operators, inside=inside)
    spent["small operators"] = min(int(thread.self_ns[small].sum()), spent["operators"])
    spent["operators"] -= spent["small operators"]
    count["small operators"] = int(small.sum())
    count["operators"] -= count["small operators"]
    spent["idle"] = total - sum(spent.values())
    return _COLUMNS.frame(
        {
            "state": list(STATES),
            "ns": [spent[state] for state in STATES],
            "share": [spent[state] / max(total, 1) for state in STATES],
            "count": [count[state] for state in STATES],
        }
    )


def small_operators(scope: Scope) -> BoolArray:
    """Return a mask of the operators with less self time than `SMALL_NS`, which includes calls in C."""
    # Python frames and ranges inside an operator do not count as its self time.
    return np.asarray(scope.among("category", _OPERATORS) & (scope.self_ns < SMALL_NS), dtype=bool)


def _called_by_operators(thread: Scope, operators: BoolArray, python: BoolArray) -> Intervals:
    """Return when Python code called by operators runs, without the operators that it calls in turn."""
    none: Intervals = (np.empty(0, np.int64), np.empty(0, np.int64))
    is_operator = np.zeros(len(thread.slices) + 1, dtype=bool)  # the last entry is for no parent
    is_operator[thread.rows[operators]] = True
    if not is_operator[thread.ints("parent")[python]].any():
        return none
    rows = np.flatnonzero(operators | python)
    ts, end, is_python = thread.ts[rows], thread.end[rows], python[rows]
    depth, above, _ = nest(np.zeros(len(rows), np.int64), ts, end - ts)
    changes = np.zeros(len(rows), np.int64)  # from operator to Python or back, outermost first
    for level in range(1, int(depth.max()) + 1):
        here = np.flatnonzero(depth == level)
        changes[here] = changes[above[here]] + (is_python[here] != is_python[above[here]])
    called = none
    for count in np.unique(changes[is_python & (changes > 0)]).tolist():
        at_level, below = is_python & (changes == count), ~is_python & (changes == count + 1)
        own = subtract(union(ts[at_level], end[at_level]), union(ts[below], end[below]))
        called = add(called, own)
    return called


def _small_operators(thread: Scope, operators: BoolArray, inside: Intervals) -> BoolArray:
    starts, ends = inside
    if not len(starts):
        return np.zeros(len(thread.ts), dtype=bool)
    row = np.maximum(np.searchsorted(starts, thread.ts, side="right") - 1, 0)
    within = (thread.ts >= starts[row]) & (thread.end <= ends[row])
    return np.asarray(operators & small_operators(thread) & within, dtype=bool)
