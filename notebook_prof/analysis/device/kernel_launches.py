"""Launches of device work: the operator, the delay, and the length of the queue."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ...trace import Trace
from ...trace.arrays import IntArray
from ..busy_time import device_of
from ..scope import Numbers, Scope, Texts, WindowLike, ints, on_device, texts
from .launches import launch_calls, launching_rows


def kernel_launches(
    trace: Trace,
    *,
    window: WindowLike = None,
    step: Numbers = None,
    phase: Texts = None,
    category: Texts = None,
    shorter_than: int | None = None,
) -> pd.DataFrame:
    """List device work with the operator that launched it, the delay, and the length of the queue.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns: work that touches it, with uncut times.
    step : int or iterable of int, optional
        Keep only work launched by these steps.
    phase, category : str or iterable of str, optional
        Keep these; ``category="kernel"`` leaves copies, fills and collectives out.
    shorter_than : int, optional
        Keep only shorter work, in ns.

    Returns
    -------
    DataFrame
        A row for each piece of work whose launch was recorded, by its start; no rows without any.

        - ``slice``, ``launch`` int64: rows in ``trace.slices`` of the work and of the call that launched it;
        - ``name``, ``operator`` str: of the work, and of the innermost operator around the call, or the call
          itself if there is none;
        - ``device``, ``stream`` int64, -1 where not known; ``step`` Int32; ``phase`` category;
        - ``launch_ts``, ``call_ns``, ``ts``, ``dur`` int64 ns: start and duration of the call and the work;
        - ``delay_ns`` int64: from the end of the call to the start of the work, 0 where it began sooner;
        - ``queue`` int64: work of its stream that was launched but had not begun at its launch, itself
          included.

    Raises
    ------
    SelectionError
        If a phase or category does not exist.

    Notes
    -----
    Delay and queue are as in HTA's launch statistics and queue length. Long delays with long queues mean that
    the device is the bottleneck; short delays and a queue of one mean that it waits for the host.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main:     [mm][add]
    ... stream 7:   [gemm    ][plus]
    ... ''', launches=[("mm", "gemm"), ("add", "plus")])
    >>> kernel_launches(trace)[["name", "operator", "delay_ns", "queue"]].values.tolist()
    [['gemm', 'mm', 0, 1], ['plus', 'add', 3, 1]]
    """
    every = on_device(trace)
    queue = _queues(trace, every)
    work = on_device(trace, window).where(step=step, phase=phase, category=category)
    rows = work.rows
    call = launch_calls(trace)[rows]
    ts, dur = trace.slices["ts"].to_numpy(), trace.slices["dur"].to_numpy()
    keep = call >= 0
    if shorter_than is not None:
        keep &= dur[rows] < shorter_than
    where = device_of(trace, work)[keep]
    rows, call = rows[keep], call[keep]
    name = trace.slices["name"]
    codes = name.cat.codes.to_numpy()
    chosen = trace.slices[["step", "phase"]].iloc[rows].reset_index(drop=True)
    return pd.DataFrame(
        {
            "slice": rows,
            "launch": call,
            "name": texts(name, codes[rows]),
            "operator": texts(name, codes[launching_rows(trace)[rows]]),
            "device": where,
            "stream": ints(trace.slices["stream"])[rows],
            "step": chosen["step"],
            "phase": chosen["phase"],
            "launch_ts": ts[call],
            "call_ns": dur[call],
            "ts": ts[rows],
            "dur": dur[rows],
            "delay_ns": np.maximum(ts[rows] - ts[call] - dur[call], 0),
            "queue": queue[rows],
        }
    )


def _queues(trace: Trace, work: Scope) -> IntArray:
    """Return the length of the stream's queue when each slice was launched."""
    ts = trace.slices["ts"].to_numpy()
    call = launch_calls(trace)[work.rows]
    track = work.ints("track")
    queue = np.zeros(len(ts), dtype=np.int64)
    for stream in np.unique(track[call >= 0]):
        of_stream = np.flatnonzero((track == stream) & (call >= 0))
        launched, begun = np.sort(ts[call[of_stream]]), np.sort(ts[work.rows[of_stream]])
        at = ts[call[of_stream]]
        before = np.searchsorted(launched, at, side="right") - np.searchsorted(begun, at, side="right")
        queue[work.rows[of_stream]] = np.maximum(before, 1)
    return queue
