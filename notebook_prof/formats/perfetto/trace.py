"""Turns the packets of a Perfetto trace into slices, counters and samples."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from ...errors import FormatError
from ...readers.call_tree import CallFrame, Sampled, add_samples, count_samples, sample_durations
from ...readers.codec.protobuf import Fields, coded_texts
from ...trace.arrays import IntArray, consecutive, positions
from ...trace.builder import TraceBuilder
from ...trace.strings import Coded
from .events import (
    Stages,
    TrackEvents,
    add_counters,
    add_events,
    add_flows,
    add_gpu_counters,
    add_stages,
    paired,
)
from .packets import CALLSTACKS, FRAMES, FTRACE, FUNCTIONS, PERF_SAMPLE, STACK_SAMPLE, Packets, interned_keys
from .torch import add_torch, is_torch
from .tracks import Annotations, PerfettoTracks

# Events of the Linux kernel: when threads ran, and when they waited for a core.

_CPU, _EVENT, _COMPACT = 1, 2, 4
_TIMESTAMP, _SWITCH, _WAKING, _WAKEUP = 1, 4, 20, 17
_ASLEEP: Final = 0xFF
"""Bits of a thread's state when it leaves its core. None is set if it could go on running."""
_WORDS: Final = ("running", "runnable")
_SHOWN: Final = frozenset({_SWITCH, _WAKING, _WAKEUP})
_COMMON: Final = frozenset({1, 2, 5})
"""Fields that all events have: time, thread, flags."""


class Switches(NamedTuple):
    """Context switches of cores."""

    cpu: IntArray
    ts: IntArray
    pid: IntArray  # the thread that runs from then on, 0 for none
    state: IntArray  # the state of the thread before


def add_scheduling(packets: Packets, tracks: PerfettoTracks, builder: TraceBuilder) -> None:
    """Put a lane for each thread into the builder: ``running`` on a core, ``runnable`` while it waits."""
    # A thread is runnable from when it is woken, or had to leave its core, until it runs. The run in progress
    # when a core's recording ends has no end, and is left out.
    owner, bundles = packets.messages(FTRACE)
    if not len(owner):
        return
    cpu = bundles.ints(_CPU, 0)
    of_compact, of_event = bundles.occurrences(_COMPACT), bundles.occurrences(_EVENT)
    compact, events = bundles.inside(of_compact), bundles.inside(of_event)
    cpu_of_event = cpu[of_event.owner]
    plain, woken = _plain(events, cpu_of_event), _woken(events)
    packed, pid, ts = _compact(compact, cpu[of_compact.owner], builder)
    switches = Switches(*(np.concatenate(pair) for pair in zip(plain, packed, strict=True)))
    waking = np.concatenate([woken[0], pid]), np.concatenate([woken[1], ts])
    _add_lanes(switches, waking, _names(events, compact), tracks, builder, packets.unix_offset)
    others = sum(n for number, n in events.counts().items() if number not in _COMMON | _SHOWN)
    effect = "only scheduling is shown of the Linux kernel's events"
    advice = "open the trace in ui.perfetto.dev to see them"
    builder.report.add("kernel-events-not-used", "info", others, "interrupts and the like", effect, advice)


def _plain(events: Fields, cpu: IntArray) -> Switches:
    every = events.occurrences(_SWITCH)
    event, switch = every.owner, events.inside(every)
    ts = events.ints(_TIMESTAMP, 0)[event]
    return Switches(cpu[event], ts, switch.ints(6, 0), switch.ints(4, 0))


def _woken(events: Fields) -> tuple[IntArray, IntArray]:
    pid, ts = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for kind in (_WAKING, _WAKEUP):
        every = events.occurrences(kind)
        pid.append(events.inside(every).ints(2, 0))
        ts.append(events.ints(_TIMESTAMP, 0)[every.owner])
    return np.concatenate(pid), np.concatenate(ts)


def _compact(fields: Fields, cpu: IntArray, builder: TraceBuilder) -> tuple[Switches, IntArray, IntArray]:
    """Return switches, and threads and times of wakings, that are columns: times as differences."""
    owner, steps = fields.repeated(1)
    _, state = fields.repeated(2)
    _, pid = fields.repeated(3)
    waking_owner, waking_steps = fields.repeated(7)
    _, waking_pid = fields.repeated(8)
    whole = len(steps) == len(state) == len(pid) and len(waking_steps) == len(waking_pid)
    example = "columns of scheduling of different lengths"
    effect = "scheduling written as columns is left out"
    builder.report.add("broken-message", "loss", int(not whole), example, effect)
    if not whole:
        none = np.empty(0, np.int64)
        return Switches(none, none, none, none), none, none
    switches = Switches(cpu[owner], _summed(steps, owner), pid, state)
    return switches, waking_pid, _summed(waking_steps, waking_owner)


def _summed(steps: IntArray, owner: IntArray) -> IntArray:
    """Return running sums that restart in each message; messages are consecutive."""
    if not len(steps):
        return steps
    total = np.cumsum(steps)
    first = np.append(True, owner[1:] != owner[:-1])
    before = total[first] - steps[first]
    return np.asarray(total - before[np.cumsum(first) - 1])


def _names(events: Fields, compact: Fields) -> dict[int, str]:
    """Return the names of threads in switches and wakings."""
    result: dict[int, str] = {}
    every = compact.occurrences(5)
    words = coded_texts(compact, every)
    begin = np.searchsorted(every.owner, np.arange(compact.count))
    for number, index in ((3, 6), (8, 11)):
        owner, pid = compact.repeated(number)
        _, code = compact.repeated(index)
        if len(pid) == len(code) and len(every):
            at = np.clip(begin[owner] + code, 0, len(every) - 1)
            result |= _by_pid(pid, Coded(words.codes[at], words.values))
    for kind, name, number in ((_SWITCH, 5, 6), (_WAKING, 1, 2), (_WAKEUP, 1, 2)):
        fields = events.inside(events.occurrences(kind))
        named = fields.occurrences(name)
        result |= _by_pid(fields.ints(number, 0)[named.owner], coded_texts(fields, named))
    return result


def _by_pid(pid: IntArray, names: Coded) -> dict[int, str]:
    numbers, first = np.unique(pid, return_index=True)
    words = [*names.values, ""]
    return {n: words[names.codes[i]] for n, i in zip(numbers.tolist(), first.tolist(), strict=True)}


def _add_lanes(
    switches: Switches,
    waking: tuple[IntArray, IntArray],
    names: dict[int, str],
    tracks: PerfettoTracks,
    builder: TraceBuilder,
    offset: int,
) -> None:
    order = np.lexsort((switches.ts, switches.cpu))
    cpu, ts, pid, state = (column[order] for column in switches)
    follows = np.flatnonzero(cpu[1:] == cpu[:-1])
    run_pid, run_ts, run_end = pid[follows], ts[follows], ts[follows + 1]
    preempted = (state[follows + 1] & _ASLEEP) == 0
    runs = np.lexsort((run_ts, run_pid))
    runs = runs[run_pid[runs] > 0]
    run_pid, run_ts, run_end, preempted = (c[runs] for c in (run_pid, run_ts, run_end, preempted))
    if not len(runs):
        return
    following = np.append(
        np.where(run_pid[1:] == run_pid[:-1], run_ts[1:], np.iinfo(np.int64).max), run_end[-1]
    )
    elsewhere = following < run_end
    example = "a thread that runs on another core before its core has left it"
    effect = "its run ends where the next one begins; the file does not contain its real end"
    advice = "record with larger buffers"
    builder.report.add("switches-lost", "loss", int(elsewhere.sum()), example, effect, advice)
    run_end, preempted = np.minimum(run_end, following), preempted & ~elsewhere
    ready_pid = np.concatenate([waking[0], run_pid[preempted]])
    ready_ts = np.concatenate([waking[1], run_end[preempted]])
    since = _first_ready(ready_pid, ready_ts, run_pid, run_ts, run_end)
    waits = np.flatnonzero(since >= 0)
    numbers, code = np.unique(run_pid, return_inverse=True)
    lanes = []
    for tid in numbers.tolist():
        name = f"{names.get(tid) or tracks.thread_name(tid)} {tid} · scheduling"
        lanes.append(builder.track(name, "process", pid=tracks.process_of.get(tid), tid=tid))
    track = np.array(lanes, np.int64)[code]
    builder.slices(
        ts=np.concatenate([run_ts, since[waits]]) + offset,
        dur=np.concatenate([run_end - run_ts, run_ts[waits] - since[waits]]),
        track=np.concatenate([track, track[waits]]),
        name=Coded(np.repeat([0, 1], [len(run_ts), len(waits)]), _WORDS),
        category="annotation",
    )


def _first_ready(
    ready_pid: IntArray, ready_ts: IntArray, run_pid: IntArray, run_ts: IntArray, run_end: IntArray
) -> IntArray:
    """Return since when each run was waited for: the first moment after the run before; -1 for none."""
    again = np.append(False, run_pid[1:] == run_pid[:-1])
    before = np.where(again, np.append(0, run_end[:-1]), np.iinfo(np.int64).min)
    order = np.argsort(before, kind="stable")
    runs = pd.DataFrame({"ts": before[order], "pid": run_pid[order]})
    moments = pd.DataFrame({"ts": ready_ts, "pid": ready_pid, "at": np.arange(len(ready_ts))})
    moments = moments.sort_values("ts", kind="stable")
    first = pd.merge_asof(runs, moments, on="ts", by="pid", direction="forward")["at"]
    since = np.empty(len(run_pid), np.int64)
    since[order] = np.append(ready_ts, -1)[first.fillna(-1).to_numpy(np.int64)]
    return np.where(since <= run_ts, since, -1)


_SAMPLES_ADVICE: Final = "open it at ui.perfetto.dev to see them"


def read_trace(data: bytes, builder: TraceBuilder) -> None:
    """Put a trace into `builder`."""
    packets = Packets(data, builder.report)
    if not packets.fields.count:
        raise FormatError("the Perfetto trace has no complete packet")
    tracks = PerfettoTracks(packets, builder)
    events, stages = TrackEvents.of(packets), Stages.of(packets)
    annotations = Annotations(packets, events.fields, events.epoch)
    slices = paired(events, builder)
    if is_torch(events, annotations):
        builder.metadata["exporter"] = "torch"
        add_torch(events, slices, annotations, stages, tracks, builder)
    else:
        row, handle = add_events(events, slices, annotations, tracks, builder)
        add_flows(events, row, handle, tracks, builder)
        add_stages(stages, builder)
    add_counters(events, tracks, builder)
    add_gpu_counters(packets, builder)
    _add_samples(packets, tracks, builder)
    add_scheduling(packets, tracks, builder)
    _report(packets, events, builder)
    if builder.is_empty:
        if "stack-samples-not-used" in builder.report:
            raise FormatError(f"the Perfetto trace holds only stack_sample packets; {_SAMPLES_ADVICE}")
        raise FormatError(
            "the Perfetto trace holds no events, counters or samples that are shown here: look whether "
            "the data sources were on when it was recorded"
        )


def _report(packets: Packets, events: TrackEvents, builder: TraceBuilder) -> None:
    add, broken = builder.report.add, packets.fields.broken + events.fields.broken
    example, effect = "a field that reaches beyond its packet", "the fields after it are missing"
    add("broken-message", "loss", broken, example, effect)
    samples = len(packets.fields.occurrences(STACK_SAMPLE).owner)
    example, effect = "stack_sample packets of Perfetto 58 and later", "these samples are left out"
    add("stack-samples-not-used", "loss", samples, example, effect, _SAMPLES_ADVICE)
    unknown = int((events.kind == 0).sum())
    add("row-not-used", "loss", unknown, "track events without a type that is shown", "left out")


def _add_samples(packets: Packets, tracks: PerfettoTracks, builder: TraceBuilder) -> None:
    """Put samples into the builder, on tracks beside their threads."""
    owner, fields = packets.messages(PERF_SAMPLE)
    if not len(owner):
        return
    epoch = packets.epoch[owner]
    stack_epoch, stacks = packets.entries(CALLSTACKS)
    frame_epoch, frames = packets.entries(FRAMES)
    functions = packets.interned(FUNCTIONS).names(frame_epoch, frames.ints(2, 0))
    stack_of = positions(
        interned_keys(stack_epoch, stacks.ints(1, 0)), interned_keys(epoch, fields.ints(4, 0))
    )
    members = stacks.occurrences(2)
    frame_of = positions(
        interned_keys(frame_epoch, frames.ints(1, 0)),
        interned_keys(stack_epoch[members.owner], members.value),
    )
    begin = np.searchsorted(members.owner, np.arange(stacks.count))
    length = np.bincount(members.owner, minlength=stacks.count)
    names = [CallFrame(name, "", 0) for name in [*functions.values, "(unknown)"]]
    code = np.append(np.where(functions.codes < 0, len(functions.values), functions.codes), len(names) - 1)
    has = np.append(length, 0)[stack_of] > 0
    effect = "these samples have no stack, so they are left out"
    builder.report.add("sample-without-stack", "info", int((~has).sum()), effect=effect)
    ts = packets.ts[owner] + packets.unix_offset
    pid, tid = fields.ints(2, 0), fields.ints(3, 0)
    for process, thread in sorted(set(zip(pid[has].tolist(), tid[has].tolist(), strict=True))):
        own = np.flatnonzero(has & (pid == process) & (tid == thread))
        own = own[np.argsort(ts[own], kind="stable")]
        stack = stack_of[own]
        count = length[stack]
        flat = code[frame_of[consecutive(begin[stack], count)]]
        name = f"{tracks.thread_name(thread)} {thread} · samples"
        track = builder.track(name, "process", pid=process)
        # a sample stands for the time until its thread's next one, at most twice the median of these times
        count_samples(builder, track, len(own))
        add_samples(builder, track, Sampled(ts[own], sample_durations(ts[own]), flat, count), names)
