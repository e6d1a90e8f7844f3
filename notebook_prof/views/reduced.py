"""A trace small enough for a file: the longest slices, and a sentence on what was left out."""

from __future__ import annotations

from typing import Final

import numpy as np

from ..trace import Trace
from ..units import format_count, format_ns, format_share

MOST_SLICES: Final = 1_000_000
"""As many as a report of 12 MB holds."""


def reduced(trace: Trace, most: int = MOST_SLICES) -> tuple[Trace, str]:
    """Keep the longest slices.

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
    >>> small.slices["self_ns"].tolist(), note[:45]
    ([9], 'This file holds the 1 longest of 2 slices, al')
    """
    n = len(trace.slices)
    if n <= most:
        return trace, ""
    dur = trace.slices["dur"].to_numpy()
    keep = np.zeros(n, bool)
    keep[np.argpartition(-dur, most)[:most]] = True
    small = trace.only(keep)
    busy, shown = int(trace.slices["self_ns"].sum()), int(small.slices["self_ns"].sum())
    least = int(dur[keep].min()) if most else 0
    return small, (
        f"This file holds the {format_count(most)} longest of {format_count(n)} slices, all of "
        f"{format_ns(least)} and more. The time of shorter ones is self time of what was around them; "
        f"{format_share(max(0.0, 1 - shown / max(busy, 1)))} of the busy time is not in it. "
        "Every slice is in the trace itself: open it in a notebook."
    )
