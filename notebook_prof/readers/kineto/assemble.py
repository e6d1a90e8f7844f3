"""Puts Kineto's columns into a TraceBuilder, both for files and for live recordings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...background import checkpoint
from ...trace.arrays import BoolArray, IntArray
from ...trace.builder import TraceBuilder
from ...trace.intervals import contains, union
from ...trace.nesting import nest
from ...trace.strings import Coded
from ...trace.taxonomy import (
    CATEGORIES,
    DEVICE_CATEGORIES,
    EVALUATION_SUFFIX,
    MODULE_PREFIX,
    PHASES,
    STEP_PREFIX,
    phase_of,
)
from ..codec.columns import groups, marked
from .activity_metadata import attribute_tables, named_calls, stream_priorities
from .arguments import add_compiled_arguments, argument_table, range_counters, range_table, stack_frames
from .columns import MAX_DEVICE, KinetoColumns, MemoryColumns, categories, module_name
from .instant_events import Links, backward_nodes, forward_links, launch_links

# Phases and modules of the rows that prove them. Nested rows inherit them in the builder.

_OPTIMIZER_STEP = "Optimizer.step#"
_MODULE = CATEGORIES.index("module")
_OPERATOR = CATEGORIES.index("operator")
_COLLECTIVE = CATEGORIES.index("collective")


def phases(
    columns: KinetoColumns, category: Coded, track: IntArray, nodes: BoolArray, forward: Links
) -> Coded:
    """Return the phase of every row that does not inherit it, as codes into `PHASES`; -1 for the others."""
    # Data, backward, optimizer and communication follow from names (and from backward nodes). Forward rows
    # are outside these and either belong to the autograd graph (they have a sequence number) or are module
    # calls. Evaluation is a module call in eval mode or without gradients, unless something in it has a
    # backward. Rows of an optimizer's closure are forward and backward. All other rows stay open.
    code = {phase: i for i, phase in enumerate(PHASES)}
    named = [code.get(phase_of(name) or "", -1) for name in columns.name.values]
    result = np.append(np.array(named, np.int8), np.int8(-1))[columns.name.codes]
    result[(columns.fwd_thread > 0) & (columns.sequence >= 0) & (result < 0)] = code["backward"]
    result[nodes] = code["backward"]
    result[np.asarray(category.codes) == _COLLECTIVE] = code["communication"]
    differentiable = (category.codes == _OPERATOR) & (columns.sequence >= 0) & (columns.fwd_thread == 0)
    weak = (result < 0) & (columns.device < 0) & (differentiable | (category.codes == _MODULE))
    strong = (result >= 0) & (columns.device < 0) & ~_with_closure(columns, nodes)
    evaluates = _evaluates(columns, track, differentiable, forward)
    rows = np.flatnonzero(weak)
    for number in pd.unique(track[rows]):
        of_track = rows[track[rows] == number]
        inside = strong & (track == number)
        occupied = union(columns.ts[inside], (columns.ts + columns.dur)[inside])
        free = of_track[~contains(occupied, columns.ts[of_track])]
        result[free] = code["forward"]
        judged = evaluates & (track == number)
        if judged.any():
            without = union(columns.ts[judged], (columns.ts + columns.dur)[judged])
            result[free[contains(without, columns.ts[free])]] = code["evaluation"]
            _fetch_for_evaluation(columns, np.flatnonzero(track == number), result, code)
    return Coded(result, PHASES)


def _fetch_for_evaluation(
    columns: KinetoColumns, rows: IntArray, result: npt.NDArray[np.int8], code: Mapping[str, int]
) -> None:
    """Count a batch as evaluation if evaluation comes next on its track, before any forward."""
    of = result[rows]
    fetched = rows[of == code["data"]]
    done = (columns.ts + columns.dur)[fetched]
    later = {}
    for phase in ("evaluation", "forward"):
        begins = np.append(np.sort(columns.ts[rows[of == code[phase]]]), np.iinfo(np.int64).max)
        later[phase] = begins[np.searchsorted(begins[:-1], done)]
    result[fetched[later["evaluation"] < later["forward"]]] = code["evaluation"]


def _with_closure(columns: KinetoColumns, nodes: BoolArray) -> BoolArray:
    """Return a mask of the optimizer steps in which a backward ran, since they evaluate a closure."""
    named = marked(columns.name, lambda name: name.startswith(_OPTIMIZER_STEP))
    steps = np.flatnonzero(named & (columns.device < 0))
    result = np.zeros(len(columns), bool)
    if len(steps):
        backward = np.sort(columns.ts[nodes])
        begins = np.searchsorted(backward, columns.ts[steps])
        ends = np.searchsorted(backward, (columns.ts + columns.dur)[steps])
        result[steps[ends > begins]] = True
    return result


def _evaluates(
    columns: KinetoColumns, track: IntArray, differentiable: BoolArray, forward: Links
) -> BoolArray:
    """Return a mask of the module calls in eval mode or without gradients in which nothing has a backward."""
    # Checkpointing also runs modules without gradients, but inside an operator that has a backward.
    result = marked(
        columns.name, lambda name: name.startswith(MODULE_PREFIX) and name.endswith(EVALUATION_SUFFIX)
    )
    for number in pd.unique(track[result]):
        rows = np.flatnonzero(result & (track == number))
        linked = np.sort(columns.ts[forward.src][track[forward.src] == number])
        begin, end = (np.searchsorted(linked, at[rows]) for at in (columns.ts, columns.ts + columns.dur))
        trained = begin < end
        around = differentiable & (track == number)
        inside = contains(union(columns.ts[around], (columns.ts + columns.dur)[around]), columns.ts[rows])
        result[rows[trained | inside]] = False
    return result


def modules(
    columns: KinetoColumns, category: Coded, track: IntArray, nodes: BoolArray, forward: Links
) -> Coded:
    """Return the modules of module calls and backward nodes or, without module calls, the file's own."""
    # A backward node belongs to the module of its forward operator. ``AccumulateGrad`` has no forward
    # operator. The engine runs it right after the node that produced the gradient, so it gets the module of
    # that node. The code is -1 for rows that inherit their module.
    calls = np.flatnonzero(np.asarray(category.codes) == _MODULE)
    if not len(calls):
        return columns.path if columns.path is not None else Coded(np.full(len(columns), -1, np.int32), [])
    result = np.full(len(columns), -1, np.int32)
    codes, used = pd.factorize(columns.name.codes[calls])
    paths, values = pd.factorize(np.array([module_name(columns.name.values[i]) for i in used], dtype=object))
    result[calls] = paths[codes]
    home = _enclosing(columns, track, calls, forward.src)
    inside = home >= 0
    result[forward.dst[inside]] = result[home[inside]]
    _fill_accumulation(columns, track, nodes, forward.dst, result)
    return Coded(result, [str(value) for value in values])


def _enclosing(columns: KinetoColumns, track: IntArray, outer: IntArray, rows: IntArray) -> IntArray:
    """Return the innermost of the slices `outer` in which each of `rows` starts; -1 for none."""
    both = np.concatenate([outer, rows])
    dur = np.concatenate([columns.dur[outer], np.zeros(len(rows), np.int64)])
    _, parent, _ = nest(track[both], columns.ts[both], dur)
    home = parent[len(outer) :]
    return np.asarray(np.where(home >= 0, both[home], -1))


def _fill_accumulation(
    columns: KinetoColumns, track: IntArray, nodes: BoolArray, linked: IntArray, module: npt.NDArray[np.int32]
) -> None:
    every = np.flatnonzero(nodes)
    every = every[np.lexsort((columns.ts[every], track[every]))]
    numbered = (columns.sequence[every] >= 0) | np.isin(every, linked)
    before = np.maximum.accumulate(np.where(numbered, np.arange(len(every)), -1))
    lonely = ~numbered & (before >= 0)
    source = every[np.maximum(before, 0)]
    lonely &= track[source] == track[every]
    module[every[lonely]] = module[source[lonely]]


_OF_DEVICE: Final = re.compile(r"GPU (?P<device>\d{1,4})? ?(?:Utilization|Est\. SM Efficiency)")
"""Names of counters that the TensorBoard plugin writes, as shares from 0 to 1."""
_STEP: Final = re.compile(re.escape(STEP_PREFIX) + r"(\d{1,9})")
_SHORT_STEP: Final = 0.1  # of the median step


def assemble(columns: KinetoColumns, builder: TraceBuilder) -> IntArray:
    """Put Kineto's rows into `builder` as slices, flows, steps and allocations; return the handles."""
    # ``ProfilerStep#N`` ranges become rows of `steps` (source ``file``) and stay as slices of category
    # annotation. Ranges of our module hooks become slices of category module, named by the module's path. A
    # phase or module is set only on the rows that prove it; nested rows inherit it from the builder. The name
    # of a stream's track contains the stream's priority unless it is 0. Call stacks that the file contains as
    # text become `stacks`. Stacks of Python calls do not, since the slices around an operator already show
    # them.
    columns = named_calls(columns)
    category = categories(columns)
    tables = attribute_tables(columns)
    checkpoint()
    track = _tracks(columns, builder, stream_priorities(tables.get("device_events")))
    is_a = {word: np.asarray(category.codes) == i for i, word in enumerate(CATEGORIES)}
    checkpoint()
    nodes = backward_nodes(columns)
    forward = forward_links(columns, nodes, is_a["operator"])
    work = (columns.device >= 0) & np.logical_or.reduce([is_a[word] for word in DEVICE_CATEGORIES])
    calls = (columns.device < 0) & (is_a["launch"] | is_a["sync"])
    checkpoint()
    launch = launch_links(columns, calls, work)
    checkpoint()
    handles = builder.slices(
        ts=columns.ts,
        dur=columns.dur,
        track=track,
        name=_names(columns.name),
        category=category,
        phase=phases(columns, category, track, nodes, forward),
        correlation=np.where(work | calls, columns.correlation, -1),
        device=columns.device,
        stream=columns.stream,
        shapes=columns.shapes,
        module=modules(columns, category, track, nodes, forward),
        stack=_stacks(columns, builder),
    )
    checkpoint()
    builder.flows("fwdbwd", handles[forward.src], handles[forward.dst])
    builder.flows("launch", handles[launch.src], handles[launch.dst])
    effect = "kernels and copies launched before the recording have no step, phase or module"
    builder.report.add("device-work-without-launch", "info", int(work.sum()) - len(launch.dst), effect=effect)
    if tables:
        builder.metadata.setdefault("tables", {}).update(tables)
    add_compiled_arguments(columns, track, builder)
    if columns.ranges is not None:
        table = range_table(columns.ranges, columns)
        builder.metadata.setdefault("tables", {})["profiler_ranges"] = table
    checkpoint()
    if columns.shapes is not None:
        builder.metadata.setdefault("tables", {})["operator_arguments"] = argument_table(columns)
    checkpoint()
    _steps(columns, is_a["annotation"] | is_a["operator"], builder)
    checkpoint()
    _allocations(columns, builder)
    _counters(columns, builder)
    return handles


def _counters(columns: KinetoColumns, builder: TraceBuilder) -> None:
    ranges = columns.ranges
    for counter in [*columns.counters, *(range_counters(ranges) if ranges is not None else ())]:
        device = counter.device if counter.device >= 0 else None
        if utilization := _OF_DEVICE.fullmatch(counter.name):
            device = int(utilization["device"] or min(max(counter.pid, 0), MAX_DEVICE))
        pid, unit = counter.pid if device is None else None, "1" if utilization else ""
        track = builder.track(counter.name, "counter", pid=pid, device=device, rank=columns.rank, unit=unit)
        builder.counter(track, counter.ts, counter.value)


def _stacks(columns: KinetoColumns, builder: TraceBuilder) -> IntArray | None:
    """Return the key of each row's call stack, for files that write stacks as text."""
    if columns.call_stack is None:
        return None
    keys = [builder.stack(stack_frames(text)) for text in columns.call_stack.values]  # noqa: PD013
    return np.asarray(np.array([*keys, -1], np.int64)[columns.call_stack.codes])


def _names(name: Coded) -> Coded:
    words = [module_name(text) if text.startswith(MODULE_PREFIX) else text for text in name.values]
    return Coded(name.codes, words)


def _tracks(
    columns: KinetoColumns, builder: TraceBuilder, priorities: Mapping[tuple[int, int], int]
) -> IntArray:
    """Return the track of every row: one for each thread, one for each stream."""
    result = np.empty(len(columns), np.int64)
    on_device = columns.device >= 0
    for rows, first, second in (
        (np.flatnonzero(~on_device), columns.pid, columns.tid),
        (np.flatnonzero(on_device), columns.device, columns.stream),
    ):
        pair, at = groups(first[rows], second[rows])
        keys = np.empty(len(at), np.int64)
        begin = np.full(len(at), np.iinfo(np.int64).max)
        np.minimum.at(begin, pair, columns.ts[rows])
        for i in np.argsort(begin, kind="stable").tolist():  # so the order of the file does not matter
            a, b = int(first[rows[at[i]]]), int(second[rows[at[i]]])
            if first is columns.device:
                keys[i] = _stream(builder, a, b, columns.rank, priorities.get((a, b), 0))
            else:
                keys[i] = thread_track(builder, columns, a, b)
        result[rows] = keys[pair]
    return result


def thread_track(builder: TraceBuilder, columns: KinetoColumns, pid: int, tid: int) -> int:
    """Return the track of a native thread, with the thread's name in the recording."""
    name = columns.thread_names.get((pid, tid), f"thread {tid}")
    return builder.track(name, pid=pid, tid=tid, rank=columns.rank)


def _stream(builder: TraceBuilder, device: int, stream: int, rank: int | None, priority: int) -> int:
    if stream < 0:
        return builder.track(f"GPU {device}", "stream", device=device, rank=rank)
    suffix = f" (priority {priority})" if priority else ""
    name = f"GPU {device} stream {stream}{suffix}"
    return builder.track(name, "stream", device=device, stream=stream, rank=rank)


def _steps(columns: KinetoColumns, ranges: BoolArray, builder: TraceBuilder) -> None:
    matches = [_STEP.fullmatch(name) for name in columns.name.values]
    numbers = [int(match[1]) if match else -1 for match in matches]
    number = np.array([*numbers, -1], np.int64)[columns.name.codes]
    named = number >= 0
    rows = np.flatnonzero(named & ranges & (columns.device < 0))
    empty = _empty_at_the_ends(columns.ts[rows], columns.dur[rows], np.sort(columns.ts[~named]))
    builder.report.add_where(
        "empty-step",
        "info",
        rows[empty],
        lambda i: columns.name.values[columns.name.codes[i]],
        "nothing was recorded in these short steps at the edge of the recording; they do not count as steps",
    )
    rows = rows[~empty]
    if len(rows):
        builder.steps(number[rows], columns.ts[rows], columns.dur[rows], "file")


def _empty_at_the_ends(ts: IntArray, dur: IntArray, work: IntArray) -> BoolArray:
    """Return a mask of the short steps before and after all those in which something of `work` starts."""
    # The profiler begins a step where it is started, and one more where it is stopped. A long empty step may
    # have waited or run plain Python. If all are empty, the steps are all that was recorded.
    filled = np.searchsorted(work, ts) < np.searchsorted(work, ts + dur)
    if not filled.any():
        return np.zeros(len(ts), bool)
    short = dur < _SHORT_STEP * np.median(dur[filled])
    return np.asarray(short & ((ts < ts[filled].min()) | (ts > ts[filled].max())))


def _allocations(columns: KinetoColumns, builder: TraceBuilder) -> None:
    memory = columns.memory
    if not len(memory.ts):
        return
    order = np.argsort(memory.ts, kind="stable")
    pids = {tid: pid for pid, tid in columns.thread_names}
    track = np.empty(len(memory.tid), np.int64)
    for tid in pd.unique(memory.tid):
        own = columns.pid[(columns.tid == tid) & (columns.device < 0)][:1]
        pid = int(own[0]) if len(own) else pids.get(int(tid), -1)
        track[memory.tid == tid] = thread_track(builder, columns, pid, int(tid)) if pid >= 0 else -1
    allocated, reserved = _totals(memory, order)
    builder.allocations(
        ts=memory.ts[order],
        addr=memory.addr[order],
        bytes=memory.size[order],
        device=memory.device[order],
        allocated=allocated,
        reserved=reserved,
        track=track[order],
    )


def _totals(memory: MemoryColumns, order: IntArray) -> tuple[IntArray, IntArray]:
    """Return the running totals of each device, in order of time."""
    # A GPU's totals are those of the caching allocator. On the host, torch's total starts at 0 with the
    # process's first recording, misses frees between recordings, and is reset by shared-memory tensors. Only
    # its changes are meaningful. So the host's total is the running sum of the sizes, raised so that it never
    # falls below 0: blocks that are freed in the recording but were not allocated in it existed at its start.
    size, device = memory.size[order], memory.device[order]
    allocated, reserved = memory.allocated[order].copy(), memory.reserved[order].copy()
    for number in pd.unique(device):
        of_device = device == number
        if number < 0 or (allocated[of_device] < 0).any():
            running = np.cumsum(size[of_device])
            allocated[of_device] = running + max(0, -int(running.min()))
            reserved[of_device] = 0
    return allocated, reserved
