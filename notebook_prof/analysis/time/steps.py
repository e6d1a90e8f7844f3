"""The steps, with how busy the host and the devices were in each."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ...trace import Trace, union
from ...trace.intervals import IntArray
from ...trace.sealing import step_at
from ..measure import length_within
from ..scope import Numbers, WindowLike, on_device, on_host
from ..spans import step_spans
from ..trust.doubts import mark, step_doubts
from .phases import stepping_track

_OPTIMIZER_STEP = "Optimizer.step#"


def steps(trace: Trace, *, window: WindowLike = None, step: Numbers = None) -> pd.DataFrame:
    """List the steps and how much of each the host thread and the devices worked.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns; steps are cut at its edges, steps outside are left out.
    step : int or iterable of int, optional
        Keep these steps.

    Returns
    -------
    DataFrame
        By step; no rows for a trace without steps.

        - ``step`` int32, ``ts`` int64 ns, ``dur`` int64 ns;
        - ``loop`` int32: which loop it is a step of, from 0 in order of their first steps;
        - ``source`` category: how it was found, ``mark hook loop file heuristic``;
        - ``host_busy_ns`` int64: time with a slice open on the thread that runs the steps;
        - ``device_busy_ns`` int64: time within the step with work on any stream of any device;
        - ``updates`` int64: steps of optimizers in it (0 in most micro-batches of accumulated gradients);
        - ``slices`` int64: host and device slices that belong to the step;
        - ``doubt`` str, only where there is any: codes of `trust` for steps that are no fair ones
          (``partial-first-step``, ``slow-first-step`` …) or whose device work is wrong by at least 1 %, as
          ``kernels-lost-at-start, throttled``; empty for the others.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> _ = b.slices(ts=[0, 30], dur=[20, 10], name=["mm", "add"], track=b.track("main"))
    >>> b.steps(step=[0, 1], ts=[0, 25], dur=[25, 25], source="loop")
    >>> steps(b.seal())[["step", "dur", "host_busy_ns", "slices"]].values.tolist()
    [[0, 25, 20, 1], [1, 25, 10, 1]]
    """
    table = step_spans(trace, window, step)
    start, end = table["ts"].to_numpy(), (table["ts"] + table["dur"]).to_numpy()
    host, device = on_host(trace), on_device(trace)
    mine = host.only(host.ints("track") == stepping_track(trace))
    table["host_busy_ns"] = length_within(union(mine.ts, mine.end), start, end)
    table["device_busy_ns"] = length_within(union(device.ts, device.end), start, end)
    number = np.concatenate([host.ints("step"), device.ints("step")])
    values, count = np.unique(number[number >= 0], return_counts=True)
    table["slices"] = table["step"].map(dict(zip(values.tolist(), count.tolist(), strict=True)))
    table["slices"] = table["slices"].fillna(0).astype("int64")
    values, count = np.unique(_updates(trace), return_counts=True)
    table["updates"] = table["step"].map(dict(zip(values.tolist(), count.tolist(), strict=True)))
    table["updates"] = table["updates"].fillna(0).astype("int64")
    mark(table, step_doubts(trace, table["step"].to_numpy(np.int64), window))
    return table


def _updates(trace: Trace) -> IntArray:
    """Step of every step of an optimizer; one inside another is part of it."""
    slices = trace.slices
    words = slices["name"].cat.categories
    named = np.flatnonzero(words.astype(str).str.startswith(_OPTIMIZER_STEP))
    steps = np.isin(slices["name"].cat.codes.to_numpy(), named)
    parent = slices["parent"].to_numpy(dtype=np.int64, na_value=-1)
    rows = np.flatnonzero(steps)
    rows = rows[~np.append(steps, False)[parent[rows]]]
    # a step that was counted by a hook ends inside this slice, and one with a closure may begin inside it
    middle = slices["ts"].to_numpy()[rows] + slices["dur"].to_numpy()[rows] // 2
    table = {name: trace.steps[name].to_numpy() for name in ("step", "ts", "dur")}
    number = step_at(middle, table) if len(trace.steps) else np.full(len(rows), -1, np.int64)
    return np.asarray(number[number >= 0])
