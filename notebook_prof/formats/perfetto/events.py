"""Events of tracks, as pairs, instants, counters and arrows, and the work of GPUs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from ...readers.codec.columns import marked, per_group
from ...readers.codec.protobuf import Fields, text_column
from ...readers.events import add_arguments, argument_rows, report_unpaired, stream_tracks
from ...readers.trace_event.slices import CATEGORY_OF_WORD
from ...trace.arrays import BoolArray, IntArray, TextArray
from ...trace.builder import TraceBuilder
from ...trace.nesting import pair
from ...trace.strings import Coded, by_value
from ...trace.taxonomy import STEP_PREFIX, device_category, phase_of
from .packets import (
    CATEGORIES,
    GPU_STAGE,
    NAMES,
    SPECIFICATIONS,
    TRACK_EVENT,
    Packets,
    either,
)
from .tracks import Annotations, PerfettoTracks

_BEGIN, _END, _INSTANT, _COUNTER, _COMPLETE = 1, 2, 3, 4, 5
_LEGACY: Final = {
    ord("B"): _BEGIN,
    ord("E"): _END,
    ord("X"): _COMPLETE,
    **dict.fromkeys(map(ord, "IiRn"), _INSTANT),
}
_FLOWS: Final = (47, 36, 48, 42)
_WORDS: Final = {
    **CATEGORY_OF_WORD,
    **dict.fromkeys(("data", "step", "mark", "marker_api"), "annotation"),
    "sync": "sync",
    **dict.fromkeys(("hip_api", "hsa_api"), "launch"),
    "kernel_dispatch": "kernel",
    "memory_copy": "memcpy",
    "rccl_api": "collective",
}


@dataclass(frozen=True, slots=True)
class TrackEvents:
    """The track events of a trace, in the order of the file."""

    fields: Fields
    epoch: IntArray
    ts: IntArray  # Unix ns if the trace has the offset
    kind: IntArray  # as in the format, including legacy ones
    track: IntArray
    name: Coded
    category: Coded
    dur: IntArray

    @classmethod
    def of(cls, packets: Packets) -> TrackEvents:
        owner, fields = packets.messages(TRACK_EVENT)
        epoch = packets.epoch[owner]
        name = either(text_column(fields, 23), packets.interned(NAMES).names(epoch, fields.ints(10, 0)))
        own_track = fields.ints(11, -1)
        track = np.where(fields.has(11), own_track, np.maximum(packets.default_track[owner], 0))
        categories = packets.interned(CATEGORIES).names(epoch, fields.ints(3, 0))
        category = either(text_column(fields, 22), categories)
        ts, (kind, dur) = packets.ts[owner] + packets.unix_offset, _kinds(fields)
        return cls(fields, epoch, ts, kind, track, name, category, dur)


class Slices(NamedTuple):
    """Slices of track events: the event that begins each, and its duration."""

    row: IntArray
    dur: IntArray


def _kinds(fields: Fields) -> tuple[IntArray, IntArray]:
    """Return the kind and duration of each event, including those in Chrome's older form."""
    kind, dur = fields.ints(9, 0), np.zeros(fields.count, np.int64)
    every = fields.occurrences(6)
    if len(every):
        legacy, owner = fields.inside(every), every.owner
        own = kind[owner] == 0
        phase = legacy.ints(2, 0)
        kind[owner[own]] = np.array([_LEGACY.get(p, 0) for p in phase[own].tolist()], np.int64)
        dur[owner[own]] = np.maximum(legacy.ints(3, 0)[own], 0) * 1_000
    return kind, dur


def paired(events: TrackEvents, builder: TraceBuilder) -> Slices:
    """Match ends with begins; a begin without an end lasts until the last event, other ends are ignored."""
    # Within a track, events are paired in the order of time, and of the file where times are equal. PyTorch
    # writes all begins of a category and then all of its ends in the same order: there, the order decides,
    # even if times are equal.
    marks = np.flatnonzero((events.kind == _BEGIN) | (events.kind == _END))
    columnar_begin, columnar_end = _columnar(events, marks)
    others = marks[~np.isin(marks, np.concatenate([columnar_begin, columnar_end]))]
    pairs = pair(events.track[others], events.ts[others], events.kind[others] == _BEGIN)
    last = int(events.ts.max(initial=0))
    complete = np.flatnonzero(events.kind == _COMPLETE)
    begin, lasting = pairs.spans(events.ts[others], last)
    columnar = events.ts[columnar_end] - events.ts[columnar_begin]
    row = np.concatenate([columnar_begin, others[begin], complete])
    dur = np.concatenate([columnar, lasting, events.dur[complete]])
    name = [*events.name.values, ""]

    def shown(i: int) -> str:
        return name[events.name.codes[i]] or f"at {events.ts[i]} ns"

    report_unpaired(builder.report, others[pairs.unclosed], others[pairs.unopened], shown)
    order = np.argsort(row, kind="stable")
    return Slices(row[order], dur[order])


def _columnar(events: TrackEvents, marks: IntArray) -> tuple[IntArray, IntArray]:
    """Return the begins and ends that were written as columns: as many ends after as many begins."""
    opens = events.kind[marks] == _BEGIN
    starts = np.flatnonzero(np.append(True, opens[1:] != opens[:-1])) if len(marks) else np.empty(0, np.int64)
    lengths = np.diff(np.append(starts, len(marks)))
    candidates = np.flatnonzero((lengths[:-1] == lengths[1:]) & (lengths[:-1] > 1) & opens[starts[:-1]])
    begins, ends = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for i in candidates.tolist():
        size = int(lengths[i])
        begin = marks[starts[i] : starts[i] + size]
        end = marks[starts[i + 1] : starts[i + 1] + size]
        both = events.ts[np.concatenate([begin, end])]
        in_time = (both[1:] >= both[:-1]).all()
        same = (events.track[begin] == events.track[end]).all() and (events.ts[end] >= events.ts[begin]).all()
        if same and not in_time:
            begins.append(begin)
            ends.append(end)
    return np.concatenate(begins), np.concatenate(ends)


def add_events(
    events: TrackEvents,
    slices: Slices,
    annotations: Annotations,
    tracks: PerfettoTracks,
    builder: TraceBuilder,
) -> tuple[IntArray, IntArray]:
    """Put slices and instants into the builder, and return the event and the handle of each."""
    instants = np.flatnonzero(events.kind == _INSTANT)
    row = np.concatenate([slices.row, instants])
    dur = np.concatenate([slices.dur, np.zeros(len(instants), np.int64)])
    if not len(row):
        return row, row
    order = np.argsort(row, kind="stable")
    row, dur = row[order], dur[order]
    track = tracks.of(events.track[row])
    codes = events.name.codes[row]
    name = Coded(codes, events.name.values).named("(unnamed)")
    on_stream = per_group(tracks.is_stream, events.track[row]).astype(bool)
    category = _categories(events, row, name, on_stream)
    category[np.isin(row, instants)] = "annotation"
    handle = builder.slices(
        ts=events.ts[row],
        dur=dur,
        track=track,
        name=name,
        category=category,
        phase=by_value(name.codes, [phase_of(text) for text in name.values]),
    )
    if (members := annotations.members()) is not None:
        arguments = Coded(members.codes[row], [f"{{{text}}}" for text in members.values])
        add_arguments(builder, [argument_rows(track, events.ts[row], dur, name, arguments)])
    _steps(events, row, dur, name, builder)
    return row, handle


def _categories(events: TrackEvents, row: IntArray, name: Coded, on_stream: BoolArray) -> TextArray:
    words = [_WORDS.get(word.lower(), "operator") for word in events.category.values]
    category: TextArray = np.array([*words, "operator"], dtype=object)[events.category.codes[row]]
    kinds = np.array([device_category(text) for text in name.values], dtype=object)[name.codes]
    category[on_stream] = kinds[on_stream]
    work = np.isin(category, ["kernel", "memcpy", "memset"]) & ~on_stream
    category[work] = "operator"  # work that no queue of a device ran
    return category


def _steps(events: TrackEvents, row: IntArray, dur: IntArray, name: Coded, builder: TraceBuilder) -> None:
    matches = [_STEP.fullmatch(text) for text in name.values]
    number = np.array([int(match[1]) if match else -1 for match in matches], np.int64)[name.codes]
    own = np.flatnonzero((number >= 0) & (number < 1 << 31))
    own = own[np.unique(number[own], return_index=True)[1]]
    if len(own):
        builder.steps(number[own], events.ts[row[own]], dur[own], "file")


def add_counters(events: TrackEvents, tracks: PerfettoTracks, builder: TraceBuilder) -> None:
    """Put values of counters into the builder; changes are summed up."""
    rows = np.flatnonzero(events.kind == _COUNTER)
    whole, real = events.fields.ints(30, np.iinfo(np.int64).min)[rows], events.fields.floats(44)[rows]
    value = np.where(whole == np.iinfo(np.int64).min, real, whole)
    for number in np.unique(events.track[rows]).tolist():
        own = np.flatnonzero(events.track[rows] == number)
        own = own[np.argsort(events.ts[rows[own]], kind="stable")]
        descriptor = tracks.descriptors.get(number)
        values = value[own] * (descriptor.multiplier if descriptor else 1)
        if descriptor is not None and descriptor.incremental:
            values = np.cumsum(values)
        if descriptor is None or descriptor.kind != "counter":
            track = builder.track(f"counter {number}", "counter")
        else:
            track = int(tracks.of(np.array([number]))[0])
        builder.counter(track, events.ts[rows[own]], values)


def add_flows(
    events: TrackEvents, row: IntArray, handle: IntArray, tracks: PerfettoTracks, builder: TraceBuilder
) -> None:
    """Put arrows into the builder: slices that share a number, in the order of time."""
    every = [events.fields.occurrences(number) for number in _FLOWS]
    handle_of = np.full(len(events.ts), -1, np.int64)
    handle_of[row] = handle
    event = np.concatenate([each.owner for each in every])
    number = np.concatenate([each.value for each in every])
    event, number = event[handle_of[event] >= 0], number[handle_of[event] >= 0]
    order = np.lexsort((event, events.ts[event], number))
    event, number = event[order], number[order]
    same = (number[1:] == number[:-1]) & (event[1:] != event[:-1])
    src, dst = event[:-1][same], event[1:][same]
    stream = per_group(tracks.is_stream, events.track).astype(bool)
    launch = ~stream[src] & stream[dst]
    builder.flows("launch", handle_of[src[launch]], handle_of[dst[launch]])
    builder.flows("link", handle_of[src[~launch]], handle_of[dst[~launch]])


_STREAM: Final = re.compile(r"(\d{1,9})\s*$")
_STEP: Final = re.compile(re.escape(STEP_PREFIX) + r"(\d{1,10})")


class StagePairs(NamedTuple):
    """Details that producers added to work of GPUs, by name."""

    stage: IntArray  # row of the work, in ascending order
    names: Coded
    values: Coded


@dataclass(frozen=True, slots=True)
class Stages:
    """Work of GPUs: one row per GpuRenderStageEvent."""

    ts: IntArray
    dur: IntArray
    device: IntArray
    stream: IntArray  # the number at the end of the queue's name, or that of the queue
    name: Coded  # what ran
    stage: Coded  # whether it was a kernel, a copy or a fill
    pairs: StagePairs

    @classmethod
    def of(cls, packets: Packets) -> Stages:
        owner, fields = packets.messages(GPU_STAGE)
        epoch = packets.epoch[owner]
        specifications, names = packets.interned(SPECIFICATIONS), packets.interned(NAMES)
        queue = specifications.names(epoch, fields.ints(13, 0))
        stage = specifications.names(epoch, fields.ints(14, 0))
        name = either(text_column(fields, 17), names.names(epoch, fields.ints(20, 0)))
        numbers = [int(m[1]) if (m := _STREAM.search(text)) else -1 for text in queue.values]
        of_queue = np.array([*numbers, -1], np.int64)[queue.codes]
        every = fields.occurrences(6)
        details = fields.inside(every)
        return cls(
            packets.ts[owner] + packets.unix_offset,
            np.maximum(fields.ints(2, 0), 0),
            np.clip(fields.ints(11, 0), 0, 32_767),
            np.where(of_queue >= 0, of_queue, np.maximum(fields.ints(13, 0), 0)),
            either(name, stage),
            stage,
            StagePairs(every.owner, text_column(details, 1), text_column(details, 2)),
        )

    def number(self, name: str) -> IntArray:
        """Return a whole number that a producer added to the rows; -1 if missing."""
        row, names, values = self.pairs
        numbers = [int(text) if text.isdigit() and len(text) < 19 else -1 for text in values.values]
        own = marked(names, name.__eq__)
        result = np.full(len(self.ts), -1, np.int64)
        result[row[own]] = np.array([*numbers, -1], np.int64)[values.codes[own]]
        return result

    def categories(self) -> list[str]:
        """Return the category of each stage's name."""
        words = []
        for text in self.stage.values:
            lowered = text.lower()
            copy = "memcpy" in lowered or "copy" in lowered
            words.append("memset" if "memset" in lowered else "memcpy" if copy else "kernel")
        return words


def add_stages(stages: Stages, builder: TraceBuilder) -> None:
    """Put the work of GPUs into the builder; each queue is a stream."""
    if not len(stages.ts):
        return
    words = np.array([*stages.categories(), "kernel"], dtype=object)
    builder.slices(
        ts=stages.ts,
        dur=stages.dur,
        track=stream_tracks(builder, stages.device, stages.stream),
        name=stages.name.named("(unnamed)"),
        category=words[stages.stage.codes],
        device=stages.device,
        stream=stages.stream,
    )
