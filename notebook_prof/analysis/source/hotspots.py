"""Self time by function and by line of the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from ...errors import check_option
from ...trace import Trace, nest
from ...trace.arrays import IntArray, optional
from ...trace.intervals import as_ints
from ..grouping import covered, covered_by_code, sums
from ..scope import Numbers, Scope, Texts, WindowLike, on_host
from .frames import frames
from .lines import CELL, lines_of_slices

# The hottest line of the user's source, followed inwards.

MOST: Final = 0.7
"""Follow a line inwards as long as one line below it takes at least this share of its time."""


@dataclass(frozen=True, slots=True)
class HotLines:
    """The user's lines, and how the hottest ones call one another."""

    # The table of `lines`, times only.
    table: pd.DataFrame
    # Rows of `table` for lines directly in the cell or script, longest first.
    outer: IntArray
    # Rows of `table`: the hottest row of `outer`, then again and again the line that takes most of its time.
    path: tuple[int, ...]
    # Rows of `table` for lines that the last line of `path` calls, longest first.
    inner: IntArray


def hot_lines(trace: Trace, *, window: WindowLike = None, below: int | None = None) -> HotLines:
    """Follow the hottest line, or line `below` of the cell, inwards; the path is empty without lines."""
    table, scope, line = lines_of_slices(trace, window)
    nothing = np.empty(0, np.int64)
    if not len(table):
        return HotLines(table, nothing, (), nothing)
    track = scope.ints("track")
    parent = nest(track, scope.ts, scope.end - scope.ts).parent
    caller = np.where(parent >= 0, line[np.maximum(parent, 0)], -1)
    root = (caller < 0) & (track == cell_track(trace, scope))
    size = len(table)
    spent = covered_by_code(line[root], scope.ts[root], scope.end[root], size)
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
        called = covered_by_code(line[inside], scope.ts[inside], scope.end[inside], size)
        called[path] = 0
        best = int(called.argmax())
        inner = as_ints(np.argsort(-called, kind="stable"))
        inner = inner[called[inner] > 0]
        most = called[best] >= MOST * max(int(table["total_ns"].iloc[at]), 1)
        start = np.array([best]) if most else nothing
    return HotLines(table, outer, tuple(path), inner)


def cell_track(trace: Trace, scope: Scope) -> int:
    """Return the track of the thread that runs the cell; -1 without slices."""
    # It is the recorded thread, or else the main thread of the first process. If no main thread has slices,
    # it is the track with most time in `scope`.
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


_BY: Final = ("function", "line", "operator")


def hotspots(
    trace: Trace,
    *,
    window: WindowLike = None,
    by: str = "function",
    step: Numbers = None,
    phase: Texts = None,
) -> pd.DataFrame:
    """Attribute the self time of everything on host threads to functions or lines of the source.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns; times are cut exactly at its edges.
    by : {"function", "line", "operator"}
        One row for each function, each line, or each operator on each line that calls it.
    step : int or iterable of int, optional
        Keep these steps.
    phase : str or iterable of str, optional
        Keep these phases.

    Returns
    -------
    DataFrame
        By `self_ns`, longest first; empty without host slices.

        - ``name`` str: the function (or operator); ``file`` str, empty if not recorded; ``line`` Int64: for a
          function its longest line, missing if not recorded;
        - ``count`` int64: slices; ``total_ns`` int64: time with one of them open, summed over threads;
        - ``self_ns`` int64: an operator's self time counts for the line that called it;
        - ``share`` float64: of all `self_ns`.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> at = b.stack([("train", "cell.py", 3)])
    >>> _ = b.slices(ts=[0, 2], dur=[10, 6], name=["train", "mm"], track=b.track("main"), stack=[at, -1],
    ...              category=["python", "operator"])
    >>> hotspots(b.seal(), by="operator")[["name", "file", "line", "self_ns"]].values.tolist()
    [['mm', 'cell.py', 3, 6], ['train', 'cell.py', 3, 4]]
    """
    check_option("hotspots cannot be listed by", by, _BY)
    host = on_host(trace, window).where(step=step, phase=phase)
    where = frames(trace)
    frame = where.code[host.rows]
    name = host.codes("name") if by == "operator" else np.zeros_like(frame)
    kinds = int(name.max(initial=0)) + 1
    used, code = np.unique(frame * kinds + name, return_inverse=True)
    frame, name = np.divmod(used, kinds)
    words = np.array(host.slices["name"].cat.categories, dtype=object)
    line = where.line[frame]
    table = pd.DataFrame(
        {
            "name": pd.Series(words[name] if by == "operator" else where.function[frame], dtype="str"),
            "file": pd.Series(where.file[frame], dtype="str"),
            "line": optional(line),
        }
    )
    keys = ["name", "file", "line"]
    table, code = _grouped(host, table, code, keys)  # a line in several contexts counts as one
    if by == "function":  # each with its hottest line
        hottest = table.sort_values("self_ns", ascending=False, kind="stable").drop_duplicates(keys[:2])
        table, _ = _grouped(host, table, code, keys[:2])
        table = table.drop(columns="line").merge(hottest[keys], on=keys[:2], how="left")
    table["share"] = table["self_ns"] / max(int(table["self_ns"].sum()), 1)
    table = table[[*keys, "count", "total_ns", "self_ns", "share"]]
    return table.sort_values("self_ns", ascending=False, kind="stable").reset_index(drop=True)


def _grouped(
    host: Scope, table: pd.DataFrame, code: IntArray, keys: list[str]
) -> tuple[pd.DataFrame, IntArray]:
    """Join the rows that agree in `keys`; `code` is the row of each slice, before and after."""
    code = table.groupby(keys, sort=False, dropna=False).ngroup().to_numpy(np.int64)[code]
    track, size = host.ints("track"), int(code.max(initial=-1)) + 1
    open_ns = covered(code * (int(track.max(initial=0)) + 1) + track, host.ts, host.end)
    weights = {"count": None, "total_ns": open_ns, "self_ns": host.self_ns}
    columns = {name: sums(code, values, size) for name, values in weights.items()}
    joined = table[["name", "file", "line"]].drop_duplicates(keys).reset_index(drop=True)
    return joined.assign(**columns), code
