"""Lanes of a track: Perfetto nests the slices of a track, so those that cross others lie beside it."""

from __future__ import annotations

from typing import Final

import numpy as np

from ...trace.arrays import BoolArray, IntArray
from ...trace.pairing import pair

_ROUNDS: Final = 2


def lanes(track: IntArray, ts: IntArray, dur: IntArray) -> IntArray:
    """Return a lane of its track for each slice, so that in a lane slices are apart or one inside another.

    Parameters
    ----------
    track, ts, dur : ndarray of int64, shape (n,)
        In the order of their start, the longest first.

    Returns
    -------
    ndarray of int64, shape (n,)
        0 for all that cross nothing, and for the longest of those that do. The others are told apart in the
        same way; those that cross again lie behind one another, on as many lanes as are open at a time.

    Examples
    --------
    >>> lanes(np.zeros(3, int), np.array([0, 5, 6]), np.array([9, 9, 2])).tolist()
    [0, 1, 0]
    """
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
    """Return which slices stay, so that none crosses another.

    Each end is matched with the latest open begin. Where slices cross, ends are matched with begins of
    others; these form cycles, of which the longest slice stays. What is left is looked at again.
    """
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
    """Return whose end each begin is matched with."""
    owner, when, is_begin = _edges(ts, dur)
    pairs = pair(track[owner], when, is_begin)
    partner = np.full(len(ts), -1, np.int64)
    partner[owner[pairs.begin]] = owner[pairs.end]
    return partner


def _edges(ts: IntArray, dur: IntArray) -> tuple[IntArray, IntArray, BoolArray]:
    """Return slice, time and kind of all begins and ends in order; of one instant ends, inner ones first."""
    n = len(ts)
    when = np.concatenate([(ts + dur)[::-1], ts])
    order = np.argsort(when, kind="stable")
    row = np.arange(n)
    return np.concatenate([row[::-1], row])[order], when[order], (np.arange(2 * n) >= n)[order]


def _apart(track: IntArray, ts: IntArray, dur: IntArray) -> IntArray:
    """Return lanes of slices that do not touch one another there: each takes the lane that was left last.

    So begins are matched with the ends before them, as ends are with begins elsewhere.
    """
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
