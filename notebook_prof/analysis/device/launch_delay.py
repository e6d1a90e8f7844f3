"""The quickest launch: what the clocks of host and device can be compared by."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from ...trace import Trace

LAUNCHES: Final = re.compile(
    r"(?:cuda|cu|hip)(?:Ext|Hcc)?(?:Module)?(?:Launch(?:Cooperative)?Kernel|GraphLaunch)"
    r"(?:ExC?|MultiDevice)?(?:_v\d+)?(?:_ptsz)?"
)
"""Calls of a runtime or driver, each of which starts at least one kernel."""
_ENOUGH: Final = 3
GAP_NS: Final = 3_000
"""Kernels that wait in a queue follow within 1 to 2 µs; after a longer gap, one was waited for."""


def least_launch_delay(trace: Trace) -> int | None:
    """Time from the launch call to the kernel, for the quickest launch on an idle stream.

    Returns
    -------
    int or None
        ns from the start of the call to the start of its kernel; negative where the clocks are apart. Only
        work after a gap of 3 µs on its stream counts, so that waiting in the queue does not; a shift of
        the device's clock changes nothing but the answer. None with fewer than three such launches.

    Notes
    -----
    A launch on an idle stream takes a few microseconds on any one machine, whatever is launched. Two
    recordings whose least delays differ by much more have placed the device's clock differently.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main:     [a]   [b]     [c]
    ... stream 7:   [x]    [y]   [z]
    ... ''', launches=[("a", "x"), ("b", "y"), ("c", "z")], unit_ns=1000)
    >>> least_launch_delay(trace)
    1000
    """
    flows, slices = trace.flows, trace.slices
    launches = (flows["kind"] == "launch").to_numpy()
    src, dst = flows["src"].to_numpy()[launches], flows["dst"].to_numpy()[launches]
    if not len(dst):
        return None
    ts, track = slices["ts"].to_numpy(), slices["track"].to_numpy()
    end = ts + slices["dur"].to_numpy()
    work = slices["category"].isin(("kernel", "memcpy", "memset", "collective")).to_numpy()
    idle = np.zeros(len(dst), dtype=bool)
    for stream in np.unique(track[dst]):
        rows = np.flatnonzero((track == stream) & work)
        rows = rows[np.argsort(ts[rows], kind="stable")]
        before = np.concatenate([[np.iinfo(np.int64).min // 2], np.maximum.accumulate(end[rows])[:-1]])
        mine = track[dst] == stream
        at = np.searchsorted(ts[rows], ts[dst[mine]], side="left")
        idle[mine] = before[at] + GAP_NS <= ts[dst[mine]]
    delays = (ts[dst] - ts[src])[idle]
    return int(delays.min()) if len(delays) >= _ENOUGH else None
