"""When communication delays a run: the only definition, used by phases, devices and verdicts."""

from __future__ import annotations

from typing import Final

import numpy as np

from ...trace import Intervals, Trace, overlap, subtract, union
from ...trace.arrays import BoolArray, IntArray
from ...trace.intervals import as_ints
from ..device.kernel_launches import launch_calls
from ..scope import Scope, on_device, on_host
from ..time.host_states import waiting

_NOTHING: Final[Intervals] = (np.empty(0, np.int64), np.empty(0, np.int64))


def exposed_communication(work: Scope) -> Intervals:
    """Return disjoint, ascending intervals (ns) in which a device communicates and no kernel computes."""
    # Copies and fills count neither as computation nor as communication.
    return subtract(_intervals_of(work, "collective"), _intervals_of(work, "kernel"))


def blocked_by_communication(trace: Trace, stepping: int) -> Intervals:
    """Return disjoint, ascending intervals (ns) in which communicating devices delay the steps' thread."""
    # Exposed communication counts while a thread that launches work waits for a device (see `host_waits`),
    # while launched compute work of the device has not begun, or if no launches of the device are known.
    # Otherwise the host hides it: it ends before the next launch, and a faster network would change nothing.
    # Check: in one step of DLRM on eight ranks, which took 12.5 to 19.9 ms, everything else took 11.0 to
    # 12.4 ms on each rank.
    work = on_device(trace)
    if not work.among("category", ("collective",)).any():
        return _NOTHING
    call = launch_calls(trace)
    waits = _waits(trace, stepping, call)
    device = work.ints("device")
    parts = [_blocked(trace, work.only(device == number), call, waits) for number in np.unique(device)]
    return union(*(np.concatenate(side) for side in zip(*parts, strict=True)))


def _blocked(trace: Trace, work: Scope, call: IntArray, waits: Intervals) -> Intervals:
    exposed = exposed_communication(work)
    has_launch = call[work.rows] >= 0
    if not has_launch.any():
        return exposed
    queued = has_launch & ~work.among("category", ("collective",))
    at = call[work.rows[queued]]
    slices = trace.slices
    launched = as_ints(slices["ts"].to_numpy()[at] + slices["dur"].to_numpy()[at])
    begins = work.ts[queued]
    early = launched < begins
    ready = union(launched[early], begins[early])
    return overlap(exposed, union(*(np.concatenate(side) for side in zip(ready, waits, strict=True))))


def _waits(trace: Trace, stepping: int, call: IntArray) -> Intervals:
    """Return when the steps' thread, or any other thread that launches work, waits for a device."""
    host = on_host(trace)
    launching = np.unique(trace.slices["track"].to_numpy()[call[call >= 0]])
    waiters = host.only(np.isin(host.ints("track"), np.append(launching, stepping)))
    keep = waiting(trace, waiters)
    return union(waiters.ts[keep], waiters.end[keep])


def _intervals_of(work: Scope, category: str) -> Intervals:
    keep: BoolArray = work.among("category", (category,))
    return union(work.ts[keep], work.end[keep])
