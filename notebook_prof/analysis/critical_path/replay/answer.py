"""The answer to a what-if question and its display."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from ....trace import Trace, nest
from ....trace.arrays import IntArray, optional
from ....trace.schema import TABLES, Table
from ....units import format_ns, format_share
from ...scope import bounds, ints, once
from ..dependences import Dependences, dependences
from ..path import End, PathSpan, pieces_table
from ..walk import walk
from .forward import Replay
from .question import Bounds, Spans

STEPS: Final = Table.of(
    "what_if_steps",
    "step:Int32 start_ns:int64 before_ns:int64 usual_ns:int64 after_ns:Int64 backlog_ns:Int64",
)


MOST_ERROR: Final = 0.05
"""A replay with a larger error gives no answer."""


@dataclass(frozen=True)
class Prediction:
    """Fields common to answers about one recording and about several ranks; see `WhatIf`."""

    question: str
    before: int
    after: int | None = None
    gain: int | None = None
    lower: int | None = None
    upper: int | None = None
    replay_error: float = float("nan")
    refused: bool = True
    reason: str = ""
    _replay: Replay | None = field(repr=False, default=None)

    def said(self, where: str, unit: str) -> str:
        """Return the answer in words."""
        text = f"What if {self.question}{where}: "
        if self.after is None or self.gain is None:
            return f"{text}refused. {self.reason[:1].upper()}{self.reason[1:]}."
        share = self.gain / max(self.before, 1)
        text += f"{format_ns(self.before)} → {format_ns(self.after)}{unit}, "
        text += f"{format_share(abs(share))} {'less' if self.gain >= 0 else 'more'}"
        low, high = (format_ns(bound or 0) for bound in (self.lower, self.upper))
        text += f" (gain between {low} and {high})" * (low != high)
        return f"{text}; the replay is off by {format_share(self.replay_error)}."

    def unreliable(self, recording: str) -> str:
        """Return why the replay is not accurate enough to answer; `recording` names what was replayed."""
        return (
            f"the replay of the unchanged {recording} is off by {format_share(self.replay_error)} when each "
            f"start and wait has the usual lag, more than {format_share(MOST_ERROR)}: what decides when work "
            "starts was not recorded"
        )


@dataclass(frozen=True)
class WhatIf(Prediction):
    """The predicted duration of steps.

    Attributes
    ----------
    question : str
        The change, in words.
    before : int
        ns; mean length of the steps, or length of the window, in the recording.
    after : int or None
        ns; the same in the replay. This and the next three are None if the answer is refused.
    gain : int or None
        ``before - after``; negative if the steps would take longer.
    lower, upper : int or None
        The smallest and the largest gain, given what the recording leaves open: lags, what else calls could
        wait for, and whether communication waits for other ranks; with `workers`, the schedule's error.
    replay_error : float
        Error of replaying the unchanged recording with the usual lag for each start and wait: the sum of
        ``|usual_ns - before_ns|`` of `steps` over the sum of ``before_ns``; with `workers`, the error of
        torch's schedule if that is larger. NaN without a replay.
    refused : bool
        Whether the answer is withheld because it cannot be trusted.
    reason : str
        Why it was refused; empty otherwise.
    steps : DataFrame
        One row per step, by number: ``step`` Int32; ``start_ns before_ns usual_ns`` int64; ``after_ns
        backlog_ns`` Int64. The last two are missing if the answer is refused or is for another number of
        workers; otherwise the mean of their sum is `after`. No rows without a replay.
    """

    steps: pd.DataFrame = field(repr=False, default_factory=STEPS.empty)
    _spans: Spans | None = field(repr=False, default=None)
    _trace: Trace | None = field(repr=False, default=None)  # dependences only refer to it weakly

    @functools.cached_property
    def trace(self) -> Trace:
        """Slices, links and steps at their times in the replay; empty if the answer is refused."""
        return self._retimed[0]

    @functools.cached_property
    def critical_path(self) -> pd.DataFrame:
        """The critical path of the replay: the table of `critical_path`.

        `slice` is a row of the recording; times are those of the replay. ``dur_ns`` sums to the ``after_ns``
        of `steps`. No rows if the answer is refused.
        """
        trace, rows = self._retimed
        if self._replay is None or self._spans is None:
            return pieces_table(dependences(trace, latency=0, spacing=0), [])
        # keep the recording's latencies, rather than measure them again in the replay
        least, factor = self._replay.edges.graph.latencies, self._replay.change.launch_latency
        graph = dependences(trace, latency=round(least.launch * factor), spacing=least.spacing)
        after = self._spans.bounds(self._replay)
        new = np.full(int(rows.max(initial=-1)) + 2, -1)
        new[rows] = np.arange(len(rows))
        table = _path(graph, self._spans.number, replace(after, last=new[after.last]))
        return table.assign(slice=optional(np.append(rows, -1)[ints(table["slice"])]))

    @functools.cached_property
    def classes(self) -> pd.DataFrame:
        """Classes of the critical path, before and after.

        Returns
        -------
        DataFrame
            ``class`` str, ``before_ns after_ns`` int64, sums over the steps, by `after_ns`, largest first.
            The columns sum to those of `steps`. No rows if the answer is refused.
        """
        sums = [_by_class(self.critical_path)] * 2
        if self._replay is not None and self._spans is not None and self._trace is not None:
            graph, spans = self._replay.edges.graph, self._spans
            before = spans.bounds()
            key = ("path by class", before.begin.tobytes(), before.until.tobytes(), before.last.tobytes())
            sums[0] = once(self._trace, key, lambda: _by_class(_path(graph, spans.number, before)))
        both = pd.concat(sums, axis=1, keys=["before_ns", "after_ns"]).fillna(0).astype("int64")
        both = both.rename_axis("class").reset_index().astype({"class": "str"})
        return both.sort_values("after_ns", ascending=False, kind="stable").reset_index(drop=True)

    @functools.cached_property
    def _retimed(self) -> tuple[Trace, IntArray]:
        """Slices, links and steps at their replayed times, and each slice's row in the recording."""
        if self._replay is None or self._trace is None:
            return Trace({table.name: table.empty() for table in TABLES}), np.empty(0, np.int64)
        steps, main = self._trace.steps, np.full(len(self._trace.steps), self._replay.edges.graph.main)
        begin, until = (self._replay.now(main, side) for side in bounds(steps))
        return at_times(self._trace, *replayed_times(self._replay), begin, until)

    def __str__(self) -> str:
        return self.said("", " a step" if self._spans is not None and (self._spans.number >= 0).any() else "")

    def __repr__(self) -> str:
        if self._replay is None:
            return str(self)
        lines = [str(self), "", f"{'critical path':16}{'before':>10}{'after':>10}"]
        count = max(len(self.steps), 1)  # means per step
        for name, *times in self.classes.head(_ROWS).to_numpy().tolist():
            before, after = (format_ns(time / count) for time in times)
            lines.append(f"{name:16}{before:>10}{after:>10}")
        return "\n".join(lines)


_ROWS: Final = 6


def steps_table(spans: Spans, usual: Replay, replay: Replay | None = None) -> pd.DataFrame:
    """Return the table of `WhatIf.steps`; `usual` is the unchanged recording replayed with usual lags."""
    count = len(spans)
    data: dict[str, Any] = {
        "step": pd.arrays.IntegerArray(spans.number.astype(np.int32), spans.number < 0),
        "start_ns": spans.begin,
        "before_ns": spans.bounds().lengths,
        "usual_ns": spans.bounds(usual).lengths,
        "after_ns": pd.array([pd.NA] * count, dtype="Int64"),
        "backlog_ns": pd.array([pd.NA] * count, dtype="Int64"),
    }
    if replay is not None:
        data |= {"after_ns": spans.bounds(replay).lengths, "backlog_ns": spans.more_backlog(replay)}
    return STEPS.frame(data)


def _path(graph: Dependences, number: IntArray, spans: Bounds) -> pd.DataFrame:
    """Return the critical path of these spans as the table of `critical_path`."""
    paths = []
    columns = (number, spans.begin, spans.until, spans.last)
    for step, begin, until, row in zip(*(column.tolist() for column in columns), strict=True):
        track = graph.main if row < 0 else int(graph.resources.track[row])
        end: End = "host" if row < 0 else "device"
        paths.append(PathSpan(step, end, track, 0, walk(graph, begin, until, track, row)))
    return pieces_table(graph, paths)


def _by_class(pieces: pd.DataFrame) -> pd.Series[int]:
    return pieces.groupby("class", observed=True)["dur_ns"].sum()


def replayed_times(replay: Replay) -> tuple[IntArray, IntArray]:
    """Return when thread slices and device work begin and end in the replay; -1 for other slices."""
    work, resources = replay.edges.work, replay.edges.graph.resources
    start, end = np.full(len(resources.ts), -1), np.full(len(resources.ts), -1)
    track = resources.track
    on_thread = np.flatnonzero(np.isin(track, replay.edges.threads))
    start[on_thread] = replay.now(track[on_thread], resources.ts[on_thread])
    end[on_thread] = replay.now(track[on_thread], resources.end[on_thread])
    start[work.rows], end[work.rows] = replay.start, replay.end
    return start, end


def at_times(
    trace: Trace, start: IntArray, end: IntArray, begin: IntArray, until: IntArray
) -> tuple[Trace, IntArray]:
    """Return slices, links and steps at other times (ns), and each slice's row; drops starts before 0."""
    rows = np.flatnonzero(start >= 0)
    rows = rows[np.lexsort((start[rows] - end[rows], start[rows]))]
    new_row = np.full(len(start) + 1, -1)
    new_row[rows] = np.arange(len(rows))
    slices = trace.slices.iloc[rows].reset_index(drop=True)
    ts, dur = start[rows], end[rows] - start[rows]
    frame, annotation = ((slices["category"] == name).to_numpy() for name in ("python", "annotation"))
    nested = nest(slices["track"].to_numpy(), ts, dur, frame, annotation)
    parent = optional(nested.parent)
    slices = slices.assign(ts=ts, dur=dur, depth=nested.depth, parent=parent, self_ns=nested.self_ns)
    flows = trace.flows
    source, target = new_row[flows["src"].to_numpy()], new_row[flows["dst"].to_numpy()]
    both = (source >= 0) & (target >= 0)
    flows = flows[both].assign(src=source[both], dst=target[both]).reset_index(drop=True)
    tables = {table.name: table.empty() for table in TABLES}
    tables |= {"tracks": trace.tracks, "slices": slices, "flows": flows, "stacks": trace.stacks}
    tables["steps"] = trace.steps.assign(ts=begin, dur=until - begin)
    return Trace(tables, metadata=trace.metadata), rows
