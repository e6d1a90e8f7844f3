"""Steps: busy time of host and devices, and two ways to divide each step."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...errors import check_option
from ...trace import Intervals, Trace, add, overlap, subtract, union
from ...trace.arrays import IntArray, optional
from ...trace.intervals import first_claims
from ...trace.taxonomy import STEP_PREFIX, call_category
from ..busy_time import busy_within
from ..scope import (
    Numbers,
    Scope,
    WindowLike,
    bounds,
    checked_numbers,
    ints,
    length_within,
    matching_codes,
    on_device,
    on_host,
    sharing,
    step_spans,
    steps_at,
)
from ..trust.doubts import mark, step_doubts
from .phases import stepping_thread

_OPTIMIZER_STEP = "Optimizer.step#"


@sharing
def steps(trace: Trace, *, window: WindowLike = None, step: Numbers = None) -> pd.DataFrame:
    """List the steps with the busy time of the host thread and the devices.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns; steps are cut at its edges, steps outside are left out.
    step : int or iterable of int, optional
        Keep these steps.

    Returns
    -------
    DataFrame
        By step; no rows for a trace without steps.

        - ``step`` int32, ``ts`` int64 ns, ``dur`` int64 ns;
        - ``loop`` int32: number of its loop, counted from 0 by first step;
        - ``source`` category: how it was found, ``mark hook loop file heuristic``;
        - ``host_busy_ns`` int64: time with a slice open on the thread that runs the steps;
        - ``device_busy_ns`` int64: time within the step with work on any stream of any device;
        - ``updates`` int64: optimizer steps in it (0 in most micro-batches of accumulated gradients);
        - ``slices`` int64: host and device slices that belong to the step;
        - ``doubt`` str, only if there is any: codes of `trust` for steps that are unrepresentative, as
          ``slow-first-step``, or have at least 1 % of wrong device work; empty for other steps.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> _ = b.slices(ts=[0, 30], dur=[20, 10], name=["mm", "add"], track=b.track("main"))
    >>> b.steps(step=[0, 1], ts=[0, 25], dur=[25, 25], source="loop")
    >>> steps(b.seal())[["step", "dur", "host_busy_ns", "slices"]].values.tolist()
    [[0, 25, 20, 1], [1, 25, 10, 1]]
    """
    table = step_spans(trace, window, step)
    start, end = bounds(table)
    host, device = on_host(trace), on_device(trace)
    table["host_busy_ns"] = busy_within(stepping_thread(trace), start, end)
    table["device_busy_ns"] = busy_within(device, start, end)
    number = table["step"].to_numpy(np.int64)
    ran = np.concatenate([host.ints("step"), device.ints("step")])
    for name, of in (("slices", ran), ("updates", optimizer_steps(trace))):
        counts = pd.Series(of).value_counts().reindex(number, fill_value=0)
        table[name] = counts.to_numpy(np.int64)
    mark(table, step_doubts(trace, number, window))
    return table


def optimizer_steps(trace: Trace) -> IntArray:
    """Return the step that contains each optimizer step; an optimizer step inside another does not count."""
    slices = trace.slices
    names = slices["name"].array
    steps = matching_codes(names.codes, names.categories.astype(str).str.startswith(_OPTIMIZER_STEP))
    if not steps.any():
        return np.empty(0, np.int64)
    parent = ints(slices["parent"])
    rows = np.flatnonzero(steps)
    rows = rows[~np.append(steps, False)[parent[rows]]]
    # a step found by a hook ends inside this slice, and one with a closure may begin inside it
    middle = slices["ts"].to_numpy()[rows] + slices["dur"].to_numpy()[rows] // 2
    number = steps_at(trace, middle)
    return number[number >= 0]


_BY: Final = ("step", "trace")


def breakdown(
    trace: Trace, *, window: WindowLike = None, step: Numbers = None, by: str = "step"
) -> pd.DataFrame:
    """Divide the time of each step into computation, communication, copies, data and idle time.

    Parameters
    ----------
    window, step
        As in `steps`.
    by : {"step", "trace"}
        One row per step, or a single row from the first to the last work.

    Returns
    -------
    DataFrame
        By step; empty without steps or, with ``by="trace"``, without work. All times are int64 ns.

        - ``step`` Int32, missing with ``by="trace"``; ``ts``; ``step_ns``: from its start to the start of the
          next step; for the last step, to the end of its launched work;
        - ``compute_ns``: kernels on any stream; ``communication_ns``: collectives; ``overlap_ns``: both;
          ``exposed_ns``: communication without computation;
        - ``memory_ns``: copies and fills; ``exposed_memory_ns``: those with nothing else at the same time;
        - ``data_ns``: nothing on the device, and the thread of the steps in phase data; ``idle_ns``: the
          rest.

        ``compute_ns + exposed_ns + exposed_memory_ns + data_ns + idle_ns == step_ns``.

    Notes
    -----
    Lengths of unions over all streams of all devices, cut at the edges of the steps. Without device work they
    are those of the host: operators outside communication are computation, ranges of gloo and MPI are
    communication. With ``by="trace"`` on traces of whole microseconds, the times are HTA's temporal breakdown
    to the digit (idle is ``data_ns + idle_ns``).

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... steps: [0                ]
    ... stream 7: [gemm    ]
    ... stream 9:       [nccl  ]
    ... ''', categories={"nccl": "collective"})
    >>> breakdown(trace)[["step_ns", "compute_ns", "overlap_ns", "exposed_ns", "idle_ns"]].values.tolist()
    [[19, 10, 4, 4, 5]]
    """
    check_option("a rank's time cannot be divided by", by, _BY)
    chosen = None if by == "step" else step
    work = on_device(trace, window).where(step=chosen)
    if not len(work.rows):
        operators = on_host(trace, window).where(step=chosen)
        computes = operators.among("category", ("operator",)) & ~operators.among("phase", ("communication",))
        work = operators.only(computes | operators.among("category", ("collective",)))
    communicates = work.among("category", ("collective",))
    moves = work.among("category", ("memcpy", "memset"))
    number, start, end = _spans(trace, work, window, step, by)
    masks = (~communicates & ~moves, communicates, moves)
    compute, talking, moving = (work.open(keep) for keep in masks)
    busy = union(work.ts, work.end)
    thread = stepping_thread(trace, window)
    parts = {
        "compute_ns": compute,
        "communication_ns": talking,
        "overlap_ns": overlap(compute, talking),
        "exposed_ns": subtract(talking, compute),
        "memory_ns": moving,
        "exposed_memory_ns": subtract(subtract(moving, compute), talking),
        "data_ns": subtract(thread.open(thread.among("phase", ("data",))), busy),
    }
    table = pd.DataFrame({"step": number, "ts": start, "step_ns": end - start})
    for name, intervals in parts.items():
        table[name] = length_within(intervals, start, end)
    table["idle_ns"] = table["step_ns"] - length_within(busy, start, end) - table["data_ns"]
    return table


def _spans(
    trace: Trace, work: Scope, window: WindowLike, step: Numbers, by: str
) -> tuple[pd.arrays.IntegerArray, IntArray, IntArray]:
    if by == "trace":
        start, end = work.ts[:1], np.full(min(len(work.rows), 1), work.end.max(initial=0))
        return optional(np.full(len(start), -1), "Int32"), start, end
    spans = step_spans(trace, window)
    number = spans["step"].to_numpy(np.int32)
    start, end = bounds(spans)
    if len(end):
        launched = work.end[work.ints("step") == number[-1]]
        end[-1] = max(int(end[-1]), int(launched.max(initial=0)))
        end[:-1] = np.maximum(start[1:], start[:-1])
    keep = np.isin(number, checked_numbers("step", step)) if step is not None else np.ones(len(end), bool)
    return optional(number[keep], "Int32"), start[keep], end[keep]


PARTS: Final = ("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu")
"""The first of several that claim an instant gets it."""

_CPU: Final = ("operator", "annotation", "module", "python", "io")
_FEW: Final = 0.8


def step_breakdown(trace: Trace, *, window: WindowLike = None, step: Numbers = None) -> pd.DataFrame:
    """Divide every step, up to the end of its device work, into seven kinds of work and the rest.

    Parameters
    ----------
    window, step
        As in `steps`.

    Returns
    -------
    DataFrame
        By time; no rows without steps. ``step`` int32, then int64 ns ``kernel_ns memcpy_ns memset_ns
        communication_ns runtime_ns dataloader_ns cpu_ns other_ns``, which sum to ``total_ns``.

    Notes
    -----
    The rule of the PyTorch Profiler TensorBoard plugin (``torch_tb_profiler``, step parser and overall
    parser), equal to its own figures on its ResNet-50 sample:

    - an instant belongs to the first of kernel, memcpy, memset, communication, runtime call, DataLoader, any
      other host slice that has something running, on any thread or stream; the rest is other;
    - a step begins when it began on the host or when the previous step ended, and ends when it ended on the
      host or when its last launched device work ended, whichever is later. A call across the edge of a step
      belongs to none;
    - the first step begins after device work that no step launched and that ended before its own began;
    - last steps with less than 80 % of the device events of the previous step are incomplete, and left out.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> gpu = b.track("GPU 0", "stream", device=0, stream=7)
    >>> host = b.track("main", tid=1)
    >>> what = dict(name=["op", "launch"], category=["operator", "launch"])
    >>> call = b.slices(ts=[0, 10], dur=[100, 20], track=host, **what)
    >>> work = b.slices(ts=50, dur=90, track=gpu, name="gemm", category="kernel", device=0, stream=7)
    >>> b.flows("launch", call[1:], work)
    >>> b.steps(step=0, ts=0, dur=120, source="loop")
    >>> step_breakdown(b.seal())[["kernel_ns", "runtime_ns", "cpu_ns", "total_ns"]].values.tolist()
    [[90, 20, 30, 140]]
    """
    steps = step_spans(trace)
    host, device = on_host(trace), on_device(trace)
    steps = steps.sort_values("ts", kind="stable").reset_index(drop=True)
    start, end, whole = _extended(trace, steps, device)
    keep = whole if step is None else whole & steps["step"].isin(checked_numbers("step", step)).to_numpy()
    if window is not None:
        start, end = np.maximum(start, window[0]), np.minimum(end, window[1])
        keep &= end > start
    start, end = start[keep], np.maximum(end, start)[keep]
    columns: dict[str, npt.NDArray[np.integer]] = {"step": steps["step"].to_numpy(dtype=np.int32)[keep]}
    parts = _intervals(host, device)
    for name, own in zip(parts, first_claims(parts.values()), strict=True):
        columns[f"{name}_ns"] = length_within(own, start, end)
    columns["other_ns"] = end - start - sum(columns[f"{name}_ns"] for name in PARTS)
    columns["total_ns"] = end - start
    return pd.DataFrame(columns)


def _intervals(host: Scope, device: Scope) -> dict[str, Intervals]:
    """Return when each of `PARTS` runs, as a union over all tracks."""
    loader = host.named(lambda name: name.startswith("enumerate(DataLoader)#") and name.endswith("__next__"))
    step = host.named(lambda name: name.startswith(STEP_PREFIX))
    query = host.named(lambda name: call_category(name) == "overhead")
    work = host.among("category", _CPU)
    talks = [scope.open(scope.among("category", ("collective",))) for scope in (host, device)]
    return {
        **{name: device.open(device.among("category", (name,))) for name in ("kernel", "memcpy", "memset")},
        "communication": add(*talks),
        "runtime": host.open(host.among("category", ("launch", "sync")) | query),
        "dataloader": host.open(work & loader),
        "cpu": host.open(work & ~loader & ~step),
    }


def _extended(
    trace: Trace, steps: pd.DataFrame, device: Scope
) -> tuple[IntArray, IntArray, npt.NDArray[np.bool_]]:
    """Return starts and ends of the steps including their device work, and which steps are complete."""
    start, end = bounds(steps)
    count = len(steps)
    whole = np.ones(count, bool)
    flows = trace.flows[(trace.flows["kind"] == "launch").to_numpy()]
    ts, done = (side[flows["src"].to_numpy()] for side in bounds(trace.slices))
    at = np.searchsorted(start, ts, side="right") - 1
    at = np.where(done <= np.append(end, -1)[at], at, -1)  # the step around each call; -1 reads the last end
    owner = np.full(len(trace.slices), -1, np.int64)
    owner[flows["dst"].to_numpy()[at >= 0]] = at[at >= 0]
    owner = owner[device.rows]
    rows = np.flatnonzero(owner >= 0)
    if not len(rows):
        return start, end, whole
    first, last = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(first, owner[rows], device.ts[rows])
    np.maximum.at(last, owner[rows], device.end[rows])
    before = start[0]
    early = (owner < 0) & (device.end < first[0])
    if last[0] > np.iinfo(np.int64).min and early.any():
        before = max(before, int(device.end[early].max()))
    # a step begins when all earlier ones have ended: a running maximum
    reach = np.maximum.accumulate(np.maximum(np.maximum(end, last), before))
    start = np.maximum(start, np.concatenate([[before], reach[:-1]]))
    end = np.maximum(np.maximum(end, last), start)
    events = np.bincount(owner[rows], minlength=count)
    kept = count
    while kept > 1 and events[kept - 1] < _FEW * events[kept - 2]:
        kept -= 1
    whole[kept:] = False
    return start, end, whole
