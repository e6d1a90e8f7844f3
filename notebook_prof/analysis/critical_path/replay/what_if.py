"""What if: the duration of steps if parts of them took longer, took less time, or were removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pandas as pd

from ....errors import OptionError
from ....trace import Trace
from ....trace.schema import Table
from ....units import format_items, format_ns, format_share
from ...input.loader_bounds import LoaderSchedule, schedules
from ...scope import Numbers, WindowLike, many, once, sharing
from ..dependences import Dependences, dependences
from ..path import End, critical_path
from ..walk import ON_STREAM, ON_THREAD
from .answer import MOST_ERROR, WhatIf, steps_table
from .constraints import constraints
from .forward import Change, Replay, replay, replay_within_queues
from .question import Spans, WhatIfQuestion, change_of, communication, mean_ns


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
    """Predict how long steps would take with changed durations, or refuse to answer.

    Parameters
    ----------
    scale : mapping of str to float, optional
        Factors by the name of slices, ``*`` for any text, or by a filter as ``where=`` reads it:
        ``{"aten::conv*": 0.5, "category=kernel module=layers.0": 0}``. 0.5 halves, 0 removes. The factor of
        an operator or function applies to all time of its thread inside it and to the device work launched
        there; that of a kernel takes precedence. The innermost slice with a factor counts, of several factors
        of a slice the last one.
    line, phase : mapping, optional
        Factors by line (``{12: 0}``, or ``{"train.py:12": 0}`` if several files have that line) and by phase,
        for the self time of slices with this line or phase, and for their device work.
    data : float
        Factor of phase data and of all work of DataLoader workers; with 0, nothing waits for input.
    workers : int, optional
        Use a DataLoader with this many workers on this machine's cores: torch's schedule with the recorded
        batches, as in `loader_throughput`.
    launch : float
        Factor applied to the duration of launch calls and to the delay between a launch and its work.
    remove : {"sync", "copy"} or sequence of them
        ``sync``: remove calls that wait for a device; ``copy``: blocking copies do not block.
    overlap_communication : bool
        Assume that only later communication waits for communication on a device, and compute does not. This
        gives an upper bound of the gain, so `lower` is 0.
    step : int or iterable of int, optional
        Average over these steps. Default: all steps, or the whole recording without steps.
    window : (int, int), optional
        Half-open, in ns: this window; with `step`, steps are cut at its edges.
    end : {"host", "device", "last"}
        Where a step ends: on its thread, with the last device work it launched, or with the later of both;
        see `critical_path`.

    Returns
    -------
    WhatIf
        With ``before after gain lower upper replay_error refused reason steps classes critical_path``.

    Raises
    ------
    OptionError
        If nothing changes, or an argument is malformed.
    SelectionError
        If no slice has such a name, line or phase, or passes such a filter; if there is no such step, or no
        communication.

    Notes
    -----
    The recorded dependences (`critical_path`) are run forwards: each wait ends, and device work begins, at
    the latest of everything that must come before. The dependence that bound keeps its recorded lag, others
    have the least. Streams hold as many launches as the recording shows to be the limit, or 1,024. A factor
    of 0 also removes the waits inside. The order in which threads take turns does not change. With `end`
    ``"host"``, the extra time by which devices lag at the end of a step counts as time of the step. Time
    between steps does not count.

    The test is ``replay_error``, the error of a replay in which no start and no wait keeps its own lag: above
    5 % there is no answer. There is none either if launches were not recorded, or if a DataLoader was not
    recorded long enough for `workers`.

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
    question = WhatIfQuestion(
        scale or {}, line or {}, phase or {}, removed, data, launch, workers, overlap_communication
    )
    if not str(question):
        raise OptionError("what_if needs a change, such as scale={'aten::mm': 0.5}, remove='sync' or data=0")
    graph = dependences(trace)
    edges = once(trace, "constraints", lambda: constraints(graph))
    spans = Spans.of(edges, window, None if step is None else tuple(many(step)), end)
    change = change_of(graph, question)
    answer = WhatIf(str(question), mean_ns(spans.bounds().lengths), _trace=trace, _spans=spans)
    if reason := _nothing_to_replay(graph, spans):
        return replace(answer, reason=reason)
    usual = once(trace, "usual replay", lambda: replay(edges, Change(usual_lags=True)))
    answer = replace(answer, replay_error=spans.error(usual), steps=steps_table(spans, usual))
    if answer.replay_error > MOST_ERROR:
        return replace(answer, reason=_unreliable(answer))
    schedule = _only_schedule(trace, answer) if workers is not None else None
    if isinstance(schedule, str):
        return replace(answer, reason=schedule)
    replays = replay_within_queues(edges, [Change(usual_lags=True), *_variants(graph, change)])
    if replays is None:
        return replace(answer, reason="launch queues overflow in the replay: ask for a smaller change")
    queued, *replays = replays
    if schedule is not None:
        return _with_workers(spans, replays, answer, schedule, workers or 0)
    after = [spans.after(one) for one in replays]
    gains = [answer.before - time for time in after[:-1]]
    gains.append(mean_ns(spans.bounds(queued).lengths) - spans.after(replays[-1], queued))
    return replace(
        answer, after=after[0], gain=gains[0], lower=0 if overlap_communication else min(gains),
        upper=max(gains), refused=False, steps=steps_table(spans, usual, replays[0]), _replay=replays[0],
    )  # fmt: skip


def _nothing_to_replay(graph: Dependences, spans: Spans) -> str:
    """Return why nothing can be replayed; empty if something can."""
    if graph.main < 0:
        return "no slice of a thread was recorded, and steps run on one: record the host too"
    if not len(spans):
        return "the steps, or the window, have no length: choose others with step= or window="
    streams = graph.streams.values()
    if graph.streams and not any((stream.call >= 0).any() for stream in streams):
        count = sum(len(stream.rows) for stream in streams)
        return (
            f"device work was recorded ({format_items(count, 'slice')}) but none of its launches, so it is "
            "unknown what it waited for: record the calls of the host too"
        )
    return ""


def _unreliable(answer: WhatIf) -> str:
    steps = answer.steps
    share = (steps["usual_ns"] - steps["before_ns"]).abs() / steps["before_ns"]
    fits = steps.loc[share <= MOST_ERROR, "step"].dropna()
    reason = f"{answer.unreliable('recording')}; p.critical_path.doubts() lists what is missing"
    if len(fits):
        reason += f". It is within {format_share(MOST_ERROR)} in step {int(fits.iloc[0])}: use step="
    return reason


def _variants(graph: Dependences, change: Change) -> list[Change]:
    """Return the change, then the alternatives that the recording allows, last the change with usual lags."""
    out = [change]
    if graph.streams:
        out.append(replace(change, only_binding=True))
    shared = communication(graph)
    if change.factor is not None and shared.any():
        ours = np.concatenate([stream.rows for stream in graph.streams.values()])[shared]
        if (change.factor[ours] != 1).any():
            factor = change.factor.copy()
            factor[ours] = 1.0
            out.append(replace(change, factor=factor))
    return [*out, replace(change, usual_lags=True)]


def _only_schedule(trace: Trace, answer: WhatIf) -> LoaderSchedule | str:
    """Return the schedule of the only DataLoader, or a text: why there is none, or it does not fit."""
    every = schedules(trace)
    if not every:
        return (
            "no DataLoader was watched for long enough, so it is unknown how long a batch takes its "
            "worker: record more steps of a loop over one, from its start"
        )
    if len(every) > 1:
        return f"{len(every)} DataLoaders make batches: use data= for all of them"
    schedule = every[0][1]
    measured = schedule.batch_ns(schedule.workers)
    if _off(measured, answer.before) > MOST_ERROR:
        return (
            f"torch's schedule makes a batch in {format_ns(measured)}, and a step took "
            f"{format_ns(answer.before)}: a step is not a batch, or other work of the machine held it up; "
            "record steps of one batch each, or choose some with step="
        )
    return schedule


def _off(predicted: float, measured: float) -> float:
    return abs(predicted / max(measured, 1) - 1)


def _with_workers(
    spans: Spans, replays: Sequence[Replay], answer: WhatIf, schedule: LoaderSchedule, workers: int
) -> WhatIf:
    """Answer for another number of workers: torch's schedule around steps that do not wait for input."""
    times = []
    for one in replays:
        loop = max(spans.after(one) - schedule.receive_ns * (schedule.workers > 0), 1.0)
        times.append(round(replace(schedule, loop_ns=loop).batch_ns(workers)))
    error = max(answer.replay_error, _off(schedule.batch_ns(schedule.workers), answer.before))
    doubt, gains = round(error * answer.before), [answer.before - time for time in times]
    return replace(
        answer, replay_error=error, after=times[0], gain=gains[0], lower=min(gains) - doubt,
        upper=max(gains) + doubt, refused=False,
    )  # fmt: skip


_NEXT: Final = Table.of(
    "critical_path_next",
    "class:str path_ns:int64 share:float64 left_ns:Int64 left_share:float64 next:str next_ns:Int64 "
    "next_share:float64 reason:str",
)
_ARGUMENTS: Final[dict[str, dict[str, Any]]] = {
    "data": {"data": 0},
    "launch-call": {"launch": 0},
    "launch-latency": {"launch": 0},
    "sync": {"remove": "sync"},
    "wait-wakeup": {"remove": "sync"},
}
"""Arguments of `what_if` that remove classes which are not defined by categories."""


@sharing
def critical_path_next(
    trace: Trace, *, count: int = 3, window: WindowLike = None, step: Numbers = None, end: End = "host"
) -> pd.DataFrame:
    """List what would determine step times if the largest classes of the critical path took no time.

    Parameters
    ----------
    count : int
        Number of the largest classes to list.
    window, step, end
        As `critical_path`.

    Returns
    -------
    DataFrame
        One row per class, by `path_ns`, largest first: ``class path_ns share left_ns left_share next next_ns
        next_share reason``. ``left_ns`` is the length of the paths without this class, according to
        `what_if`, which may refuse with a `reason`; `next` is the largest class that remains. Classes that
        cannot be changed on their own (``idle device-gap event-latency``) are left out.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main:     [mm]  [sync     ]
    ... stream 7:     [gemm    ]
    ... ''', launches=[("mm", "gemm")], categories={"sync": "sync"})
    >>> table = critical_path_next(trace, count=1)
    >>> table[["class", "path_ns", "left_ns", "next", "next_ns"]].values.tolist()
    [['kernel', 10, 10, 'host-operator', 4]]
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise OptionError(f"count={count!r} is not a number of classes: give 1 or more")
    before = critical_path(trace, by="class", window=window, step=step, end=end)
    rows: list[dict[str, Any]] = []
    for row in before.to_dict("records"):
        arguments = _without(trace, str(row["class"]))
        if arguments is not None and len(rows) < count:
            answer = what_if(trace, **arguments, window=window, step=step, end=end)
            rows.append({"class": row["class"], "path_ns": row["path_ns"], "share": row["share"]})
            rows[-1] |= _left(answer.classes, answer.reason, int(before["path_ns"].sum()))
    return _NEXT.of_rows(rows)


def _without(trace: Trace, name: str) -> dict[str, Any] | None:
    """Return the arguments of `what_if` with which a class takes no time; None if there are none."""
    if name in _ARGUMENTS:
        return _ARGUMENTS[name]
    existing = trace.slices["category"].cat.remove_unused_categories().cat.categories
    here = {word for word in existing if name in (ON_THREAD.get(word), ON_STREAM.get(word))}
    if not here:
        return None
    # everything else, including inner slices and launched work, stays as it is
    factors = {f"category={word}": 0.0 if word in here else 1.0 for word in existing}
    if (trace.slices["phase"] == "data").any():
        factors["phase=data"] = 1.0
    return {"scale": factors}


def _left(classes: pd.DataFrame, reason: str, total: int) -> dict[str, Any]:
    left = int(classes["after_ns"].sum())
    nan = float("nan")
    if reason or not left:
        share = nan if reason else 0.0
        none = {"left_ns": pd.NA if reason else 0, "left_share": share, "next": "", "next_ns": pd.NA}
        return {**none, "next_share": nan, "reason": reason}
    first = classes.iloc[0]
    spent = int(first["after_ns"])
    return {
        "left_ns": left, "left_share": left / max(total, 1), "next": str(first["class"]), "next_ns": spent,
        "next_share": spent / left, "reason": "",
    }  # fmt: skip
