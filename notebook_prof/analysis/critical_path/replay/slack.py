"""Slack: how much later each slice could end without making steps longer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from ....errors import OptionError, nearest
from ....trace import Trace
from ....trace.arrays import IntArray
from ....trace.schema import Table
from ...scope import Numbers, WindowLike, ints, many, once, sharing
from ..dependences import dependences
from ..path import End, resource_column
from ..segments import FAR
from .backward import Backward
from .constraints import Constraints, constraints
from .forward import Change, replay
from .spans import Spans

BY: Final = ("name", "category", "resource", "track", "line", "phase", "module", "step")
"""The columns by which slack can be summed."""

SLACK: Final = Table.of(
    "slack",
    "slice:int64 step:Int32 name:category category:category track:int32 resource:category line:category "
    "phase:category module:category start_ns:int64 dur_ns:int64 slack_ns:Int64",
)


@sharing
def slack(
    trace: Trace,
    *,
    by: str | Sequence[str] | None = None,
    window: WindowLike = None,
    step: Numbers = None,
    end: End = "host",
) -> pd.DataFrame:
    """List how much later each slice could end without delaying the end of its step or of a later one.

    Parameters
    ----------
    trace : Trace
    by : str or sequence of str, optional
        Sum by any of ``name category resource track line phase module step`` instead.
    window, step, end
        As in `critical_path`: the ends of these steps, or of this window, must not move.

    Returns
    -------
    DataFrame
        Without `by`, one row per slice on a thread and per piece of device work, by start: ``slice step name
        category track resource line phase module start_ns dur_ns slack_ns``. A window has the slices that
        begin in it and the device work launched in it. ``slack_ns`` Int64 is missing if no end depends on
        the slice.

        With `by`, its columns and, int64, ``slices``, ``critical`` (those with a slack of 0), ``unbound``
        (those without one); Int64 ``least_ns median_ns most_ns`` of the others: by `least_ns`, smallest
        first. Slack holds for one slice at a time; for several at once, use `what_if`.

        ``attrs["replay_error"]`` is that of `what_if` for the same steps: how well the dependences explain
        the recording. Above 0.05, causes of starts are missing and slack is not reliable.

    Raises
    ------
    OptionError
        If `by` or `end` is not known.
    SelectionError
        If there is no such step.

    Notes
    -----
    In the replay of `what_if`, an instant *v* is the latest of ``u + lag(u, v)`` over all *u* that have to be
    before. With ``margin(u, v) = v - (u + lag(u, v))``, ::

        slack(v) = 0                                           where v is the end of a step
        slack(u) = min over v of (margin(u, v) + slack(v))     else

    and the slack of a slice is that of its end. If it ends *d* later, and everything else takes as long as
    before, the last dependent end of a step moves by ``max(0, d - slack)``. Slices on the critical path have
    a slack of 0. An operator that the path leaves early, through a launch, has the slack of its end.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main:     [mm][add      ][sync]
    ... stream 7:     [gemm]
    ... ''', launches=[("mm", "gemm")], categories={"sync": "sync"})
    >>> slack(trace)[["name", "slack_ns"]].values.tolist()
    [['mm', 0], ['add', 0], ['gemm', 11], ['sync', 0]]
    """
    columns = None if by is None else [by] if isinstance(by, str) else list(by)
    for column in columns or ():
        if column not in BY:
            raise OptionError(f"slack cannot be summed up by {column!r}: {nearest(column, BY)}")
    edges = constraints(dependences(trace))
    spans = Spans.of(edges, window, None if step is None else tuple(many(step)), end)
    rows = _rows(trace, edges, spans)
    least = np.full(len(rows), FAR)
    error = float("nan")
    if len(spans) and edges.graph.main >= 0:
        usual = once(trace, "usual replay", lambda: replay(edges, Change(usual_lags=True)))
        error = spans.error(usual)
        least = _within_queues(edges, spans, rows)
    table = _table(trace, rows, least)
    table = table if columns is None else _summed(table, columns)
    table.attrs["replay_error"] = error
    return table


def _rows(trace: Trace, edges: Constraints, spans: Spans) -> IntArray:
    """Return the rows of these spans' slices, in order."""
    resources, work = edges.graph.resources, edges.work
    on_thread = resources.on_threads()
    if spans.are_steps:
        number = ints(trace.slices["step"])
        chosen = on_thread & np.isin(number, spans.number)
    else:
        begin, until = (column.tolist()[0] if len(spans) else 0 for column in (spans.begin, spans.until))
        chosen = on_thread & (resources.ts >= begin) & (resources.ts < until)
    chosen[work.rows[spans.span_of_work >= 0]] = True
    return np.flatnonzero(chosen)


def _within_queues(edges: Constraints, spans: Spans, rows: IntArray) -> IntArray:
    """Return the slack of slices, given that launches wait for room in full queues."""
    # A launch waits for room only if the work that must begin first is late, so only launches where that work
    # has more slack matter.
    one = Backward(edges, spans)
    queues, resources = edges.queues, edges.graph.resources
    queued = (queues.binds == 1) | (queues.lag < one.work[queues.source])
    if (queued != (queues.binds == 1)).any():
        one = Backward(constraints(edges.graph, queued), spans)
    least, chosen = np.full(len(resources.ts), FAR), np.zeros(len(resources.ts), bool)
    chosen[rows] = True
    least[edges.work.rows] = one.work
    for number, track in enumerate(edges.threads.tolist()):
        own = resources.threads[track]
        own = own[chosen[own]]
        least[own] = one.of_instants(number, resources.end[own])
    return least[rows]


def _table(trace: Trace, rows: IntArray, least: IntArray) -> pd.DataFrame:
    names = ("step", "name", "category", "track", "line", "phase", "module")
    slices = trace.slices[[*names, "ts", "dur"]].iloc[rows].reset_index(drop=True)
    data: dict[str, Any] = {name: slices[name] for name in names}
    data |= {"slice": rows, "start_ns": slices["ts"], "dur_ns": slices["dur"]}
    data["resource"] = resource_column(trace, slices["track"].to_numpy())
    data["slack_ns"] = pd.arrays.IntegerArray(least, least >= FAR)
    return SLACK.frame(data)


def _summed(table: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    groups = table.groupby(columns, observed=True, sort=False, dropna=False)
    of_slack = groups["slack_ns"]
    out = groups.size().rename("slices").reset_index()
    out["critical"] = (table["slack_ns"] == 0).fillna(False).groupby(groups.ngroup()).sum().to_numpy(np.int64)
    out["unbound"] = out["slices"] - of_slack.count().to_numpy()
    for name, value in (("least", of_slack.min()), ("median", of_slack.median()), ("most", of_slack.max())):
        out[f"{name}_ns"] = value.round().astype("Int64").array
    return out.sort_values(["least_ns", "critical"], ascending=[True, False], kind="stable").reset_index(
        drop=True
    )
