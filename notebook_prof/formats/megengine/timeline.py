"""MegEngine's ``chrome_timeline.json`` of a dynamic graph."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...errors import FormatError
from ...readers.codec.columns import per_group
from ...readers.codec.tolerant_json import decode_events
from ...trace.arrays import IntArray, positions
from ...trace.builder import TraceBuilder
from ...trace.nesting import nest
from ...trace.taxonomy import is_collective_kernel
from .nodes import (
    PHASE_OF_SCOPE,
    NodeRow,
    Nodes,
    TimedRows,
    TimelineFile,
    TimelineRanges,
    operators,
    physical_nodes,
    ranges,
    tensors,
    thread_track,
    timed,
)

ALIASES: Final = {"gpu_usgae_ratio": "gpu_usage_ratio", "nr_redunant_tensor": "nr_redundant_tensor"}
"""MegEngine's spelling → ours."""

_ALLOCATED: Final = "_alloc_mem"
_UNITS: Final = {
    "gpu_usage_ratio": "%",
    "train_time_ratio": "%",
    "device_ahead_ms": "ms",
    "dtr_overhead_us": "µs",
}


def counters(events: TimedRows, nodes: Nodes, builder: TraceBuilder) -> None:
    """Put counters into `builder`, one track per name, in corrected spelling."""
    # Values are as in the file: ratios are per cent, and values without a unit are counts
    # (`nr_alive_tensor`).
    by_name: dict[str, list[int]] = {}
    for i, row in enumerate(events.rows):
        if row.ph == "C" and row.name is not None:
            by_name.setdefault(row.name, []).append(i)
    for name, at in by_name.items():
        values = [(events.rows[i].args or {}).get("value") for i in at]
        ok = np.array([isinstance(v, int | float) and abs(v) < 1e300 for v in values], bool)
        example = f"counter {name!r} without a number"
        builder.report.broken_rows(int((~ok).sum()), example, "these values are left out")
        numbers = np.array([value if good else 0 for value, good in zip(values, ok, strict=True)], np.float64)
        ours = ALIASES.get(name, name)
        if ours.endswith(_ALLOCATED):
            device = nodes.device(ours.removesuffix(_ALLOCATED))
            # changes of `<device>_alloc_mem` are also rows of `allocations`, with address 0, in the slice in
            # which they happened
            track = builder.track(ours, "memory", device=device, unit="bytes")
            _allocations(events, np.array(at)[ok], numbers[ok], device, builder)
        else:
            track = builder.track(ours, "counter", unit=_UNITS.get(ours, ""))
        builder.counter(track, events.ts[at][ok], numbers[ok])


def _allocations(
    events: TimedRows, at: IntArray, totals: npt.NDArray[np.float64], device: int, builder: TraceBuilder
) -> None:
    """Add the allocator's total as allocations. The first value is the level at the start."""
    if not len(at):
        return
    order = np.lexsort((np.arange(len(at)), events.ts[at]))
    at, level = at[order], np.clip(totals[order], -(2.0**62), 2.0**62).astype(np.int64)
    builder.allocations(
        ts=events.ts[at],
        addr=0,
        bytes=np.diff(level, prepend=level[0]),
        device=device,
        allocated=level,
        reserved=0,
        track=per_group(lambda thread: thread_track(events, thread, builder), events.thread[at]),
    )
    effect = "allocations are changes of the allocator's total: blocks cannot be told apart"
    advice = "record with sample_rate > 0 for more points, or format='memory_flow.svg' for each tensor"
    builder.report.add("memory-without-addresses", "info", len(at), effect=effect, advice=advice)


DISPATCH: Final = "OpDispatch"
_TENSOR: Final = re.compile(r"(?:Input|Output|Put|Del|Drop|ReGen|RecFree) -?\d+")
_WAITS: Final = frozenset({"TensorWaitProp", "GetValue"})
_OVERHEAD: Final = frozenset({"TensorGetProp", "StartProfile", "StopProfile", "AutoEvict", "StopStep"})
_DEVICE: Final = re.compile(r"(?:cpu|gpu|xpu|rocm|cuda|cambricon|atlas|multithread|npu)(?:\d+|x)?(?::\d+)*")


def categories(ranges: TimelineRanges, on_device: npt.NDArray[np.bool_]) -> npt.NDArray[np.object_]:
    # On a device: kernels, copies, fills, collectives. On a thread: ranges with an operator's id are
    # operators, bookkeeping of tensors is overhead, waiting for the device is sync, and the rest are scopes
    # (module; see `scopes`).
    rows = zip(ranges.name, ranges.cat, ranges.args, on_device.tolist(), strict=True)
    words = [
        _on_device(name, cat) if own else _on_host(name, "__id__" in args) for name, cat, args, own in rows
    ]
    return np.array(words, object)


def scopes(
    ranges: TimelineRanges, category: npt.NDArray[np.object_]
) -> tuple[npt.NDArray[np.object_], npt.NDArray[np.object_]]:
    """Return the module and phase of each scope, None where unknown; what is inside a scope inherits them."""
    # `backward` and `XBackward` prove the backward phase, `step` and `clear_grad` the optimizer's. A scope
    # around any of these (a whole iteration) is an annotation. The others are modules, called in the forward
    # unless a phase encloses them; `module` is the path of their names. Changes `category` for scopes that
    # are not modules.
    n = len(ranges.name)
    module, phase = np.full(n, None, object), np.full(n, None, object)
    rows = np.flatnonzero(category == "module")
    if not len(rows):
        return module, phase
    depth, parent, _ = nest(ranges.thread[rows], ranges.ts[rows], ranges.dur[rows])
    own = [
        "backward" if (name := ranges.name[i]).endswith("Backward") else PHASE_OF_SCOPE.get(name)
        for i in rows
    ]
    around = _has_inside(parent, np.array([word is not None for word in own]))
    paths: list[str | None] = [None] * len(rows)
    phases: list[str | None] = list(own)
    for i in np.argsort(depth, kind="stable").tolist():
        above = int(parent[i])
        path = paths[above] if above >= 0 else None
        if own[i] is None and not around[i]:
            phases[i] = (phases[above] if above >= 0 else None) or "forward"
            name = ranges.name[rows[i]]
            paths[i] = f"{path}.{name}" if path else name
        else:
            paths[i] = path
            phases[i] = own[i] or (phases[above] if above >= 0 else None)
            category[rows[i]] = "annotation"
    module[rows], phase[rows] = paths, phases
    return module, phase


def _has_inside(parent: IntArray, marked: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows that have a marked row anywhere inside."""
    result = np.zeros(len(parent), bool)
    up = parent[marked]
    while len(up := np.unique(up[up >= 0])):
        result[up] = True
        up = parent[up]
    return result


def _on_device(name: str, cat: str) -> str:
    lowered = name.lower()
    if cat != "Kernel" or lowered.startswith("mem"):
        if "memset" in lowered:
            return "memset"
        if "memcpy" in lowered or "todevice" in lowered or "tohost" in lowered:
            return "memcpy"
    return "collective" if is_collective_kernel(name) else "kernel"


def _on_host(name: str, has_id: bool) -> str:
    if name == DISPATCH:
        return "launch"
    if has_id:
        return "operator"
    if name in _WAITS:
        return "sync"
    return "overhead" if name in _OVERHEAD or _TENSOR.fullmatch(name) else "module"


_PHASES: Final = frozenset("BEXiICMstf")


def read_timeline(data: bytes, builder: TraceBuilder) -> None:
    # Threads are identified by name, since their numbers differ from run to run. Operators on the worker's
    # thread are linked to their kernels on the device's track by MegEngine's id (`correlation`). Each
    # `StopStep` ends a step; steps count from 0.
    file = decode_events(data, TimelineFile, NodeRow, builder.report)
    events = timed(file.rows, _base_ns(file), builder.report)
    if not events.rows:
        raise FormatError("there is no event with a time in it")
    for word in sorted({row.ph for row in events.rows} - _PHASES):
        count = sum(row.ph == word for row in events.rows)
        example = f"events of phase {word!r}"
        builder.report.add("row-not-used", "loss", count, example, "they are not in the tables")
    table = ranges(events, builder.report)
    nodes = Nodes(builder, physical_nodes(str(args["device"]) for args in table.args if "device" in args))
    tables = builder.metadata.setdefault("tables", {})
    tables["operators"], tables["tensors"] = _slices(table, events, nodes, builder), tensors(table)
    arrows = sum(row.ph in ("s", "t", "f") and (row.cat or "").startswith("Tensor") for row in events.rows)
    builder.report.add("arrows-not-used", "info", arrows, effect="arrows that follow a tensor are left out")
    counters(events, nodes, builder)
    _steps(events, builder)


def _base_ns(file: TimelineFile) -> int:
    """Return the Unix time, in ns, at which the profile started; 0 if the file does not contain it."""
    text = str(file.metadata.get("localTime", "")) if isinstance(file.metadata, dict) else ""
    return int(text) if text.isdecimal() and len(text) < 20 and int(text) < 1 << 62 else 0


def _slices(table: TimelineRanges, events: TimedRows, nodes: Nodes, builder: TraceBuilder) -> pd.DataFrame:
    devices, tracks = [], []
    for i in range(len(events.keys)):
        name = events.names.get(i, "")
        is_device = _DEVICE.fullmatch(name) is not None
        devices.append(nodes.device(name) if is_device else -1)
        tracks.append(nodes.track(name) if is_device else thread_track(events, i, builder))
    device = np.array(devices, np.int64)[table.thread]
    category = categories(table, device >= 0)
    key, shapes, executed = operators(table, category)
    module, phase = scopes(table, category)
    handles = builder.slices(
        ts=table.ts,
        dur=table.dur,
        track=np.array(tracks, np.int64)[table.thread],
        name=np.array(table.name, dtype=object),
        category=category,
        phase=phase,
        module=module,
        correlation=key,
        device=device,
        shapes=shapes,
    )
    # each dispatch on Python's thread is linked to its operator, and each operator to its kernels, by id
    operator = category == "operator"
    dispatched = np.array([name == DISPATCH for name in table.name], bool)
    for kind, source, target in (("link", dispatched, operator), ("launch", operator, device >= 0)):
        call, work = np.flatnonzero(source & (key >= 0)), np.flatnonzero(target & (key >= 0))
        at = positions(key[call], key[work])
        builder.flows(kind, handles[call[at[at >= 0]]], handles[work[at >= 0]])
    return executed


def _steps(events: TimedRows, builder: TraceBuilder) -> None:
    stops = [i for i, row in enumerate(events.rows) if row.name == "StopStep" and row.ph in "iI"]
    if not stops:
        return
    thread = events.thread[stops]
    named = [i for i in stops if events.names.get(int(events.thread[i])) in ("interpreter", "channel")]
    chosen = named or [i for i, owner in zip(stops, thread, strict=True) if owner == thread[0]]
    ends = np.sort(events.ts[chosen])
    own = events.ts[events.thread == events.thread[chosen[0]]]
    starts = np.concatenate([[own.min()], ends[:-1]])
    builder.steps(np.arange(len(ends)), starts, ends - starts, "file")
