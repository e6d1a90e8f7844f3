"""Which phase of training each instant of a step belongs to."""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace import PHASES, Trace, add, subtract
from ...trace.arrays import BoolArray, IntArray, positions, sums_by_code
from ...trace.intervals import Intervals, first_claims
from ...trace.taxonomy import LOADER_FETCH, LOADER_PIN, LOADER_SEND, LOADER_START
from ..grouping import covered
from ..scope import (
    Numbers,
    Scope,
    WindowLike,
    bounds,
    ints,
    length_within,
    of_kind,
    on_device,
    on_host,
    once,
    sharing,
    step_spans,
)
from ..source.hotspots import cell_track
from .account import ACCOUNT
from .host_states import blocked_by_communication, waits_by_name

PRIORITY: Final = ("communication", "data", "optimizer", "backward", "forward", "evaluation")
"""Priority of phases for an instant at which several are open."""
SHORT_GAP_NS: Final = 200_000
"""A longer time between two operators is not just Python calling the next one."""


@sharing
def phases(trace: Trace, *, window: WindowLike = None, step: Numbers = None) -> pd.DataFrame:
    """Divide every step into phases; each instant belongs to exactly one.

    Parameters
    ----------
    window, step
        As in `steps`.

    Returns
    -------
    DataFrame
        One row per phase of every step, by step and in the order of ``PHASES``; no rows without steps.

        - ``step`` int32, ``phase`` category;
        - ``host_ns`` int64: time on the host; sums exactly to the duration of the step;
        - ``device_ns`` int64: device time of the work launched by this phase of this step (the union over
          streams; phases may overlap on the device);
        - ``share`` float64: ``host_ns`` of the step's duration.

    Notes
    -----
    The rule, on the thread that runs the steps:

    1. An instant belongs to the first of communication, data, optimizer, backward, forward, evaluation that
    has an open slice on that thread; backward also counts on an autograd thread. A slice of the optimizer
    around forward or backward evaluates a closure: only its content counts.
    2. A gap between two pieces of the same phase, with no other phase between them and inside the step,
       belongs to that phase: it is the Python in between. A gap over 0.2 ms does not if it is longer than
       both pieces next to it, or is mostly one Python function or statement.
    3. The rest belongs to communication while a collective runs on another thread of the process (the step
    waits for it, as at the end of a distributed backward).
    4. Communication also covers the time in which a device that only communicates delays this thread: the
    thread waits for the device, or all its launches are queued behind a collective.
    5. The rest is other.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> row = dict(track=b.track("main"), phase=["data", "forward", "forward"], name=["next", "mm", "add"])
    >>> _ = b.slices(ts=[0, 30, 50], dur=[20, 10, 30], **row)
    >>> b.steps(step=0, ts=0, dur=100, source="loop")
    >>> phases(b.seal())["host_ns"].tolist()
    [20, 50, 0, 0, 0, 0, 30]
    """
    spans = step_spans(trace, window, step)
    start, end = bounds(spans)
    host = {name: np.zeros(len(spans), dtype=np.int64) for name in PHASES}
    if len(spans):
        host.update(_host_times(trace, start, end))
        host["other"] = end - start - sum(host.values())
    coded: Any = pd.Categorical.from_codes
    table = pd.DataFrame(
        {
            "step": np.repeat(spans["step"].to_numpy(dtype=np.int32), len(PHASES)),
            "phase": coded(np.tile(np.arange(len(PHASES)), len(spans)), categories=list(PHASES)),
            "host_ns": np.column_stack([host[name] for name in PHASES]).ravel(),
        }
    )
    table["device_ns"] = _device_times(trace, window, spans["step"].to_numpy(dtype=np.int64))
    table["share"] = table["host_ns"] / np.repeat(np.maximum(end - start, 1), len(PHASES))
    return table


def stepping_track(trace: Trace) -> int:
    """Return the track of the thread that runs the steps; -1 without host slices."""
    # It is the thread with the most self time in data, forward, optimizer and evaluation slices. Without
    # such slices, it is the recorded Python thread, else the one with the most self time outside of system
    # calls whose names say that they wait (``futex``) and ranges beside threads. DataLoader workers, and the
    # thread that pins batches, count only if there is nothing else.
    return once(trace, "stepping track", lambda: _stepping_track(trace))


def _stepping_track(trace: Trace) -> int:
    host = on_host(trace)
    workers = np.unique(
        host.values("track")[host.among("name", (LOADER_FETCH, LOADER_START, LOADER_SEND, LOADER_PIN))]
    )
    if len(workers):
        others = ~np.isin(host.values("track"), workers)
        if others.any():  # collapsed stacks may have all threads on one track
            host = host.only(others)
    if not len(host.rows):
        return -1
    own = host.among("phase", ("data", "forward", "optimizer", "evaluation"))
    if not own.any():
        python = host.only(host.among("category", ("python",)))
        of_cell = ACCOUNT in (trace.metadata.get("tables") or {})
        if of_cell or (len(python.rows) and trace.metadata.get("source") == "recording"):
            return cell_track(trace, python)
        own = ~(host.among("category", ("io",)) & host.named(waits_by_name))
        # tracks of ranges beside threads are not threads
        own &= ~(of_kind(trace, ("process",))[host.rows] & host.among("category", ("annotation",)))
    track = host.values("track")
    size = int(track.max()) + 1
    track = np.where(own, track, size) if own.any() else track
    return int(sums_by_code(track, size + 1, host.self_ns)[1][:size].argmax())


def stepping_thread(trace: Trace, window: WindowLike = None) -> Scope:
    """Return the slices of the thread that runs the steps, cut at the window."""

    def chosen() -> Scope:
        host = on_host(trace, window)
        return host.only(host.values("track") == stepping_track(trace))

    return once(trace, ("stepping thread", window and tuple(window)), chosen)


def _host_times(trace: Trace, start: IntArray, end: IntArray) -> dict[str, IntArray]:
    host = on_host(trace)
    stepping = host.values("track") == stepping_track(trace)
    closed = ~_around_closures(host)
    names = (*PRIORITY, "other")
    parts = [
        host.open(host.among("phase", (name,)) & closed & (stepping | (name == "backward"))) for name in names
    ]
    pieces = dict(zip(names, first_claims(parts), strict=True))
    taken = functools.reduce(add, parts)
    python = host.only(stepping & host.among("category", ("python",)))
    for name, gaps in _gaps(pieces, start, end, python).items():
        pieces[name], taken = add(pieces[name], gaps), add(taken, gaps)
    waits = subtract(host.open(host.among("category", ("collective",)) & ~stepping), taken)
    blocked = blocked_by_communication(trace, stepping_track(trace))
    pieces = {name: subtract(own, blocked) for name, own in pieces.items()}
    pieces["communication"] = add(add(pieces["communication"], waits), blocked)
    return {name: length_within(pieces[name], start, end) for name in PRIORITY}


def _around_closures(host: Scope) -> BoolArray:
    """Return a mask of optimizer slices around forward or backward: these evaluate a closure."""
    phase = host.slices["phase"]
    optimizer = (phase == "optimizer").to_numpy()
    around = np.zeros(len(phase), bool)
    if optimizer.any():
        parent = ints(host.slices["parent"])
        above = parent[phase.isin(["forward", "backward"]).to_numpy()]
        while len(above := np.unique(above[above >= 0])):
            above = above[optimizer[above] & ~around[above]]
            around[above] = True
            above = parent[above]
    return around[host.rows]


def _gaps(
    pieces: dict[str, Intervals], start: IntArray, end: IntArray, python: Scope
) -> dict[str, Intervals]:
    """Return, for each phase, the gaps that belong to it: between two of its pieces, within one step."""
    names = list(pieces)
    starts = np.concatenate([pieces[name][0] for name in names])
    ends = np.concatenate([pieces[name][1] for name in names])
    label = np.repeat(np.arange(len(names)), [len(pieces[name][0]) for name in names])
    order = np.argsort(starts, kind="stable")
    starts, ends, label = starts[order], ends[order], label[order]
    inner = (label[1:] == label[:-1]) & (starts[1:] > ends[:-1])
    longer = np.maximum((ends - starts)[:-1], (ends - starts)[1:])[inner]
    before, after, label = ends[:-1][inner], starts[1:][inner], label[1:][inner]
    gap = after - before
    short = (gap <= SHORT_GAP_NS) | ((gap <= longer) & ~_mostly_inside(python, before, after))
    before, after, label = before[short], after[short], label[short]
    by_start = np.argsort(start, kind="stable")
    step = np.searchsorted(start[by_start], before, side="left") - 1
    whole = (step >= 0) & (after < end[by_start][np.maximum(step, 0)])
    return {name: (before[whole & (label == i)], after[whole & (label == i)]) for i, name in enumerate(names)}


def _mostly_inside(python: Scope, before: IntArray, after: IntArray) -> BoolArray:
    """Return whether a single Python function or statement inside a gap takes most of it."""
    ts, ends = python.ts, python.end
    at = np.searchsorted(before, ts, side="right") - 1
    inside = (at >= 0) & (ends <= np.append(after, 0)[at])
    longest = np.zeros(len(before), np.int64)
    np.maximum.at(longest, at[inside], (ends - ts)[inside])
    return np.asarray(longest * 2 > after - before)


def _device_times(trace: Trace, window: WindowLike, steps: IntArray) -> IntArray:
    """Return the union of device work as an array with one row per step and one column per phase."""
    device = on_device(trace, window)
    row = positions(steps, device.ints("step"))
    words = [word if word in PHASES else "other" for word in device.slices["phase"].cat.categories]
    column = np.array([PHASES.index(word) for word in (*words, "other")])[device.codes("phase")]
    inside = row >= 0
    key = (row * len(PHASES) + column)[inside]
    spent = covered(key, device.ts[inside], device.end[inside])
    size = len(steps) * len(PHASES)
    return np.bincount(key, spent, minlength=size).astype(np.int64)
