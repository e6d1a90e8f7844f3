"""Lanes of a track: Perfetto nests a track's slices, so slices that cross others get tracks beside it."""

from __future__ import annotations

from typing import Final

import numpy as np

from ...trace.arrays import BoolArray, IntArray
from ...trace.pairing import pair

_ROUNDS: Final = 2


def lanes(track: IntArray, ts: IntArray, dur: IntArray) -> IntArray:
    """Return the lane of each slice in its track, such that slices of a lane are disjoint or nested.

    >>> lanes(np.zeros(3, int), np.array([0, 5, 6]), np.array([9, 9, 2])).tolist()
    [0, 1, 0]
    """
    # Slices are sorted by start, longest first. Lane 0 has all that cross nothing, and the longest of those
    # that do. The others are divided in the same way; slices that still cross are placed disjointly, on as
    # many lanes as are open at a time.
    lane = np.zeros(len(ts), np.int64)
    remaining = np.flatnonzero(dur > 0)
    for number in range(_ROUNDS):
        lane[remaining] = number
        remaining = remaining[~_nested(track[remaining], ts[remaining], dur[remaining])]
        if not len(remaining):
            return lane
    lane[remaining] = _ROUNDS + _apart(track[remaining], ts[remaining], dur[remaining])
    return lane


def _nested(track: IntArray, ts: IntArray, dur: IntArray) -> BoolArray:
    """Return a mask of slices that do not cross one another."""
    # Each end is matched with the latest open begin. Where slices cross, ends are matched with begins of
    # others; these form cycles, of which the longest slice stays. The rest is processed again.
    stays = np.ones(len(ts), bool)
    while True:
        rows = np.flatnonzero(stays)
        partner = _partners(track[rows], ts[rows], dur[rows])
        odd = np.flatnonzero(partner != np.arange(len(rows)))
        if not len(odd):
            return stays
        position = np.full(len(rows), -1, np.int64)
        position[odd] = np.arange(len(odd))
        following = position[partner[odd]]
        longest = np.argsort(np.argsort(-dur[rows[odd]], kind="stable"))
        best = longest
        for _ in range(len(odd).bit_length() + 1):
            best = np.minimum(best, best[following])
            following = following[following]
        stays[rows[odd[best != longest]]] = False


def _partners(track: IntArray, ts: IntArray, dur: IntArray) -> IntArray:
    """Return the slice with the end matched to each begin."""
    owner, when, is_begin = _edges(ts, dur)
    pairs = pair(track[owner], when, is_begin)
    partner = np.full(len(ts), -1, np.int64)
    partner[owner[pairs.begin]] = owner[pairs.end]
    return partner


def _edges(ts: IntArray, dur: IntArray) -> tuple[IntArray, IntArray, BoolArray]:
    """Return slice, time and kind of all begins and ends in order; at one instant ends, inner ones first."""
    n = len(ts)
    when = np.concatenate([(ts + dur)[::-1], ts])
    order = np.argsort(when, kind="stable")
    row = np.arange(n)
    return np.concatenate([row[::-1], row])[order], when[order], (np.arange(2 * n) >= n)[order]


def _apart(track: IntArray, ts: IntArray, dur: IntArray) -> IntArray:
    """Return lanes of slices, disjoint in each: a slice takes the lane that was left last."""
    # so begins are matched with preceding ends, as ends are with begins elsewhere
    owner, when, is_begin = _edges(ts, dur)
    pairs = pair(track[owner], when, ~is_begin)
    first = np.arange(len(ts))
    first[owner[pairs.end]] = owner[pairs.begin]
    while (further := first[first] != first).any():
        first[further] = first[first[further]]
    roots, code = np.unique(first, return_inverse=True)
    order = np.argsort(track[roots], kind="stable")
    _, starts = np.unique(track[roots][order], return_index=True)
    size = np.diff(np.append(starts, len(roots)))
    number = np.empty(len(roots), np.int64)
    number[order] = np.arange(len(roots)) - np.repeat(starts, size)
    return number[code]
