"""Whether the thread of the steps works, launches, communicates, or waits for a device."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ...trace import Intervals, Trace, Window, add, subtract, union
from ...trace.arrays import BoolArray, IntArray
from ...trace.schema import Table
from ..scope import Numbers, Scope, WindowLike, length_within, on_device, on_host, step_spans
from .host_states import waiting
from .phases import stepping_track

KINDS: Final = ("waiting", "launching", "communication", "computing", "other")
"""The first of several that claim an instant gets it."""
_COMPUTES: Final = ("operator", "module", "python", "io", "kernel", "memcpy", "memset")
_COLUMNS: Final = Table.of(
    "host_waits",
    "kind:str name:str count:int64 total_ns:int64 share:float64",
)


def host_waits(trace: Trace, *, window: WindowLike = None, step: Numbers = None) -> pd.DataFrame:
    """Divide the time of the thread that runs the steps by activity; each instant has one kind.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns; steps are cut at its edges.
    step : int or iterable of int, optional
        Keep these steps.

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
    by definition (``cudaMemcpy``, ``hipMemcpyWithStream``, ``cuMemcpyDtoH``); if it is an asynchronous copy
    that ends only after its work on the device, as with pageable memory; if it is a runtime's own wait
    (``block_until_ready``). ``aten::item`` and similar operators wait if they take over 10 µs and no runtime
    calls were recorded.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw(
    ...     "main: [mm][hipMemcpyWithStream]   [add]", categories={"hipMemcpyWithStream": "launch"})
    >>> host_waits(trace)[["kind", "name", "total_ns"]].values.tolist()
    [['waiting', 'hipMemcpyWithStream', 21], ['computing', '', 9], ['other', '', 3]]
    """
    host = on_host(trace)
    thread = host.only(host.ints("track") == stepping_track(trace))
    start, end = judged_span(trace, window, step)
    total = int((end - start).sum())
    if not len(thread.rows) or not total:
        return _COLUMNS.empty()
    waits = waiting(trace, thread)
    calls = thread.among("category", ("launch", "sync")) & ~waits
    rows: list[tuple[str, str, int, int]] = []
    explained: Intervals = (np.empty(0, np.int64), np.empty(0, np.int64))
    frames = waits & thread.among("category", ("python",))
    for kind, keep in (("waiting", waits & ~frames), ("waiting", frames), ("launching", calls)):
        named, explained = _by_name(thread, keep, explained, start, end)
        rows += [(kind, *row) for row in named]
    for kind, categories in (("communication", ("collective",)), ("computing", _COMPUTES)):
        keep = thread.among("category", categories) & ~waits & ~calls
        spent, explained = _explain(thread, keep, explained, start, end)
        rows.append((kind, "", _begun(thread, keep, start, end), spent))
    left = total - sum(row[3] for row in rows)
    rows.append(("other", "", 0, left))
    rows = sorted((row for row in rows if row[3]), key=lambda row: (KINDS.index(row[0]), -row[3]))
    return _COLUMNS.frame(
        {
            **{column: [row[i] for row in rows] for i, column in enumerate(_COLUMNS.names[:4])},
            "share": [row[3] / total for row in rows],
        }
    )


def judged_span(trace: Trace, window: WindowLike = None, step: Numbers = None) -> tuple[IntArray, IntArray]:
    """Return the disjoint, ascending spans to divide: the steps, else from the first to the last work."""
    steps = step_spans(trace, window, step)
    if len(steps):
        return union(steps["ts"].to_numpy(), (steps["ts"] + steps["dur"]).to_numpy())
    host, work = on_host(trace, window), on_device(trace, window)
    thread = host.only(host.ints("track") == stepping_track(trace))
    ts, end = (np.concatenate([getattr(thread, side), getattr(work, side)]) for side in ("ts", "end"))
    if step is not None or not len(ts):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    whole = Window(int(ts.min()), int(end.max()))
    return np.array([whole.start]), np.array([whole.end])


def _by_name(
    thread: Scope, keep: BoolArray, explained: Intervals, start: IntArray, end: IntArray
) -> tuple[list[tuple[str, int, int]], Intervals]:
    """Return each name with its count and time, longest first; shared instants go to the longest name."""
    words, code = thread.slices["name"].cat.categories, thread.codes("name")
    longest = np.bincount(code[keep], (thread.end - thread.ts)[keep], len(words))
    rows = []
    for name in np.argsort(-longest, kind="stable")[: int((longest > 0).sum())]:
        own = keep & (code == name)
        spent, explained = _explain(thread, own, explained, start, end)
        rows.append((str(words[name]), _begun(thread, own, start, end), spent))
    return rows, explained


def _explain(
    thread: Scope, keep: BoolArray, explained: Intervals, start: IntArray, end: IntArray
) -> tuple[int, Intervals]:
    """Return these slices' time in the span that was not explained yet, and what is explained with them."""
    open_ = union(thread.ts[keep], thread.end[keep])
    spent = int(length_within(subtract(open_, explained), start, end).sum())
    both = add(explained, open_)
    return spent, both


def _begun(thread: Scope, keep: BoolArray, start: IntArray, end: IntArray) -> int:
    at = np.searchsorted(start, thread.ts[keep], side="right") - 1
    return int(((at >= 0) & (thread.ts[keep] < end[np.maximum(at, 0)])).sum())
