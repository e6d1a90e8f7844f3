"""Which slices a file holds one by one: the longest ones, and whatever is around them."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ...service.store import ViewStore
from ...units import format_count, format_ns

MOST_SLICES: Final = 1_000_000
"""As many as a report of 12 MB holds."""

_SHARED: Final = 0.5
"""Of the slices of a file: this share goes to the longest of every track, so that no track disappears."""


def longest_slices(store: ViewStore, most: int) -> npt.NDArray[np.bool_]:
    """Return the longest slices, of the whole recording and of every track.

    Parameters
    ----------
    store : ViewStore
    most : int

    Returns
    -------
    ndarray of bool, shape (slices,)
        At most `most`, and what is around them: of equally long ones, and where a slice outlasts the one
        around it, a few more.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> _ = b.slices(ts=[0, 1], dur=[9, 2], name=["linear", "mm"], track=b.track("main"))
    >>> longest_slices(ViewStore(b.seal()), 1).tolist()
    [True, False]
    """
    c = store.columns
    if c.n <= most:
        return np.ones(c.n, bool)
    keep = _longest_of_tracks(c.track, c.dur, int(_SHARED * most))
    left = most - int(keep.sum())
    others = np.flatnonzero(~keep)
    if 0 < left < len(others):
        keep[others[np.argpartition(-c.dur[others], left)[:left]]] = True
    around = store.parent[keep]
    while len(around := np.unique(around[around >= 0])) and not keep[around].all():
        around = around[~keep[around]]
        keep[around] = True
        around = store.parent[around]
    return keep


def note_of(store: ViewStore, keep: npt.NDArray[np.bool_], cell_ns: int) -> str:
    """Return what is left out, in sentences.

    Parameters
    ----------
    store : ViewStore
    keep : ndarray of bool, shape (slices,)
    cell_ns : int
        Width of the cells that hold the sums of the others.
    """
    kept, n, least = int(keep.sum()), len(keep), int(store.columns.dur[~keep].max())
    return (
        f"This file holds {format_count(kept)} of {format_count(n)} slices one by one: all of more than "
        f"{format_ns(least)}, and the longest of every track. Of the other {format_count(n - kept)} it holds "
        f"how busy they keep every row, in cells of {format_ns(cell_ns)}, and the totals of every name. "
        "Numbers of the whole recording are exact; those of a part of it are estimates, marked ≈, and "
        "find walks the slices that are in the file. Every slice is in the trace itself: open it in a "
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
