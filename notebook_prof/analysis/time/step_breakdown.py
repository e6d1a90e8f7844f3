"""Where each step's time went, by the TensorBoard plugin's rule: the first that runs takes the instant."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...trace import Intervals, Trace, subtract, union
from ...trace.intervals import IntArray
from ...trace.taxonomy import STEP_PREFIX
from ..measure import length_within
from ..scope import Numbers, Scope, WindowLike, many, on_device, on_host
from ..spans import step_spans

PARTS: Final = ("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu")
"""In the order in which they take an instant."""

_CPU: Final = ("operator", "annotation", "module", "python", "io")
_FEW: Final = 0.8
_NONE: Final = -1


def step_breakdown(trace: Trace, *, window: WindowLike = None, step: Numbers = None) -> pd.DataFrame:
    """Divide every step, up to the end of its device work, among seven kinds of work and the rest.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns; steps are cut at its edges.
    step : int or iterable of int, optional
        Keep these steps.

    Returns
    -------
    DataFrame
        By time; no rows without steps. ``step`` int32, then int64 ns ``kernel_ns memcpy_ns memset_ns
        communication_ns runtime_ns dataloader_ns cpu_ns other_ns``, which sum to ``total_ns``.

    Notes
    -----
    The rule of the PyTorch Profiler TensorBoard plugin (``torch_tb_profiler``, step parser and overall
    parser), equal to its own figures on its ResNet-50 sample:

    - an instant belongs to the first of kernel, memcpy, memset, communication, runtime call, DataLoader,
      any other host slice in which something runs, on any thread or stream; the rest is other;
    - a step begins when it began on the host or when the step before ended, whichever is later, and ends
      when it ended on the host or when the last device work ended that it launched. A call that lies
      across the edge of a step belongs to none;
    - the first step begins no earlier than the end of device work that no step launched and that ended
      before the first step's own began;
    - last steps with less than 80 % of the device events of the step before were not recorded whole, and
      are left out.

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
    order = np.argsort(steps["ts"].to_numpy(), kind="stable")
    steps = steps.iloc[order].reset_index(drop=True)
    start, end, whole = _extended(trace, steps, host, device)
    keep = whole if step is None else whole & steps["step"].isin(many(step)).to_numpy()
    if window is not None:
        start, end = np.maximum(start, window[0]), np.minimum(end, window[1])
        keep &= end > start
    start, end = start[keep], np.maximum(end, start)[keep]
    found: dict[str, npt.NDArray[np.integer]] = {"step": steps["step"].to_numpy(dtype=np.int32)[keep]}
    taken: Intervals = (np.empty(0, np.int64), np.empty(0, np.int64))
    for name, own in _intervals(host, device).items():
        found[f"{name}_ns"] = length_within(subtract(own, taken), start, end)
        taken = union(np.concatenate([taken[0], own[0]]), np.concatenate([taken[1], own[1]]))
    found["other_ns"] = end - start - sum(found[f"{name}_ns"] for name in PARTS)
    found["total_ns"] = end - start
    return pd.DataFrame(found)


def _intervals(host: Scope, device: Scope) -> dict[str, Intervals]:
    """When each of `PARTS` runs, as a union over all tracks."""
    names = host.slices["name"].cat.categories.astype(str)
    code = host.codes("name")
    loader = np.append(
        names.str.startswith("enumerate(DataLoader)#") & names.str.endswith("__next__"), False
    )[code]
    step = np.append(names.str.startswith(STEP_PREFIX), False)[code]
    work = host.among("category", _CPU)
    found = {
        name: _union(device, device.among("category", (name,))) for name in ("kernel", "memcpy", "memset")
    }
    parts = (_union(scope, scope.among("category", ("collective",))) for scope in (host, device))
    starts, ends = zip(*parts, strict=True)
    found["communication"] = union(np.concatenate(starts), np.concatenate(ends))
    found["runtime"] = _union(host, host.among("category", ("launch", "sync")))
    found["dataloader"] = _union(host, work & loader)
    found["cpu"] = _union(host, work & ~loader & ~step)
    return found


def _union(scope: Scope, keep: npt.NDArray[np.bool_]) -> Intervals:
    return union(scope.ts[keep], scope.end[keep])


def _extended(
    trace: Trace, steps: pd.DataFrame, host: Scope, device: Scope
) -> tuple[IntArray, IntArray, npt.NDArray[np.bool_]]:
    """Starts and ends of the steps with their device work, and which of them were recorded whole."""
    start = steps["ts"].to_numpy().copy()
    end = start + steps["dur"].to_numpy()
    count = len(steps)
    whole = np.ones(count, bool)
    if not count or not len(device.rows):
        return start, end, whole
    owner = _launching_step(trace, start, end)[device.rows]
    mine = np.flatnonzero(owner != _NONE)
    if not len(mine):
        return start, end, whole
    first, last = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(first, owner[mine], device.ts[mine])
    np.maximum.at(last, owner[mine], device.end[mine])
    before = start[0]
    early = (owner == _NONE) & (device.end < first[0])
    if last[0] > np.iinfo(np.int64).min and early.any():
        before = max(before, int(device.end[early].max()))
    # each step begins where the one before ends: a running maximum
    reach = np.maximum.accumulate(np.maximum(np.maximum(end, last), before))
    start = np.maximum(start, np.concatenate([[before], reach[:-1]]))
    end = np.maximum(np.maximum(end, last), start)
    events = np.bincount(owner[mine], minlength=count)
    kept = count
    while kept > 1 and events[kept - 1] < _FEW * events[kept - 2]:
        kept -= 1
    whole[kept:] = False
    return start, end, whole


def _launching_step(trace: Trace, start: IntArray, end: IntArray) -> IntArray:
    """For each slice, the step inside which the call lies that launched it; -1 for none."""
    slices, flows = trace.slices, trace.flows
    launch = (flows["kind"] == "launch").to_numpy()
    src, dst = flows["src"].to_numpy()[launch], flows["dst"].to_numpy()[launch]
    begin = slices["ts"].to_numpy()[src]
    done = begin + slices["dur"].to_numpy()[src]
    at = np.searchsorted(start, begin, side="right") - 1
    inside = (at >= 0) & (done <= end[np.maximum(at, 0)])
    owner = np.full(len(slices), _NONE, np.int64)
    owner[dst[inside]] = at[inside]
    return owner
