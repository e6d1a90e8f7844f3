"""From device work back to the call and the operator that launched it, and the quickest launch."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from ...trace import Trace
from ...trace.arrays import IntArray
from ...trace.taxonomy import LAUNCH_CALL
from ..scope import ints, once


def launch_calls(trace: Trace) -> IntArray:
    """Return the row of the call that launched each slice: a runtime call or, without one, an operator.

    Returns
    -------
    ndarray of int64, shape (slices + 1,)
        -1 without such a flow; the last place is -1 too, so that it can be indexed with a missing row.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main:     [mm]
    ... stream 7:   [gemm]
    ... ''', launches=[("mm", "gemm")])
    >>> launch_calls(trace).tolist()
    [-1, 0, -1]
    """
    flows = trace.flows
    launches = (flows["kind"] == "launch").to_numpy()
    call = np.full(len(trace.slices) + 1, -1, dtype=np.int64)
    call[flows["dst"].to_numpy()[launches]] = flows["src"].to_numpy()[launches]
    return call


_PLUMBING = ("launch", "sync", "overhead")


def launching_rows(trace: Trace) -> IntArray:
    """Return the row of the host slice that launched each slice.

    Returns
    -------
    ndarray of int64, shape (slices,)
        The source of the slice's ``launch`` flow or, where that is itself a runtime call, the innermost
        slice around it that is not; the call itself if nothing is around it. -1 without such a flow.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> main, stream = b.track("main"), b.track("stream 7", "stream", device=0, stream=7)
    >>> kind = ["operator", "launch"]
    >>> host = b.slices(ts=[0, 2], dur=[9, 1], name=["mm", "call"], category=kind, track=main)
    >>> b.flows("launch", host[1], b.slices(ts=5, dur=9, name="gemm", category="kernel", track=stream))
    >>> launching_rows(b.seal()).tolist()
    [-1, -1, 0]
    """
    return once(trace, "launching rows", lambda: _launching_rows(trace)).copy()


def _launching_rows(trace: Trace) -> IntArray:
    slices, flows = trace.slices, trace.flows
    launches = (flows["kind"] == "launch").to_numpy()
    src, dst = flows["src"].to_numpy()[launches], flows["dst"].to_numpy()[launches]
    launcher = np.full(len(slices), -1, dtype=np.int64)
    launcher[dst] = owning_rows(trace, src)
    return launcher


def owning_rows(trace: Trace, calls: IntArray) -> IntArray:
    """Return the innermost slice around each call of the runtime that is no such call, else the call itself.

    Parameters
    ----------
    trace : Trace
    calls : ndarray of int64
        Rows of slices; those that are no calls of the runtime are their own owners.
    """
    if not len(calls):
        return calls.copy()
    plumbing = trace.slices["category"].isin(_PLUMBING).to_numpy()
    parent = ints(trace.slices["parent"])
    owner = calls.copy()
    todo = np.flatnonzero(plumbing[owner])
    while len(todo):
        above = parent[owner[todo]]
        owner[todo] = above
        todo = todo[above >= 0]
        todo = todo[plumbing[owner[todo]]]
    return np.asarray(np.where(owner >= 0, owner, calls), dtype=np.int64)


_MAY_START_NOTHING: Final = re.compile(r"(?i)memcpy|memset|prefetch")
_ENOUGH: Final = 3
GRAPH_LAUNCH: Final = re.compile(r"(?:cuda|cu|hip)GraphLaunch(?:_\w+)?")
GAP_NS: Final = 3_000
"""Kernels that wait in a queue follow within 1 to 2 µs; after a longer gap, one was waited for."""


def launch_names(trace: Trace) -> set[str]:
    """Return the names of calls that start a kernel each time.

    Those that are known, and those most of whose calls started a kernel in this recording: a runtime newer
    than this table may spell them otherwise. Copies and fills are none, as those of zero bytes start nothing.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main:     [cudaRun][cudaMalloc]
    ... stream 7:   [x]
    ... ''', categories={"cudaRun": "launch", "cudaMalloc": "launch"}, launches=[("cudaRun", "x")])
    >>> sorted(launch_names(trace))
    ['cudaRun']
    """
    name = trace.slices["name"]
    by_name = {str(word) for word in name.cat.categories if LAUNCH_CALL.fullmatch(str(word))}
    category = trace.slices["category"]
    kernel = np.append(category.isin(("kernel", "collective")).to_numpy(), False)
    calls = np.flatnonzero((category == "launch").to_numpy())
    starts = np.zeros(len(kernel), dtype=bool)
    starts[launch_calls(trace)[kernel]] = True
    codes = name.cat.codes.to_numpy()[calls]
    count = np.bincount(codes, minlength=len(name.cat.categories))
    with_kernel = np.bincount(codes, starts[calls], minlength=len(name.cat.categories))
    often = name.cat.categories[2 * with_kernel > count]
    return by_name | {str(word) for word in often if not _MAY_START_NOTHING.search(str(word))}


def least_launch_delay(trace: Trace) -> int | None:
    """Return the time from the launch call to the kernel, for the quickest launch on an idle stream.

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
        of_stream = track[dst] == stream
        at = np.searchsorted(ts[rows], ts[dst[of_stream]], side="left")
        idle[of_stream] = before[at] + GAP_NS <= ts[dst[of_stream]]
    delays = (ts[dst] - ts[src])[idle]
    return int(delays.min()) if len(delays) >= _ENOUGH else None
