"""Pair begin and end events into slices, by track, without a loop over rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from .arrays import IntArray


class Pairs(NamedTuple):
    """Result of `pair`: rows of the events given.

    Attributes
    ----------
    begin, end : ndarray of int64
        Matched events, equally long.
    unclosed : ndarray of int64
        Begins without an end.
    unopened : ndarray of int64
        Ends without a begin.
    """

    begin: IntArray
    end: IntArray
    unclosed: IntArray
    unopened: IntArray


def pair(track: IntArray, ts: IntArray, is_begin: npt.NDArray[np.bool_]) -> Pairs:
    """Match each end with the latest begin of its track that is still open.

    Parameters
    ----------
    track, ts : ndarray of int64, shape (n,)
        In the order in which they were written, which decides between events of one instant.
    is_begin : ndarray of bool, shape (n,)

    Notes
    -----
    The running sum of +1 and -1, lifted where it would fall below zero, is the number of open
    slices. Events of one track and one level alternate between begin and end, so a stable sort by
    (track, level) puts each end right behind its begin.

    Examples
    --------
    >>> z = np.zeros(4, np.int64)
    >>> p = pair(z, np.array([0, 1, 2, 3]), np.array([True, True, False, False]))
    >>> p.begin.tolist(), p.end.tolist()
    ([0, 1], [3, 2])
    """
    n = len(ts)
    nothing = np.empty(0, np.int64)
    if n == 0:
        return Pairs(nothing, nothing, nothing, nothing)
    order = np.argsort(ts, kind="stable")
    order = order[np.argsort(_ranks(track)[order], kind="stable")]
    tracks, begins = track[order], is_begin[order]
    change = np.where(begins, 1, -1)
    total = np.cumsum(change)
    first = np.append(True, tracks[1:] != tracks[:-1])
    base = np.repeat((total - change)[first], np.diff(np.append(np.flatnonzero(first), n)))
    total -= base
    # a running minimum within each track: shift tracks apart, so that one pass serves all
    group = np.cumsum(first) - 1
    shift = group * (2 * n + 2)
    lowest = np.minimum.accumulate(np.minimum(total, 0) - shift) + shift
    before = np.where(first, 0, np.append(0, lowest[:-1]))
    unopened = ~begins & (lowest < before)
    level = total - lowest + np.where(begins, 0, 1)
    kept = np.flatnonzero(~unopened)
    key = group * (int(level.max()) + 1) + level
    kept = kept[np.argsort(_narrow(key[kept]), kind="stable")]
    opens = begins[kept]
    same = (tracks[kept][1:] == tracks[kept][:-1]) & (level[kept][1:] == level[kept][:-1])
    matched = np.flatnonzero(opens[:-1] & ~opens[1:] & same)
    closed = np.zeros(len(kept), bool)
    closed[matched] = True
    closed[matched + 1] = True
    unmatched = kept[~closed]
    pairs = np.sort(kept[matched]), kept[matched + 1][np.argsort(kept[matched])]
    return Pairs(
        order[pairs[0]],
        order[pairs[1]],
        order[np.sort(unmatched[begins[unmatched]])],
        order[np.flatnonzero(unopened)],
    )


def _ranks(track: IntArray) -> IntArray | npt.NDArray[np.uint16]:
    """Return the position of each track among all, in their order."""
    codes, tracks = pd.factorize(track)
    ranks = np.empty(len(tracks), np.int64)
    ranks[np.argsort(tracks)] = np.arange(len(tracks))
    return np.asarray(_narrow(ranks)[codes])


def _narrow(key: IntArray) -> IntArray | npt.NDArray[np.uint16]:
    """Return keys as numbers of 16 bits where they fit in, which NumPy sorts in a pass a byte."""
    return key.astype(np.uint16) if int(key.max(initial=0)) < 1 << 16 else key
