"""The only definition of busy time and its shares."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..trace import DEVICE_CATEGORIES, Trace, Window, union
from ..trace.arrays import IntArray
from ..trace.intervals import as_ints
from .scope import Scope, WindowLike, ints, length_within


class BusyTime(NamedTuple):
    """Busy time inside some windows, and the total length of those windows; both in ns."""

    busy_ns: int
    window_ns: int

    @property
    def share(self) -> float:
        """Busy share of the windows, 0–1; 0 if they are empty."""
        return self.busy_ns / self.window_ns if self.window_ns else 0.0


def busy_within(work: Scope, start: IntArray, end: IntArray) -> IntArray:
    """Return how long any slice of `work` is open in each ``[start, end)``, ns; overlaps count once."""
    return length_within(union(work.ts, work.end), start, end)


def busy_time(work: Scope, start: IntArray, end: IntArray) -> BusyTime:
    """Sum the busy time of `work` over disjoint windows, such as steps; ignore work outside of them."""
    return BusyTime(int(busy_within(work, start, end).sum()), int((end - start).sum()))


def device_of(trace: Trace, work: Scope) -> IntArray:
    """Return the slice's own device or else its stream's; 0 if neither is known."""
    tracks = trace.tracks
    of_track = np.zeros(1 + max(tracks["track"].max(), 0) if len(tracks) else 1, dtype=np.int64)
    of_track[tracks["track"].to_numpy()] = np.maximum(ints(tracks["device"]), 0)
    own = ints(work.slices["device"].iloc[work.rows])
    return np.asarray(np.where(own >= 0, own, of_track[work.ints("track")]), dtype=np.int64)


def device_window(work: Scope, window: WindowLike = None) -> Window:
    """Return the window in which a device is judged: `window`, or from its first to its last work."""
    if window is not None:
        return Window.of(window)
    return Window(int(work.ts.min()), int(work.end.max())) if len(work.ts) else Window(0, 0)


def stream_busy_times(trace: Trace) -> dict[int, BusyTime]:
    """Return the busy time of each stream with work, by track, within its device's window (see `device`)."""
    slices, tracks = trace.slices, trace.tracks
    track, ts, own = (slices[name].to_numpy() for name in ("track", "ts", "self_ns"))
    is_work = np.append(slices["category"].cat.categories.isin(DEVICE_CATEGORIES), False)
    working = is_work[slices["category"].cat.codes.to_numpy()]
    streams: dict[int, Scope] = {}
    for stream in tracks.loc[tracks["kind"] == "stream", "track"].tolist():
        # one stream at a time: building columns for all device work at once takes several times as long
        rows = np.flatnonzero(working & (track == stream))
        if len(rows):
            begins = ts[rows]
            streams[stream] = Scope(slices, rows, begins, begins + slices["dur"].to_numpy()[rows], own[rows])
    device, begin, end = {}, dict[int, int](), dict[int, int]()
    for stream, work in streams.items():
        number = device[stream] = int(device_of(trace, work.only(work.rows == work.rows[0]))[0])
        span = device_window(work)
        begin[number] = min(begin.get(number, span.start), span.start)
        end[number] = max(end.get(number, span.end), span.end)
    return {
        stream: busy_time(work, as_ints([begin[device[stream]]]), as_ints([end[device[stream]]]))
        for stream, work in streams.items()
    }
