"""What if a rank were faster or slower: all ranks run forwards, and meet in their collectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pandas as pd

from ...analysis.critical_path.path import End
from ...analysis.critical_path.replay.changes import Question, change_of
from ...analysis.critical_path.replay.constraints import Constraints, constraints
from ...analysis.critical_path.replay.forward import Change, Replay, replay, replay_within_queues
from ...analysis.critical_path.replay.spans import Spans
from ...analysis.critical_path.replay.what_if import MOST_ERROR
from ...errors import SelectionError
from ...trace.arrays import IntArray
from ...trace.schema import Column, Table
from ...units import format_items, format_ns, format_share
from .joint import Joint

STEPS: Final = Table(
    "ranks_what_if_steps",
    (
        Column("step", "Int32", "", "missing where there are no steps"),
        Column("before_ns", "int64", "ns", "from the first begin on any rank to the last end"),
        Column("usual_ns", "int64", "ns", "the same in the unchanged replay with usual lags"),
        Column("after_ns", "Int64", "ns", "in the replay; missing where the answer is refused"),
        Column("last_rank", "int32", "", "that ended the step last"),
        Column("last_rank_after", "Int32", "", "in the replay; missing where the answer is refused"),
    ),
)


@dataclass(frozen=True)
class RanksWhatIf:
    """How long steps would take across ranks.

    Attributes
    ----------
    question : str
    rank : int or None
        On which something is otherwise; None: on all.
    before : int
        ns; mean length of the steps, from the first begin on any rank to the last end on any.
    after, gain : int or None
        ns; the same in the replay, and ``before - after``. None where the answer is refused, as are the next.
    lower, upper : int or None
        The smallest and the largest gain under what the recordings do not tell: lags as recorded or as usual,
        calls that wait for what held them up only or for all they could wait for, and how far apart clocks
        may be.
    replay_error : float
        By how much the replay of the unchanged recordings is off when each start and wait has the usual lag.
        NaN where nothing was replayed.
    refused : bool
    reason : str
        Why there is no answer; empty for one.
    steps : DataFrame
        A row a step: ``step before_ns usual_ns after_ns last_rank last_rank_after``.
    """

    question: str
    rank: int | None
    before: int
    after: int | None = None
    gain: int | None = None
    lower: int | None = None
    upper: int | None = None
    replay_error: float = float("nan")
    refused: bool = True
    reason: str = ""
    steps: pd.DataFrame = field(repr=False, default_factory=STEPS.empty)

    def __repr__(self) -> str:
        where = "" if self.rank is None else f" on rank {self.rank}"
        text = f"What if {self.question}{where}: "
        if self.after is None or self.gain is None:
            return f"{text}refused. {self.reason[:1].upper()}{self.reason[1:]}."
        share = self.gain / max(self.before, 1)
        text += f"{format_ns(self.before)} → {format_ns(self.after)} a step, "
        text += f"{format_share(abs(share))} {'less' if self.gain >= 0 else 'more'}"
        low, high = (format_ns(bound or 0) for bound in (self.lower, self.upper))
        text += f" (gain between {low} and {high})" * (low != high)
        text += f"; the replay is off by {format_share(self.replay_error)}."
        last = self.steps["last_rank_after"].dropna()
        return f"{text} Rank {int(last.mode().iloc[0])} would end last." if len(last) else text


def what_if_of_ranks(
    one: Joint, question: Question, rank: int | None, steps: Sequence[int], end: End, doubt_ns: float
) -> RanksWhatIf:
    """Predict how long steps would take across ranks, or refuse to; see `RankPaths.what_if`."""
    graph = one.graph
    change = _change(one, question, rank)
    edges = constraints(graph)
    own = _steps_of_ranks(one, edges, steps, end)
    recorded = _lengths(own)
    answer = RanksWhatIf(str(question), rank, _mean(recorded.length))
    if one.apart > MOST_ERROR * max(one.apart + one.bound, 1):
        waits = format_items(one.apart, "collective")
        return replace(
            answer,
            reason=f"by the clocks a rank left {waits} before the last had come, so that these are not "
            "precise enough; ranks.clocks() has the residuals",
        )
    unchanged = Change(factor=one.waiting, usual_lags=True)
    usual = _lengths(own, replay(edges, unchanged))
    error = float(np.abs(usual.length - recorded.length).sum() / max(int(recorded.length.sum()), 1))
    answer = replace(answer, replay_error=error, steps=_steps_table(recorded, usual))
    if error > MOST_ERROR:
        return replace(answer, reason=_unreliable(error))
    variants = [change, replace(change, only_binding=True), replace(change, usual_lags=True)]
    replays = replay_within_queues(edges, [unchanged, *variants])
    if replays is None:
        return replace(answer, reason="launch queues overflow in the replay: ask for a smaller change")
    reference, first, *others = replays
    after, binding, with_usual = (_lengths(own, each) for each in (first, *others))
    before_usual = _mean(_lengths(own, reference).length)
    gains = [answer.before - _mean(each.length) for each in (after, binding)]
    gains.append(before_usual - _mean(with_usual.length))
    return replace(
        answer, after=_mean(after.length), gain=gains[0], lower=min(gains) - round(doubt_ns),
        upper=max(gains) + round(doubt_ns), refused=False, steps=_steps_table(recorded, usual, after),
    )  # fmt: skip


def _unreliable(error: float) -> str:
    return (
        f"the replay of the unchanged recordings is off by {format_share(error)} when each start and wait "
        f"has the usual lag, more than {format_share(MOST_ERROR)}: what decides when work starts is not on "
        "record"
    )


def _change(one: Joint, question: Question, rank: int | None) -> Change:
    """Return what is otherwise on this rank, or on all; communication only where it is named."""
    graph = one.graph
    change = change_of(graph, question)
    factor = np.ones(len(one.waiting)) if change.factor is None else change.factor.copy()
    removed = np.zeros(len(factor), bool) if change.removed is None else change.removed.copy()
    if "*" in question.scale:
        exchange = graph.resources.category("collective")
        factor[exchange], removed[exchange] = 1.0, False
    if rank is not None:
        others = one.trace.slices["rank"].to_numpy(np.int64) != rank
        factor[others], removed[others] = 1.0, False
        if (factor == 1).all() and not removed.any():
            raise SelectionError(
                f"nothing on rank {rank} is changed by {question}: ranks[{rank}] has its names"
            )
    return replace(change, factor=factor * one.waiting, removed=removed)


@dataclass(frozen=True)
class _Lengths:
    """Steps across ranks: number, length in ns, and the rank that ends last."""

    step: IntArray
    length: IntArray
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
        until = bounds.until if after is None else bounds.until + spans.more_backlog(after)
        columns = {"step": spans.number, "rank": rank, "begin": bounds.begin, "until": until}
        parts.append(pd.DataFrame(columns))
    table = pd.concat(parts, ignore_index=True)
    last = table.sort_values(["step", "until"], kind="stable").drop_duplicates("step", keep="last")
    begin = table.groupby("step")["begin"].min().to_numpy(np.int64)
    until, rank_last = last["until"].to_numpy(np.int64), last["rank"].to_numpy(np.int64)
    return _Lengths(last["step"].to_numpy(np.int64), until - begin, rank_last)


def _mean(lengths: IntArray) -> int:
    return round(float(lengths.sum()) / max(len(lengths), 1))


def _steps_table(recorded: _Lengths, usual: _Lengths, after: _Lengths | None = None) -> pd.DataFrame:
    missing = pd.array([pd.NA] * len(recorded.step), dtype="Int64")
    return STEPS.frame(
        {
            "step": pd.arrays.IntegerArray(recorded.step.astype(np.int32), recorded.step < 0),
            "before_ns": recorded.length,
            "usual_ns": usual.length,
            "after_ns": missing if after is None else after.length,
            "last_rank": recorded.last,
            "last_rank_after": missing if after is None else after.last,
        }
    )
