"""States of the steps' thread at each instant: it works, launches, communicates, or waits for a device."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ...trace import Intervals, Trace, Window, add, length, nest, overlap, subtract, union
from ...trace.arrays import BoolArray, IntArray
from ...trace.intervals import NOTHING, first_claims
from ...trace.schema import Table
from ..scope import Numbers, Scope, WindowLike, bounds, length_within, on_device, step_spans
from .host_states import waiting
from .phases import stepping_thread

KINDS: Final = ("waiting", "launching", "communication", "computing", "other")
"""The first of several that claim an instant gets it."""
_COMPUTES: Final = ("operator", "module", "python", "io", "kernel", "memcpy", "memset")
_WAIT_COLUMNS: Final = Table.of("host_waits", "kind:str name:str count:int64 total_ns:int64 share:float64")


def host_waits(trace: Trace, *, window: WindowLike = None, step: Numbers = None) -> pd.DataFrame:
    """Divide the time of the thread that runs the steps by activity; each instant has one kind.

    Parameters
    ----------
    window, step
        As in `steps`.

    Returns
    -------
    DataFrame
        ``kind name count total_ns share``, in the order of the kinds, then longest first; empty if no host
        was recorded. Times sum exactly to the steps or, without steps, to the time from the first to the last
        work of that thread or of a device.

        - ``waiting``: in a call that waits for a device, one row per name;
        - ``launching``: in any other call of a runtime or driver, one row per name;
        - ``communication``: in a collective, outside those calls;
        - ``computing``: in an operator, a module or a Python function, outside those;
        - ``other``: nothing, or only annotations, recorded.

    Notes
    -----
    A call *waits* if it synchronises a device, a stream, an event or a context; if it is a copy that blocks
    by definition (``cudaMemcpy``), or one that ends only after its work on the device, as with pageable
    memory; if it is a runtime's own wait (``block_until_ready``). ``aten::item`` and similar operators wait
    if they take over 10 µs and no runtime calls were recorded.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw(
    ...     "main: [mm][hipMemcpyWithStream]   [add]", categories={"hipMemcpyWithStream": "launch"})
    >>> host_waits(trace)[["kind", "name", "total_ns"]].values.tolist()
    [['waiting', 'hipMemcpyWithStream', 21], ['computing', '', 9], ['other', '', 3]]
    """
    thread = stepping_thread(trace)
    start, end = judged_span(trace, window, step)
    total = int((end - start).sum())
    if not len(thread.rows) or not total:
        return _WAIT_COLUMNS.empty()
    waits = waiting(trace, thread)
    calls = thread.among("category", ("launch", "sync")) & ~waits
    frames = waits & thread.among("category", ("python",))
    masks = [
        *_by_name("waiting", thread, waits & ~frames),
        *_by_name("waiting", thread, frames),
        *_by_name("launching", thread, calls),
    ]
    for kind, categories in (("communication", ("collective",)), ("computing", _COMPUTES)):
        masks.append((kind, "", thread.among("category", categories) & ~waits & ~calls))
    rows = []
    claims = first_claims(thread.open(keep) for _, _, keep in masks)
    for (kind, name, keep), own in zip(masks, claims, strict=True):
        at = np.searchsorted(start, thread.ts[keep], side="right") - 1
        begun = int(((at >= 0) & (thread.ts[keep] < end[np.maximum(at, 0)])).sum())
        rows.append((kind, name, begun, int(length_within(own, start, end).sum())))
    rows.append(("other", "", 0, total - sum(row[3] for row in rows)))
    rows = sorted((row for row in rows if row[3]), key=lambda row: (KINDS.index(row[0]), -row[3]))
    return _WAIT_COLUMNS.of_tuples([(*row, row[3] / total) for row in rows])


def judged_span(trace: Trace, window: WindowLike = None, step: Numbers = None) -> tuple[IntArray, IntArray]:
    """Return the disjoint, ascending spans to divide: the steps, else from the first to the last work."""
    steps = step_spans(trace, window, step)
    if len(steps):
        return union(*bounds(steps))
    thread, work = stepping_thread(trace, window), on_device(trace, window)
    ts, end = (np.concatenate([getattr(thread, side), getattr(work, side)]) for side in ("ts", "end"))
    if step is not None or not len(ts):
        return NOTHING
    return union([ts.min()], [end.max()])


def _by_name(kind: str, thread: Scope, keep: BoolArray) -> list[tuple[str, str, BoolArray]]:
    """Return a mask per name, that with the longest sum of durations first."""
    words, code = thread.slices["name"].cat.categories, thread.codes("name")
    longest = np.bincount(code[keep], (thread.end - thread.ts)[keep], len(words))
    order = np.argsort(-longest, kind="stable")[: int((longest > 0).sum())]
    return [(kind, str(words[name]), keep & (code == name)) for name in order]


STATES: Final = ("waiting", "launch", "small operators", "operators", "python", "range", "idle")
"""States of the thread, by priority for an instant at which several apply."""

SMALL_NS: Final = 10_000
"""An operator with less self time than this is mostly the framework's overhead."""

_OPERATORS: Final = ("operator", "collective")
_COLUMNS: Final = Table.of("thread_time", "state:str ns:int64 share:float64 count:int64")


def thread_time(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """Divide the time of the thread that runs the steps by state.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns.

    Returns
    -------
    DataFrame
        One row per state, always all of them, in this order; ``ns`` sums to the steps or, without steps, to
        the window or the span of the trace.

        - ``state`` str: ``waiting`` for a device, as in `host_waits`; ``launch``: calls that start device
          work or copy; ``small operators``: operators with less than 10 µs of self time; ``operators``: the
          others; ``python``: Python frames outside of all these, and those called by operators; ``range``:
          annotations and modules with nothing below them; ``idle``: nothing is open;
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
        inside = union(*bounds(spans))
    thread = stepping_thread(trace, window)
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
    times = {state: thread.open(keep) for state, keep in kinds.items()}
    times["operators"] = subtract(times["operators"], called)
    for (state, keep), own in zip(kinds.items(), first_claims(times.values()), strict=True):
        spent[state], count[state] = length(overlap(own, inside)), int(keep.sum())
    row = np.searchsorted(inside[0], thread.ts, side="right") - 1
    small = small_operators(thread) & (row >= 0) & (thread.end <= np.append(inside[1], 0)[row])
    spent["small operators"] = min(int(thread.self_ns[small].sum()), spent["operators"])
    spent["operators"] -= spent["small operators"]
    count["small operators"] = int(small.sum())
    count["operators"] -= count["small operators"]
    spent["idle"] = total - sum(spent.values())
    return _COLUMNS.of_tuples([(s, spent[s], spent[s] / max(total, 1), count[s]) for s in STATES])


def small_operators(scope: Scope) -> BoolArray:
    """Return a mask of the operators with less self time than `SMALL_NS`, which includes calls in C."""
    # Python frames and ranges inside an operator do not count as its self time.
    return np.asarray(scope.among("category", _OPERATORS) & (scope.self_ns < SMALL_NS), dtype=bool)


def _called_by_operators(thread: Scope, operators: BoolArray, python: BoolArray) -> Intervals:
    """Return when Python code called by operators runs, without the operators that it calls in turn."""
    is_operator = np.zeros(len(thread.slices) + 1, dtype=bool)  # the last entry is for no parent
    is_operator[thread.rows[operators]] = True
    if not is_operator[thread.ints("parent")[python]].any():
        return NOTHING
    rows = np.flatnonzero(operators | python)
    ts, end, is_python = thread.ts[rows], thread.end[rows], python[rows]
    depth, above, _ = nest(np.zeros(len(rows), np.int64), ts, end - ts)
    changes = np.zeros(len(rows), np.int64)  # from operator to Python or back, outermost first
    for level in range(1, int(depth.max()) + 1):
        here = np.flatnonzero(depth == level)
        changes[here] = changes[above[here]] + (is_python[here] != is_python[above[here]])
    called = NOTHING
    for count in np.unique(changes[is_python & (changes > 0)]).tolist():
        at_level, below = is_python & (changes == count), ~is_python & (changes == count + 1)
        called = add(called, subtract(union(ts[at_level], end[at_level]), union(ts[below], end[below])))
    return called
