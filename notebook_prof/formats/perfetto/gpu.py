"""What ran on GPUs, as Perfetto's own kind of packet tells it, and counters of GPUs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from ...readers.codec.protobuf_columns import Fields, text_column
from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from ...trace.strings import Coded
from .packets import (
    COUNTER_DESCRIPTORS,
    GPU_COUNTER,
    GPU_STAGE,
    NAMES,
    SPECIFICATIONS,
    Packets,
    either,
)

_STREAM: Final = re.compile(r"(\d{1,9})\s*$")


class StagePairs(NamedTuple):
    """What producers added to work of GPUs, name by name."""

    stage: IntArray  # row of the work, in ascending order
    names: Coded
    values: Coded

    @classmethod
    def of(cls, fields: Fields) -> StagePairs:
        """Take the pairs out of the fields of the work."""
        every = fields.occurrences(6)
        pairs = fields.inside(every)
        return cls(every.owner, text_column(pairs, 1), text_column(pairs, 2))


@dataclass(frozen=True, slots=True)
class Stages:
    """Work of GPUs: a row a GpuRenderStageEvent."""

    ts: IntArray
    dur: IntArray
    device: IntArray
    stream: IntArray  # the number at the end of the queue's name, or that of the queue
    name: Coded  # what ran
    stage: Coded  # whether it was a kernel, a copy or a fill
    fields: Fields
    pairs: StagePairs

    @classmethod
    def of(cls, packets: Packets) -> Stages:
        """Take the work of GPUs out of packets."""
        owner, fields = packets.messages(GPU_STAGE)
        epoch = packets.epoch[owner]
        specifications, names = packets.interned(SPECIFICATIONS), packets.interned(NAMES)
        queue = specifications.names(epoch, fields.ints(13, 0))
        stage = specifications.names(epoch, fields.ints(14, 0))
        name = either(text_column(fields, 17), names.names(epoch, fields.ints(20, 0)))
        numbers = [int(m[1]) if (m := _STREAM.search(text)) else -1 for text in queue.values]
        of_queue = np.array([*numbers, -1], np.int64)[queue.codes]
        return cls(
            packets.ts[owner] + packets.unix_offset,
            np.maximum(fields.ints(2, 0), 0),
            np.clip(fields.ints(11, 0), 0, 32_767),
            np.where(of_queue >= 0, of_queue, np.maximum(fields.ints(13, 0), 0)),
            either(name, stage),
            stage,
            fields,
            StagePairs.of(fields),
        )

    def extra(self, name: str) -> Coded:
        """Return a text that a producer added to the rows."""
        names, values = self.pairs.names, self.pairs.values
        chosen = np.array([*(text == name for text in names.values), False])
        own = chosen[names.codes]
        codes = np.full(len(self.ts), -1, np.int64)
        codes[self.pairs.stage[own]] = values.codes[own]
        return Coded(codes, values.values)

    def number(self, name: str) -> IntArray:
        """Return a whole number that a producer added to the rows, -1 where there is none."""
        texts = self.extra(name)
        numbers = [int(text) if text.isdigit() and len(text) < 19 else -1 for text in texts.values]
        return np.asarray(np.array([*numbers, -1], np.int64)[texts.codes])

    def categories(self) -> list[str]:
        """Return the category of each stage's name."""
        words = []
        for text in self.stage.values:
            lowered = text.lower()
            copy = "memcpy" in lowered or "copy" in lowered
            words.append("memset" if "memset" in lowered else "memcpy" if copy else "kernel")
        return words


def add_stages(stages: Stages, builder: TraceBuilder) -> None:
    """Put the work of GPUs into the builder, each queue a stream."""
    if not len(stages.ts):
        return
    key = stages.device * (int(stages.stream.max()) + 1) + stages.stream
    keys, code = np.unique(key, return_inverse=True)
    tracks = []
    for each in keys.tolist():
        device, stream = divmod(each, int(stages.stream.max()) + 1)
        tracks.append(builder.track(f"GPU {device} stream {stream}", "stream", device=device, stream=stream))
    words = np.array([*stages.categories(), "kernel"], dtype=object)
    names = stages.name
    builder.slices(
        ts=stages.ts,
        dur=stages.dur,
        track=np.array(tracks, np.int64)[code],
        name=Coded(np.where(names.codes < 0, len(names.values), names.codes), [*names.values, "(unnamed)"]),
        category=words[stages.stage.codes],
        device=stages.device,
        stream=stages.stream,
    )


def add_gpu_counters(packets: Packets, builder: TraceBuilder) -> None:
    """Put counters of GPUs into the builder, with the names that their descriptors tell."""
    owner, fields = packets.messages(GPU_COUNTER)
    if not len(owner):
        return
    names = _counter_names(packets, fields)
    values = fields.occurrences(2)
    counters, event = fields.inside(values), values.owner
    number, device = counters.ints(1, 0), np.clip(fields.ints(3, 0)[event], 0, 32_767)
    whole = counters.ints(2, np.iinfo(np.int64).min)
    value = np.where(whole == np.iinfo(np.int64).min, counters.floats(3), whole)
    ts = (packets.ts[owner] + packets.unix_offset)[event]
    for gpu, counter in sorted(set(zip(device.tolist(), number.tolist(), strict=True))):
        own = (device == gpu) & (number == counter) & ~np.isnan(value)
        name = names.get(counter) or f"counter {counter}"
        track = builder.track(f"GPU {gpu} {name}", "counter", device=gpu)
        builder.counter(track, ts[own], value[own])


def _counter_names(packets: Packets, fields: Fields) -> dict[int, str]:
    result: dict[int, str] = {}
    _, interned = packets.entries(COUNTER_DESCRIPTORS)
    for outer, number in ((fields, 1), (interned, 2)):
        descriptors = outer.inside(outer.occurrences(number))
        specs = descriptors.inside(descriptors.occurrences(1))
        names = text_column(specs, 2)
        numbers = specs.ints(1, 0).tolist()
        result |= {
            key: names.values[code]
            for key, code in zip(numbers, names.codes.tolist(), strict=True)
            if code >= 0
        }
    return result
