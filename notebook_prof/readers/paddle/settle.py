"""Starts to the nanosecond, from whole microseconds: what Paddle's JSON still tells about them.

Paddle cuts ``ts`` to whole microseconds and writes ``dur`` to the nanosecond. Taken as they stand, a
tenth of all events seem to begin before their predecessor has ended, and would be nested into it. Three
facts narrow the true starts down: the cut takes less than 1 µs; ``start_time`` tells the start again, as
a float32 counted from the first event; and events that follow one another do not overlap.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ...trace.arrays import IntArray
from ...trace.nesting import nest
from .kinds import RUNTIME_TYPES

_CUT: Final = 999
_ROUNDS: Final = 8


def settle(rows: pd.DataFrame, offset: IntArray) -> None:
    """Move starts within their microsecond to where they fit best; durations stay.

    Parameters
    ----------
    rows : DataFrame
        `ROW_COLUMNS`, in the order of the file, where the events of a thread come level by level;
        ``ts`` in whole microseconds is replaced.
    offset : ndarray of int64
        ``start_time`` in ns, -1 where there is none.

    Notes
    -----
    Each start has a lower and an upper bound. Rows of one thread that may follow one another
    (neighbours in the file) push each other's lower bounds up, which is a running maximum of
    ``bound - sum of durations before``. A slice starts no earlier than the one around it, and ends no
    earlier than those inside it. The lower bounds that result are the starts; whatever contradicts an
    upper bound is left as it was.
    """
    low, high = _bounds(rows["ts"].to_numpy(), offset)
    dur = rows["dur"].to_numpy()
    host = np.flatnonzero(rows["device"].to_numpy() < 0)
    tid = rows["tid"].to_numpy()[host]
    settled = _thread_starts(low[host], high[host], dur[host], tid, _kinds(rows)[host])
    low[host] = settled
    rows["ts"] = low


def starts_in_ns(ts: IntArray, owner: IntArray, tid: IntArray, rows: pd.DataFrame) -> IntArray:
    """Move instants within their microsecond into the slice to which they belong.

    Parameters
    ----------
    ts : ndarray of int64
        Whole microseconds, in ns.
    owner : ndarray of int64
        Row of the event that the file names before each instant, -1 for none.
    tid : ndarray of int64
    rows : DataFrame
        After `settle`.

    Returns
    -------
    ndarray of int64
        Unchanged where no time of that microsecond lies in the owner and in none of its children.
    """
    result = ts.copy()
    wrong = np.zeros(len(ts), bool)
    starts, dur = rows["ts"].to_numpy(), rows["dur"].to_numpy()
    host = np.flatnonzero(rows["device"].to_numpy() < 0)
    threads = np.concatenate([rows["tid"].to_numpy()[host], tid])
    n = len(host)
    none = np.zeros(len(ts), np.int64)
    for _ in range(_ROUNDS):
        _, parent, _ = nest(
            threads, np.concatenate([starts[host], result]), np.concatenate([dur[host], none])
        )
        inner = np.where((parent[n:] >= 0) & (parent[n:] < n), np.append(host, -1)[parent[n:]], -1)
        wrong = (inner != owner) & (owner >= 0)
        late = wrong & (starts[owner] > result)
        past = wrong & ~late & (inner >= 0)
        moved = np.where(late, starts[owner], np.where(past, (starts + dur)[inner], result))
        moved = np.where(moved > ts + _CUT, result, moved)
        if (moved == result).all():
            break
        result = moved
    return np.asarray(np.where(wrong & (inner != owner), ts, result))


def _kinds(rows: pd.DataFrame) -> IntArray:
    """Return 1 for runtime calls, which the file lists between the levels; 0 for the levels' own events."""
    return np.asarray(rows["type"].isin(RUNTIME_TYPES), dtype=np.int64)


def _bounds(ts: IntArray, offset: IntArray) -> tuple[IntArray, IntArray]:
    """Return the earliest and latest start that the two spellings of the time allow."""
    low, high = ts.copy(), ts + _CUT
    has_offset = np.flatnonzero(offset >= 0)
    if not len(has_offset):
        return low, high
    s = offset[has_offset]
    # rounded twice, to float32 and by the division, and printed with whole nanoseconds
    slack = np.ceil(2 * np.spacing(s.astype(np.float32)).astype(np.float64)).astype(np.int64) + 1
    first = int((ts[has_offset] - s - slack).max())
    last = int((ts[has_offset] + _CUT - s + slack).min())
    if first > last:
        return low, high
    low[has_offset] = np.maximum(low[has_offset], first + s - slack)
    high[has_offset] = np.minimum(high[has_offset], last + s + slack)
    return low, np.maximum(low, high)


def _thread_starts(low: IntArray, high: IntArray, dur: IntArray, tid: IntArray, kind: IntArray) -> IntArray:
    if not len(low):
        return low
    start = low.copy()
    order = np.lexsort((np.arange(len(low)), kind, tid))
    for _ in range(_ROUNDS):
        before = start.copy()
        start[order] = _follow(start[order], high[order], dur[order], tid[order], kind[order])
        _, parent, _ = nest(tid, start, dur)
        start = _fit(start, high, dur, parent)
        if (start == before).all():
            break
    return start


def _follow(low: IntArray, high: IntArray, dur: IntArray, tid: IntArray, kind: IntArray) -> IntArray:
    """Push each start behind the end of the row before it, in every run of rows that can follow so."""
    same = (tid[1:] == tid[:-1]) & (kind[1:] == kind[:-1])
    follows = np.append(False, same & (low[1:] >= low[:-1]) & (high[1:] >= low[:-1] + dur[:-1]))
    for _ in range(_ROUNDS):
        run = np.cumsum(~follows) - 1
        total = np.cumsum(dur) - dur
        pushed = pd.Series(low - total).groupby(run).cummax().to_numpy() + total
        broken = follows & (pushed > high)
        if not broken.any():
            return np.asarray(pushed)
        # only the first contradiction of a run is one for sure
        first = pd.Series(broken).groupby(run).cumsum().to_numpy() == 1
        follows[broken & first] = False
    return low


def _fit(start: IntArray, high: IntArray, dur: IntArray, parent: IntArray) -> IntArray:
    """Let children start no earlier than their parents, and parents end no earlier than their children."""
    inside = np.flatnonzero(parent >= 0)
    above = parent[inside]
    needed = np.full(len(start), np.iinfo(np.int64).min)
    np.maximum.at(needed, above, (start + dur)[inside])
    later = np.maximum(start, needed - dur)
    result = np.where((needed > start + dur) & (later <= high), later, start)
    down = np.maximum(result[inside], result[above])
    result[inside] = np.where(down <= high[inside], down, result[inside])
    return np.asarray(result, dtype=np.int64)
