"""Time by line of the user's own source, and which line is behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace import Trace, length, nest, source_lines, union
from ...trace.arrays import IntArray
from ...trace.intervals import Intervals, as_ints
from ...trace.schema import Column, Table
from ..grouping import covered
from ..scope import Scope, WindowLike, on_host
from ..time.account import ACCOUNT
from .frames import frames
from .line_costs import COSTS, line_costs

CELL: Final = "cell"
"""What `lines` calls the file of a profiled cell."""

STATEMENTS: Final = "statements"
"""Name of the table in ``metadata["tables"]`` with the statements of a cell as they ran."""

NOT_IN_LINES: Final = "not in lines"
"""Text of the row of what belongs to no line."""

LINE_RUNS: Final = "line_runs"
"""Name of the table with the runs of lines in functions of the user's, where the interpreter told of them."""

_EXACT: Final = 0.99
"""A line whose statements hold so much of its time was timed at each run."""

LINE: Final = source_lines.LINE
"""How a slice that stands for a line is called."""

COLUMNS: Final = Table(
    "lines",
    (
        Column("file", "str", "", "`cell` for the profiled cell, else the path"),
        Column("line", "int64", "", "from 1, as the editor counts"),
        Column("text", "str", "", "source of the line"),
        Column("count", "Int64", "", "how often it ran; missing where only samples tell"),
        Column("total_ns", "int64", "ns", "time in which it, or what it calls, ran in any thread"),
        Column("self_ns", "int64", "ns", "less other lines below it; summed over threads"),
        Column("share", "float64", "1", "`total_ns` of the span"),
        *COSTS,
        Column("threads", "int64", "", "threads and processes in which it ran"),
        Column("exact", "bool", "", "timed at each run instead of sampled"),
    ),
)


def lines(trace: Trace, *, window: WindowLike = None, remainder: bool = False) -> pd.DataFrame:
    """Give the time of every line of the cell and of the user's own files, and what it costs elsewhere.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns; times are cut exactly at its edges.
    remainder : bool
        Add a last row of what belongs to no line: its `file` is empty, its `line` 0.

    Returns
    -------
    DataFrame
        By `total_ns`, longest first; no rows where no lines were recorded.

        - ``file`` str: ``cell`` for the profiled cell, else the path; ``line`` int64; ``text`` str;
        - ``count`` Int64: how often it ran, missing where only samples tell;
        - ``total_ns`` int64: time in which the line or what it calls ran, in any thread: recursion and
          several threads at once count once, so that it never exceeds the span;
        - ``self_ns`` int64: the same less the time of other lines below it, summed over threads: what
          libraries do for a line is its own;
        - ``share`` float64: ``total_ns`` of the window, of the cell, or of the span of a file;
        - ``device_ns`` int64: durations of the device work that it launched, of backward too where the line
          calls it;
        - ``backward_ns`` int64: own time of what the host ran in phase backward for what this line ran
          forward; ``backward_device_ns`` int64: durations of the device work that this launched: it is in
          ``device_ns`` of the line that called the backward;
        - ``launch_ns``, ``wait_ns`` int64: own time of calls that launch device work, and of those in which
          the host waits for a device (as `host_waits` tells them);
        - ``bytes_allocated`` int64: blocks that were allocated while it ran; ``bytes_kept``: those that are
          still there at the end; ``peak_bytes``: those that are there at the peak of their device or host.
          Where the heap was traced and no window is asked for, the last two are those of
          ``p.memory.heap()`` on the host, of all libraries;
        - ``threads`` int64: threads and processes in which it ran;
        - ``exact`` bool: timed at each run instead of sampled.

    Notes
    -----
    On each thread the sum of ``self_ns`` is the time in which any line of the user's was open. With
    ``remainder`` the columns sum to the whole: ``self_ns`` to the time in which threads were busy,
    ``device_ns`` to the durations of all device work, ``backward_ns`` to the own time of phase backward,
    ``bytes_allocated`` to all blocks.

    Backward and forward are joined by the numbers that autograd gives its nodes (Kineto's ``fwdbwd`` flows).
    What a line runs inside a backward node is its own: the second forward of checkpointing, and the backward
    of a ``torch.autograd.Function``. ``AccumulateGrad`` and hooks have no forward line.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> names = ["cell:2  run()", "run (cell)", "cell:5  a @ b"]
    >>> _ = b.slices(ts=[0, 0, 10], dur=[100, 100, 80], name=names, category="python", track=b.track("main"))
    >>> lines(b.seal())[["file", "line", "total_ns", "self_ns", "share"]].values.tolist()
    [['cell', 2, 100, 20, 1.0], ['cell', 5, 80, 80, 0.8]]
    """
    table, scope, row = lines_of_slices(trace, window)
    size = len(table)
    row_of_line = np.full(len(trace.slices["line"].cat.categories) + 1, size, np.int64)
    row_of_line[scope.codes("line")] = row
    costs = line_costs(trace, row_of_line, size, window)
    for name, values in costs.items():
        table[name] = values[:size]
    return _with_remainder(trace, table, costs, window) if remainder else table


def _with_remainder(
    trace: Trace, table: pd.DataFrame, costs: dict[str, IntArray], window: WindowLike
) -> pd.DataFrame:
    host = on_host(trace, window)
    track = host.ints("track")
    busy = int(covered(track, host.ts, host.end).sum())
    beside = busy - int(table["self_ns"].sum())
    span = trace.span.dur if window is None else max(int(window[1]) - int(window[0]), 0)
    row = {"file": "", "line": 0, "text": NOT_IN_LINES, "count": None, "total_ns": beside, "self_ns": beside,
           "share": beside / max(span, 1), "threads": len(np.unique(track)), "exact": False}  # fmt: skip
    ends = {name: values[-1:] for name, values in costs.items()}
    last = COLUMNS.frame({**{name: [value] for name, value in row.items()}, **ends})
    return pd.concat([table, last], ignore_index=True) if len(table) else last


def line_times(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """Return `lines` with times only, which take less to work out."""
    return lines_of_slices(trace, window)[0]


def lines_of_slices(trace: Trace, window: WindowLike = None) -> tuple[pd.DataFrame, Scope, IntArray]:
    """Return the table of `lines`, the slices that stand for lines, and the row of each in the table."""
    if window is None and (cell := _cell(trace)) is not None:
        window = cell  # other threads were seen before and after it too
    scope, line_code = line_slices(trace, window)
    if not len(scope.rows):
        return COLUMNS.empty(), scope, np.empty(0, np.int64)
    code, line_codes = pd.factorize(line_code)
    size = len(line_codes)
    track = scope.ints("track")
    own = nest(track, scope.ts, scope.end - scope.ts).self_ns
    descriptions = _descriptions(trace, scope, code, size)
    span = trace.span.dur if window is None else max(int(window[1]) - int(window[0]), 0)
    total = _sum(code, covered(as_ints(code), scope.ts, scope.end), size)
    pairs = np.unique(code * (int(track.max()) + 1) + track) // (int(track.max()) + 1)
    count = _counts(trace, descriptions, total, union(scope.ts, scope.end))
    # of two lines that take the same time the outer one, which ran first, comes first
    order = np.lexsort((pd.Series(scope.ts).groupby(code).min().to_numpy(), -total))
    row = np.empty(size, np.int64)
    row[order] = np.arange(size)
    nothing = np.zeros(size, np.int64)
    table = COLUMNS.frame(
        {
            **descriptions,
            **{column.name: nothing for column in COSTS},
            "count": pd.arrays.IntegerArray(count, count < 0),
            "total_ns": total,
            "self_ns": _sum(code, own, size),
            "share": total / max(span, 1),
            "threads": np.bincount(pairs, minlength=size).astype(np.int64),
            "exact": count >= 0,
        }
    )
    return table.iloc[order].reset_index(drop=True), scope, row[code]


def line_slices(trace: Trace, window: WindowLike = None) -> tuple[Scope, IntArray]:
    """Return slices that stand for lines, and a number for the file and line of each."""
    host = on_host(trace, window)
    words = host.slices["name"].cat.categories.astype("str")
    is_line = np.array([*(LINE.fullmatch(word) is not None for word in words), False], dtype=bool)
    scope = host.only(is_line[host.codes("name")] & host.among("category", ("python",)))
    return scope, _line_codes(trace, scope)


def busy_with_lines(trace: Trace) -> int:
    """Return the time in which any line was open, summed over threads: what ``self_ns`` sums to."""
    scope, _ = line_slices(trace)
    track = scope.ints("track")
    return sum(length(union(scope.ts[track == one], scope.end[track == one])) for one in np.unique(track))


def _line_codes(trace: Trace, scope: Scope) -> IntArray:
    """Return the number of the (file, line) of each slice; by its name and its stack."""
    code = scope.codes("name")
    words = scope.slices["name"].cat.categories.astype("str")
    file = frames(trace)
    paths = pd.factorize(file.file)[0][file.code[scope.rows]]
    cell = np.array([*(word.startswith(f"{CELL}:") for word in words), False], dtype=bool)[code]
    number = np.array(
        [*(int(match["line"]) if (match := LINE.fullmatch(word)) else -1 for word in words), -1]
    )
    return as_ints(np.where(cell, -1, paths) * (int(number.max(initial=0)) + 2) + number[code])


def _descriptions(trace: Trace, scope: Scope, code: Any, size: int) -> dict[str, Any]:
    first = np.full(size, -1, np.int64)
    first[code[::-1]] = np.arange(len(code))[::-1]
    row = scope.rows[first]
    words = scope.slices["name"].iloc[row].astype("str").tolist()
    matches = [match for word in words if (match := LINE.fullmatch(word))]
    where = frames(trace)
    paths = where.file[where.code[row]]
    files = [
        match["file"] if match["file"] == CELL or match["file"].startswith("In[") or not path else str(path)
        for match, path in zip(matches, paths, strict=True)
    ]
    numbers = [int(match["line"]) for match in matches]
    return {"file": files, "line": numbers, "text": [match["text"] for match in matches]}


def _counts(trace: Trace, descriptions: dict[str, Any], total: IntArray, recorded: Intervals) -> IntArray:
    """Count how often each line ran while lines were recorded; -1 where it was sampled too."""
    tables = trace.metadata.get("tables") or {}
    noted = [tables.get(name) for name in (STATEMENTS, LINE_RUNS)]
    frames = [t for t in noted if isinstance(t, pd.DataFrame) and {"line", "ts", "dur"} <= set(t.columns)]
    count = np.full(len(descriptions["line"]), -1, np.int64)
    if not frames:
        return count
    table = pd.concat([frame[["ts", "dur", "line"]].assign(file=frame.get("file", CELL)) for frame in frames])
    ts, end = table["ts"].to_numpy(), (table["ts"] + table["dur"]).to_numpy()
    begins, ends = recorded
    after = np.searchsorted(ends, ts, side="right")  # the first stretch that ends after it began
    table = table[np.append(begins, np.iinfo(np.int64).max)[after] < end]
    ran = table.groupby([table["file"].astype("str"), "line"])["dur"].agg(["count", "sum"])
    ran = ran.reindex(pd.MultiIndex.from_arrays([descriptions["file"], descriptions["line"]]))
    exact = ran["sum"].to_numpy() >= _EXACT * total
    count[exact] = ran["count"].to_numpy()[exact]
    return count


def _cell(trace: Trace) -> tuple[int, int] | None:
    """Return the first and last instant of a recorded cell."""
    table = (trace.metadata.get("tables") or {}).get(ACCOUNT)
    if not isinstance(table, pd.DataFrame) or not {"ts", "dur"} <= set(table.columns) or not len(table):
        return None
    return int(table["ts"].min()), int((table["ts"] + table["dur"]).max())


def _sum(code: Any, values: IntArray, size: int) -> IntArray:
    # sums of whole nanoseconds stay exact in float64 below 2**53 (104 days)
    return np.bincount(code, values, minlength=size).astype(np.int64)


MOST: Final = 0.7
"""A line is followed inwards while one line below it holds this share of it."""


@dataclass(frozen=True, slots=True)
class HotLines:
    """Lines by how they call one another.

    Attributes
    ----------
    table : DataFrame
        As `lines`.
    outer : ndarray of int64
        Rows of `table` that stand directly in the cell or script, longest first.
    path : tuple of int
        Rows of `table`: the hottest of `outer`, then what holds most of it, and so on.
    inner : ndarray of int64
        Rows of lines that the last of `path` calls, longest first.
    """

    table: pd.DataFrame
    outer: IntArray
    path: tuple[int, ...]
    inner: IntArray


def hot_lines(trace: Trace, *, window: WindowLike = None, below: int | None = None) -> HotLines:
    """Follow the hottest line inwards.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns.
    below : int, optional
        Start with this line of the cell instead of the hottest one.

    Returns
    -------
    HotLines
        With an empty path where no lines were recorded.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> names = ["cell:2  run()", "run (cell)", "cell:5  a @ b"]
    >>> _ = b.slices(ts=[0, 0, 10], dur=[100, 100, 80], name=names, category="python", track=b.track("main"))
    >>> hot = hot_lines(b.seal())
    >>> hot.table["line"].iloc[list(hot.path)].tolist()
    [2, 5]
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
    """Return the track of the thread that runs the cell.

    It is the one that the recording names, or else the main thread of the process that was there first. Where
    no slice lies on a main thread, the track with most time in `scope`; -1 for no slices.
    """
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
