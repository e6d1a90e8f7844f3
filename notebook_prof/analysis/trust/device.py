"""Whether device work, its launches and its clock fit together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from ...trace import Trace, contains, union
from ...trace.arrays import BoolArray, IntArray
from ...trace.report import Statement
from ...units import format_count, format_items, format_ns, format_share
from ..device.busy import device_attributes
from ..device.kernel_launches import (
    GRAPH_LAUNCH,
    graph_captures,
    launch_calls,
    launch_names,
    launching_rows,
    least_launch_delay,
)
from ..grouping import covered, reach_before
from ..scope import Scope, WindowLike, matching_codes, on_device, on_host

CLOCK_STEP_NS: Final = 20_000
"""Change of a process's least launch delay that shows a shifted clock; normally it varies by a few µs."""
CLOCK_NOISE_NS: Final = 1_000
"""A kernel that begins before its launch by no more than this shows rounding, not a shifted clock."""
MUCH: Final = 0.01
"""Share of device time from which unknown or overlapping work is a loss, not just information."""

_FRAMEWORK: Final = ("operator", "collective", "module", "annotation", "python")


class Fault(NamedTuple):
    """A known fault of CUPTI with ``since <= version < until``, and the finding that it causes."""

    # Versions: 24 is CUPTI 12.6, 26 is 12.8, 28 is 12.9, 130000 is 13.0.

    code: str
    since: int
    until: int
    advice: str


CUPTI_FAULTS: Final = (
    Fault(
        "kernels-lost-at-start",
        24,
        130_100,
        "known fault of CUPTI 12.6 to 13.0 in later recordings of one process (pytorch#192021): use CUPTI "
        "13.1 or later, which a torch for CUDA 13.1 includes, or record a step later (--warmup 2)",
    ),
    Fault(
        "graph-launch-wrong",
        0,
        130_101,
        "known fault of CUPTI before 13.1 Update 1 in later recordings of one process: use a later CUPTI, "
        "which a torch for CUDA 13.2 includes, or restart the kernel before the recording",
    ),
)
_OTHERWISE: Final = {
    "kernels-lost-at-start": "record a step later (--warmup 2), or restart the kernel",
    "graph-launch-wrong": "restart the kernel before the recording",
}


def fault_advice(code: str, trace: Trace) -> str:
    """Return the remedy for a finding, given the recording's CUPTI version; a guess if that is unknown."""
    version: Any = trace.metadata.get("cupti_version") or 0
    fitting = [
        fault.advice
        for fault in CUPTI_FAULTS
        if fault.code == code and (not version or fault.since <= version < fault.until)
    ]
    return fitting[0] if fitting else _OTHERWISE[code]


def device_findings(trace: Trace, window: WindowLike = None) -> Iterator[Statement]:
    """Yield the problems of device work, in the order of `trust`."""
    work = on_device(trace, window)
    total = int((work.end - work.ts).sum())
    if not len(work.rows) and "cuda_route" in trace.metadata:
        yield Statement(
            "no-device-records",
            "no device records",
            severity="info",
            effect="if the code used a GPU, its kernels are missing",
            advice="another CUPTI client in this process (Nsight, another profiler) or the driver's "
            "permissions can be the reason: see the chapter on GPUs",
            example="kernels were requested, but none were recorded",
        )
    yield from _lost_kernels(trace, work, window)
    yield from _early_kernels(trace, work, total)
    yield from _unknown(trace, work, total)
    yield from _wrong_graph_launches(trace, work, total)
    yield from _shifted(trace)
    yield from _overlapping(trace, work, total)


def _lost_kernels(trace: Trace, work: Scope, window: WindowLike) -> Iterator[Statement]:
    """Find calls that must have started a kernel, but without a recorded one."""
    host = on_host(trace, window)
    calls = host.only(host.among("name", sorted(launch_names(trace))))
    if not len(calls.rows):
        return
    calls = calls.only(~_while_capturing(trace, calls))
    if not len(calls.rows):
        return
    has_work = np.isin(calls.rows, launch_calls(trace)[:-1])
    if has_work.all():
        return
    if not len(work.rows) or not has_work.any():
        yield Statement(
            "no-device-work",
            "no work of a device was recorded",
            severity="error",
            count=len(calls.rows),
            device_share=1.0,
            effect="the device's part of this recording is missing: only the host can be judged",
            advice="record again; if that does not help, nbp.list_collectors() says what the driver allows",
            example=f"{format_count(len(calls.rows))} launches, but not one of their kernels",
            rows=calls.rows,
        )
        return
    first, last = np.flatnonzero(has_work)[[0, -1]]
    position = np.arange(len(has_work))
    spent = work.end - work.ts
    is_kernel = work.among("category", ("kernel", "collective"))
    mean = float(spent[is_kernel].mean() if is_kernel.any() else spent.mean())
    seen_ns = float(spent.sum())
    start = "kernels-lost-at-start"
    for code, where, lost, advice in (
        (start, "at the start", position < first, fault_advice(start, trace)),
        (
            "kernels-lost-at-end",
            "at the end",
            position > last,
            "the recorder's buffer was full, or ended before the device did: record fewer steps, "
            "or synchronise at the end of the cell",
        ),
        (
            "kernels-lost-between",
            "in between",
            (position > first) & (position < last),
            "the recorder dropped buffers: record fewer steps, or without shapes and stacks",
        ),
    ):
        rows = np.flatnonzero(~has_work & lost)
        if len(rows):
            call = calls.slices.loc[calls.rows[rows[0]]]
            yield Statement(
                code,
                _lost(len(rows), where),
                severity="loss",
                count=len(rows),
                device_share=len(rows) * mean / (seen_ns + (~has_work).sum() * mean),
                effect="device time is too small by about this share (at the recorded kernels' mean length)",
                advice=advice,
                example=f"{call['name']} at {format_ns(call['ts'])} started nothing that was recorded",
                rows=calls.rows[rows],
            )


def _while_capturing(trace: Trace, calls: Scope) -> BoolArray:
    """Return a mask of the calls during a graph capture on their thread: they start nothing."""
    captured = np.zeros(len(calls.rows), dtype=bool)
    for thread, begins, ends in graph_captures(on_host(trace)):
        captured |= contains(union(begins, ends), calls.ts) & (calls.ints("track") == thread)
    return captured


def _lost(count: int, where: str) -> str:
    if count == 1:
        return f"the kernel of 1 launch {where} is missing"
    return f"the kernels of {format_count(count)} launches {where} are missing"


def _pieces(count: int) -> str:
    return f"{format_items(count, 'piece')} of device work"


def _early_kernels(trace: Trace, work: Scope, total: int) -> Iterator[Statement]:
    """Find work that began before the call that launched it."""
    ts, dst = trace.slices["ts"].to_numpy(), work.rows[launch_calls(trace)[work.rows] >= 0]
    src = launch_calls(trace)[dst]
    ahead = ts[src] - ts[dst]
    wrong = ahead > 0
    if not wrong.any():
        return
    worst = int(ahead.argmax())
    yield Statement(
        "kernels-before-launch",
        f"{_pieces(int(wrong.sum()))} began before the launch",
        severity="loss" if ahead[worst] > CLOCK_NOISE_NS else "info",
        count=int(wrong.sum()),
        device_share=_dur(trace, dst[wrong]) / (total or np.nan),
        effect="launch delays and the causes of idle gaps are off by as much; device times are correct",
        advice="the clocks of host and device were not aligned: record again, in a fresh process if needed",
        example=f"{trace.slices['name'].iloc[dst[worst]]} begins {format_ns(ahead[worst])} before "
        f"{trace.slices['name'].iloc[src[worst]]}",
    )


def _unknown(trace: Trace, work: Scope, total: int) -> Iterator[Statement]:
    """Find work without a known launch or operator."""
    if not len(work.rows):
        return
    owner = launching_rows(trace)[work.rows]
    category = trace.slices["category"]
    kinds = np.append(category.isin(_FRAMEWORK).to_numpy(), False)
    without = launch_calls(trace)[work.rows] < 0
    nobody = ~without & ~kinds[owner]
    for code, rows, verb, effect, advice in (
        (
            "launch-not-recorded",
            work.rows[without],
            ("has no recorded launch", "have no recorded launch"),
            "this work has no operator, step, phase or module; it still counts as device time",
            "work queued before the window ends up here: synchronise before it, or record more steps",
        ),
        (
            "operator-unknown",
            work.rows[nobody],
            ("was launched outside of any operator", "were launched outside of any operator"),
            "this work is missing from the operators' device time",
            "it was launched outside any operator (CuPy, Numba, a raw kernel): put nbp.annotate() around it",
        ),
    ):
        if len(rows):
            share = _dur(trace, rows) / (total or np.nan)
            yield Statement(
                code,
                f"{_pieces(len(rows))} {verb[len(rows) != 1]}",
                severity="loss" if share >= MUCH else "info",
                count=len(rows),
                device_share=share,
                effect=effect,
                advice=advice,
                example=str(trace.slices["name"].iloc[rows[0]]),
            )


def _wrong_graph_launches(trace: Trace, work: Scope, total: int) -> Iterator[Statement]:
    """Find kernels of CUDA graphs that are linked to a call other than the graph launch."""
    graph = device_attributes(trace, work, ["graph", "graph_node"])
    if graph is None:
        return
    of_graph = (graph.fillna(0) > 0).any(axis=1).to_numpy()
    call = launch_calls(trace)[work.rows]
    names = trace.slices["name"]
    launches = [GRAPH_LAUNCH.fullmatch(str(name)) is not None for name in names.cat.categories]
    wrong = of_graph & (call >= 0) & ~matching_codes(names.cat.codes.to_numpy(), launches)[call]
    if not wrong.any():
        return
    rows = work.rows[wrong]
    yield Statement(
        "graph-launch-wrong",
        f"{_pieces(len(rows))} {'has' if len(rows) == 1 else 'have'} the launch of something else",
        severity="loss",
        count=len(rows),
        device_share=_dur(trace, rows) / (total or np.nan),
        effect="kernels of CUDA graphs are linked to wrong calls: their operators, steps and "
        "launch delays are wrong, their times are correct",
        advice=fault_advice("graph-launch-wrong", trace),
        example=f"{names.iloc[rows[0]]} of a graph is linked to {names.iloc[call[wrong][0]]}",
        rows=rows,
    )


def _shifted(trace: Trace) -> Iterator[Statement]:
    """Find a shift of the device's clock since the first recording of the process."""
    before = trace.metadata.get("first_launch_delay_ns")
    if not isinstance(before, int):
        return
    now = least_launch_delay(trace)
    if now is None or abs(now - before) <= CLOCK_STEP_NS:
        return
    yield Statement(
        "clock-shift",
        "the clocks of host and device do not agree",
        severity="loss",
        count=1,
        device_share=1.0,
        effect=f"device work is about {format_ns(abs(now - before))} too "
        f"{'late' if now > before else 'early'} relative to the host; durations on the device are correct",
        advice="known fault of repeated CUDA recordings in one process (pytorch#175790): restart the kernel",
        example=f"the quickest launch took {format_ns(now)}, {format_ns(before)} in the first recording of "
        "this process",
    )


def _overlapping(trace: Trace, work: Scope, total: int) -> Iterator[Statement]:
    """Find work that overlaps on one stream, although a stream runs one piece of work at a time."""
    track, spent = work.ints("track"), work.end - work.ts
    wrong = np.flatnonzero(work.ts < reach_before(track, work.end))
    if not len(wrong):
        return
    before = pd.Series(np.arange(len(track))).groupby(track).shift(1, fill_value=-1).to_numpy()
    share = int((spent - covered(track, work.ts, work.end)).sum()) / max(total, 1)
    first = wrong[track[wrong].argmin()]
    slice_ = trace.slices.iloc[work.rows[first]]
    where = trace.tracks.set_index("track")["name"].get(int(track[first]), "a stream")
    yield Statement(
        "stream-overlap",
        f"{_pieces(len(wrong))} overlap others on the same stream",
        severity="loss" if share >= MUCH else "info",
        count=len(wrong),
        device_share=share,
        effect=f"sums over kernels count {format_share(share)} of device time twice; busy time does not",
        advice="normal with programmatic dependent launch (Hopper and later) and with one row for "
        "several hardware queues; otherwise the file is damaged",
        example=f"{slice_['name']} at {format_ns(int(slice_['ts']))} on {where}",
        rows=work.rows[np.union1d(wrong, before[wrong])],
    )


def _dur(trace: Trace, rows: IntArray) -> float:
    return float(trace.slices["dur"].to_numpy()[rows].sum())
