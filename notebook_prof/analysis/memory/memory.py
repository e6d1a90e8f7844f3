"""Memory over time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ...trace import Trace, Window
from ..scope import WindowLike

SOURCES = ("rss", "allocator")


def memory(trace: Trace, *, window: WindowLike = None, device: int | None = None) -> pd.DataFrame:
    """Give the memory curves: resident memory of the process, and what each device's allocator handed out.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns. A row at its start tells the level on entering.
    device : int, optional
        Keep this one; -1 is the host.

    Returns
    -------
    DataFrame
        A step function by `ts`: each row holds until the next one of the same device and source. No rows
        where nothing recorded memory.

        - ``ts`` int64 ns; ``device`` int16 (-1: host);
        - ``allocated_bytes`` int64; ``reserved_bytes`` int64: what the allocator holds from the system, 0
          where it does not say (the host);
        - ``source`` category: ``rss`` for the resident memory of the process, or ``allocator``. On the host
          the blocks of the allocator lie inside the resident memory.

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
    events = trace.allocations
    table = pd.DataFrame(
        {
            "ts": events["ts"],
            "device": events["device"],
            "allocated_bytes": events["allocated"],
            "reserved_bytes": events["reserved"],
            "source": _source("allocator", len(events)),
        }
    )
    table = pd.concat([_resident(trace), table], ignore_index=True)
    table["source"] = pd.Categorical(table["source"], categories=list(SOURCES))
    if device is not None:
        table = table[table["device"] == device]
    if window is not None:
        table = _from_start(table, Window.of(window))
    return table.sort_values("ts", kind="stable").reset_index(drop=True)


def _resident(trace: Trace) -> pd.DataFrame:
    """The process's resident memory: a counter in bytes whose name says RSS."""
    tracks, counters = trace.tracks, trace.counters
    named = tracks["name"].str.contains("rss|resident", case=False, regex=True).fillna(False).to_numpy(bool)
    keys = tracks.loc[named & (tracks["unit"] == "bytes").to_numpy(bool), "track"]
    values = counters[counters["track"].isin(keys.head(1))]
    return pd.DataFrame(
        {
            "ts": values["ts"],
            "device": np.full(len(values), -1, np.int16),
            "allocated_bytes": values["value"].round().astype("int64"),
            "reserved_bytes": np.zeros(len(values), np.int64),
            "source": _source("rss", len(values)),
        }
    )


def _source(word: str, count: int) -> pd.Categorical:
    make: Any = pd.Categorical.from_codes
    source: pd.Categorical = make(np.full(count, SOURCES.index(word), np.int8), categories=list(SOURCES))
    return source


def _from_start(table: pd.DataFrame, window: Window) -> pd.DataFrame:
    ts = table["ts"].to_numpy()
    entering = table[ts < window.start].groupby(["device", "source"], observed=True, sort=False).tail(1)
    inside = table[(ts >= window.start) & (ts < window.end)]
    return pd.concat([entering.assign(ts=window.start), inside])
