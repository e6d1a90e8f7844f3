"""Memory over time, its peak, that of the process and its children, and the blocks at one instant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd

from ...errors import checked_columns
from ...trace import Trace, Window
from ...trace.arrays import BoolArray, IntArray, optional
from ...trace.schema import Table
from ...units import parse_ns
from ..scope import WindowLike, steps_at
from .blocks import Lives, block_table, lives

SOURCES: Final = ("rss", "allocator")
EVENT_BYTES: Final = 2200
"""Maximum bytes that PyTorch's profiler holds per slice or allocation (2.13, with shapes, memory, modules).
Measured: 300 if nothing else is allocated, 1,950 with freed blocks between the events, 2,100 in 32 steps of
1,260 events each.
"""
RECORDER_SHARE: Final = 0.1
"""The recorder's memory is reported from this share of the peak resident memory."""
_NONE: Final = np.empty(0, np.int64)
_SOURCE: Final = pd.CategoricalDtype(list(SOURCES))


def memory(trace: Trace, *, window: WindowLike = None, device: int | None = None) -> pd.DataFrame:
    """Return the memory curves: resident memory of the process, and the bytes of each device's allocator.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns. A row at its start shows the level at that time.
    device : int, optional
        Keep this one; -1 is the host.

    Returns
    -------
    DataFrame
        A step function by `ts`: each row holds until the next one of the same device and source. Empty if no
        memory was recorded.

        - ``ts`` int64 ns; ``device`` int16 (-1: host);
        - ``allocated_bytes`` int64; ``reserved_bytes`` int64: what the allocator has reserved from the
          system, 0 if unknown (the host);
        - ``source`` category: ``rss`` for the resident memory of the process, or ``allocator``. On the host
          the allocator's blocks are part of the resident memory.

    Notes
    -----
    PyTorch's host allocator counts from the first recorded allocation, so its level is relative to the
    start of the recording.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> b.allocations(ts=[0, 9], addr=[1, 1], bytes=[64, -64], device=0, allocated=[64, 0], reserved=128)
    >>> memory(b.seal())[["ts", "allocated_bytes", "reserved_bytes"]].values.tolist()
    [[0, 64, 128], [9, 0, 128]]
    """
    events, (resident_at, resident) = trace.allocations, _resident(trace)
    ts, host = np.concatenate([resident_at, events["ts"].to_numpy()]), len(resident)
    of_source = np.repeat(np.arange(len(SOURCES), dtype=np.int8), [host, len(events)])
    columns = {
        "ts": ts,
        "device": np.concatenate([np.full(host, -1, np.int16), events["device"].to_numpy()]),
        "allocated_bytes": np.concatenate([resident, events["allocated"].to_numpy()]),
        "reserved_bytes": np.concatenate([np.zeros(host, np.int64), events["reserved"].to_numpy()]),
        "source": pd.Categorical.from_codes(of_source, dtype=_SOURCE),
    }
    order = np.argsort(ts, kind="stable")
    table = pd.DataFrame({name: values[order] for name, values in columns.items()}, copy=False)
    if device is not None:
        table = table[table["device"] == device].reset_index(drop=True)
    if window is not None:
        cut, ts = Window.of(window), table["ts"].to_numpy()
        entering = table[ts < cut.start].groupby(["device", "source"], observed=True, sort=False).tail(1)
        entering = entering.assign(ts=cut.start).sort_values("source", kind="stable")
        table = pd.concat([entering, table[(ts >= cut.start) & (ts < cut.end)]], ignore_index=True)
    return table


def _resident(trace: Trace) -> tuple[IntArray, IntArray]:
    """Return the process's resident memory over time, from a counter in bytes with RSS in its name."""
    tracks, counters = trace.tracks, trace.counters
    if not len(counters):
        return _NONE, _NONE
    named = tracks["name"].str.contains("rss|resident", case=False, regex=True).fillna(False).to_numpy(bool)
    keys = tracks.loc[named & (tracks["unit"] == "bytes").to_numpy(bool), "track"]
    values = counters[counters["track"].isin(keys.head(1))]
    return values["ts"].to_numpy(), values["value"].round().astype("int64").to_numpy()


def memory_peak(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """Find the peak of each device's memory, and when it occurs.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns.

    Returns
    -------
    DataFrame
        One row per device (and source, see `memory`), by device; empty if no memory was recorded.

        - ``device`` int16 (-1: host); ``source`` category;
        - ``ts`` int64 ns: the first instant at the peak; `memory_live` accepts it;
        - ``peak_bytes`` int64: allocated then; ``reserved_peak_bytes`` int64: highest reserved;
        - ``start_bytes``, ``end_bytes`` int64: allocated at the first and the last row;
        - ``base_bytes`` int64: the level before the recording, for any window; the peak is `peak_bytes` -
          `base_bytes` above it. It is 0 for an allocator that counts from its first recorded block;
        - ``recorder_bytes`` int64: an upper bound of the memory that PyTorch's profiler holds for its events
          in the same process: 2,200 bytes per slice or allocation until ``ts``, at most what is above the
          base. It may hold only a tenth of that. 0 if it did not record, and in an allocator's rows;
        - ``step`` Int32: the step at ``ts``.

    Notes
    -----
    Resident memory is that of the process alone; `memory_processes` adds its children.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> b.allocations(ts=[0, 5, 9], addr=[1, 2, 1], bytes=[64, 8, -64], device=0,
    ...               allocated=[64, 72, 8], reserved=128)
    >>> memory_peak(b.seal())[["ts", "peak_bytes", "reserved_peak_bytes", "end_bytes"]].values.tolist()
    [[5, 72, 128, 8]]
    """
    curve = memory(trace, window=window)
    if not len(curve):
        return _PEAKS.empty().astype({"source": _SOURCE})
    each = curve.groupby(["device", "source"], observed=True, sort=True)
    top = curve.loc[each["allocated_bytes"].idxmax().to_numpy()]
    table = pd.DataFrame(
        {
            "device": top["device"].to_numpy(),
            "source": top["source"].array,
            "ts": top["ts"].to_numpy(),
            "peak_bytes": top["allocated_bytes"].to_numpy(),
            "reserved_peak_bytes": each["reserved_bytes"].max().to_numpy(),
            "start_bytes": each["allocated_bytes"].first().to_numpy(),
            "end_bytes": each["allocated_bytes"].last().to_numpy(),
        }
    )
    table["base_bytes"] = _level_before(trace, table, curve if window is None else memory(trace))
    above = (table["peak_bytes"] - table["base_bytes"]).to_numpy(dtype=np.int64)
    most = EVENT_BYTES * _events_until(trace, table["ts"].to_numpy())
    table["recorder_bytes"] = np.where(table["source"] == "rss", np.clip(most, 0, np.maximum(above, 0)), 0)
    table["step"] = optional(steps_at(trace, table["ts"].to_numpy()), "Int32")
    return table


_PEAKS: Final = Table.of(
    "memory_peak",
    "device:int16 source:category ts:int64 peak_bytes:int64 reserved_peak_bytes:int64 start_bytes:int64 "
    "end_bytes:int64 base_bytes:int64 recorder_bytes:int64 step:Int32",
)


def recorded_by_torch(trace: Trace) -> BoolArray:
    """Return which slices PyTorch's profiler recorded in the process of the memory curve."""
    if "torch" not in (trace.metadata.get("collectors") or ()):
        return np.zeros(len(trace), dtype=bool)
    return np.asarray(trace.slices["category"] != "python", dtype=bool)


def _events_until(trace: Trace, instants: IntArray) -> IntArray:
    """Return how many slices and allocations PyTorch's profiler had recorded at each instant."""
    recorded = recorded_by_torch(trace)
    if not recorded.any():
        return np.zeros(len(instants), dtype=np.int64)
    ts = trace.slices["ts"].to_numpy(dtype=np.int64)[recorded]
    allocated = trace.allocations["ts"].to_numpy(dtype=np.int64)
    counts = [np.searchsorted(np.sort(one), instants, side="right") for one in (ts, allocated)]
    return np.asarray(counts[0] + counts[1], dtype=np.int64)


def _level_before(trace: Trace, table: pd.DataFrame, curve: pd.DataFrame) -> IntArray:
    """Return, for each device and source of `table`, the level before the first event."""
    curve = curve.drop_duplicates(["device", "source"])
    keys = pd.MultiIndex.from_arrays([curve["device"], curve["source"].astype("object")])
    level = pd.Series(curve["allocated_bytes"].to_numpy(), index=keys)
    events = trace.allocations.drop_duplicates("device")
    for device, size in zip(events["device"].tolist(), events["bytes"].tolist(), strict=True):
        level[device, "allocator"] = max(0, int(level[device, "allocator"]) - size)
    rows = pd.MultiIndex.from_arrays([table["device"], table["source"].astype("object")])
    return np.asarray(level.reindex(rows, fill_value=0).to_numpy(dtype=np.int64))


COLUMNS: Final = Table.of(
    "memory_processes", "name:str kind:str pid:int64 ts:int64 bytes:int64 start_bytes:int64 peak_bytes:int64"
)


def memory_processes(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """List the memory of the process and its children at the instant at which their sum is highest.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns.

    Returns
    -------
    DataFrame
        The process, then its descendants that had memory, largest `bytes` first; empty if resident memory was
        not recorded.

        - ``name``, ``kind`` str: ``process`` or ``child``; ``pid`` int64;
        - ``ts`` int64 ns: that instant, the same in each row;
        - ``bytes``, ``start_bytes`` int64: resident then, and at the start; ``peak_bytes`` int64: peak of
          this process alone.

    Notes
    -----
    For a child, only its own memory counts: no files, no shared memory, and no pages shared with the parent
    since a fork. Pages that are copied because the child writes to them are not counted.
    So the sum is a lower bound. Children are read every 50 ms, on Linux only; those that live shorter may be
    missing.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> b.counter(b.track("process RSS", "counter", unit="bytes"), [0, 20], [100.0, 130.0])
    >>> b.table("child_memory", pd.DataFrame({"pid": 7, "name": "make", "ts": [5, 15], "bytes": [60, 0]}))
    >>> memory_processes(b.seal())[["name", "ts", "bytes", "start_bytes"]].values.tolist()
    [['process', 5, 100, 100], ['make', 5, 60, 0]]
    """
    resident = memory(trace, device=-1)
    resident = resident[resident["source"] == "rss"]
    if not len(resident):
        return COLUMNS.empty()
    main = int((trace.metadata.get("cpu") or {}).get("pid", -1))
    own = pd.DataFrame(
        {"pid": main, "name": "process", "ts": resident["ts"], "bytes": resident["allocated_bytes"]}
    )
    children = (trace.metadata.get("tables") or {}).get("child_memory", own[:0])
    rows = pd.concat([own, children[list(own.columns)]], ignore_index=True)
    rows = rows.sort_values("ts", kind="stable").reset_index(drop=True)
    before = rows.groupby("pid")["bytes"].shift(fill_value=0)
    total = (rows["bytes"] - before).groupby(rows["ts"]).sum().cumsum()
    ts, level = total.index.to_numpy(np.int64), total.to_numpy(np.int64)
    cut = Window(int(resident["ts"].iloc[0]), int(ts[-1]) + 1) if window is None else Window.of(window)
    moments = np.union1d([cut.start], ts[(ts >= cut.start) & (ts < cut.end)])
    row = np.searchsorted(ts, moments, side="right") - 1
    at = int(moments[np.where(row >= 0, level[np.maximum(row, 0)], 0).argmax()])
    inside = rows[(rows["ts"] >= cut.start) & (rows["ts"] < cut.end)]
    table = rows.groupby("pid", sort=False)["name"].last().reset_index()
    for column, part in (("bytes", rows[rows["ts"] <= at]), ("start_bytes", rows[rows["ts"] <= cut.start])):
        table[column] = table["pid"].map(part.groupby("pid")["bytes"].last()).fillna(0)
    highest = table["pid"].map(inside.groupby("pid")["bytes"].max()).fillna(0)
    table["peak_bytes"] = np.maximum(highest, table["start_bytes"])
    table["kind"], table["ts"] = np.where(table["pid"] == main, "process", "child"), at
    table = table[(table["kind"] == "process") | (table["peak_bytes"] > 0)]
    order = ["kind", "bytes", "peak_bytes"]
    ordered = table.sort_values(order, ascending=[False, False, False], kind="stable")
    return COLUMNS.frame({column.name: ordered[column.name].to_numpy() for column in COLUMNS.columns})


def memory_live(trace: Trace, at: int | str | None = None, *, device: int | None = None) -> pd.DataFrame:
    """List the blocks that are allocated at an instant.

    Parameters
    ----------
    at : int or str, optional
        ns from the start of the trace, or text such as ``"2ms"``; default: the peak (of the host or the
        device with the highest one).
    device : int, optional
        Keep this one; -1 is the host.

    Returns
    -------
    DataFrame
        One row per block, largest first; empty if no allocator was recorded.

        - ``addr`` uint64, ``device`` int16 (-1: host), ``bytes`` int64;
        - ``birth_ts`` Int64 ns: missing for a block from before the recording, known only by its release;
        - ``death_ts`` Int64 ns: missing if it outlived the recording;
        - ``operator`` str: innermost slice at its birth, except ``aten::empty`` and the like; ``module``,
          ``phase``, ``line`` str and ``step`` Int32 of that slice; ``slice`` Int64: its row in
          ``trace.slices``;
        - ``kind`` category: ``activation gradient optimizer input temporary parameter earlier other``, judged
          by its lifetime; see `memory_by`.

    Notes
    -----
    The events of an address, in order, pair up: a block lives from its allocation to the next event of the
    same address.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> b.allocations(ts=[0, 5, 9], addr=[1, 2, 1], bytes=[64, 8, -64], device=0,
    ...               allocated=[64, 72, 8], reserved=128)
    >>> memory_live(b.seal(), 6)["bytes"].tolist()
    [64, 8]
    """
    events = trace.allocations
    if device is not None:
        events = events[events["device"] == device].reset_index(drop=True)
    instant = peak_instant(trace, device) if at is None else parse_ns(at)
    blocks = lives(events)
    live = (blocks.birth <= instant) & (instant < blocks.death)
    table = block_table(trace, events, Lives(*(column[live] for column in blocks)))
    columns = ["operator", "module", "phase", "line", "step", "slice", "kind"]
    table = table[["addr", "device", "bytes", "birth_ts", "death_ts", *columns]]
    return table.sort_values("bytes", ascending=False, kind="stable").reset_index(drop=True)


def peak_instant(trace: Trace, device: int | None = None) -> int:
    """Return the instant of the allocator's highest peak; 0 if there is none."""
    peaks = memory_peak(trace)
    peaks = peaks[peaks["source"] == "allocator"]
    if device is not None:
        peaks = peaks[peaks["device"] == device]
    if not len(peaks):
        return 0
    return int(peaks["ts"].to_numpy()[peaks["peak_bytes"].to_numpy().argmax()])


_BY: Final = ("operator", "module", "phase", "line", "step", "kind", "device")


def memory_by(
    trace: Trace, by: str | Sequence[str] = "kind", *, at: int | str | None = None, device: int | None = None
) -> pd.DataFrame:
    """Sum up the blocks that are allocated at an instant.

    Parameters
    ----------
    by : str or sequence of str
        ``kind`` (activation, gradient, …), ``operator``, ``module``, ``phase``, ``line`` or ``step`` of
        birth, ``device``, or several of them.
    at : int or str, optional
        ns from the start of the trace, or text such as ``"2ms"``; default: the highest peak.
    device : int, optional
        Keep this one; -1 is the host.

    Returns
    -------
    DataFrame
        By `bytes`, most first; empty if no allocator was recorded.

        - the columns of `by`; missing if unknown;
        - ``blocks`` int64; ``bytes`` int64; ``share`` float64 of all live bytes;
        - ``largest_bytes`` int64: of the largest block.

    Notes
    -----
    The blocks are those of `memory_live`, with a recorded allocation or release: memory that a program
    allocated before the recording and still holds is not included.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> b.allocations(ts=[0, 5, 9], addr=[1, 2, 1], bytes=[64, 8, -64], device=[0, 1, 0],
    ...               allocated=[64, 8, 0], reserved=128)
    >>> memory_by(b.seal(), "device", at=6)[["device", "blocks", "bytes"]].values.tolist()
    [[0, 1, 64], [1, 1, 8]]
    """
    columns = checked_columns("memory cannot be grouped by", by, _BY)
    blocks = memory_live(trace, at, device=device)
    groups = blocks.groupby(columns, dropna=False, observed=True, sort=False)["bytes"]
    table = groups.agg(["count", "sum", "max"]).reset_index()
    table = table.rename(columns={"count": "blocks", "sum": "bytes", "max": "largest_bytes"})
    table = table.astype({"blocks": "int64", "bytes": "int64", "largest_bytes": "int64"})
    table["share"] = table["bytes"] / max(int(table["bytes"].sum()), 1)
    order = [*columns, "blocks", "bytes", "share", "largest_bytes"]
    return table[order].sort_values("bytes", ascending=False, kind="stable").reset_index(drop=True)
