"""Launches of device work: the operator, the delay, and the length of the queue."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np
import pandas as pd

from ...trace import DEVICE_CATEGORIES, Trace, inherit
from ...trace.arrays import IntArray
from ...trace.taxonomy import LAUNCH_CALL
from ..busy_time import device_of
from ..grouping import reach_before
from ..scope import Numbers, Scope, Texts, WindowLike, bounds, ints, on_device, once, texts

# From device work to the call and the operator that launched it; the shortest launch delay.


def launch_calls(trace: Trace) -> IntArray:
    """Return the row of each slice's launching call: a runtime call, or else an operator; -1 if unknown."""
    flows = trace.flows
    launches = (flows["kind"] == "launch").to_numpy()
    call = np.full(len(trace.slices) + 1, -1, np.int64)  # the last entry is for a missing row (-1)
    call[flows["dst"].to_numpy()[launches]] = flows["src"].to_numpy()[launches]
    return call


_PLUMBING = ("launch", "sync", "overhead")


def launching_rows(trace: Trace) -> IntArray:
    """Return the row of the operator or call that launched each slice; -1 without a ``launch`` flow."""

    def launchers() -> IntArray:
        call = launch_calls(trace)[:-1]
        call[call >= 0] = owning_rows(trace, call[call >= 0])
        return call

    return once(trace, "launching rows", launchers).copy()


def owning_rows(trace: Trace, calls: IntArray) -> IntArray:
    """Return the innermost non-runtime slice around each runtime call, or else the call itself."""
    if not len(calls):
        return calls
    plumbing = trace.slices["category"].isin(_PLUMBING).to_numpy()
    nearest = inherit(ints(trace.slices["parent"]), np.where(plumbing, -1, np.arange(len(plumbing))))
    return np.where(nearest[calls] >= 0, nearest[calls], calls)


_MAY_START_NOTHING: Final = re.compile(r"(?i)memcpy|memset|prefetch")
_ENOUGH: Final = 3
GRAPH_LAUNCH: Final = re.compile(r"(?:cuda|cu|hip)GraphLaunch(?:_\w+)?")
GAP_NS: Final = 3_000
"""Shortest gap that shows a stream waiting for a launch: queued kernels follow within 1 to 2 µs."""


def launch_names(trace: Trace) -> set[str]:
    """Return the names of calls that start a kernel each time."""
    # A name counts if it is known or, since newer runtimes may rename calls, if most of its calls started a
    # kernel in this recording. Copies and fills do not count: with zero bytes they start nothing.
    name = trace.slices["name"]
    by_name = {str(word) for word in name.cat.categories if LAUNCH_CALL.fullmatch(str(word))}
    category = trace.slices["category"]
    kernel = np.append(category.isin(("kernel", "collective")).to_numpy(), False)
    calls = np.flatnonzero((category == "launch").to_numpy())
    starts = np.zeros(len(kernel), dtype=bool)
    starts[launch_calls(trace)[kernel]] = True
    codes = name.cat.codes.to_numpy()[calls]
    count = np.bincount(codes, minlength=len(name.cat.categories))
    with_kernel = np.bincount(codes, starts[calls], minlength=len(name.cat.categories))
    often = name.cat.categories[2 * with_kernel > count]
    return by_name | {str(word) for word in often if not _MAY_START_NOTHING.search(str(word))}


GRAPH_CAPTURE: Final = re.compile(r"(?:cuda|cu|hip)Stream(Begin|End)Capture(?:_\w+)?")
NO_END: Final = np.iinfo(np.int64).max
"""End of a graph capture that was still under way at the end of the recording."""


def graph_captures(host: Scope) -> Iterator[tuple[int, IntArray, IntArray]]:
    """Yield each thread that captured graphs, and the starts and ends of its captures, in ns."""

    def calls(kind: str) -> Scope:
        return host.only(host.named(lambda name: (m := GRAPH_CAPTURE.fullmatch(name)) and m[1] == kind))

    starts, stops = calls("Begin"), calls("End")
    for thread in np.unique(starts.ints("track")).tolist():
        begins = starts.ts[starts.ints("track") == thread]
        ends = np.sort(stops.end[stops.ints("track") == thread])
        yield thread, begins, np.append(ends, NO_END)[np.searchsorted(ends, begins)]


def least_launch_delay(trace: Trace) -> int | None:
    """Return the shortest delay (ns) from call to kernel on an idle stream; None for fewer than three."""
    # The delay counts from the start of the call, and is negative if the clocks disagree.
    # A launch on an idle stream takes a few microseconds on any machine, whatever is launched. If the least
    # delays of two recordings differ by much more, their device clocks are aligned differently. Only work
    # after a gap of 3 µs on its stream counts, which excludes time spent in the queue.
    flows, slices = trace.flows, trace.slices
    launches = (flows["kind"] == "launch").to_numpy()
    src, dst = flows["src"].to_numpy()[launches], flows["dst"].to_numpy()[launches]
    (ts, end), track = bounds(slices), slices["track"].to_numpy()
    work = np.flatnonzero(slices["category"].isin(DEVICE_CATEGORIES).to_numpy())
    idle = np.zeros(len(ts), dtype=bool)
    idle[work] = reach_before(track[work], end[work]) + GAP_NS <= ts[work]
    delays = (ts[dst] - ts[src])[idle[dst]]
    return int(delays.min()) if len(delays) >= _ENOUGH else None


def kernel_launches(
    trace: Trace,
    *,
    window: WindowLike = None,
    step: Numbers = None,
    phase: Texts = None,
    category: Texts = None,
) -> pd.DataFrame:
    """List device work with the operator that launched it, the delay, and the length of the queue.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns: work that touches it, with uncut times.
    step : int or iterable of int, optional
        Keep only work launched by these steps.
    phase, category : str or iterable of str, optional
        Keep these; ``category="kernel"`` leaves out copies, fills and collectives.

    Returns
    -------
    DataFrame
        One row per piece of work whose launch was recorded, by start; no rows without any.

        - ``slice``, ``launch`` int64: rows in ``trace.slices`` of the work and of the call that launched it;
        - ``name``, ``operator`` str: of the work, and of the innermost operator around the call, or the call
          itself if there is none;
        - ``device``, ``stream`` int64, -1 if unknown; ``step`` Int32; ``phase`` category;
        - ``launch_ts``, ``call_ns``, ``ts``, ``dur`` int64 ns: start and duration of the call and the work;
        - ``delay_ns`` int64: from the end of the call to the start of the work, 0 if it began sooner;
        - ``queue`` int64: number of pieces of work on its stream, including itself, that were launched but
          had not begun at its launch.

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
    """Return how long the stream's queue was when each slice was launched, the slice included."""
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
