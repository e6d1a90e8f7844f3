"""The slices in a file: the longest ones, and those around them."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ...service.store import ViewStore
from ...units import format_count, format_ns

MOST_SLICES: Final = 1_000_000
"""The number of slices in a report of 12 MB."""

_SHARED: Final = 0.5
"""Share of a file's slices reserved for the longest of every track, so that no track disappears."""


def longest_slices(store: ViewStore, most: int) -> npt.NDArray[np.bool_]:
    """Return the `most` longest slices, of the whole recording and of every track, and those around them."""
    # Equally long slices, and slices that outlast the one around them, add a few more.
    c = store.columns
    if c.n <= most:
        return np.ones(c.n, bool)
    keep = _longest_of_tracks(c.track, c.dur, int(_SHARED * most))
    left = most - int(keep.sum())
    others = np.flatnonzero(~keep)
    if 0 < left < len(others):
        keep[others[np.argpartition(-c.dur[others], left)[:left]]] = True
    around = store.columns.parent[keep]
    while len(around := np.unique(around[around >= 0])) and not keep[around].all():
        around = around[~keep[around]]
        keep[around] = True
        around = store.columns.parent[around]
    return keep


def note_of(store: ViewStore, keep: npt.NDArray[np.bool_], cell_ns: int) -> str:
    """Return what is left out, in sentences; the sums of the others are in cells of `cell_ns`."""
    kept, n, least = int(keep.sum()), len(keep), int(store.columns.dur[~keep].max())
    return (
        f"This file has {format_count(kept)} of {format_count(n)} slices one by one: all of more than "
        f"{format_ns(least)}, and the longest of every track. For the other {format_count(n - kept)} it has "
        f"how busy they keep every row, in cells of {format_ns(cell_ns)}, and the totals of every name. "
        "Numbers of the whole recording are exact; those of a part of it are estimates, marked ≈; "
        "search finds only the slices in the file. Every slice is in the trace itself: open it in a "
        "notebook."
    )


def _longest_of_tracks(
    track: npt.NDArray[np.integer], dur: npt.NDArray[np.int64], most: int
) -> npt.NDArray[np.bool_]:
    """Return the longest slices of every track, as many of each as `most` allows."""
    keep = np.zeros(len(dur), bool)
    order, counts = np.argsort(track, kind="stable"), np.bincount(track)
    each = most // max(int(np.count_nonzero(counts)), 1)
    for rows in np.split(order, np.cumsum(counts)[:-1]) if each else ():
        keep[rows[np.argpartition(-dur[rows], each)[:each]] if len(rows) > each else rows] = True
    return keep
