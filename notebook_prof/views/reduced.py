"""A trace small enough for a file: the longest slices, and a sentence on what was left out."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ..trace import Trace
from ..units import format_count, format_ns, format_share

MOST_SLICES: Final = 1_000_000
"""As many as a report of 12 MB holds."""

_SHARED: Final = 0.5
"""Of the slices of a file: this share goes to the longest of every track, so that no track disappears."""


def reduced(trace: Trace, most: int = MOST_SLICES) -> tuple[Trace, str]:
    """Keep the longest slices, of the whole recording and of every track.

    Parameters
    ----------
    trace : Trace
    most : int

    Returns
    -------
    trace : Trace
        With at most `most` slices, nested anew: the time of what was left out is self time of what was around
        it. The trace itself where it is small enough.
    note : str
        What was left out; empty where nothing was.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> _ = b.slices(ts=[0, 1], dur=[9, 2], name=["linear", "mm"], track=b.track("main"))
    >>> small, note = reduced(b.seal(), 1)
    >>> small.slices["self_ns"].tolist(), note[:37]
    ([9], 'This file holds 1 of 2 slices: all of')
    """
    n = len(trace.slices)
    if n <= most:
        return trace, ""
    dur = trace.slices["dur"].to_numpy()
    keep = _longest_of_tracks(trace.slices["track"].to_numpy(), dur, int(_SHARED * most))
    left = most - int(keep.sum())
    rest = np.flatnonzero(~keep)
    if 0 < left < len(rest):
        keep[rest[np.argpartition(-dur[rest], left)[:left]]] = True
    small = trace.only(keep)
    busy, shown = int(trace.slices["self_ns"].sum()), int(small.slices["self_ns"].sum())
    least = int(dur[~keep].max()) if most else 0
    lost = format_share(max(0.0, 1 - shown / max(busy, 1)))
    return small, (
        f"This file holds {format_count(int(keep.sum()))} of {format_count(n)} slices: all of more than "
        f"{format_ns(least)}, and the longest of every track. The time of the others is self time of what "
        f"was around them, {lost} of the busy time is not in it, and the tables count what is in it. "
        "Every slice is in the trace itself: open it in a notebook."
    )


def _longest_of_tracks(
    track: npt.NDArray[np.integer], dur: npt.NDArray[np.int64], most: int
) -> npt.NDArray[np.bool_]:
    """The longest slices of every track, as many of each as `most` allows."""
    keep = np.zeros(len(dur), bool)
    order, counts = np.argsort(track, kind="stable"), np.bincount(track)
    each = most // max(int(np.count_nonzero(counts)), 1)
    for rows in np.split(order, np.cumsum(counts)[:-1]) if each else ():
        keep[rows[np.argpartition(-dur[rows], each)[:each]] if len(rows) > each else rows] = True
    return keep
