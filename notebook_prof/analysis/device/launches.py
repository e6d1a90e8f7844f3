"""From device work back to the operator that launched it."""

from __future__ import annotations

import numpy as np

from ...trace import Trace
from ...trace.intervals import IntArray
from ..scope import ints, once

_PLUMBING = ("launch", "sync", "overhead")


def launching_rows(trace: Trace) -> IntArray:
    """Row of the host slice that launched each slice.

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
    """The innermost slice around each call of the runtime that is no such call; itself where there is none.

    Parameters
    ----------
    trace : Trace
    calls : ndarray of int64
        Rows of slices; those that are no calls of the runtime are their own owners.
    """
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
