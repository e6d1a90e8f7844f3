"""Time by line of the user's source."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from ...errors import OptionError
from ...trace import Trace, nest, source_lines, union
from ...trace.arrays import BoolArray, IntArray, consecutive, optional
from ...trace.intervals import Intervals, as_ints, clip, length, subtract
from ...trace.schema import Table
from ..grouping import covered, covered_by_code, reach_before, sums
from ..scope import Numbers, Scope, Texts, WindowLike, bounds, on_device, on_host, recorded_table, step_spans
from ..time.account import ACCOUNT
from .frames import COSTS, frames, line_costs
from .samples import AWAITS, LINE_RUNS, SAMPLES, STATEMENTS, sample_times

CELL: Final = "cell"
"""Name that `lines` gives to the file of a profiled cell."""

NOT_IN_LINES: Final = "not in lines"
"""Name of the row for time outside all lines."""

_EXACT: Final = 0.99
"""A line counts as exact if at least this share of its time is in timed statements."""

LINE: Final = source_lines.LINE
"""Pattern of the names of slices that are lines."""

COLUMNS: Final = Table.of(
    "lines",
    "file:str line:int64 text:str count:Int64 total_ns:int64 self_ns:int64 unrecorded_ns:int64 "
    + "awaited_ns:int64 share:float64 "
    + "".join(f"{name}:int64 " for name in COSTS)
    + "threads:int64 samples:Int64 exact:bool",
)


def lines(
    trace: Trace,
    *,
    window: WindowLike = None,
    step: Numbers = None,
    phase: Texts = None,
    name: Texts = None,
    category: Texts = None,
    track: Numbers = None,
    remainder: bool = False,
) -> pd.DataFrame:
    """Return the time of every line of the cell and of the user's files, and its costs elsewhere.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns; times are cut exactly at its edges.
    step : int or iterable of int, optional
        Only the time in these steps, cut at their edges, and the costs of their slices.
    phase : str or iterable of str, optional
        Only the time in which the line's thread, or another thread for it, was in these phases, and their
        costs.
    name, category : str or iterable of str, optional
        Only the time in slices with one of these names or categories, and their costs. Lines that launched
        such device work are listed, too.
    track : int or iterable of int, optional
        Only the time on these threads, and the costs on these threads and streams.
    remainder : bool
        Add a last row for time outside any line, with an empty `file` and `line` 0; only with `window`.

    Returns
    -------
    DataFrame
        By `total_ns`, longest first; empty if no lines were recorded.

        - ``file`` str: ``cell`` for the profiled cell, else the path; ``line`` int64; ``text`` str;
        - ``count`` Int64: number of runs; missing if only sampled, or for a loop with unrecorded steps;
        - ``total_ns`` int64: time during which the line or its callees ran, in any thread: recursion and
          several threads at once count once;
        - ``self_ns`` int64: the same without other lines below it, summed over threads, with library time;
        - ``unrecorded_ns`` int64: the part of both outside the recorded steps, where only the cell's
          statements were timed (as in `account`); ``awaited_ns`` int64: time during which asyncio's tasks
          were suspended here and none ran; both 0 if anything but a window is selected;
        - ``share`` float64: ``total_ns`` of the window, of the steps, of the cell, of a notebook's cells, or
          of the span of a file;
        - ``device_ns`` int64: duration of the device work that it launched, including that of a backward that
          it calls;
        - ``backward_ns`` int64: self time on the host in phase backward for this line's forward;
          ``backward_device_ns`` int64: duration of the device work that this launched, which is also in
          ``device_ns`` of the line that called the backward;
        - ``launch_ns``, ``wait_ns`` int64: self time of calls that launch device work, and of calls that wait
          for a device (as in `host_waits`);
        - ``bytes_allocated`` int64: blocks allocated while it ran; ``bytes_kept``: those alive at the end;
          ``peak_bytes``: those alive at the peak of their device or host. If the heap was traced and there is
          no window, the last two are those of ``p.memory.heap()`` on the host, for all libraries;
        - ``threads`` int64: threads and processes in which it ran;
        - ``samples`` Int64: samples of the line or its callees, summed over threads; missing without recorded
          samples, as in files of other profilers;
        - ``exact`` bool: timed each time it ran instead of sampled.

    Raises
    ------
    SelectionError
        For an unknown phase or category.
    OptionError
        For a remainder of anything other than a window.

    Notes
    -----
    With ``remainder`` the columns sum to the whole: ``self_ns`` to the busy time of threads and the sum of
    ``unrecorded_ns``, ``device_ns`` to the duration of all device work, ``backward_ns`` to the self time of
    phase backward, ``bytes_allocated`` to all blocks.

    Backward and forward are matched by autograd's node numbers. A line that runs inside a backward node keeps
    that time (checkpointing's second forward, the backward of a ``torch.autograd.Function``).
    ``AccumulateGrad`` and hooks have no forward line.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> names = ["cell:2  run()", "run (cell)", "cell:5  a @ b"]
    >>> _ = b.slices(ts=[0, 0, 10], dur=[100, 100, 80], name=names, category="python", track=b.track("main"))
    >>> lines(b.seal())[["file", "line", "total_ns", "self_ns", "share"]].values.tolist()
    [['cell', 2, 100, 20, 1.0], ['cell', 5, 80, 80, 0.8]]
    """
    given = {"phase": phase, "name": name, "category": category, "track": track}
    chosen: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if remainder and (step is not None or chosen):
        asked = " and no ".join(["step"] * (step is not None) + list(chosen))
        raise OptionError(f"remainder=True adds up to the whole, so it takes no {asked}")
    table, scope, row = lines_of_slices(trace, window, step, **chosen)
    size = len(table)
    looks = _looks(trace, scope, row, size, window)
    table["samples"] = pd.array(looks[:size], "Int64")
    costs: dict[str, IntArray] = {}
    if size or remainder:
        row_of_line = np.full(len(trace.slices["line"].cat.categories) + 1, size, np.int64)
        row_of_line[scope.codes("line")] = row
        costs = line_costs(trace, row_of_line, size, window, {"step": step, **chosen})
    for column, values in costs.items():
        table[column] = values[:size]
    if chosen:
        table = table[(table["total_ns"] > 0) | (table["device_ns"] > 0)].reset_index(drop=True)
    in_lines = int(table["self_ns"].sum())
    if step is None and not chosen:
        table = _with_unrecorded(trace, table, union(scope.ts, scope.end), window)
        table = _with_awaited(trace, table, window)
    if not remainder:
        return table
    host = on_host(trace, window)
    track = host.ints("track")
    beside = int(covered(track, host.ts, host.end).sum()) - in_lines
    span = _whole(trace, window)
    last = {"file": "", "line": 0, "text": NOT_IN_LINES, "total_ns": beside, "self_ns": beside,
            "share": beside / max(span, 1), "threads": len(np.unique(track)), "samples": looks[-1],
            **{name: values[-1] for name, values in costs.items()}}  # fmt: skip
    return _with_rows(trace, table, pd.DataFrame([last]))


def _with_rows(trace: Trace, table: pd.DataFrame, more: pd.DataFrame) -> pd.DataFrame:
    """Append rows; columns that they lack are as for a line that was not seen to run."""
    sampled = 0 if recorded_table(trace, SAMPLES) is not None else pd.NA
    blank: dict[str, Any] = dict.fromkeys(COLUMNS.names, 0)
    blank |= {"count": pd.NA, "share": 0.0, "samples": sampled, "exact": False}
    missing = {name: value for name, value in blank.items() if name not in more}
    new = COLUMNS.frame(dict(more.assign(**missing).reset_index(drop=True)[COLUMNS.names].items()))
    return pd.concat([table, new], ignore_index=True) if len(table) else new


def _rows_of(table: pd.DataFrame, more: pd.DataFrame) -> IntArray:
    """Return the row of each line of `more` in the table; -1 without."""
    places, sought = (pd.MultiIndex.from_frame(one[["file", "line"]]) for one in (table, more))
    return as_ints(places.get_indexer(sought))


def _with_unrecorded(
    trace: Trace, table: pd.DataFrame, recorded: Intervals, window: WindowLike
) -> pd.DataFrame:
    """Add the time that the account gives to the cell's statements outside the recorded steps."""
    account = recorded_table(trace, ACCOUNT)
    if account is None or "kind" not in account or "cell" in account:
        return table
    timed = account[account["kind"].isin(("code", "outside-window")) & (account["line"] > 0)]
    rows = []
    for line, own in timed.groupby("line"):  # a loop over the statements of a cell, of which there are few
        spans = subtract(union(*bounds(own)), recorded)
        if missed := length(spans if window is None else clip(spans, (int(window[0]), int(window[1])))):
            count = len(own) if (own["kind"] == "code").all() else None
            rows.append((CELL, line, own["text"].iloc[0], count, missed, missed, missed, 1, True))
    if not rows:
        return table
    times = ["total_ns", "self_ns", "unrecorded_ns"]
    more = pd.DataFrame(rows, columns=["file", "line", "text", "count", *times, "threads", "exact"])
    at, table = _rows_of(table, more), table.copy()
    for name in times:
        table.loc[at[at >= 0], name] += more.loc[at >= 0, name].to_numpy()
    table.loc[at[(at >= 0) & more["count"].isna().to_numpy()], "count"] = pd.NA
    table = _with_rows(trace, table, more[at < 0])
    table["share"] = table["total_ns"] / max(_whole(trace, window), 1)
    return table.sort_values("total_ns", ascending=False, kind="stable", ignore_index=True)


def _with_awaited(trace: Trace, table: pd.DataFrame, window: WindowLike) -> pd.DataFrame:
    """Add the time during which tasks were suspended at lines."""
    looks = recorded_table(trace, AWAITS)
    if looks is None:
        return table
    begin, end = looks["ts"], looks["ts"] + looks["dur"]
    if window is not None:
        begin, end = begin.clip(*window), end.clip(*window)
    key = ["file", "line", "text"]
    seen = looks[key].assign(awaited_ns=end - begin)[(end > begin) & (looks["file"] != "")]
    seen = seen.groupby(key, sort=False, as_index=False)["awaited_ns"].sum()
    at, table = _rows_of(table, seen), table.copy()
    table.loc[at[at >= 0], "awaited_ns"] = seen["awaited_ns"].to_numpy()[at >= 0]
    return _with_rows(trace, table, seen[at < 0].sort_values("awaited_ns", ascending=False, kind="stable"))


def _looks(trace: Trace, scope: Scope, row: IntArray, size: int, window: WindowLike) -> Any:
    """Count the samples of each line and, as last entry, those without a line; missing if not recorded."""
    samples = sample_times(trace, window)
    if samples is None:
        return pd.array([pd.NA] * (size + 1), "Int64")
    at, track = map(as_ints, samples)
    on = scope.ints("track")
    tracks = 1 + max(int(on.max(initial=0)), int(track.max(initial=0)))
    # keys of samples and instants on all tracks: one track after another, each by time
    length = 1 + max(int(at.max(initial=0)), int(scope.end.max(initial=0)))
    keys = np.sort(track * length + at)

    def within(code: IntArray) -> IntArray:
        """Count the samples in the time that each slice adds to the union of its code on its track."""
        begin = np.maximum(scope.ts, reach_before(code * tracks + on, scope.end))
        first, last = (
            np.searchsorted(keys, on * length + at) for at in (begin, np.maximum(begin, scope.end))
        )
        return last - first

    return np.append(sums(row, within(row), size), len(keys) - int(within(np.zeros_like(row)).sum()))


def line_times(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """Return `lines` without costs elsewhere and samples, which is faster."""
    return lines_of_slices(trace, window)[0]


def _whole(trace: Trace, window: WindowLike) -> int:
    """Return the duration that is 100 %, in ns: of the window, the cell, a notebook's cells or the file."""
    if window is not None:
        return max(int(window[1]) - int(window[0]), 0)
    account = recorded_table(trace, ACCOUNT)
    if account is None or "dur" not in account:
        return trace.span.dur
    return int(account.loc[account["cell"] >= 0, "dur"].sum() if "cell" in account else account["dur"].sum())


def lines_of_slices(
    trace: Trace, window: WindowLike = None, step: Numbers = None, **chosen: Any
) -> tuple[pd.DataFrame, Scope, IntArray]:
    """Return the table of `lines`, the line slices, and the table row of each slice."""
    # `chosen`: phase, name, category and track, as `Scope.where` takes them
    span = _whole(trace, window)
    cell = recorded_table(trace, ACCOUNT)
    if window is None and cell is not None and {"ts", "dur"} <= set(cell.columns):
        # other threads were sampled before and after the cell, too
        window = int(cell["ts"].min()), int((cell["ts"] + cell["dur"]).max())
    scope = line_slices(trace, window)
    if step is not None:
        spans = step_spans(trace, window, step)
        scope = _inside(scope, union(*bounds(spans)))
        span = int(spans["dur"].sum())
    if chosen:
        launched = on_device(trace, window).where(step=step, **chosen).codes("line")
        scope = _during(scope, on_host(trace, window).where(**chosen), np.isin(scope.codes("line"), launched))
    own = nest(scope.ints("track"), scope.ts, scope.end - scope.ts).self_ns
    if not len(scope.rows):
        return COLUMNS.empty(), scope, np.empty(0, np.int64)
    code, line_codes = pd.factorize(line_codes_of(trace, scope))
    size = len(line_codes)
    track = scope.ints("track")
    first = np.empty(size, np.int64)
    first[code[::-1]] = scope.rows[::-1]
    descriptions = described(trace, first)
    total = covered_by_code(as_ints(code), scope.ts, scope.end, size)
    pairs = np.unique(code * (int(track.max()) + 1) + track) // (int(track.max()) + 1)
    count = _counts(trace, descriptions, total, union(scope.ts, scope.end))
    # for equal times, the line that ran first, which is the outer one, comes first
    order = np.lexsort((pd.Series(scope.ts).groupby(code).min().to_numpy(), -total))
    row = np.empty(size, np.int64)
    row[order] = np.arange(size)
    nothing = np.zeros(size, np.int64)
    table = COLUMNS.frame(
        {
            **descriptions,
            **dict.fromkeys(COSTS, nothing),
            "count": optional(count),
            "total_ns": total,
            "self_ns": sums(as_ints(code), own, size),
            "unrecorded_ns": nothing,
            "awaited_ns": nothing,
            "share": total / max(span, 1),
            "threads": sums(pairs, None, size),
            "samples": pd.array([pd.NA] * size, "Int64"),
            "exact": count >= 0,
        }
    )
    return table.iloc[order].reset_index(drop=True), scope, row[code]


def described(trace: Trace, rows: IntArray) -> dict[str, list[Any]]:
    """Return ``file line text`` of these line slices."""
    matches = [match for name in trace.slices["name"].iloc[rows] if (match := LINE.fullmatch(str(name)))]
    where = frames(trace)
    files = [
        match["file"] if match["file"] == CELL or match["file"].startswith("In[") or not path else str(path)
        for match, path in zip(matches, where.file[where.code[rows]], strict=True)
    ]
    numbers = [int(match["line"]) for match in matches]
    return {"file": files, "line": numbers, "text": [match["text"] for match in matches]}


def _during(lines: Scope, slices: Scope, kept: BoolArray) -> Scope:
    """Return the parts of lines in which their track is in one of `slices`, and no time of those `kept`."""
    on, track, of = lines.ints("track"), slices.ints("track"), lines.codes("line")
    none = lines.only(kept)
    parts = [Scope(lines.slices, none.rows, none.ts, none.ts, np.zeros_like(none.ts))] + [
        _inside(lines.only(on == one), slices.open(track == one)) for one in np.unique(on).tolist()
    ]
    # work of another thread for a line, such as autograd's for the line that calls the backward
    elsewhere = slices.only(~np.isin(track, on))
    runs_for = elsewhere.codes("line")
    for code in np.intersect1d(of, runs_for).tolist():
        parts.append(_inside(lines.only(of == code), elsewhere.open(runs_for == code)))
    rows, ts, end, own = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("rows", "ts", "end", "self_ns")
    )
    order = np.lexsort((ts - end, ts))
    return Scope(lines.slices, rows[order], ts[order], end[order], own[order])


def _inside(scope: Scope, spans: Intervals) -> Scope:
    """Return the parts of slices inside spans."""
    begin, end = spans
    first = np.searchsorted(end, scope.ts, side="right")
    count = np.maximum(np.searchsorted(begin, scope.end, side="left") - first, 0)
    home = np.repeat(np.arange(len(count)), count)
    at = consecutive(first, count)
    ts, until = np.maximum(scope.ts[home], begin[at]), np.minimum(scope.end[home], end[at])
    order = np.argsort(ts, kind="stable")
    return Scope(scope.slices, scope.rows[home][order], ts[order], until[order], (until - ts)[order])


def line_slices(trace: Trace, window: WindowLike = None) -> Scope:
    """Return the line slices."""
    host = on_host(trace, window)
    return host.only(source_lines.is_line(trace.slices)[host.rows])


def line_codes_of(trace: Trace, scope: Scope) -> IntArray:
    """Return a number for the (file, line) of each line slice, from its name and its stack."""
    code = scope.codes("name")
    words = scope.slices["name"].cat.categories.astype("str")
    file = frames(trace)
    paths = pd.factorize(file.file)[0][file.code[scope.rows]]
    cell = np.array([*(word.startswith(f"{CELL}:") for word in words), False], dtype=bool)[code]
    number = np.array(
        [*(int(match["line"]) if (match := LINE.fullmatch(word)) else -1 for word in words), -1]
    )
    return as_ints(np.where(cell, -1, paths) * (int(number.max(initial=0)) + 2) + number[code])


def _counts(trace: Trace, descriptions: dict[str, Any], total: IntArray, recorded: Intervals) -> IntArray:
    """Count how often each line ran while lines were recorded; -1 if some of its time was only sampled."""
    tables = trace.metadata.get("tables") or {}
    noted = [tables.get(name) for name in (STATEMENTS, LINE_RUNS)]
    frames = [t for t in noted if isinstance(t, pd.DataFrame) and {"line", "ts", "dur"} <= set(t.columns)]
    count = np.full(len(descriptions["line"]), -1, np.int64)
    if not frames:
        return count
    table = pd.concat([frame[["ts", "dur", "line"]].assign(file=frame.get("file", CELL)) for frame in frames])
    ts, end = table["ts"].to_numpy(), (table["ts"] + table["dur"]).to_numpy()
    begins, ends = recorded
    after = np.searchsorted(ends, ts, side="right")  # index of the first span that ends after the line began
    table = table[np.append(begins, np.iinfo(np.int64).max)[after] < end]
    ran = table.groupby([table["file"].astype("str"), "line"])["dur"].agg(["count", "sum"])
    ran = ran.reindex(pd.MultiIndex.from_arrays([descriptions["file"], descriptions["line"]]))
    exact = ran["sum"].to_numpy() >= _EXACT * total
    count[exact] = ran["count"].to_numpy()[exact]
    return count
