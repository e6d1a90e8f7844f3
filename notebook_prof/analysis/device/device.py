"""How busy the devices were, and with what."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ...trace import DEVICE_CATEGORIES, Intervals, Trace, Window, length, union
from ...trace.intervals import IntArray
from ..distributed.communication_time import exposed_communication
from ..scope import Mask, Scope, WindowLike, ints, on_device

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


def device_of(trace: Trace, work: Scope) -> IntArray:
    """The slice's own device or else its stream's; 0 if neither is known."""
    tracks = trace.tracks
    of_track = np.zeros(1 + max(tracks["track"].max(), 0) if len(tracks) else 1, dtype=np.int64)
    of_track[tracks["track"].to_numpy()] = np.maximum(ints(tracks["device"]), 0)
    own = work.ints("device")
    return np.asarray(np.where(own >= 0, own, of_track[work.ints("track")]), dtype=np.int64)


def _row(work: Scope, here: Mask, number: int, window: WindowLike) -> tuple[int, ...]:
    def during(*categories: str) -> Intervals:
        chosen = here & work.among("category", categories)
        return union(work.ts[chosen], work.end[chosen])

    cut = (
        Window.of(window)
        if window is not None
        else Window(int(work.ts[here].min()), int(work.end[here].max()))
    )
    busy = length(during(*DEVICE_CATEGORIES))
    return (
        number,
        cut.dur,
        busy,
        cut.dur - busy,
        length(during("kernel")),
        length(during("collective")),
        length(during("memcpy", "memset")),
        length(exposed_communication(work.only(here))),
    )
