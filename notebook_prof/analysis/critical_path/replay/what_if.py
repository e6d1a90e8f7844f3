"""What if: how long steps would take if some of what they do took longer, shorter, or was not there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd

from ....errors import OptionError
from ....trace import Trace
from ....trace.arrays import IntArray
from ....units import format_share
from ...input.loader_bounds import schedules
from ...scope import Numbers, WindowLike, many, sharing
from ..dependences import Dependences, dependences
from ..path import End, last_work, windows
from ..segments import FAR
from .answer import STEPS, WhatIf
from .changes import Question, change_of, communication
from .constraints import constraints
from .forward import Change, Replay, replay, replay_within_queues

MOST_ERROR: Final = 0.05
"""A replay that is off by more is no base for an answer."""
_DIFFERS: Final = 0.25
"""Steps and batches that differ by more in length are not one another's."""


@sharing
def what_if(
    trace: Trace,
    *,
    scale: Mapping[str, float] | None = None,
    line: Mapping[int | str, float] | None = None,
    phase: Mapping[str, float] | None = None,
    data: float = 1.0,
    workers: int | None = None,
    launch: float = 1.0,
    remove: str | Sequence[str] = (),
    overlap_communication: bool = False,
    step: Numbers = None,
    window: WindowLike = None,
    end: End = "host",
) -> WhatIf:
    """Predict how long steps would take with changed durations, or refuse to.

    Parameters
    ----------
    trace : Trace
    scale : mapping of str to float, optional
        Factors by the name of slices, ``*`` for any text: 0.5 halves, 0 takes out. An operator or a function:
        all time of its thread inside of it, and the device work launched there; the innermost name counts.
        A kernel: its duration; its own name goes before that of the operator. Waits inside follow from what
        they wait for.
    line, phase : mapping, optional
        Factors by line (``{12: 0}``, or ``{"train.py:12": 0}`` where several files have one) and by phase: of
        the time that slices with this line or phase own, and of their device work.
    data : float
        Factor of phase data and of all that the workers of a DataLoader do; with 0 nobody waits for input.
    workers : int, optional
        A DataLoader with so many workers, on this machine's cores: torch's schedule with the batches that
        were recorded, as in `loader_throughput`.
    launch : float
        Factor of launch calls and of the latency from a launch to its work. Operators of the host stay.
    remove : {"sync", "copy"} or sequence of them
        ``sync``: calls that wait for a device are not there; ``copy``: blocking copies do not block.
    overlap_communication : bool
        Nothing waits for communication of devices but further communication. The dependence of the result on
        it is left out, so that the gain is an upper bound and `lower` is 0.
    step : int or iterable of int, optional
        Mean of these steps. Default: of all, or the whole recording where it has no steps.
    window : (int, int), optional
        Half-open, in ns: this window; with `step`, steps are cut at its edges.
    end : {"host", "device", "last"}
        Where a step ends: on its thread, with the last device work that it launched, or with the later of
        both; see `critical_path`.

    Returns
    -------
    WhatIf
        With ``before after gain lower upper replay_error refused reason steps classes critical_path``.

    Raises
    ------
    OptionError
        If nothing is asked, or an argument cannot be understood.
    SelectionError
        If there is no such name, line, phase or step, or no communication.

    Notes
    -----
    The recorded dependences (`critical_path`) are run forwards: each wait ends, and device work begins, at
    the latest of what has to be before, each with the lag that was recorded where it bound, and else the
    least. Streams hold as many launches as the recording shows to be the limit, or 1,024. With a factor of 0,
    waits inside are gone as well. The order in which threads take turns stays.

    With `end` ``"host"``, by how much more devices are behind at the end of a step than they were in the
    recording counts as time of the step: it would have to be waited for sooner or later.

    An unchanged replay gives the recording back by construction. What tells is ``replay_error``, the error of
    a replay in which no start and no wait knows its own lag: above 5 % there is no answer. There is none
    either where launches are not on record, or where a DataLoader was not watched long enough for `workers`.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main:     [mm]  [sync     ]
    ... stream 7:     [gemm    ]
    ... ''', launches=[("mm", "gemm")], categories={"sync": "sync"})
    >>> answer = what_if(trace, scale={"gemm": 0.5})
    >>> answer.before, answer.after, answer.gain
    (17, 12, 5)
    >>> print(answer)
    What if gemm × 0.5: 17 ns → 12 ns, 29.4 % less; the replay is off by 0.0 %.
    """
    removed = (remove,) if isinstance(remove, str) else tuple(remove)
    question = Question(
        scale or {}, line or {}, phase or {}, removed, data, launch, workers, overlap_communication
    )
    if not str(question):
        raise OptionError(
            "what_if needs something to change, as scale={'aten::mm': 0.5}, remove='sync' or data=0"
        )
    graph = dependences(trace)
    spans = _Spans.of(graph, window, None if step is None else tuple(many(step)), end)
    change = change_of(graph, question, data=None if workers is None else 0.0)
    before = spans.mean(spans.recorded)
    blank = WhatIf(str(question), before, _spans=spans.spans, _trace=trace)
    if graph.main < 0 or not spans.spans:
        return replace(blank, reason="there is no thread, or no step, with anything in it")
    work = sum(len(stream.rows) for stream in graph.streams.values())
    if work and not any((stream.call >= 0).any() for stream in graph.streams.values()):
        reason = "device work was recorded, but no launch of any: what it waited for is not known"
        return replace(blank, reason=reason)
    changes = _variants(graph, change)
    edges = constraints(graph)
    error = spans.error(replay(edges, Change(usual_lags=True)))
    blank = replace(blank, replay_error=error)
    replays = replay_within_queues(edges, changes)
    if replays is None:
        return replace(blank, reason="launch queues overflow again and again in the replay")
    usual, *replays = replays
    if workers is not None:
        return _with_workers(trace, spans, replays, blank, workers)
    if error > MOST_ERROR:
        return replace(blank, reason=_unreliable(error))
    first, *others = replays
    after, steps = spans.after(first)
    gains = [before - after] + [before - spans.after(one)[0] for one in others[:-1]]
    gains.append(spans.mean(spans.lengths(usual)) - spans.after(others[-1], usual)[0])
    return replace(
        blank, after=after, gain=gains[0], lower=0 if overlap_communication else min(gains), upper=max(gains),
        refused=False, steps=steps, _replay=first, _end=end,
    )  # fmt: skip


def _unreliable(error: float) -> str:
    return (
        f"the replay of the unchanged recording is off by {format_share(error)} when each start and wait has "
        f"the usual lag, more than {format_share(MOST_ERROR)}: what decides when work starts is not on record"
    )


def _variants(graph: Dependences, change: Change) -> list[Change]:
    """Return the unchanged recording with usual lags, the change, its variants, and it with usual lags."""
    out = [Change(usual_lags=True), change]
    if graph.streams:
        out.append(replace(change, only_binding=True))
    rows = [stream.rows for stream in graph.streams.values()]
    shared = communication(graph)
    if change.factor is not None and shared.any():
        ours = np.concatenate(rows)[shared]
        if (change.factor[ours] != 1).any():
            factor = change.factor.copy()
            factor[ours] = 1.0
            out.append(replace(change, factor=factor))
    return [*out, replace(change, usual_lags=True)]


@dataclass(frozen=True)
class _Spans:
    """The steps, or the window, that are asked about.

    Attributes
    ----------
    graph : Dependences
    spans : tuple of (int, int, int)
        Number, or -1, begin and end.
    last : ndarray of int64, shape (spans,)
        Place in all work of the work of each that ends last, where it is to end there; -1 else.
    recorded : ndarray of int64, shape (spans,)
        ns.
    """

    graph: Dependences
    spans: tuple[tuple[int, int, int], ...]
    last: IntArray
    recorded: IntArray

    @classmethod
    def of(cls, graph: Dependences, window: WindowLike, step: tuple[int, ...] | None, end: End) -> _Spans:
        """Look up the spans; errors of `critical_path`."""
        spans = [one for one in windows(graph, window=window, step=step, end=end) if one[2] > one[1]]
        rows = np.array(last_work(graph, spans), np.int64) if end != "host" else np.full(len(spans), -1)
        begin = np.array([one[1] for one in spans], np.int64)
        until = np.array([one[2] for one in spans], np.int64)
        resources = graph.resources
        done = np.append(resources.end, -FAR)[rows]
        rows = np.where((rows >= 0) & (done > (until if end == "last" else begin)), rows, -1)
        every = [stream.rows for stream in graph.streams.values()]
        where = np.full(len(resources.ts) + 1, -1)
        if every:
            where[np.concatenate(every)] = np.arange(sum(map(len, every)))
        recorded = np.where(rows >= 0, done, until) - begin
        return cls(graph, tuple(spans), where[rows], recorded)

    def mean(self, lengths: IntArray) -> int:
        """Return the mean length, in whole ns."""
        return round(float(lengths.sum()) / max(len(lengths), 1))

    def bounds(self, one: Replay) -> tuple[IntArray, IntArray]:
        """Return begins and ends in a replay."""
        main = np.full(len(self.spans), self.graph.main)
        begin = one.now(main, np.array([span[1] for span in self.spans], np.int64))
        until = one.now(main, np.array([span[2] for span in self.spans], np.int64))
        if (self.last >= 0).any():
            until = np.where(self.last >= 0, one.end[self.last], until)
        return begin, until

    def lengths(self, one: Replay) -> IntArray:
        """Return the lengths in a replay."""
        begin, until = self.bounds(one)
        return until - begin

    def error(self, one: Replay) -> float:
        """Return by how much the lengths in a replay are off, as a share of the lengths."""
        return float(np.abs(self.lengths(one) - self.recorded).sum() / max(int(self.recorded.sum()), 1))

    def after(self, one: Replay, recorded: Replay | None = None) -> tuple[int, pd.DataFrame]:
        """Return the mean length in a replay, backlog of devices included, and the table of steps."""
        begin, until = self.bounds(one)
        growth = self._growth(one, begin, until) - self._recorded_growth(recorded)
        growth = np.where(self.last >= 0, 0, growth)
        if growth.sum() < 0:
            growth = np.zeros(len(growth), np.int64)
        number = np.array([span[0] for span in self.spans], np.int32)
        table = STEPS.frame(
            {
                "step": pd.arrays.IntegerArray(number, number < 0),
                "start_ns": np.array([span[1] for span in self.spans], np.int64),
                "before_ns": self.recorded,
                "after_ns": until - begin,
                "backlog_ns": growth,
            }
        )
        return self.mean(until - begin + growth), table

    def _recorded_growth(self, one: Replay | None) -> IntArray:
        if one is not None:
            return self._growth(one, *self.bounds(one))
        begin = np.array([span[1] for span in self.spans], np.int64)
        until = np.array([span[2] for span in self.spans], np.int64)
        rows = [stream.end for stream in self.graph.streams.values()]
        return self._growth_of(np.concatenate(rows), begin, until) if rows else begin * 0

    def _growth(self, one: Replay, begin: IntArray, until: IntArray) -> IntArray:
        return self._growth_of(one.end, begin, until) if len(one.end) else begin * 0

    def _growth_of(self, ends: IntArray, begin: IntArray, until: IntArray) -> IntArray:
        """Return by how much further behind devices are at ends than at begins."""
        streams = list(self.graph.streams.values())
        when = np.concatenate([_launch_times(self.graph, stream.rows) for stream in streams])
        order = np.argsort(when, kind="stable")
        latest = np.concatenate([[-FAR], np.maximum.accumulate(ends[order])])

        def behind(recorded: IntArray, now: IntArray) -> IntArray:
            last = latest[np.searchsorted(when[order], recorded, side="left")]
            return np.maximum(last - now, 0)

        first = np.array([span[1] for span in self.spans], np.int64)
        last = np.array([span[2] for span in self.spans], np.int64)
        growth: IntArray = behind(last, until) - behind(first, begin)
        return growth


def _launch_times(graph: Dependences, rows: IntArray) -> IntArray:
    call = graph.resources.call[rows]
    return np.where(call >= 0, graph.resources.ts[call], graph.resources.ts[rows])


def _with_workers(
    trace: Trace, spans: _Spans, replays: Sequence[Replay], blank: WhatIf, workers: int
) -> WhatIf:
    """Answer for another number of workers: torch's schedule around steps that do not wait for input."""
    every = schedules(trace)
    if len(every) != 1:
        reason = (
            "no DataLoader was watched for long enough" if not every else "several DataLoaders make batches"
        )
        return replace(blank, reason=f"{reason}: how long a batch takes its worker is not known")
    schedule = every[0][1]
    measured = schedule.batch_ns(schedule.workers)
    error = max(blank.replay_error, abs(measured / max(blank.before, 1) - 1))
    blank = replace(blank, replay_error=error)
    if abs(measured / max(blank.before, 1) - 1) > _DIFFERS:
        reason = "a step is not a batch, or the schedule of the DataLoader does not fit what was recorded"
        return replace(blank, reason=reason)
    if error > MOST_ERROR:
        return replace(blank, reason=_unreliable(error))
    times = []
    for one in replays:
        loop = max(spans.after(one)[0] - schedule.receive_ns * (schedule.workers > 0), 1.0)
        times.append(round(replace(schedule, loop_ns=loop).batch_ns(workers)))
    gains = [blank.before - time for time in times]
    off = round(error * blank.before)
    blank = replace(blank, lower=min(gains) - off, upper=max(gains) + off)
    return replace(blank, after=times[0], gain=gains[0], refused=False)
