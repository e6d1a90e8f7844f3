"""Slices covered by earlier ones of their group and track, so that recursion counts once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...trace.arrays import IntArray
from .rows import grouped_order

Codes = npt.NDArray[np.integer]


def late_inside(
    codes: Codes, around: Codes, ts: IntArray, dur: IntArray, chosen: IntArray | None = None
) -> tuple[Codes, IntArray]:
    """Return slices covered at their start by one of their group and track, and until when."""
    # Whatever is open on a track when a slice begins is among the slices around it: the parent is the
    # latest-started open slice, its parent the latest-started slice open then, and so on. So nothing is
    # sorted, and only nested slices are read, once for each slice around them.
    group = codes
    if chosen is not None and not len(chosen):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    if chosen is not None:
        group = np.full(len(codes), -1, codes.dtype)
        group[chosen] = codes[chosen]
    narrow = np.int32 if len(codes) < 2**31 else np.int64
    rows = np.flatnonzero((around >= 0) & (group >= 0)).astype(narrow)
    up, own = around[rows], group[rows]
    slices: list[Codes] = []
    ends: list[IntArray] = []
    while len(rows):
        same = np.flatnonzero(group[up] == own)
        inner, over = rows[same], up[same]
        until = ts[over] + dur[over]
        open_ = until > ts[inner]
        slices.append(inner[open_])
        ends.append(np.minimum(until[open_], ts[inner[open_]] + dur[inner[open_]]))
        up = around[up]
        inside = np.flatnonzero(up >= 0)
        rows, up, own = rows[inside], up[inside], own[inside]
    if not slices:
        return np.empty(0, narrow), np.empty(0, np.int64)
    late, until = np.concatenate(slices), np.concatenate(ends)
    order = np.lexsort((until, late))
    late, until = late[order], until[order]
    last = np.append(late[1:] != late[:-1], True) if len(late) else np.zeros(0, bool)  # the longest cover
    return late[last], until[last]


def late_when_sorted(
    order: npt.NDArray[np.integer],
    count: IntArray,
    track: npt.NDArray[np.integer],
    ts: IntArray,
    dur: IntArray,
) -> tuple[IntArray, IntArray]:
    """Return the same as `late_inside`, from slices sorted by group and start."""
    if not len(order):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    tracks = int(track.max()) + 1
    group = np.repeat(np.arange(len(count), dtype=np.uint16 if len(count) < 1 << 16 else np.int32), count)
    start = ts[order]
    by_track: Any = slice(None)
    if tracks > 1:
        here = track.astype(np.uint16 if tracks < 1 << 16 else np.int32)[order]
        by_track = grouped_order(here, tracks)
        group, start, dur = group[by_track], start[by_track], dur[by_track]
        turns = np.cumsum(np.bincount(here))[:-1]
    heads = np.append(True, group[1:] != group[:-1])
    if tracks > 1:
        heads[turns[turns < len(heads)]] = True
    end = start + dur
    base = np.cumsum(heads, dtype=np.int64)
    base *= int(end.max()) - int(ts[0]) + 1
    end += base
    reach = np.maximum.accumulate(end)
    reach[1:] = reach[:-1] - base[1:]
    late = np.flatnonzero(~heads & (reach > start))
    until = np.minimum(reach[late], end[late] - base[late])
    return (late if tracks == 1 else by_track[late]), until
