"""What readers of events share: begins and ends are matched, and arguments are a table beside the slices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..trace.arrays import IntArray
from ..trace.builder import TraceBuilder
from ..trace.nesting import Pairs, inherit, pair
from ..trace.report import ImportReport
from ..trace.strings import Coded
from .codec.columns import per_group

NAME: Final = "event_arguments"
"""Name of the table in ``metadata["tables"]``."""


def argument_rows(
    track: npt.ArrayLike, ts: IntArray, dur: IntArray, name: Coded, arguments: Coded
) -> pd.DataFrame:
    """Return a row of ``event_arguments`` for each slice that has arguments."""
    # `ts` is in Unix ns; `arguments` are JSON objects as text, code -1 for none. ``track`` (int32),
    # ``start_unix_ns``, ``dur_ns`` (int64) and ``name`` identify the slice, so negative durations become 0,
    # as in the slices.
    has = np.flatnonzero(np.asarray(arguments.codes) >= 0)
    columns: dict[str, Any] = {
        "track": np.broadcast_to(np.asarray(track, np.int32), len(ts))[has],
        "start_unix_ns": np.asarray(ts, np.int64)[has],
        "dur_ns": np.maximum(np.asarray(dur, np.int64)[has], 0),
    }
    for key, part in (("name", name), ("arguments", arguments)):
        columns[key] = np.array([*part.values, None], dtype=object)[np.asarray(part.codes)[has]]
    return pd.DataFrame(columns)


def add_arguments(builder: TraceBuilder, parts: Sequence[pd.DataFrame]) -> None:
    """Add the rows that `argument_rows` made to the table ``event_arguments``, with text as categories."""
    if not any(map(len, parts)):
        return
    tables = builder.metadata.setdefault("tables", {})
    table = pd.concat([*([tables[NAME]] if NAME in tables else ()), *parts], ignore_index=True)
    tables[NAME] = table.astype({"name": "category", "arguments": "category"})


def match(track: IntArray, name: IntArray, ts: IntArray, opens: npt.NDArray[np.bool_]) -> Pairs:
    """Match ends with begins of the same track and name."""
    # Rows are in the order of writing; `name` is -1 for an end without a name. An end closes the latest open
    # begin of its name, as in Perfetto, so one missing end does not shift all later ones. An end without a
    # name closes the latest begin of the track. An end that was written before the begin of its name at the
    # same instant closes that begin.
    key = pd.factorize(track * (int(name.max(initial=0)) + 2) + name + 1)[0].astype(np.int64)
    loose = np.isin(track, track[~opens & (name < 0)])
    begins, ends, open_, shut = [], [], [], []

    def settle(rows: IntArray, by: IntArray) -> None:
        pairs = pair(by[rows], ts[rows], opens[rows])
        b, e = rows[pairs.begin], rows[pairs.end]
        good = (name[e] < 0) | (name[e] == name[b])
        begins.append(b[good])
        ends.append(e[good])
        open_.extend([rows[pairs.unclosed], b[~good]])
        shut.extend([rows[pairs.unopened], e[~good]])

    settle(np.flatnonzero(~loose), key)
    if loose.any():
        settle(np.flatnonzero(loose), track)
        # match by name what the stack order matched wrongly
        unmatched = np.sort(np.concatenate(open_ + shut))
        open_.clear()
        shut.clear()
        settle(unmatched, key)
    # begins first, so an end written before its begin at the same instant is matched
    unmatched = np.concatenate([np.sort(np.concatenate(part)) for part in (open_, shut)])
    open_.clear()
    shut.clear()
    settle(unmatched, key)
    order = np.argsort(pairs := np.concatenate(begins), kind="stable")
    unclosed, unopened = (np.sort(np.concatenate(part)) for part in (open_, shut))
    return Pairs(pairs[order], np.concatenate(ends)[order], unclosed, unopened)


def report_unpaired(
    report: ImportReport,
    unclosed: IntArray,
    unopened: IntArray,
    show: Callable[[int], object],
    until: str = "kept until the end of the trace",
) -> None:
    """Count begins without an end and ends without a begin, given as row numbers."""
    report.add_where("unclosed-begin", "loss", unclosed, show, until)
    report.add_where("end-without-begin", "loss", unopened, show, "ignored")


def unique_name(name: str, process: int | None, taken: set[tuple[int | None, str]]) -> str:
    """Return a name that is unique within this process, and add it to those taken."""
    count, unique = 1, name
    while (process, unique) in taken:
        count += 1
        unique = f"{name} {count}"
    taken.add((process, unique))
    return unique


def lanes(start: IntArray, end: IntArray) -> IntArray:
    """Return the lane of each interval, from 0: as few lanes as possible, without overlaps."""
    # In order of their starts, intervals take the lane that has been free for longest. So the k-th reuse
    # takes the lane of the k-th interval to end, which needs no loop.
    n = len(start)
    order = np.argsort(start, kind="stable")
    begins = start[order]
    ends = np.maximum(end[order], begins + 1)
    by_end = np.argsort(ends, kind="stable")
    row = np.arange(n, dtype=np.int64)
    over = np.searchsorted(ends[by_end], begins, side="right")
    count = np.maximum.accumulate(row + 1 - over)
    new = np.diff(count, prepend=0) > 0
    before = np.where(new, -1, by_end[np.maximum(row - count, 0)]) if n else row
    lane = np.empty(n, np.int64)
    lane[order] = inherit(before, np.where(new, count - 1, -1))
    return lane


def stream_tracks(
    builder: TraceBuilder, device: IntArray, stream: IntArray, rank: int | None = None
) -> IntArray:
    """Return the track of each row's stream."""

    def track(gpu: int, number: int) -> int:
        return builder.track(f"GPU {gpu} stream {number}", "stream", device=gpu, stream=number, rank=rank)

    return per_group(track, device, stream)
