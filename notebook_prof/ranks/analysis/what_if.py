"""What if a rank were faster or slower: all ranks replayed together, meeting in their collectives."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pandas as pd

from ...analysis.critical_path.path import End
from ...analysis.critical_path.replay.answer import MOST_ERROR, Prediction
from ...analysis.critical_path.replay.constraints import Constraints, constraints
from ...analysis.critical_path.replay.forward import Change, Replay, replay, replay_within_queues
from ...analysis.critical_path.replay.question import Spans, WhatIfQuestion, change_of, mean_ns
from ...errors import SelectionError
from ...trace.arrays import IntArray
from ...trace.schema import Table
from ...units import format_items
from .critical_path import PATH, path_table, replayed_path, spans_of_ranks
from .joint import Joint

STEPS: Final = Table.of(
    "ranks_what_if_steps",
    "step:Int32 before_ns:int64 usual_ns:int64 after_ns:Int64 backlog_ns:Int64 last_rank:int32 "
    "last_rank_after:Int32",
)


@dataclass(frozen=True)
class RanksWhatIf(Prediction):
    """The predicted duration of steps across ranks.

    Attributes
    ----------
    question, refused, reason
        As in `notebook_prof.analysis.what_if`.
    rank : int or None
        The changed rank; None for all.
    before, after, gain : int or None
        ns; mean duration of the steps, from the first start on any rank to the last end on any; the same in
        the replay; their difference.
    lower, upper : int or None
        The smallest and the largest gain, given what the recordings leave open, and the error of the clocks.
    replay_error : float
        Error of replaying the unchanged recordings with the usual lag for each start and wait.
    steps : DataFrame
        A row a step: ``step before_ns usual_ns after_ns backlog_ns last_rank last_rank_after``. `after` is
        the mean of ``after_ns + backlog_ns``; both are missing if the answer is refused.
    """

    rank: int | None = None
    steps: pd.DataFrame = field(repr=False, default_factory=STEPS.empty)
    _joint: Joint | None = field(repr=False, default=None)
    _end: End = field(repr=False, default="host")

    @functools.cached_property
    def critical_path(self) -> pd.DataFrame:
        """The critical path of the replay: the table of ``ranks.critical_path()``.

        `slice` is a row of the recordings; times are those of the replay. ``dur_ns`` sums to the ``after_ns``
        of `steps`. No rows if the answer is refused.
        """
        if self._joint is None or self._replay is None:
            return PATH.empty()
        return replayed_path(self._joint, self._replay, self._numbers, self._end)

    @functools.cached_property
    def classes(self) -> pd.DataFrame:
        """Classes of the critical path, before and after.

        Returns
        -------
        DataFrame
            ``rank`` int32, ``class`` str, ``before_ns after_ns`` int64, sums over the steps, by `after_ns`,
            largest first. The columns sum to those of `steps`. No rows if `critical_path` has none.
        """
        tables = [self.critical_path] * 2
        if self._joint is not None and self._replay is not None:
            before = spans_of_ranks(self._joint, self._numbers, None, self._end)
            tables[0] = path_table(self._joint, before)
        sums = [table.groupby(["rank", "class"], observed=True)["dur_ns"].sum() for table in tables]
        both = pd.concat(sums, axis=1, keys=["before_ns", "after_ns"]).fillna(0).astype("int64")
        both = both.reset_index().astype({"rank": "int32", "class": "str"})
        return both.sort_values("after_ns", ascending=False, kind="stable").reset_index(drop=True)

    @property
    def _numbers(self) -> list[int]:
        numbers: list[int] = self.steps["step"].fillna(-1).astype(int).tolist()
        return numbers

    def __repr__(self) -> str:
        text = self.said("" if self.rank is None else f" on rank {self.rank}", " a step")
        last = self.steps["last_rank_after"].dropna()
        return f"{text} Rank {int(last.mode().iloc[0])} would end last." if len(last) else text


def what_if_of_ranks(
    one: Joint, question: WhatIfQuestion, rank: int | None, steps: Sequence[int], end: End, doubt_ns: float
) -> RanksWhatIf:
    """Predict how long steps would take across ranks, or refuse to answer; see `RankPaths.what_if`."""
    edges = constraints(one.graph)
    own = _steps_of_ranks(one, edges, steps, end)
    recorded = _lengths(own)
    answer = RanksWhatIf(str(question), mean_ns(recorded.length), rank=rank)
    change = _change(one, question, rank)
    if one.apart > MOST_ERROR * max(one.apart + one.bound, 1):
        waits = format_items(one.apart, "collective")
        return replace(
            answer,
            reason=f"by the clocks a rank left {waits} before the last had arrived, so the clocks are not "
            "precise enough; ranks.clocks() has the residuals",
        )
    unchanged = Change(factor=one.waiting, usual_lags=True)
    usual = _lengths(own, replay(edges, unchanged))
    error = float(np.abs(usual.whole - recorded.length).sum() / max(int(recorded.length.sum()), 1))
    answer = replace(answer, replay_error=error, steps=_steps_table(recorded, usual))
    if error > MOST_ERROR:
        return replace(answer, reason=answer.unreliable("recordings"))
    variants = [change, replace(change, only_binding=True), replace(change, usual_lags=True)]
    replays = replay_within_queues(edges, [unchanged, *variants])
    if replays is None:
        return replace(answer, reason="launch queues overflow in the replay: ask for a smaller change")
    reference, after, binding, with_usual = (_lengths(own, each) for each in replays)
    gains = [answer.before - mean_ns(each.whole) for each in (after, binding)]
    gains.append(mean_ns(reference.whole) - mean_ns(with_usual.whole))
    lower = 0 if question.overlap_communication else min(gains) - round(doubt_ns)
    return replace(
        answer, after=mean_ns(after.whole), gain=gains[0], lower=lower, upper=max(gains) + round(doubt_ns),
        refused=False, steps=_steps_table(recorded, usual, after), _joint=one, _replay=replays[1], _end=end,
    )  # fmt: skip


def _change(one: Joint, question: WhatIfQuestion, rank: int | None) -> Change:
    """Return the changes on this rank, or on all; communication changes only if it is named."""
    graph = one.graph
    change = change_of(graph, question)
    factor = np.ones(len(one.waiting)) if change.factor is None else change.factor.copy()
    removed = np.zeros(len(factor), bool) if change.removed is None else change.removed.copy()
    if "*" in question.scale:
        exchange = graph.resources.category("collective")
        factor[exchange], removed[exchange] = 1.0, False
    detached, launched = change.detached, None
    if rank is not None:
        rank_of = one.trace.slices["rank"].to_numpy(np.int64)
        others = rank_of != rank
        factor[others], removed[others] = 1.0, False
        work = [stream.rows for stream in graph.streams.values()]
        launched = rank_of[np.concatenate(work)] == rank if work else np.zeros(0, bool)
        detached = None if detached is None else detached & launched
        if question.overlap_communication and (detached is None or not detached.any()):
            raise SelectionError(f"there is no communication on a device of rank {rank} to overlap")
        more = detached is not None or (change.launch_latency != 1 and launched.any())
        if (factor == 1).all() and not removed.any() and not more:
            raise SelectionError(f"{question} changes nothing on rank {rank}: ranks[{rank}] has its names")
    return replace(change, factor=factor * one.waiting, removed=removed, detached=detached, launched=launched)


@dataclass(frozen=True)
class _Lengths:
    """Steps across ranks (ns), from the first start to the last end on any rank."""

    step: IntArray
    # Without, and with, the time by which devices fall behind.
    length: IntArray
    whole: IntArray
    # The rank that ends last, including that time.
    last: IntArray


def _steps_of_ranks(one: Joint, edges: Constraints, steps: Sequence[int], end: End) -> Mapping[int, Spans]:
    """Return the steps of each rank, all with the same numbers."""
    table = one.steps[one.steps["step"].isin(steps)]
    rows = edges.work.rows
    number = one.trace.slices["step"].to_numpy(dtype=np.int64, na_value=-1)[rows]
    rank_of = one.trace.slices["rank"].to_numpy(np.int64)[rows]
    out = {}
    for rank, own in table.groupby("rank"):
        own = own.sort_values("step")
        step, begin, until = (own[name].to_numpy(np.int64) for name in ("step", "start_ns", "end_ns"))
        at = np.minimum(np.searchsorted(step, number), len(step) - 1)
        span = np.where((step[at] == number) & (rank_of == int(str(rank))), at, -1)
        out[int(str(rank))] = Spans(edges, step, begin, until, end, span, int(str(rank)))
    return out


def _lengths(own: Mapping[int, Spans], after: Replay | None = None) -> _Lengths:
    parts = []
    for rank, spans in own.items():
        bounds = spans.bounds(after)
        done = bounds.until if after is None else bounds.until + spans.more_backlog(after)
        columns = {"step": spans.number, "rank": rank, "begin": bounds.begin, "until": bounds.until}
        parts.append(pd.DataFrame({**columns, "done": done}))
    table = pd.concat(parts, ignore_index=True)
    last = table.sort_values(["step", "done"], kind="stable").drop_duplicates("step", keep="last")
    by_step = table.groupby("step")
    begin = by_step["begin"].min().to_numpy(np.int64)
    until, done = (by_step[name].max().to_numpy(np.int64) for name in ("until", "done"))
    rank_last = last["rank"].to_numpy(np.int64)
    return _Lengths(last["step"].to_numpy(np.int64), until - begin, done - begin, rank_last)


def _steps_table(recorded: _Lengths, usual: _Lengths, after: _Lengths | None = None) -> pd.DataFrame:
    missing = pd.array([pd.NA] * len(recorded.step), dtype="Int64")
    return STEPS.frame(
        {
            "step": pd.arrays.IntegerArray(recorded.step.astype(np.int32), recorded.step < 0),
            "before_ns": recorded.length,
            "usual_ns": usual.whole,
            "after_ns": missing if after is None else after.length,
            "backlog_ns": missing if after is None else after.whole - after.length,
            "last_rank": recorded.last,
            "last_rank_after": missing if after is None else after.last,
        }
    )
