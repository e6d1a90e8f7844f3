"""Perfetto traces that notebook_prof itself has written: they come back as they were."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
from msgspec import field
from msgspec.structs import astuple

from ...trace.arrays import BoolArray, IntArray
from ...trace.builder import TraceBuilder
from ...trace.layout import PERFETTO_FIELD
from ...trace.strings import Coded
from ...trace.taxonomy import CATEGORIES, FLOW_KINDS, PHASES
from ..native.chrome_events import EventTables
from ..native.chrome_head import MOST_NS, MOST_NUMBER, put_head
from ..native.chrome_rows import UNDECODABLE, Head
from .annotations import Annotations
from .events import Slices, TrackEvents
from .packets import Packets

_NUMBERS: Final = ("step", "correlation", "device", "stream")
_ALLOCATION: Final = "cpu_instant_event"
_FLOW_BITS: Final = 2
_INSTANT, _COUNTER = 3, 4


class OwnHead(Head):
    """What events have no place for, and which track of the file shows which of ours."""

    lanes: list[tuple[int, int]] = field(default_factory=list)


def own_head(packets: Packets) -> OwnHead | None:
    """Return what `Trace.to_perfetto` wrote beside the events; None in files of other programs.

    What is there and cannot be read is told in the report.
    """
    every = packets.fields.occurrences(PERFETTO_FIELD)
    for raw in packets.fields.texts(every).to_pylist()[:1]:
        try:
            head = msgspec.json.decode(raw or b"", type=OwnHead)
        except UNDECODABLE as error:
            packets.report.add(
                "broken-message",
                "loss",
                example=f"the packet of notebook_prof: {error}",
                effect="steps, stacks and tables are missing; events are shown as those of any program",
                advice="write the file again",
            )
            return None
        return head if abs(head.base) < 1 << 62 else None
    return None


def add_own(
    head: OwnHead, events: TrackEvents, slices: Slices, annotations: Annotations, builder: TraceBuilder
) -> None:
    """Put a trace that we wrote into the builder."""
    tracks, frames = put_head(head, builder)
    uuids = {uuid: tracks[track] for uuid, track in head.lanes if 0 <= track < len(tracks)}
    row = np.concatenate([slices.row, np.flatnonzero(events.kind == _INSTANT)])
    dur = np.concatenate([slices.dur, np.zeros(len(row) - len(slices.row), np.int64)])
    order = np.argsort(row, kind="stable")
    row, dur = row[order], dur[order]
    code_of = {word: code for code, word in enumerate(CATEGORIES)}
    codes = np.array([*(code_of.get(word, -1) for word in events.category.values), -1], np.int64)
    category = codes[events.category.codes[row]]
    shown = (category >= 0) & (np.abs(events.ts[row]) < MOST_NS)
    handle = np.full(len(events.ts), -1, np.int64)
    row, dur, category = row[shown], dur[shown], category[shown]
    if len(row):
        handle[row] = _add_slices(events, row, dur, category, annotations, uuids, frames, builder)
    _add_allocations(events, annotations, uuids, builder)
    _add_counters(events, uuids, builder)
    _add_flows(events, handle, builder)
    EventTables().put(builder, head.tables.metadata, head.base)
    for issue in head.tables.report:
        builder.report.add(*astuple(issue))


def _add_slices(
    events: TrackEvents,
    row: IntArray,
    dur: IntArray,
    category: IntArray,
    annotations: Annotations,
    uuids: dict[int, int],
    frames: dict[int, int],
    builder: TraceBuilder,
) -> IntArray:
    numbers = {}
    for name in _NUMBERS:
        values = annotations.ints(name)[row]
        numbers[name] = np.where(values <= MOST_NUMBER.get(name, values.max(initial=0)), values, -1)
    texts = {name: annotations.texts(name) for name in ("phase", "shapes", "module")}
    phases = {word: code for code, word in enumerate(PHASES)}
    phase = np.array([*(phases.get(word, -1) for word in texts["phase"].values), -1], np.int64)
    stacks, leaf = np.unique(annotations.ints("stack")[row], return_inverse=True)
    names = events.name.codes[row]
    return builder.slices(
        ts=events.ts[row],
        dur=dur,
        track=_tracks(events.track[row], uuids, builder),
        name=Coded(np.where(names < 0, len(events.name.values), names), [*events.name.values, ""]),
        category=Coded(category, CATEGORIES),
        phase=Coded(phase[texts["phase"].codes[row]], PHASES),
        shapes=Coded(texts["shapes"].codes[row], texts["shapes"].values),
        module=Coded(texts["module"].codes[row], texts["module"].values),
        stack=np.array([frames.get(key, -1) for key in stacks.tolist()], np.int64)[leaf],
        **numbers,
    )


def _add_allocations(
    events: TrackEvents, annotations: Annotations, uuids: dict[int, int], builder: TraceBuilder
) -> None:
    word = np.array([*(text == _ALLOCATION for text in events.category.values), False])
    row = np.flatnonzero(word[events.category.codes] & _in_range(events))
    if not len(row):
        return
    device = annotations.ints("Device Id")[row]
    builder.allocations(
        ts=events.ts[row],
        addr=annotations.ints("Addr", int(np.iinfo(np.int64).min))[row].view(np.uint64),
        bytes=annotations.ints("Bytes", 0)[row],
        device=np.clip(device, -1, np.iinfo(np.int16).max),
        allocated=annotations.ints("Total Allocated")[row],
        reserved=annotations.ints("Total Reserved")[row],
        track=_tracks(events.track[row], {**uuids, 0: -1}, builder),
    )


def _add_counters(events: TrackEvents, uuids: dict[int, int], builder: TraceBuilder) -> None:
    row = np.flatnonzero((events.kind == _COUNTER) & _in_range(events))
    if len(row):
        track = _tracks(events.track[row], uuids, builder, "counter")
        builder.counter(track, events.ts[row], events.fields.floats(44)[row])


def _add_flows(events: TrackEvents, handle: IntArray, builder: TraceBuilder) -> None:
    """Put arrows into the builder; their numbers end with their kind."""
    ends = []
    for end in (47, 48):
        every = events.fields.occurrences(end)
        every = every.where(handle[every.owner] >= 0)
        arrows, first = np.unique(every.value, return_index=True)
        ends.append((arrows, handle[every.owner][first]))
    (number, source), (other, target) = ends
    whole, at, also = np.intersect1d(number, other, assume_unique=True, return_indices=True)
    builder.report.add(
        "arrow-without-slice",
        "loss",
        len(number) + len(other) - 2 * len(whole),
        effect="these links are left out",
    )
    for code, kind in enumerate(FLOW_KINDS):
        own = (whole & ((1 << _FLOW_BITS) - 1)) == code
        if own.any():
            builder.flows(kind, source[at[own]], target[also[own]])


def _in_range(events: TrackEvents) -> BoolArray:
    return np.asarray(np.abs(events.ts) < MOST_NS)


def _tracks(number: IntArray, uuids: dict[int, int], builder: TraceBuilder, kind: str = "thread") -> IntArray:
    """Return the builder's tracks by their number in the file, new ones where the file names none."""
    numbers, code = np.unique(number, return_inverse=True)
    for each in numbers.tolist():
        if each not in uuids:
            uuids[each] = builder.track(f"{kind} {each}", kind)
    return np.array([uuids[each] for each in numbers.tolist()], np.int64)[code]
