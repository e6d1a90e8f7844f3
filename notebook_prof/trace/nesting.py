"""Which slice encloses which: depth, parent and self time, without a loop over rows.

The definition, which also holds where slices of a track overlap only in part (a Python frame that
straddles an annotation):

- order: by track, then start, then longest first, then as given;
- the **parent** of a slice is the latest-started earlier slice that is still open at its start;
- a slice **owns** the instants at which it is the latest-started open slice of its track; their sum
  is its self time.

From this follow two laws that the tests check: the self times of a track sum to the length of the
union of its slices, and slices of equal depth on one track never overlap.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .arrays import IntArray
from .intervals import as_ints

MAX_DEPTH = np.iinfo(np.int16).max
_FEW_TRACKS = 1 << 15


class Nesting(NamedTuple):
    """Result of `nest`, row by row as given.

    Attributes
    ----------
    depth : ndarray of int16
    parent : ndarray of int64
        Row of the enclosing slice, -1 at the top.
    self_ns : ndarray of int64
    """

    depth: npt.NDArray[np.int16]
    parent: IntArray
    self_ns: IntArray


def nest(track: npt.ArrayLike, ts: npt.ArrayLike, dur: npt.ArrayLike) -> Nesting:
    """Nest slices within their tracks.

    Parameters
    ----------
    track : array_like of int, shape (n,)
    ts, dur : array_like of int64, shape (n,)
        Nanoseconds; `dur` must not be negative.

    Returns
    -------
    Nesting
        Arrays of shape (n,), in the order given; empty for empty input.

    Notes
    -----
    The parent of row *i* is the nearest earlier row whose end lies after its start. Each row starts
    with its predecessor as the candidate and jumps, as long as the candidate has ended, to the
    candidate's own candidate; the jumps double in length, so log2(n) rounds suffice. Rows that no
    earlier slice of the track reaches are settled at once by a running maximum of the ends.

    Examples
    --------
    >>> n = nest([0, 0, 0], [0, 1, 4], [10, 2, 3])
    >>> n.depth.tolist(), n.parent.tolist(), n.self_ns.tolist()
    ([0, 1, 1], [-1, 0, 0], [5, 2, 3])
    """
    tracks: npt.NDArray[np.integer[Any]] = np.asarray(track)
    starts, durs = as_ints(ts), as_ints(dur)
    n = len(starts)
    if n == 0:
        return Nesting(np.empty(0, np.int16), np.empty(0, np.int64), np.empty(0, np.int64))
    order = _order(tracks, starts, durs)
    if order is not None:
        tracks, starts, durs = tracks[order], starts[order], durs[order]
    parent = parents(tracks, starts, starts + durs)
    depth = _depths(parent)
    self_ns = _self_times(starts, durs, parent, depth)
    if order is None:
        return Nesting(depth, parent, self_ns)
    out = Nesting(np.empty(n, np.int16), np.empty(n, np.int64), np.empty(n, np.int64))
    out.depth[order] = depth
    out.parent[order] = np.where(parent >= 0, order[np.maximum(parent, 0)], -1)
    out.self_ns[order] = self_ns
    return out


def order_by_start(ts: IntArray, dur: IntArray) -> IntArray:
    """Return rows by start, then longest first, then as given.

    Recordings consist of runs in order, which a stable sort of the starts merges in almost linear time; of
    rows with the same start there are few.

    Examples
    --------
    >>> order_by_start(np.array([5, 0, 0]), np.array([1, 2, 3])).tolist()
    [2, 1, 0]
    """
    order = np.argsort(ts, kind="stable")
    starts = ts[order]
    tie = starts[1:] == starts[:-1]
    if tie.any():
        at = np.flatnonzero(np.append(tie, False) | np.append(False, tie))
        rows = order[at]
        order[at] = rows[np.lexsort((-dur[rows], ts[rows]))]
    return order


def inherit(parent: npt.ArrayLike, codes: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Fill missing codes from the nearest ancestor that has one.

    Parameters
    ----------
    parent : array_like of int64, shape (n,)
        Row of the enclosing slice, -1 at the top.
    codes : array_like of int, shape (n,)
        -1 where missing.

    Returns
    -------
    ndarray of int64, shape (n,)
        -1 where no ancestor has one either.

    Examples
    --------
    >>> inherit([-1, 0, 1], [7, -1, -1]).tolist()
    [7, 7, 7]
    """
    out, up = np.array(codes, dtype=np.int64), as_ints(parent).copy()
    todo = np.flatnonzero((out < 0) & (up >= 0))
    while len(todo):
        above = up[todo]
        out[todo] = out[above]
        up[todo] = up[above]
        todo = todo[(out[todo] < 0) & (up[todo] >= 0)]
    return out


def climb(parent: npt.ArrayLike, rows: npt.ArrayLike, passed: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Go up from rows that shall be passed over to the first ancestor that shall not.

    Parameters
    ----------
    parent : array_like of int64, shape (n,)
        Row of the enclosing slice, -1 at the top.
    rows : array_like of int64, shape (m,)
        Where to start; -1 stays -1.
    passed : ndarray of bool, shape (n,)
        Rows to pass over.

    Returns
    -------
    ndarray of int64, shape (m,)
        In the order of `rows`; where every ancestor is passed over, the outermost of them.

    Examples
    --------
    >>> climb([-1, 0, 1], [2, 0, -1], np.array([False, True, True])).tolist()
    [0, 0, -1]
    """
    up, skip = np.append(as_ints(parent), -1), np.append(passed, False)  # -1 reads the last place
    out = np.array(rows, dtype=np.int64)
    todo = np.flatnonzero(skip[out])
    while len(todo):
        above = up[out[todo]]
        todo, above = todo[above >= 0], above[above >= 0]
        out[todo] = above
        todo = todo[skip[above]]
    return out


def _order(tracks: npt.NDArray[np.integer[Any]], starts: IntArray, durs: IntArray) -> IntArray | None:
    """Return rows by track, start, longest first; None if they are so already."""
    same = tracks[1:] == tracks[:-1]
    tie = same & (starts[1:] == starts[:-1])
    unsorted = (
        (tracks[1:] < tracks[:-1]) | (same & (starts[1:] < starts[:-1])) | (tie & (durs[1:] > durs[:-1]))
    )
    if not unsorted.any():
        return None
    order = order_by_start(starts, durs)
    first = tracks.min()
    if tracks.max() - first < _FEW_TRACKS:  # 16 bits are sorted by radix
        return order[np.argsort((tracks[order] - first).astype(np.int16), kind="stable")]
    return order[np.argsort(tracks[order], kind="stable")]


def parents(tracks: npt.NDArray[np.integer[Any]], starts: IntArray, ends: IntArray) -> IntArray:
    """Return the latest-started earlier slice of its track that is open at each start; -1 without one.

    Parameters
    ----------
    tracks : ndarray of int, shape (n,)
    starts, ends : ndarray of int64, shape (n,)
        ns; by track, then start, then longest first.

    Examples
    --------
    >>> parents(np.zeros(3, np.int8), np.array([0, 1, 6]), np.array([9, 3, 8])).tolist()
    [-1, 0, 0]
    """
    n = len(starts)
    if n == 0:
        return np.empty(0, np.int64)
    candidate = np.arange(-1, n - 1, dtype=np.int64)
    first = np.flatnonzero(np.append(True, tracks[1:] != tracks[:-1]))
    for lo, hi in zip(first, np.append(first[1:], n), strict=True):
        reach = np.maximum.accumulate(ends[lo:hi])
        top = np.flatnonzero(reach[:-1] <= starts[lo + 1 : hi]) + lo + 1
        candidate[lo] = -1
        candidate[top] = -1
    todo = np.flatnonzero(candidate >= 0)
    todo = todo[ends[candidate[todo]] <= starts[todo]]
    while len(todo):
        # all rows jump at once, from the candidates of the last round
        jumped = candidate[candidate[todo]]
        candidate[todo] = jumped
        open_ = (jumped < 0) | (ends[np.maximum(jumped, 0)] > starts[todo])
        todo = todo[~open_]
    return candidate


def _depths(parent: IntArray) -> npt.NDArray[np.int16]:
    depth = (parent >= 0).astype(np.int32)
    up = parent.copy()
    todo = np.flatnonzero(up >= 0)
    while len(todo):
        above = up[todo]
        depth[todo] += depth[above]
        up[todo] = up[above]
        todo = todo[up[todo] >= 0]
    return np.minimum(depth, MAX_DEPTH).astype(np.int16)


def _self_times(starts: IntArray, durs: IntArray, parent: IntArray, depth: npt.NDArray[np.int16]) -> IntArray:
    """Return durations less the time in which anything started later was open."""
    ends = starts + durs
    child = np.flatnonzero(parent >= 0)
    above = parent[child]
    reach = ends
    if (ends[child] > ends[above]).any():
        reach = _latest_end(ends, parent, depth)
    covered = np.minimum(reach[child], ends[above]) - starts[child]
    # sums of whole nanoseconds stay exact in float64 below 2**53 (104 days)
    covered_ns = np.bincount(above, weights=covered, minlength=len(starts))
    return np.asarray(durs - covered_ns.astype(np.int64), dtype=np.int64)


def _latest_end(ends: IntArray, parent: IntArray, depth: npt.NDArray[np.int16]) -> IntArray:
    """Return the latest end among a slice and everything below it, level by level from the bottom."""
    reach = ends.copy()
    by_depth = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[by_depth], np.arange(1, int(depth.max()) + 2))
    for level in range(len(bounds) - 1, 0, -1):
        rows = by_depth[bounds[level - 1] : bounds[level]]
        above = parent[rows]
        new = np.flatnonzero(np.append(True, above[1:] != above[:-1]))
        best = np.maximum.reduceat(reach[rows], new)
        reach[above[new]] = np.maximum(reach[above[new]], best)
    return reach
