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
    """Return the row of each slice's launching call: a runtime call, or else an operator.

    The result has one extra entry, -1, at the end, so that it can be indexed with a missing row (-1).
    """
    flows = trace.flows
    launches = (flows["kind"] == "launch").to_numpy()
    call = np.full(len(trace.slices) + 1, -1, dtype=np.int64)
    call[flows["dst"].to_numpy()[launches]] = flows["src"].to_numpy()[launches]
    return call


_PLUMBING = ("launch", "sync", "overhead")


def launching_rows(trace: Trace) -> IntArray:
    """Return the row of the host slice that launched each slice; -1 without a ``launch`` flow.

    For a runtime call, return the innermost other slice around it, or the call itself if there is none.
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
    """Return the innermost non-runtime slice around each runtime call, or else the call itself."""
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
"""Queued kernels follow one another within 1 to 2 µs; after a longer gap, the stream waited for a launch."""


def launch_names(trace: Trace) -> set[str]:
    """Return the names of calls that always start a kernel."""
    # These are known names, and names most of whose calls started a kernel in this recording, since a newer
    # runtime may rename them. Copies and fills do not count: with zero bytes they start nothing.
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
    """Return ns from call to kernel for the quickest launch on an idle stream; None if fewer than three.

    The result is negative if the clocks disagree.
    """
    # A launch on an idle stream takes a few microseconds on any machine, whatever is launched. If the least
    # delays of two recordings differ by much more, their device clocks are aligned differently. Only work
    # after a gap of 3 µs on its stream counts, so that waiting in the queue does not.
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
