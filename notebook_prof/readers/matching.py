"""Match begin and end events by name, even if they are out of order or unbalanced."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..trace.arrays import IntArray
from ..trace.nesting import inherit
from ..trace.pairing import Pairs, pair


def match(track: IntArray, name: IntArray, ts: IntArray, opens: npt.NDArray[np.bool_]) -> Pairs:
    """Match ends with begins of the same track and name."""
    # Rows are in the order of writing; `name` is -1 for an end without a name. An end closes the latest open
    # begin of its name, as in Perfetto, so one missing end does not shift all later ones. An end without a
    # name closes the latest begin of the track. An end that was written before the begin of its name at the
    # same instant closes that begin.
    key = pd.factorize(track * (int(name.max(initial=0)) + 2) + name + 1)[0].astype(np.int64)
    loose = np.isin(track, track[~opens & (name < 0)])
    begins, ends, open_, shut = [], [], [], []

    def settle(rows: IntArray, by: IntArray) -> None:
        pairs = pair(by[rows], ts[rows], opens[rows])
        b, e = rows[pairs.begin], rows[pairs.end]
        good = (name[e] < 0) | (name[e] == name[b])
        begins.append(b[good])
        ends.append(e[good])
        open_.extend([rows[pairs.unclosed], b[~good]])
        shut.extend([rows[pairs.unopened], e[~good]])

    settle(np.flatnonzero(~loose), key)
    if loose.any():
        settle(np.flatnonzero(loose), track)
        # match by name what the stack order matched wrongly
        unmatched = np.sort(np.concatenate(open_ + shut))
        open_.clear()
        shut.clear()
        settle(unmatched, key)
    # begins first, so an end written before its begin at the same instant is matched
    unmatched = np.concatenate([np.sort(np.concatenate(part)) for part in (open_, shut)])
    open_.clear()
    shut.clear()
    settle(unmatched, key)
    order = np.argsort(pairs := np.concatenate(begins), kind="stable")
    return Pairs(
        pairs[order],
        np.concatenate(ends)[order],
        np.sort(np.concatenate(open_)),
        np.sort(np.concatenate(shut)),
    )


def lanes(start: IntArray, end: IntArray) -> IntArray:
    """Return the lane of each interval, from 0: as few lanes as possible, without overlaps."""
    # In order of their starts, intervals take the lane that has been free for longest. So the k-th reuse
    # takes the lane of the k-th interval to end, which needs no loop.
    n = len(start)
    order = np.argsort(start, kind="stable")
    begins = start[order]
    ends = np.maximum(end[order], begins + 1)
    by_end = np.argsort(ends, kind="stable")
    row = np.arange(n, dtype=np.int64)
    over = np.searchsorted(ends[by_end], begins, side="right")
    count = np.maximum.accumulate(row + 1 - over)
    new = np.diff(count, prepend=0) > 0
    before = np.where(new, -1, by_end[np.maximum(row - count, 0)]) if n else row
    lane = np.empty(n, np.int64)
    lane[order] = inherit(before, np.where(new, count - 1, -1))
    return lane
