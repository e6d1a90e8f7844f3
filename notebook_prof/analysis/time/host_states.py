"""When a host thread waits for data, for the device, for a copy, or for other ranks."""

from __future__ import annotations

from typing import Final

import numpy as np

from ...trace import Intervals, Trace, union
from ..scope import Mask, Scope, WindowLike, on_host

STATES: Final = ("input", "sync", "memcpy", "communication")
"""In the order in which they own an instant that several share."""


def host_states(trace: Trace, track: int, window: WindowLike = None) -> dict[str, Intervals]:
    """Find when a thread is in each state; the states may overlap.

    Parameters
    ----------
    trace : Trace
    track : int
        The thread.
    window : (int, int), optional
        Half-open, in ns.

    Returns
    -------
    dict of str to (starts, ends)
        Disjoint, sorted intervals for each of ``input sync memcpy communication``, in this order: a slice of
        phase data; a call that waits for the device; a runtime call that copies memory; a collective, on any
        thread.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw("main: [next/data][cudaStreamSync]", categories={"cudaStreamSync": "sync"})
    >>> {name: (a.tolist(), b.tolist()) for name, (a, b) in host_states(trace, 0).items() if len(a)}
    {'input': ([0], [11]), 'sync': ([11], [27])}
    """
    host = on_host(trace, window)
    mine = host.ints("track") == track
    calls = host.among("category", ("launch",)) & copy_calls(host)
    return {
        "input": _open(host, mine & host.among("phase", ("data",))),
        "sync": _open(host, mine & host.among("category", ("sync",))),
        "memcpy": _open(host, mine & calls),
        "communication": _open(host, host.among("category", ("collective",))),
    }


def copy_calls(scope: Scope) -> Mask:
    """Which slices are runtime calls that copy memory, by their names."""
    wanted = ["memcpy" in str(name).lower() for name in scope.slices["name"].cat.categories]
    return np.asarray(np.append(wanted, False)[scope.codes("name")], dtype=bool)


def _open(host: Scope, keep: Mask) -> Intervals:
    return union(host.ts[keep], host.end[keep])
