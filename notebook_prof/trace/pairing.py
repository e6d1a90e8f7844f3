"""Pairs begin and end events into slices, by track, without a loop over rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from .arrays import IntArray


class Pairs(NamedTuple):
    """The rows of matched begins and ends, and of those without a counterpart."""

    begin: IntArray
    end: IntArray
    unclosed: IntArray  # begins without an end
    unopened: IntArray  # ends without a begin


def pair(track: IntArray, ts: IntArray, is_begin: npt.NDArray[np.bool_]) -> Pairs:
    """Match each end with the latest open begin of its track. Events are in the order of writing."""
    # The number of open slices is the running sum of +1 and -1, raised where it would fall below zero. Events
    # of a track at the same level alternate between begin and end, so a stable sort by (track, level) puts
    # each end right after its begin.
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
    # tracks are shifted apart, so a single pass computes the running minimum within each
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
    """Return the position of each track among the sorted distinct tracks."""
    codes, tracks = pd.factorize(track)
    ranks = np.empty(len(tracks), np.int64)
    ranks[np.argsort(tracks)] = np.arange(len(tracks))
    return np.asarray(_narrow(ranks)[codes])


def _narrow(key: IntArray) -> IntArray | npt.NDArray[np.uint16]:
    """Return keys as 16-bit numbers if they fit, since NumPy sorts these in one pass per byte."""
    return key.astype(np.uint16) if int(key.max(initial=0)) < 1 << 16 else key
