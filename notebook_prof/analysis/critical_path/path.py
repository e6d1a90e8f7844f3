"""The critical path of steps and windows, as pieces of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from ...errors import OptionError, SelectionError, checked_columns, nearest
from ...trace import Trace, Window
from ...trace.arrays import IntArray, optional, positions
from ...trace.schema import Table
from ..scope import Numbers, WindowLike, ints, many, sharing, step_spans
from .dependences import Dependences, dependences
from .resources import FAR, WAITS, stacked
from .walk import CLASSES, Path, PathRuns, class_codes, cut_at_owners, resource_names, walk

PIECES: Final = Table.of(
    "critical_path",
    "step:Int32 start_ns:int64 end_ns:int64 dur_ns:int64 class:category slice:Int64 name:category "
    "category:category track:Int32 resource:category line:category phase:category module:category "
    "margin_ns:Int64",
)


End: TypeAlias = Literal["host", "device", "last"]
"""Where paths end: with the step on its thread, with its last launched device work, or with the later one."""

BY: Final = ("class", "name", "category", "resource", "track", "line", "phase", "module", "step")
"""Columns by which the path can be summed."""

_OF_SLICES: Final = ("name", "category", "line", "phase", "module")


@dataclass(frozen=True, slots=True)
class PathSpan:
    """A window, its path, and where the path ends."""

    # -1 for a window that is not a step.
    step: int
    end: End
    # The track on which the path ends.
    track: int
    # ns from the end of the step to the end of its last device work; 0 if that ends earlier.
    behind: int
    path: Path


def windows(
    graph: Dependences, *, window: WindowLike = None, step: Numbers = None, end: End = "host"
) -> list[tuple[int, int, int]]:
    """Return the number (-1 without a step), begin and end of each span; raise as `critical_path` does."""
    if end not in get_args(End):
        raise OptionError(f"end={end!r} is not known: {nearest(str(end), get_args(End))}")
    trace = graph.resources.trace
    if step is not None and (missing := [n for n in many(step) if n not in trace.steps["step"].to_numpy()]):
        numbers = [str(n) for n in trace.steps["step"]]
        raise SelectionError(f"there is no step {missing[0]}: {nearest(str(missing[0]), numbers)}")
    if window is not None and step is None:
        cut = Window.of(window)
        return [(-1, cut.start, cut.end)]
    if step is None and not len(trace.steps):
        return [(-1, 0, trace.span.end)]
    table = step_spans(trace, window, step)
    columns = (table["step"], table["ts"], table["ts"] + table["dur"])
    return list(zip(*(column.astype(np.int64).tolist() for column in columns), strict=True))


def _span(graph: Dependences, span: tuple[int, int, int], row: int, end: End) -> PathSpan:
    number, start, until = span
    done = int(graph.resources.end[row]) if row >= 0 else until
    behind = max(done - until, 0)
    if row >= 0 and done > (until if end == "last" else start) and end != "host":
        track = int(graph.resources.track[row])
        return PathSpan(number, "device", track, behind, walk(graph, start, done, track, row))
    return PathSpan(number, "host", graph.main, behind, walk(graph, start, until))


def _last_work(graph: Dependences, spans: Sequence[tuple[int, int, int]]) -> list[int]:
    """Return the row of the device work that ends last in each span; -1 if there is none."""
    # Device work belongs to its step, or to the window in which it was launched.
    resources = graph.resources
    if not graph.streams or not spans:
        return [-1] * len(spans)
    rows = np.concatenate([stream.rows for stream in graph.streams.values()])
    rows = rows[np.argsort(resources.end[rows], kind="stable")]
    if spans[0][0] >= 0:
        number = ints(resources.trace.slices["step"])[rows]
        last = dict(zip(number.tolist(), rows.tolist(), strict=True))
        return [last.get(span[0], -1) for span in spans]
    call = resources.call[rows]
    launched = np.where(call >= 0, resources.ts[call], resources.ts[rows])
    hit = np.flatnonzero((launched >= spans[0][1]) & (launched < spans[0][2]))
    return [int(rows[hit[-1]]) if len(hit) else -1]


@dataclass(frozen=True)
class PathPieces:
    """All pieces of several paths, by span and start."""

    graph: Dependences
    spans: Sequence[PathSpan]
    # Index of each piece into `spans`.
    span: IntArray
    pieces: PathRuns

    @cached_property
    def margin(self) -> IntArray:
        """How much later (ns) the cause of each piece's start was than the next candidate; else `FAR`."""
        graph, pieces = self.graph, self.pieces
        margin = np.full(len(self.span), FAR)
        for track, stream in graph.streams.items():
            here = np.flatnonzero((pieces.track == track) & (pieces.row >= 0))
            at = graph.position[pieces.row[here]]
            begins = stream.start[at] == pieces.start[here]
            margin[here[begins]] = stream.margin[at[begins]]
        for number, one in enumerate(self.spans):
            waits = one.path.hops.kind < len(WAITS)
            first, last = np.searchsorted(self.span, [number, number + 1])
            at = first + np.searchsorted(pieces.start[first:last], one.path.hops.when[waits])
            inside = at < last
            np.minimum.at(margin, at[inside], one.path.hops.margin[waits][inside])
        return margin


def path_pieces(graph: Dependences, spans: Sequence[PathSpan]) -> PathPieces:
    """Cut the paths of all spans into pieces, wherever the owner changes."""
    runs = stacked(PathRuns, [one.path.runs for one in spans])
    of_run = np.repeat(np.arange(len(spans)), [len(one.path.runs.start) for one in spans])
    order = np.lexsort((runs.start, of_run))
    pieces, run = cut_at_owners(graph, PathRuns(*(column[order] for column in runs)))
    return PathPieces(graph, spans, of_run[order][run], pieces)


def spans_of(trace: Trace, window: WindowLike, step: Numbers, end: End) -> tuple[Dependences, list[PathSpan]]:
    """Return a trace's dependences, and the paths of these steps or of this window."""
    numbers = None if step is None else tuple(many(step))
    key = (window and tuple(window), numbers, end)
    graph = dependences(trace)
    spans = graph.walked.get(key)
    if spans is None:  # keep them: callers ask for pieces, hops and doubts in turn
        wanted = [one for one in windows(graph, window=window, step=numbers, end=end) if one[2] > one[1]]
        last = _last_work(graph, wanted)
        spans = [_span(graph, one, row, end) for one, row in zip(wanted, last, strict=True)]
        graph.walked.clear()
        graph.walked[key] = spans
    return graph, spans


@sharing
def critical_path(
    trace: Trace,
    *,
    by: str | Sequence[str] | None = None,
    window: WindowLike = None,
    step: Numbers = None,
    end: End = "host",
) -> pd.DataFrame:
    """List what determined the duration of steps, in order of time or summed.

    Parameters
    ----------
    by : str or sequence of str, optional
        Sum by any of ``class name category resource track line phase module step`` instead.
    window : (int, int), optional
        Half-open, in ns: take the path of this window; with `step`, steps are cut at its edges.
    step : int or iterable of int, optional
        Take the paths of these steps. Default: all steps, or the whole recording if it has none.
    end : {"host", "device", "last"}
        Where paths end: with the step on its thread, with the last device work it launched, if any, or with
        the later of both.

    Returns
    -------
    DataFrame
        Without `by`, one row per piece, by step, then time: ``step start_ns end_ns dur_ns class slice name
        category track resource line phase module margin_ns``. ``dur_ns`` sums exactly to the length of each
        step. `class` is one of

        - ``kernel copy communication``: work of a stream on the path; ``communication`` also of threads;
        - ``launch-latency``, ``event-latency``: from the end of the launch call, or of the awaited work, to
          the start of `slice`; ``device-gap``: nothing ran between consecutive work of a stream;
        - ``launch-call``, ``host-operator``, ``python``, ``data``, ``overhead``: self time of a thread;
          ``data`` is everything in phase data, and on the workers of a DataLoader;
        - ``wait-wakeup``: from the end of what a thread waited for until the thread resumed; ``sync``: a wait
          in which no candidate ended;
        - ``idle``: a thread without a recorded slice.

        ``margin_ns`` Int64: how much later the cause of the piece's start was than the next candidate;
        missing if there is only one candidate.

        With `by`, its columns and ``path_ns`` int64, ``share`` float64 (of the paths), ``pieces`` int64: by
        `path_ns`, largest first. Rows with missing names are kept, so the sums are the same.

    Notes
    -----
    One walk backwards from the end. On a thread, time is charged to the slice that owns it, back to the end
    of the last wait, and the wait back to the end of its cause, where the walk continues. On a stream, work
    is charged back to the first piece that waited for its launch or an event rather than for the previous
    work. The cause of a start is the latest candidate, each with the least time it needs.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main:     [mm]  [sync     ]
    ... stream 7:     [gemm    ]
    ... ''', launches=[("mm", "gemm")], categories={"sync": "sync"})
    >>> critical_path(trace)[["name", "class", "start_ns", "dur_ns"]].values.tolist()
    [['mm', 'host-operator', 0, 4], ['gemm', 'kernel', 4, 10], ['sync', 'wait-wakeup', 14, 3]]
    >>> critical_path(trace, by="class")[["class", "path_ns"]].values.tolist()
    [['kernel', 10], ['host-operator', 4], ['wait-wakeup', 3]]
    """
    columns = None if by is None else checked_columns("the critical path cannot be summed by", by, BY)
    table = pieces_table(*spans_of(trace, window, step, end))
    return table if columns is None else path_sums(table, columns)


def pieces_table(graph: Dependences, spans: Sequence[PathSpan]) -> pd.DataFrame:
    """Return the table of `critical_path` for these paths."""
    every, trace = path_pieces(graph, spans), graph.resources.trace
    pieces, track = every.pieces, every.pieces.track
    step = np.array([one.step for one in spans], np.int32)[every.span]
    keys, labels = resource_names(trace)
    return PIECES.frame(
        {
            "step": optional(step, "Int32"),
            "start_ns": pieces.start,
            "end_ns": pieces.end,
            "dur_ns": pieces.end - pieces.start,
            "class": pd.Categorical.from_codes(class_codes(graph, pieces), categories=list(CLASSES)),
            "slice": optional(pieces.row),
            "track": pd.arrays.IntegerArray(track.astype(np.int32), track < 0),
            "resource": pd.Categorical.from_codes(positions(keys, track), categories=labels),
            **{name: trace.slices[name].array.take(pieces.row, allow_fill=True) for name in _OF_SLICES},
            "margin_ns": pd.arrays.IntegerArray(every.margin, every.margin >= FAR),
        }
    )


def path_sums(table: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Sum a path's time in ns, grouped by some of its columns, largest first; missing names form a group."""
    groups = table.groupby(by, observed=True, sort=False, dropna=False)["dur_ns"]
    out = groups.agg(path_ns="sum", pieces="count").reset_index().astype({"path_ns": "int64"})
    out.insert(len(by) + 1, "share", out["path_ns"] / max(int(table["dur_ns"].sum()), 1))
    return out.sort_values("path_ns", ascending=False, kind="stable").reset_index(drop=True)
