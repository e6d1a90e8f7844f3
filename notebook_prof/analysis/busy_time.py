"""How long something is busy, and of what that is a share: the one place where this is worked out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..trace import DEVICE_CATEGORIES, Trace, Window, union
from ..trace.arrays import IntArray
from ..trace.intervals import as_ints
from .scope import Scope, WindowLike, ints, length_within


class BusyTime(NamedTuple):
    """Busy time inside some windows, and the length of those windows; both in ns.

    Examples
    --------
    >>> time = BusyTime(busy_ns=30, window_ns=40)
    >>> time.idle_ns, time.share
    (10, 0.75)
    """

    busy_ns: int
    window_ns: int

    @property
    def idle_ns(self) -> int:
        """The rest of the windows."""
        return self.window_ns - self.busy_ns

    @property
    def share(self) -> float:
        """Busy part of the windows, 0–1; 0 where they are empty."""
        return self.busy_ns / self.window_ns if self.window_ns else 0.0


def busy_within(work: Scope, start: IntArray, end: IntArray) -> IntArray:
    """Return for each ``[start, end)`` how long some slice of `work` is open in it, in ns.

    Slices that overlap or nest count once, so that it never exceeds ``end - start``.
    """
    return length_within(union(work.ts, work.end), start, end)


def busy_time(work: Scope, start: IntArray, end: IntArray) -> BusyTime:
    """Sum the busy time of `work` over windows that do not overlap, such as steps.

    Parameters
    ----------
    work : Scope
        As `on_device` gives it: what is drawn around work, as ``ProfilerStep``, is not work.
    start, end : ndarray of int64, shape (windows,)
        ns. What `work` does outside them is neither busy nor idle.
    """
    return BusyTime(int(busy_within(work, start, end).sum()), int((end - start).sum()))


def device_of(trace: Trace, work: Scope) -> IntArray:
    """Return the slice's own device or else its stream's; 0 if neither is known."""
    tracks = trace.tracks
    of_track = np.zeros(1 + max(tracks["track"].max(), 0) if len(tracks) else 1, dtype=np.int64)
    of_track[tracks["track"].to_numpy()] = np.maximum(ints(tracks["device"]), 0)
    own = ints(work.slices["device"].iloc[work.rows])
    return np.asarray(np.where(own >= 0, own, of_track[work.ints("track")]), dtype=np.int64)


def device_window(work: Scope, window: WindowLike = None) -> Window:
    """Return what the times of a device are of: `window`, or from its first work to its last."""
    if window is not None:
        return Window.of(window)
    return Window(int(work.ts.min()), int(work.end.max())) if len(work.ts) else Window(0, 0)


def stream_busy_times(trace: Trace) -> dict[int, BusyTime]:
    """Return the busy time of every stream that has work, by track, of the window of its device in `device`.

    Of a device with one stream it is the device's busy time; of one with several, each has a part of it.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw("stream 7: [gemm][gemm]  [gemm]")
    >>> [round(time.share, 3) for time in stream_busy_times(trace).values()]
    [0.9]
    """
    slices, tracks = trace.slices, trace.tracks
    track, ts, own = (slices[name].to_numpy() for name in ("track", "ts", "self_ns"))
    is_work = np.append(slices["category"].cat.categories.isin(DEVICE_CATEGORIES), False)
    working = is_work[slices["category"].cat.codes.to_numpy()]
    streams: dict[int, Scope] = {}
    for stream in tracks.loc[tracks["kind"] == "stream", "track"].tolist():
        # a stream at a time: columns of all device work at once take several times as long
        rows = np.flatnonzero(working & (track == stream))
        if len(rows):
            begins = ts[rows]
            streams[stream] = Scope(slices, rows, begins, begins + slices["dur"].to_numpy()[rows], own[rows])
    device = {stream: int(device_of(trace, _first(work))[0]) for stream, work in streams.items()}
    windows: dict[int, Window] = {}
    for stream, work in streams.items():
        span, so_far = device_window(work), windows.get(device[stream])
        widest = span if so_far is None else Window(min(span.start, so_far.start), max(span.end, so_far.end))
        windows[device[stream]] = widest
    cuts = {stream: windows[device[stream]] for stream in streams}
    return {
        stream: busy_time(work, as_ints([cuts[stream].start]), as_ints([cuts[stream].end]))
        for stream, work in streams.items()
    }


def _first(work: Scope) -> Scope:
    return Scope(work.slices, work.rows[:1], work.ts[:1], work.end[:1], work.self_ns[:1])
