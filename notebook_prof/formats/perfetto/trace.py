"""Turns the packets of a Perfetto trace into slices, counters and samples."""

from __future__ import annotations

from typing import Final

import numpy as np

from ...errors import FormatError
from ...readers.call_tree import Frame, Sampled, add_samples, sample_durations
from ...trace.arrays import IntArray, consecutive
from ...trace.builder import TraceBuilder
from .annotations import Annotations
from .events import TrackEvents, add_counters, add_events, add_flows, paired
from .ftrace import add_scheduling
from .gpu import Stages, add_gpu_counters, add_stages
from .packets import CALLSTACKS, FRAMES, FUNCTIONS, PERF_SAMPLE, STACK_SAMPLE, Packets
from .torch import add_torch, is_torch
from .tracks import Tracks

_SAMPLES_ADVICE: Final = "open it at ui.perfetto.dev to see them"


def read_trace(data: bytes, builder: TraceBuilder) -> None:
    """Put a trace into `builder`."""
    packets = Packets(data, builder.report)
    if not packets.fields.count:
        raise FormatError("the Perfetto trace holds no packet that is whole")
    tracks = Tracks(packets, builder)
    events, stages = TrackEvents.of(packets), Stages.of(packets)
    annotations = Annotations(packets, events.fields, events.epoch)
    slices = paired(events, builder)
    if is_torch(events, annotations):
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
    builder.report.add(
        "broken-message",
        "loss",
        packets.fields.broken + events.fields.broken,
        example="a field that reaches beyond its packet",
        effect="the fields behind it are missing",
    )
    builder.report.add(
        "stack-samples-not-used",
        "loss",
        len(packets.fields.occurrences(STACK_SAMPLE).owner),
        example="packets stack_sample of Perfetto 58 and later",
        effect="these samples are left out",
        advice=_SAMPLES_ADVICE,
    )
    unknown = (events.kind == 0).sum()
    builder.report.add(
        "row-not-used",
        "loss",
        int(unknown),
        example="track events without a type that is shown",
        effect="left out",
    )


def _add_samples(packets: Packets, tracks: Tracks, builder: TraceBuilder) -> None:
    """Put samples into the builder, on tracks beside their threads."""
    owner, fields = packets.messages(PERF_SAMPLE)
    if not len(owner):
        return
    epoch = packets.epoch[owner]
    stack_epoch, stacks = packets.entries(CALLSTACKS)
    frame_epoch, frames = packets.entries(FRAMES)
    functions = packets.interned(FUNCTIONS).names(frame_epoch, frames.ints(2, 0))
    stack_of = _find(stack_epoch, stacks.ints(1, 0), epoch, fields.ints(4, 0))
    members = stacks.occurrences(2)
    frame_of = _find(frame_epoch, frames.ints(1, 0), stack_epoch[members.owner], members.value)
    begin = np.searchsorted(members.owner, np.arange(stacks.count))
    length = np.bincount(members.owner, minlength=stacks.count)
    names = [Frame(name, "", 0) for name in [*functions.values, "(unknown)"]]
    code = np.where(functions.codes < 0, len(functions.values), functions.codes)
    code = np.append(code, len(functions.values))
    has = (
        (stack_of >= 0) & (length[np.maximum(stack_of, 0)] > 0)
        if stacks.count
        else np.zeros(len(owner), bool)
    )
    builder.report.add(
        "sample-without-stack",
        "info",
        int((~has).sum()),
        effect="these samples tell that a thread ran, and not what: they are left out",
    )
    ts = packets.ts[owner] + packets.unix_offset
    pid, tid = fields.ints(2, 0), fields.ints(3, 0)
    for process, thread in sorted(set(zip(pid[has].tolist(), tid[has].tolist(), strict=True))):
        own = np.flatnonzero(has & (pid == process) & (tid == thread))
        own = own[np.argsort(ts[own], kind="stable")]
        stack = stack_of[own]
        count = length[stack]
        flat = code[frame_of[consecutive(begin[stack], count)]]
        name = f"{tracks.thread_name(process, thread)} {thread} · samples"
        track = builder.track(name, "process", pid=process)
        # a sample stands for the time until its thread's next one, at most twice the median of these times
        add_samples(builder, track, Sampled(ts[own], sample_durations(ts[own]), flat, count), names)


def _find(epoch: IntArray, number: IntArray, of_epoch: IntArray, sought: IntArray) -> IntArray:
    """Return the entry with each number in its epoch, or -1."""
    width = int(max(number.max(initial=0), sought.max(initial=0))) + 1
    key, own = epoch * width + number, of_epoch * width + sought
    order = np.argsort(key, kind="stable")
    if not len(order):
        return np.full(len(own), -1, np.int64)
    at = np.searchsorted(key[order], own, side="right") - 1
    at = order[np.maximum(at, 0)]
    return np.asarray(np.where(key[at] == own, at, -1))
