"""Turns the packets of a Perfetto trace into slices, counters and samples."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ...errors import FormatError
from ...readers.call_tree import CallFrame, Sampled, add_samples, count_samples, sample_durations
from ...readers.codec.columns import per_group
from ...readers.codec.protobuf import Fields, coded_texts
from ...trace.arrays import IntArray, consecutive, positions
from ...trace.builder import TraceBuilder
from ...trace.strings import Coded
from . import packets as packets_of
from .events import (
    Stages,
    TrackEvents,
    add_counters,
    add_events,
    add_flows,
    add_stages,
    paired,
)
from .packets import CALLSTACKS, FRAMES, FTRACE, FUNCTIONS, PERF_SAMPLE, Packets, interned_keys
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
    switch_of = events.occurrences(_SWITCH)
    switch, ts = events.inside(switch_of), events.ints(_TIMESTAMP, 0)
    # the thread that runs from then on, 0 for none, and the state of the one before
    plain = pd.DataFrame({"pid": switch.ints(6, 0), "state": switch.ints(4, 0), "ts": ts[switch_of.owner]})
    plain["cpu"] = cpu[of_event.owner][switch_of.owner]
    packed, waking = _compact(compact, cpu[of_compact.owner], builder)
    woken = [
        pd.DataFrame({"pid": events.inside(every).ints(2, 0), "ts": ts[every.owner]})
        for every in map(events.occurrences, (_WAKING, _WAKEUP))
    ]
    names = _names(events, compact)
    _add_lanes(pd.concat([plain, packed]), pd.concat([*woken, waking]), names, tracks, builder, packets)
    others = sum(n for number, n in events.counts().items() if number not in _COMMON | _SHOWN)
    effect = "only scheduling is shown of the Linux kernel's events"
    advice = "open the trace in ui.perfetto.dev to see them"
    builder.report.add("kernel-events-not-used", "info", others, "interrupts and the like", effect, advice)


def _compact(fields: Fields, cpu: IntArray, builder: TraceBuilder) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the switches and wakings that are stored as columns, with times as differences."""
    (owner, steps), (_, state), (_, pid) = (fields.repeated(number) for number in (1, 2, 3))
    (waking_owner, waking_steps), (_, waking_pid) = fields.repeated(7), fields.repeated(8)
    whole = len(steps) == len(state) == len(pid) and len(waking_steps) == len(waking_pid)
    example = "columns of scheduling of different lengths"
    effect = "scheduling written as columns is left out"
    builder.report.add("broken-message", "loss", int(not whole), example, effect)
    if not whole:
        return pd.DataFrame(), pd.DataFrame()
    ts = pd.Series(steps).groupby(owner).cumsum()
    waking = {"pid": waking_pid, "ts": pd.Series(waking_steps).groupby(waking_owner).cumsum()}
    switches = {"pid": pid, "state": state, "ts": ts, "cpu": cpu[owner]}
    return pd.DataFrame(switches), pd.DataFrame(waking)


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
    switches: pd.DataFrame,
    waking: pd.DataFrame,
    names: dict[int, str],
    tracks: PerfettoTracks,
    builder: TraceBuilder,
    packets: Packets,
) -> None:
    switches = switches.sort_values(["cpu", "ts"], kind="stable", ignore_index=True)
    after = switches.groupby("cpu")[["ts", "state"]].shift(-1, fill_value=-1)
    runs = switches.assign(end=after["ts"], preempted=(after["state"] & _ASLEEP) == 0)
    has_end = switches["cpu"].duplicated(keep="last") & (switches["pid"] > 0)
    runs = runs[has_end].sort_values(["pid", "ts"], kind="stable", ignore_index=True)
    if not len(runs):
        return
    following = runs.groupby("pid")["ts"].shift(-1, fill_value=np.iinfo(np.int64).max)
    elsewhere = following < runs["end"]
    example = "a thread that runs on another core before its core has left it"
    effect = "its run ends where the next one begins; the file does not contain its real end"
    advice = "record with larger buffers"
    builder.report.add("switches-lost", "loss", int(elsewhere.sum()), example, effect, advice)
    runs["end"] = np.minimum(runs["end"], following)
    preempted = runs.loc[runs["preempted"] & ~elsewhere, ["pid", "end"]].rename(columns={"end": "ts"})
    since = _first_ready(pd.concat([waking, preempted]), runs)
    run_ts, run_end, run_pid = (runs[name].to_numpy() for name in ("ts", "end", "pid"))
    waits = np.flatnonzero((since >= 0) & (since <= run_ts))

    def lane(tid: int) -> int:
        name = f"{names.get(tid) or tracks.thread_name(tid)} {tid} · scheduling"
        return builder.track(name, "process", pid=tracks.process_of.get(tid), tid=tid)

    track = per_group(lane, run_pid)
    builder.slices(
        ts=np.concatenate([run_ts, since[waits]]) + packets.unix_offset,
        dur=np.concatenate([run_end - run_ts, run_ts[waits] - since[waits]]),
        track=np.concatenate([track, track[waits]]),
        name=Coded(np.repeat([0, 1], [len(run_ts), len(waits)]), _WORDS),
        category="annotation",
    )


def _first_ready(ready: pd.DataFrame, runs: pd.DataFrame) -> IntArray:
    """Return since when each run was waited for: the first moment after the run before; -1 for none."""
    before = runs.groupby("pid")["end"].shift(fill_value=np.iinfo(np.int64).min)
    after = pd.DataFrame({"ts": before, "pid": runs["pid"]}).sort_values("ts", kind="stable")
    moments = ready.assign(at=np.arange(len(ready))).sort_values("ts", kind="stable")
    first = pd.merge_asof(after, moments, on="ts", by="pid", direction="forward")["at"]
    since = np.empty(len(runs), np.int64)
    since[after.index] = np.append(ready["ts"], -1)[first.fillna(-1).to_numpy(np.int64)]
    return since


_SAMPLES_ADVICE: Final = "open it at ui.perfetto.dev to see them"
_NOT_USED: Final = (
    (packets_of.STACK_SAMPLE, "stack-samples-not-used", "stack_sample packets of Perfetto 58 and later"),
    (packets_of.GPU_COUNTER, "gpu-counters-not-used", "gpu_counter_event packets"),
)


def read_trace(data: bytes, builder: TraceBuilder) -> None:
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
    for number, code, example in _NOT_USED:
        count = len(packets.fields.occurrences(number))
        add(code, "loss", count, example, "these packets are left out", _SAMPLES_ADVICE)
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
