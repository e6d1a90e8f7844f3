"""Pairs begins and ends into slices, and computes their depth, parent and self time, without row loops.

Slices are sorted by track, then by start, then longest first, then in input order. The **parent** of a slice
is the most recently started earlier slice that is still open at its start. A slice **owns** the instants at
which it is the most recently started open slice of its track. Their sum is its self time. This also holds for
partial overlaps.

The exception is a Python frame that ends inside an annotation that began in it: ``record_function`` begins
inside the frames of its ``__enter__``, which end at once. From the start of the annotation on, such a frame
encloses and owns nothing, and the parent of the annotation is the innermost other slice.

Two laws follow, which tests check: the self times of a track sum to the length of the union of its slices;
and slices of equal depth on a track never overlap, if crossing frames are cut where the annotation begins.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .arrays import BoolArray, IntArray
from .intervals import as_ints


class Pairs(NamedTuple):
    """The rows of matched begins and ends, and of those without a counterpart."""

    begin: IntArray
    end: IntArray
    unclosed: IntArray  # begins without an end
    unopened: IntArray  # ends without a begin

    def spans(self, ts: IntArray, last: int) -> tuple[IntArray, IntArray]:
        """Return the rows of all begins, and their durations; those without an end last until `last`."""
        begin = np.concatenate([self.begin, self.unclosed])
        end = np.concatenate([ts[self.end], np.full(len(self.unclosed), last, np.int64)])
        return begin, end - ts[begin]


def pair(track: IntArray, ts: IntArray, is_begin: npt.NDArray[np.bool_]) -> Pairs:
    """Match each end with the latest open begin of its track. Events are in the order of writing."""
    # The number of open slices is the running sum of +1 and -1, raised where it would fall below zero. Events
    # of a track at the same level alternate between begin and end, so a stable sort by (track, level) puts
    # each end right after its begin.
    n = len(ts)
    if n == 0:
        return Pairs(*(np.empty(0, np.int64) for _ in range(4)))
    order = np.argsort(ts, kind="stable")
    order = order[by_track(track[order])]
    tracks, begins = track[order], is_begin[order]
    change = np.where(begins, 1, -1)
    total = np.cumsum(change)
    first = np.append(True, tracks[1:] != tracks[:-1])
    base = np.repeat((total - change)[first], np.diff(np.append(np.flatnonzero(first), n)))
    total -= base
    # tracks are shifted apart, so a single pass computes the running minimum within each
    group = np.cumsum(first) - 1
    shift = group * (2 * n + 2)
    lowest = np.minimum.accumulate(np.minimum(total, 0) - shift) + shift
    before = np.where(first, 0, np.append(0, lowest[:-1]))
    unopened = ~begins & (lowest < before)
    level = total - lowest + np.where(begins, 0, 1)
    kept = np.flatnonzero(~unopened)
    key = group * (int(level.max()) + 1) + level
    kept = kept[np.argsort(key[kept], kind="stable")]
    opens = begins[kept]
    same = (tracks[kept][1:] == tracks[kept][:-1]) & (level[kept][1:] == level[kept][:-1])
    matched = np.flatnonzero(opens[:-1] & ~opens[1:] & same)
    closed = np.zeros(len(kept), bool)
    closed[matched] = True
    closed[matched + 1] = True
    unmatched = kept[~closed]
    begin, end = np.sort(kept[matched]), kept[matched + 1][np.argsort(kept[matched])]
    unclosed = np.sort(unmatched[begins[unmatched]])
    return Pairs(order[begin], order[end], order[unclosed], order[np.flatnonzero(unopened)])


MAX_DEPTH = np.iinfo(np.int16).max


class Nesting(NamedTuple):
    """Result of `nest`, in the order of the input rows. `parent` is -1 at the top."""

    depth: npt.NDArray[np.int16]
    parent: IntArray
    self_ns: IntArray


def nest(
    track: npt.ArrayLike,
    ts: npt.ArrayLike,
    dur: npt.ArrayLike,
    frame: BoolArray | None = None,
    annotation: BoolArray | None = None,
) -> Nesting:
    """Nest slices within their tracks, with times in ns and durations that are not negative."""
    # A Python `frame` does not enclose an `annotation` that outlives it.
    tracks: npt.NDArray[np.integer[Any]] = np.asarray(track)
    starts, durs = as_ints(ts), as_ints(dur)
    n = len(starts)
    if n == 0:
        return Nesting(np.empty(0, np.int16), np.empty(0, np.int64), np.empty(0, np.int64))
    order = order_by_start(starts, durs)
    order = order[by_track(tracks[order])]
    tracks, starts = tracks[order], starts[order]
    ends = starts + durs[order]
    parent = parents(tracks, starts, ends)
    if frame is not None and annotation is not None and frame.any() and annotation.any():
        ends = _leave_frames(parent, starts, ends, frame[order], annotation[order])
    depth = np.minimum(depths(parent), MAX_DEPTH).astype(np.int16)
    self_ns = _self_times(starts, ends, parent, depth)
    out = Nesting(np.empty(n, np.int16), np.empty(n, np.int64), np.empty(n, np.int64))
    out.depth[order] = depth
    out.parent[order] = np.where(parent >= 0, order[np.maximum(parent, 0)], -1)
    out.self_ns[order] = self_ns
    return out


def order_by_start(ts: IntArray, dur: IntArray) -> IntArray:
    """Return the rows sorted by start, then longest first, then in input order."""
    # Recordings consist of sorted runs, which a stable sort of the starts merges in almost linear time. Few
    # rows share a start.
    order = np.argsort(ts, kind="stable")
    starts = ts[order]
    tie = starts[1:] == starts[:-1]
    if tie.any():
        at = np.flatnonzero(np.append(tie, False) | np.append(False, tie))
        rows = order[at]
        order[at] = rows[np.lexsort((-dur[rows], ts[rows]))]
    return order


def inherit(parent: npt.ArrayLike, codes: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Fill missing codes (-1) from the nearest ancestor with a code. `parent` is -1 at the top."""
    out, up = np.array(codes, dtype=np.int64), as_ints(parent)
    missing = out < 0
    if missing.all():
        return out
    todo = np.flatnonzero(missing & (up >= 0))
    up = up.copy() if len(todo) else up
    while len(todo):
        above = up[todo]
        out[todo] = out[above]
        up[todo] = up[above]
        todo = todo[(out[todo] < 0) & (up[todo] >= 0)]
    return out


def climb(parent: npt.ArrayLike, rows: npt.ArrayLike, passed: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the first of each row and its ancestors that is not in `passed`, the outermost if all are."""
    # Rows of -1 stay -1.
    up, out = as_ints(parent), np.array(rows, dtype=np.int64)
    todo = np.flatnonzero(out >= 0)
    todo = todo[passed[out[todo]]]
    while len(todo):
        above = up[out[todo]]
        todo, above = todo[above >= 0], above[above >= 0]
        out[todo] = above
        todo = todo[passed[above]]
    return out


def parents(tracks: npt.NDArray[np.integer[Any]], starts: IntArray, ends: IntArray) -> IntArray:
    """Return each slice's parent: the most recently started earlier slice open at its start; -1 for none."""
    # The parent of row *i* is the nearest earlier row whose end is after its start. Each row starts with its
    # predecessor as the candidate and, while the candidate has already ended, jumps to the candidate's
    # candidate. The jumps double in length, so log2(n) rounds suffice. Rows after the end of all earlier
    # slices of the track are settled at once by a running maximum of the ends.
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
        # all rows jump at once, from the previous round's candidates
        jumped = candidate[candidate[todo]]
        candidate[todo] = jumped
        open_ = (jumped < 0) | (ends[np.maximum(jumped, 0)] > starts[todo])
        todo = todo[~open_]
    return candidate


def _leave_frames(
    parent: IntArray, starts: IntArray, ends: IntArray, frame: BoolArray, annotation: BoolArray
) -> IntArray:
    """Take annotations out of the frames that they outlive, by changing `parent` in place."""
    # Returned is the time until which each slice encloses others.
    rows = np.flatnonzero(annotation & (parent >= 0))
    above = parent[rows]
    until = ends
    while True:
        crosses = frame[above] & (ends[above] < ends[rows])
        left = crosses | (ends[above] <= starts[rows])  # that frame may have ended even before the start
        rows, above = rows[left], above[left]
        if not len(rows):
            return until
        until = until.copy() if until is ends else until
        np.minimum.at(until, above, starts[rows])
        parent[rows] = above = parent[above]
        rows, above = rows[above >= 0], above[above >= 0]


def by_track(track: npt.NDArray[np.integer[Any]]) -> IntArray:
    """Return the order of slices by track; those of one track keep theirs."""
    fits = len(track) and track.min() >= -(1 << 15) and track.max() < 1 << 15
    # NumPy sorts 16 bits by radix, in a sixth of the time
    return np.argsort(track.astype(np.int16) if fits else track, kind="stable")


def crossing_frames(
    track: npt.NDArray[np.integer[Any]],
    ts: IntArray,
    dur: IntArray,
    nesting: tuple[npt.NDArray[np.integer[Any]], npt.NDArray[np.integer[Any]]],
    annotation: BoolArray,
) -> tuple[IntArray, IntArray]:
    """Return slices that end inside an annotation begun in them but not nested in them, and its start."""
    # Slices are in the order of ``trace.slices``. Their depth and parent come from `nest` with frames and
    # annotations.
    depth, parent = nesting
    rows = np.flatnonzero(annotation)
    order = by_track(track)
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    before = np.where(position[rows] > 0, order[position[rows] - 1], -1)
    before[track[before] != track[rows]] = -1
    out: list[IntArray] = []
    starts: list[IntArray] = []
    while True:  # go up from the slice before each annotation, while slices are at least as deep
        deep = (before >= 0) & (depth[before] >= depth[rows])
        rows, before = rows[deep], before[deep]
        if not len(rows):
            break
        open_ = ts[before] + dur[before] > ts[rows]
        out.append(before[open_])
        starts.append(ts[rows[open_]])
        before = parent[before].astype(np.int64)
    if not sum(map(len, out)):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    left, until = np.concatenate(out), np.concatenate(starts)
    order = np.lexsort((until, left))
    first = np.append(True, np.diff(left[order]) > 0)
    return left[order][first], until[order][first]


def depths(parent: IntArray) -> npt.NDArray[np.int32]:
    """Return the number of ancestors of each slice. `parent` contains row numbers, or -1 at the top."""
    depth = (parent >= 0).astype(np.int32)
    up = parent.copy()
    todo = np.flatnonzero(up >= 0)
    while len(todo):
        above = up[todo]
        depth[todo] += depth[above]
        up[todo] = up[above]
        todo = todo[up[todo] >= 0]
    return depth


def _self_times(starts: IntArray, ends: IntArray, parent: IntArray, depth: npt.NDArray[np.int16]) -> IntArray:
    """Return the durations, without the time in which a slice that started later is open."""
    child = np.flatnonzero(parent >= 0)
    above = parent[child]
    reach = ends
    if (ends[child] > ends[above]).any():
        reach = _latest_end(ends, parent, depth)
    covered = np.minimum(reach[child], ends[above]) - starts[child]
    # sums of whole nanoseconds stay exact in float64 below 2**53 (104 days)
    covered_ns = np.bincount(above, weights=covered, minlength=len(starts))
    return np.asarray(ends - starts - covered_ns.astype(np.int64), dtype=np.int64)


def _latest_end(ends: IntArray, parent: IntArray, depth: npt.NDArray[np.int16]) -> IntArray:
    """Return the latest end of each slice and its descendants, computed level by level from the bottom."""
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
