"""Slack, by a replay in reverse: how much later each slice could end without making steps longer."""

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
from ..resources import FAR
from .constraints import Constraints, constraints
from .forward import Arcs, Change, Forward, replay
from .question import Spans


class Backward:
    """The slack of all thread instants and all device work with respect to the ends of some spans."""

    # `work` contains the ns by which each piece of device work could begin and end later; `FAR` if no end of
    # a span depends on it. In the unchanged replay each instant is the recorded one. An edge from *u* to *v*
    # has the margin ``v - (u + lag)``, and ``slack(u) = min(margin(u, v) + slack(v))`` over all edges from
    # *u*; the slack of the end of a span is 0. On a thread, each instant precedes all later ones of its
    # piece, and in a run each piece of work precedes the next, so the slack is a minimum over everything that
    # follows, computed for all at once. Between pieces and runs, a loop passes the slack on, from last to
    # first.
    def __init__(self, edges: Constraints, spans: Spans) -> None:
        self.edges = edges
        self._forward = forward = Forward(edges, Change())
        forward.connect()
        self._arcs = Arcs(*(np.concatenate(part) for part in zip(*forward.parts, strict=True)))
        arcs = self._arcs
        # the earliest time that each edge allows: when its source was done, plus its lag
        times = arcs.plain.copy()
        of_work = arcs.source >= forward.pieces
        origin = arcs.origin[of_work]
        times[of_work] += edges.work.start[origin] - forward.since[origin]
        # each node's entry: 0 for pieces of threads; for runs, when edges (not launches) allow it
        self._entry = np.zeros(forward.pieces + len(forward.runs.begins), np.int64)
        self._entry[forward.pieces :] = -FAR
        to_run = arcs.target >= forward.pieces
        np.maximum.at(self._entry, arcs.target[to_run], times[to_run])
        done = self._entry.copy()
        done[forward.own] = edges.waits.end
        self._margin = done[arcs.target] - times
        bounds = spans.bounds()
        on_thread = bounds.last < 0
        self._ends = np.unique(bounds.until[on_thread])
        main = np.full(len(self._ends), edges.number(edges.graph.main))
        self._end_pieces = edges.piece(main, self._ends)
        number = np.full(len(edges.graph.resources.ts), -1)
        number[edges.work.rows] = np.arange(len(edges.work.rows))
        self._last_work = number[bounds.last[~on_thread]]
        self.nodes = self._of_nodes(done)
        self.work = self._of_work()
        self._instants = self._sorted_instants()
        self._closes = np.full(len(self.nodes), FAR)
        self._closes[forward.own - 1] = edges.waits.end + self.nodes[forward.own]

    def _of_nodes(self, done: IntArray) -> IntArray:
        """Return the slack of each piece of a thread, and of the entry of each run."""
        forward, arcs, work, entry = self._forward, self._arcs, self.edges.work, self._entry
        pieces, runs = forward.pieces, forward.runs
        launcher = np.concatenate([np.full(pieces, -1), runs.piece])
        first = done[arcs.target]
        plain = first - (entry[arcs.source] + arcs.plain)
        launched = np.where(launcher[arcs.source] >= 0, first - arcs.launched, FAR)
        slack = np.full(len(entry), FAR)
        slack[self._end_pieces] = 0
        last = self._last_work
        run = runs.number[last]
        np.minimum.at(slack, pieces + run, work.start[last] - (entry[pieces + run] + forward.since[last]))
        begun = runs.piece[run] >= 0
        run, last = run[begun], last[begun]
        np.minimum.at(slack, runs.piece[run], work.start[last] - forward.latest[last])
        return _loop(forward.order(), arcs, plain, launched, launcher, slack)

    def _of_work(self) -> IntArray:
        """Return the slack of work: the minimum over everything that follows in its run."""
        forward, arcs = self._forward, self._arcs
        start, number = self.edges.work.start, forward.runs.number
        out = np.full(len(start), FAR)
        own = arcs.source >= forward.pieces
        np.minimum.at(out, arcs.origin[own], self._margin[own] + self.nodes[arcs.target[own]])
        out[self._last_work] = 0
        late = start - forward.since  # how late the run is by now; this never falls
        least = _least_after(np.minimum(out, FAR) + late, number)
        return _or_none(least - late)

    def _sorted_instants(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return pieces of threads, instants in them, and the least slack from there on, sorted."""
        forward, arcs, work, edges = self._forward, self._arcs, self.edges.work, self.edges
        own = arcs.source < forward.pieces
        begun = np.flatnonzero(work.thread >= 0)
        # how much later each piece of work could be launched without beginning later
        latency = work.start[begun] - work.launched[begun] - forward.latency[begun]
        piece = np.concatenate(
            [arcs.source[own], edges.piece(work.thread[begun], work.launched[begun]), self._end_pieces]
        )
        instant = np.concatenate([arcs.origin[own], work.launched[begun], self._ends])
        slack = np.concatenate(
            [self._margin[own] + self.nodes[arcs.target[own]], latency + self.work[begun], 0 * self._ends]
        )
        order = np.lexsort((instant, piece))
        piece, instant, slack = piece[order], instant[order], np.minimum(slack[order], FAR)
        return piece, instant, _least_after(slack, np.cumsum(np.diff(piece, prepend=piece[:1]) != 0))

    def of_instants(self, thread: int, instants: IntArray) -> IntArray:
        """Return the slack at instants of thread number `thread`; `FAR` if no end depends on them."""
        piece = self.edges.pieces_of_thread(thread, instants)
        begin, until = self.edges.first_piece[[thread, thread + 1]]
        of, at, slack = self._instants
        bounds = np.searchsorted(of, np.arange(begin, until + 1))
        # pieces are in order, and so are the instants of a thread
        first = bounds[0] + np.searchsorted(at[bounds[0] : bounds[-1]], instants)
        first = np.maximum(first, bounds[piece - begin])
        here = first < bounds[piece - begin + 1]
        out = np.full(len(instants), FAR)
        out[here] = slack[first[here]]
        # an instant in a wait could move to the end of the wait, and from there by the slack of what follows
        return _or_none(np.minimum(out, self._closes[piece] - instants))


_NEVER: Final = FAR // 2
"""A slack of at least this means that no end of a span depends on the instant."""


def _or_none(slack: IntArray) -> IntArray:
    return np.where(slack < _NEVER, slack, FAR)


def _least_after(value: IntArray, group: IntArray) -> IntArray:
    """Return the minimum from each index to the end of its (ascending) group."""
    order = np.argsort(-value, kind="stable")
    rank = np.empty(len(value), np.int64)
    rank[order] = np.arange(len(value))
    backwards = (group[-1:] - group)[::-1] * len(value) + rank[::-1]
    best = np.maximum.accumulate(backwards)[::-1] - (group[-1:] - group) * len(value)
    return np.asarray(value[order[best]], dtype=np.int64)


def _loop(
    order: IntArray, arcs: Arcs, plain: IntArray, launched: IntArray, launcher: IntArray, slack: IntArray
) -> IntArray:
    """Pass the slack of each node to its sources, from the last node to the first."""
    by_target = np.argsort(arcs.target, kind="stable")
    last = [*np.cumsum(np.bincount(arcs.target, minlength=len(slack))).tolist(), 0]
    source, by_entry = arcs.source[by_target].tolist(), plain[by_target].tolist()
    by_launch = launched[by_target].tolist()
    out, pieces = slack.tolist(), launcher.tolist()
    for node in order[::-1].tolist():
        own = out[node]
        if own >= _NEVER:
            continue
        for k in range(last[node - 1], last[node]):
            one = source[k]
            if (later := own + by_entry[k]) < out[one]:
                out[one] = later
            if (piece := pieces[one]) >= 0 and (later := own + by_launch[k]) < out[piece]:
                out[piece] = later
    return np.array(out, np.int64)


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

    Notes
    -----
    In the replay of `what_if`, an instant *v* is the latest of ``u + lag(u, v)`` over all *u* that must come
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
    ordered = out.sort_values(["least_ns", "critical"], ascending=[True, False], kind="stable")
    return ordered.reset_index(drop=True)
