"""The hottest line of the user's source, followed inwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace import Trace, nest
from ...trace.arrays import IntArray
from ...trace.intervals import as_ints
from ..grouping import covered
from ..scope import Scope, WindowLike
from .lines import CELL, lines_of_slices

MOST: Final = 0.7
"""A line is followed inwards while one line below it holds this share of it."""


@dataclass(frozen=True, slots=True)
class HotLines:
    """Lines, and how they call one another."""

    # As in `lines`.
    table: pd.DataFrame
    # Rows of `table` directly in the cell or script, longest first.
    outer: IntArray
    # Rows of `table`: the hottest of `outer`, then the line that takes most of that one's time, and so on.
    path: tuple[int, ...]
    # Rows of the lines that the last line of `path` calls, longest first.
    inner: IntArray


def hot_lines(trace: Trace, *, window: WindowLike = None, below: int | None = None) -> HotLines:
    """Follow the hottest line (or line `below` of the cell) inwards; the path is empty without recorded
    lines.
    """
    table, scope, line = lines_of_slices(trace, window)
    nothing = np.empty(0, np.int64)
    if not len(table):
        return HotLines(table, nothing, (), nothing)
    track = scope.ints("track")
    parent = nest(track, scope.ts, scope.end - scope.ts).parent
    caller = np.where(parent >= 0, line[np.maximum(parent, 0)], -1)
    root = (caller < 0) & (track == cell_track(trace, scope))
    size = len(table)
    spent = _time_by(line[root], scope.ts[root], scope.end[root], size)
    outer = as_ints(np.argsort(-spent, kind="stable"))
    outer = outer[spent[outer] > 0]
    start = outer[:1]
    if below is not None:
        start = np.flatnonzero((table["file"] == CELL).to_numpy() & (table["line"] == below).to_numpy())
    path: list[int] = []
    inner = nothing
    while len(start):
        at = int(start[0])
        path.append(at)
        inside = (caller == at) & (line != at)
        called = _time_by(line[inside], scope.ts[inside], scope.end[inside], size)
        called[path] = 0
        best = int(called.argmax())
        inner = as_ints(np.argsort(-called, kind="stable"))
        inner = inner[called[inner] > 0]
        most = called[best] >= MOST * max(int(table["total_ns"].iloc[at]), 1)
        start = np.array([best]) if most else nothing
    return HotLines(table, outer, tuple(path), inner)


def cell_track(trace: Trace, scope: Scope) -> int:
    """Return the track of the thread that runs the cell; -1 without slices."""
    # The recorded thread, or else the main thread of the first process. If no main thread has slices, the
    # track with most time in `scope`.
    if not len(scope.rows):
        return -1
    tracks, track = trace.tracks, scope.ints("track")
    facts: Any = trace.metadata.get("cpu") or {}
    recorded = tracks.loc[(tracks["tid"] == facts.get("tid", -1)).fillna(False), "track"].to_numpy()
    if np.isin(track, recorded).any():
        return int(track[np.isin(track, recorded)][0])
    main = tracks.loc[(tracks["pid"] == tracks["tid"]).fillna(False), "track"].to_numpy()
    here = np.isin(track, main)
    if here.any():
        return int(track[here][int(scope.ts[here].argmin())])
    return int(np.bincount(track, scope.end - scope.ts).argmax())


def _time_by(code: IntArray, ts: IntArray, end: IntArray, size: int) -> IntArray:
    return np.bincount(code, covered(as_ints(code), ts, end), minlength=size).astype(np.int64)
