"""Where a rank's steps went, in parts that sum to the step."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ...errors import OptionError, nearest
from ...trace import Intervals, Trace, overlap, subtract, union
from ...trace.intervals import IntArray, as_ints
from ..measure import length_within
from ..scope import Mask, Numbers, Scope, WindowLike, on_device, on_host
from ..spans import step_spans
from .phases import stepping_track

_BY: Final = ("step", "trace")


def breakdown(
    trace: Trace, *, window: WindowLike = None, step: Numbers = None, by: str = "step"
) -> pd.DataFrame:
    """Divide the time of each step among computation, communication, copies, data and idleness.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns; steps are cut at its edges.
    step : int or iterable of int, optional
        Keep these steps.
    by : {"step", "trace"}
        A row a step, or one from the first to the last work.

    Returns
    -------
    DataFrame
        By step; no rows without steps, or, with ``by="trace"``, without work. All times int64 ns.

        - ``step`` Int32, missing with ``by="trace"``; ``ts``; ``step_ns``: from its start to the start of
          the next one, and of the last one to the end of what it launched;
        - ``compute_ns``: kernels on any stream; ``communication_ns``: collectives; ``overlap_ns``: both;
          ``exposed_ns``: communication without computation;
        - ``memory_ns``: copies and fills; ``exposed_memory_ns``: those with nothing else beside them;
        - ``data_ns``: nothing on the device, and the thread of the steps in phase data; ``idle_ns``: the
          rest.

        ``compute_ns + exposed_ns + exposed_memory_ns + data_ns + idle_ns == step_ns``.

    Raises
    ------
    OptionError
        If `by` is neither of the two.

    Notes
    -----
    Lengths of unions over all streams of all devices of the trace, cut at the edges of the steps. Without
    device work they are those of the host: operators outside communication are computation, gloo's and MPI's
    ranges communication. With ``by="trace"`` on traces of whole microseconds, ``step_ns``, ``compute_ns`` and
    the rest are HTA's temporal breakdown to the digit (idle is ``data_ns + idle_ns``).

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... steps: [0                ]
    ... stream 7: [gemm    ]
    ... stream 9:       [nccl  ]
    ... ''', categories={"nccl": "collective"})
    >>> breakdown(trace)[["step_ns", "compute_ns", "overlap_ns", "exposed_ns", "idle_ns"]].values.tolist()
    [[19, 10, 4, 4, 5]]
    """
    if by not in _BY:
        raise OptionError(f"a rank's time cannot be divided by {by!r}: {nearest(by, _BY)}")
    work, talks, moves = _work(trace, window, None if by == "step" else step)
    number, start, end = _stretches(trace, work, window, step, by)

    def of(keep: Mask) -> Intervals:
        return union(work.ts[keep], work.end[keep])

    compute, talking, moving = of(~talks & ~moves), of(talks), of(moves)
    busy = union(work.ts, work.end)
    host = on_host(trace, window)
    data = host.among("phase", ("data",)) & (host.ints("track") == stepping_track(trace))
    parts = {
        "compute_ns": compute,
        "communication_ns": talking,
        "overlap_ns": overlap(compute, talking),
        "exposed_ns": subtract(talking, compute),
        "memory_ns": moving,
        "exposed_memory_ns": subtract(subtract(moving, compute), talking),
        "data_ns": subtract(union(host.ts[data], host.end[data]), busy),
    }
    table = pd.DataFrame({"step": number, "ts": start, "step_ns": end - start})
    for name, intervals in parts.items():
        table[name] = length_within(intervals, start, end)
    table["idle_ns"] = table["step_ns"] - length_within(busy, start, end) - table["data_ns"]
    return table


def _work(trace: Trace, window: WindowLike, step: Numbers) -> tuple[Scope, Mask, Mask]:
    """What counts as work, and what of it communicates or moves memory."""
    work = on_device(trace, window).where(step=step)
    if not len(work.rows):
        host = on_host(trace, window).where(step=step)
        talks = host.among("category", ("collective",))
        computes = host.among("category", ("operator",)) & ~host.among("phase", ("communication",))
        work = host.only(talks | computes)
    talks = work.among("category", ("collective",))
    return work, talks, work.among("category", ("memcpy", "memset"))


def _stretches(
    trace: Trace, work: Scope, window: WindowLike, step: Numbers, by: str
) -> tuple[pd.arrays.IntegerArray, IntArray, IntArray]:
    if by == "trace":
        some = len(work.rows) > 0
        start = np.array([work.ts.min()] if some else [], np.int64)
        end = np.array([work.end.max()] if some else [], np.int64)
        none = np.zeros(len(start), np.int32)
        return pd.arrays.IntegerArray(none, none == 0), start, end
    spans = step_spans(trace, window)
    number = spans["step"].to_numpy(np.int32)
    start = spans["ts"].to_numpy()
    end = start + spans["dur"].to_numpy()
    if len(end):
        launched = work.end[work.ints("step") == number[-1]]
        end[-1] = max(int(end[-1]), int(launched.max(initial=0)))
        end[:-1] = np.maximum(start[1:], start[:-1])
    keep = np.isin(number, np.atleast_1d(np.asarray(step))) if step is not None else np.ones(len(end), bool)
    none = np.zeros(int(keep.sum()), bool)
    return pd.arrays.IntegerArray(number[keep], none), as_ints(start[keep]), as_ints(end[keep])
