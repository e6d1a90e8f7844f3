"""How busy the devices were, with what, and why they were idle."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace import DEVICE_CATEGORIES, Intervals, Trace, add, complement, length, subtract, union
from ...trace.arrays import BoolArray, IntArray
from ...trace.intervals import as_ints
from ...trace.schema import Column, Table
from ..busy_time import BusyTime, busy_time, device_of, device_window
from ..distributed.exposed import exposed_communication
from ..scope import Scope, WindowLike, length_within, on_device
from ..time.host_states import STATES, host_states
from .launches import launch_calls

_COLUMNS: Final = (
    "device",
    "window_ns",
    "busy_ns",
    "idle_ns",
    "compute_ns",
    "communication_ns",
    "memory_ns",
    "exposed_communication_ns",
)


def device(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """Give busy and idle time of each device, from the union of its streams.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns. Default: from the first to the last work of each device.

    Returns
    -------
    DataFrame
        A row a device, by number; no rows without device work. All times int64 ns.

        - ``device`` int16; ``window_ns``: length of the window;
        - ``busy_ns``: time with anything on any stream; ``idle_ns``: the rest, so both sum to `window_ns`;
        - ``compute_ns``: kernels; ``communication_ns``: collectives; ``memory_ns``: copies and fills, each a
          union of its own, so they may overlap;
        - ``exposed_communication_ns``: communication while no kernel computes; how much of it holds the steps
          up is the phase communication of `phases`.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> one, two = (b.track("", "stream", device=0, stream=number) for number in (7, 20))
    >>> kind = ["kernel", "kernel", "collective"]
    >>> _ = b.slices(ts=[0, 20, 5], dur=[10, 5, 10], track=[one, one, two], name=kind, category=kind)
    >>> device(b.seal())[["window_ns", "busy_ns", "idle_ns", "exposed_communication_ns"]].values.tolist()
    [[25, 20, 5, 5]]
    """
    work = on_device(trace, window)
    where = device_of(trace, work)
    rows = [_row(work, where == number, int(number), window) for number in np.unique(where)]
    table = pd.DataFrame(rows, columns=list(_COLUMNS)).astype("int64")
    return table.astype({"device": "int16"})


def _row(work: Scope, here: BoolArray, number: int, window: WindowLike) -> tuple[int, ...]:
    cut = device_window(work.only(here), window)
    start, end = as_ints([cut.start]), as_ints([cut.end])

    def during(*categories: str) -> BusyTime:
        return busy_time(work.only(here & work.among("category", categories)), start, end)

    any_work = during(*DEVICE_CATEGORIES)
    return (
        number,
        any_work.window_ns,
        any_work.busy_ns,
        any_work.idle_ns,
        during("kernel").busy_ns,
        during("collective").busy_ns,
        during("memcpy", "memset").busy_ns,
        length(exposed_communication(work.only(here))),
    )


CAUSES: Final = (*STATES, "host-bound", "launch-latency", "tail", "unknown")
"""``input sync memcpy communication host-bound launch-latency tail unknown``."""


def device_idle(trace: Trace, *, window: WindowLike = None, min_ns: int = 0) -> pd.DataFrame:
    """List the stretches in which a device had nothing to do, and what it waited for.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns. Default: from the first to the last work of each device, as in `device`.
    min_ns : int
        Leave out shorter gaps.

    Returns
    -------
    DataFrame
        A row a gap, by `device`, then `ts`; no rows without device work.

        - ``device`` int16; ``ts``, ``dur`` int64 ns;
        - ``cause`` category, the one with the largest part: ``input sync memcpy communication host-bound
          launch-latency tail unknown``;
        - ``input_ns``, ``sync_ns``, ``memcpy_ns``, ``communication_ns``, ``host_ns``, ``launch_ns``,
          ``tail_ns``, ``unknown_ns`` int64: they sum exactly to `dur`, and `dur` sums to the ``idle_ns`` of
          `device` (with ``min_ns=0``);
        - ``next`` Int64: row of the device slice that ends the gap, missing in the tail; ``launch`` Int64:
          row of the call that launched it; ``step`` Int32 and ``phase`` category of `next`.

    Notes
    -----
    A gap ends when some work K begins, launched by the call L on a host thread.

    1. From the start of L on, the launch is under way: *launch latency* (also the whole gap where L had begun
       before it: the work was queued); *memcpy*, where K is a copy, which the host still prepares.
    2. Before L, the device waits for the host, and the instant goes to the first that the thread of L has
       open: a slice of phase data (*input*), a wait for the device (*sync*), a call that copies or a copy's
       operator (*memcpy*), a collective on any thread (*communication*), else *host-bound*: Python, operators
       and launches of other work.
    3. Without further work until the end of the window it is the *tail*. Where K has no recorded launch it is
       *unknown*, as in traces of the device alone.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main:     [mm]  [next/data     ][mm]
    ... stream 7:    [gemm]                [gemm]
    ... ''', launches=[("mm", "gemm")])
    >>> device_idle(trace)[["ts", "dur", "cause", "input_ns", "host_ns", "launch_ns"]].values.tolist()
    [[9, 16, 'input', 13, 0, 3]]
    """
    work = on_device(trace, window)
    where = device_of(trace, work)
    parts = [_gaps(work.only(where == number), int(number), window) for number in np.unique(where)]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else [_NONE] * 4
    number, start, end, after = (as_ints(column) for column in columns)
    long_enough = end - start >= min_ns
    number, start, end, after = (column[long_enough] for column in (number, start, end, after))
    launch = launch_calls(trace)[after]
    launch[after < 0] = -1
    spent = _divide(trace, start, end, after, launch)
    table = pd.DataFrame({"device": number.astype(np.int16), "ts": start, "dur": end - start})
    largest = np.column_stack([spent[name] for name in CAUSES]).argmax(axis=1)
    make: Any = pd.Categorical.from_codes
    table["cause"] = make(largest, categories=list(CAUSES))
    for name in CAUSES:
        table[cause_column(name)] = spent[name]
    table["next"] = pd.arrays.IntegerArray(after, after < 0)
    table["launch"] = pd.arrays.IntegerArray(launch, launch < 0)
    beyond = pd.Series(np.where(after < 0, len(trace.slices), after))
    for column in ("step", "phase"):
        table[column] = trace.slices[column].reindex(beyond.to_numpy()).reset_index(drop=True)
    return table


_NONE: Final = np.empty(0, np.int64)


def cause_column(cause: str) -> str:
    """Return the column of `device_idle` with the time of a cause."""
    return {"host-bound": "host_ns", "launch-latency": "launch_ns"}.get(cause, f"{cause}_ns")


def _gaps(work: Scope, number: int, window: WindowLike) -> tuple[IntArray, ...]:
    """Return device, start, end, and the row of the work that ends each gap (-1 at the end of the window)."""
    cut = device_window(work, window)
    start, end = complement(union(work.ts, work.end), cut)
    # of what begins at the end of a gap, the first that is not empty
    lasting = work.end > work.ts
    ts, rows = work.ts[lasting], work.rows[lasting]
    at = np.searchsorted(ts, end, side="left")
    after = np.append(rows, -1)[np.minimum(at, len(rows))]
    after[end == cut.end] = np.where(at[end == cut.end] < len(rows), after[end == cut.end], -1)
    return np.full(len(start), number), start, end, after


def _divide(
    trace: Trace, start: IntArray, end: IntArray, after: IntArray, launch: IntArray
) -> dict[str, IntArray]:
    slices = trace.slices
    has_launch = launch >= 0
    begun = np.clip(slices["ts"].to_numpy()[launch], start, end)
    track = np.where(has_launch, slices["track"].to_numpy()[launch], -1)
    tail = after < 0
    begun, track = np.where(tail, start, begun), np.where(tail, -1, track)
    copies = slices["category"].isin(["memcpy"]).to_numpy()[after] & ~tail
    spent = {name: np.zeros(len(start), dtype=np.int64) for name in CAUSES}
    late = np.where(has_launch, end - begun, 0)
    spent["memcpy"] += np.where(copies, late, 0)
    spent["launch-latency"] += np.where(copies, 0, late)
    spent["tail"] += np.where(tail, end - start, 0)
    spent["unknown"] += np.where(~tail & ~has_launch, end - start, 0)
    for thread in np.unique(track[has_launch & ~tail]):
        rows = np.flatnonzero(track == thread)
        explained: Intervals = (_NONE, _NONE)
        for name, open_ in host_states(trace, int(thread)).items():
            own = length_within(subtract(open_, explained), start[rows], begun[rows])
            spent[name][rows] += own
            explained = add(explained, open_)
        busy = length_within(explained, start[rows], begun[rows])
        spent["host-bound"][rows] += begun[rows] - start[rows] - busy
    return spent


_CAUSE_COLUMNS: Final = Table(
    "idle_causes",
    (
        Column("device", "int16", "", "number of the device"),
        Column("cause", "str", "", "as in `device_idle`"),
        Column("gaps", "int64", "", "gaps that have a part of this cause"),
        Column("idle_ns", "int64", "ns", "idle time of this cause; sums to the device's idle time"),
        Column("window_ns", "int64", "ns", "span of the device, busy or idle"),
        Column("share", "float64", "1", "of `window_ns`; with the busy share it sums to 1"),
        Column("idle_share", "float64", "1", "of the device's idle time; NaN where it has none"),
    ),
)


def idle_causes(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """Sum the idle time of every device by what it waited for.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns. Default: from the first to the last work of each device, as in `device`.

    Returns
    -------
    DataFrame
        ``device cause gaps idle_ns window_ns share idle_share``: a row a device and cause, by
        device, in the order ``input sync memcpy communication host-bound launch-latency tail unknown``; rows
        without time are kept, so that every device has all of them; no rows without device work.

    Notes
    -----
    Each gap of `device_idle` is divided among its causes; here they are added up, so that for each device
    ``idle_ns`` sums to that of `device` and, with its ``busy_ns``, to ``window_ns``.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main:     [mm]  [next/data     ][mm]
    ... stream 7:    [gemm]                [gemm]
    ... ''', launches=[("mm", "gemm")])
    >>> table = idle_causes(trace)
    >>> table[table["idle_ns"] > 0][["cause", "idle_ns", "window_ns"]].values.tolist()
    [['input', 13, 28], ['launch-latency', 3, 28]]
    """
    busy, gaps = device(trace, window=window), device_idle(trace, window=window)
    if busy.empty:
        return _CAUSE_COLUMNS.empty()
    columns = [cause_column(cause) for cause in CAUSES]
    times = gaps.groupby("device")[columns].sum().reindex(busy["device"], fill_value=0)
    counts = (gaps[columns] > 0).groupby(gaps["device"]).sum().reindex(busy["device"], fill_value=0)
    repeated = busy.loc[busy.index.repeat(len(CAUSES)), ["device", "window_ns", "idle_ns"]]
    spent = times.to_numpy(dtype=np.int64).ravel()
    whole = repeated["idle_ns"].to_numpy(dtype=np.float64)
    return _CAUSE_COLUMNS.frame(
        {
            "device": repeated["device"].to_numpy(),
            "cause": list(CAUSES) * len(busy),
            "gaps": counts.to_numpy(dtype=np.int64).ravel(),
            "idle_ns": spent,
            "window_ns": repeated["window_ns"].to_numpy(),
            "share": spent / np.maximum(repeated["window_ns"].to_numpy(), 1),
            "idle_share": np.divide(spent, whole, out=np.full(len(spent), np.nan), where=whole > 0),
        }
    )
