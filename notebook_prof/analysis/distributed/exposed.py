"""When communication holds a run up: the one definition that phases, devices and verdicts share."""

from __future__ import annotations

from typing import Final

import numpy as np

from ...trace import Intervals, Trace, overlap, subtract, union
from ...trace.arrays import BoolArray, IntArray
from ...trace.intervals import as_ints
from ..device.launches import launch_calls
from ..scope import Scope, on_device, on_host
from ..time.host_states import waiting

_NOTHING: Final[Intervals] = (np.empty(0, np.int64), np.empty(0, np.int64))


def exposed_communication(work: Scope) -> Intervals:
    """Return when work on one device communicates while no kernel computes.

    Parameters
    ----------
    work : Scope
        All work of one device.

    Returns
    -------
    (starts, ends)
        Disjoint and ascending, ns. Copies and fills count neither as computing nor as communication.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> from notebook_prof.analysis.scope import on_device
    >>> trace = draw('''
    ... stream 7: [gemm    ]
    ... stream 9:       [nccl  ]
    ... ''', categories={"nccl": "collective"})
    >>> starts, ends = exposed_communication(on_device(trace))
    >>> starts.tolist(), ends.tolist()
    ([10], [14])
    """
    return subtract(_intervals_of(work, "collective"), _intervals_of(work, "kernel"))


def blocked_by_communication(trace: Trace, stepping: int) -> Intervals:
    """Return when the thread of the steps gets on no faster because devices communicate.

    Parameters
    ----------
    trace : Trace
    stepping : int
        Track of the thread that runs the steps.

    Returns
    -------
    (starts, ends)
        Disjoint and ascending, ns; the union over devices.

    Notes
    -----
    Of the time in which a device communicates and computes nothing, that in which

    - a thread that launches work waits for a device (see `host_waits`), or
    - work that this device computes is launched already and has not begun, or
    - nothing is known of launches on this device, as in recordings of devices alone.

    The rest of exposed communication is hidden by the host: it ends before the next work is launched, and a
    faster network would change nothing. In one step of DLRM on eight ranks, 12.5 to 19.9 ms long, what is
    left without this time is 11.0 to 12.4 ms on all of them.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main:     [op]  [cudaStreamSynchronize]  [op]
    ... stream 9:   [nccl                   ]
    ... ''', categories={"nccl": "collective", "cudaStreamSynchronize": "sync"}, launches=[("op", "nccl")])
    >>> starts, ends = blocked_by_communication(trace, 0)
    >>> starts.tolist(), ends.tolist()
    ([6], [27])
    """
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
    """Return when any thread that launches work, or the one of the steps, waits for a device."""
    host = on_host(trace)
    launching = np.unique(trace.slices["track"].to_numpy()[call[call >= 0]])
    waiters = host.only(np.isin(host.ints("track"), np.append(launching, stepping)))
    keep = waiting(trace, waiters)
    return union(waiters.ts[keep], waiters.end[keep])


def _intervals_of(work: Scope, category: str) -> Intervals:
    keep: BoolArray = work.among("category", (category,))
    return union(work.ts[keep], work.end[keep])
