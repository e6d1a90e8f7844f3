"""Packets of a Perfetto trace: the state of each sequence, and the clocks."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...readers.codec.protobuf import PADDING, Fields, WireError, text_column, varint
from ...trace.arrays import BoolArray, IntArray, positions
from ...trace.report import ImportReport
from ...trace.strings import Coded, by_value


def packet_spans(data: bytes, report: ImportReport) -> tuple[IntArray, IntArray]:
    """Return where packets begin and end; each one's length is needed to find the next."""
    begins: list[int] = []
    ends: list[int] = []
    at, end = 0, len(data)
    try:
        while at < end:
            tag, size = data[at], data[at + 1] if at + 1 < end else 0x80
            if tag == 0x0A and size < 0x80:
                at += 2
            elif tag == 0x0A and at + 2 < end and (more := data[at + 2]) < 0x80:
                size, at = size & 0x7F | more << 7, at + 3
            else:
                tag, at = varint(data, at, end)
                if tag & 7 not in (0, 2):
                    raise WireError(f"no packet begins at byte {at}")
                size, at = varint(data, at, end)
                if tag & 7 == 0:
                    continue
            if at + size > end:
                raise WireError(f"the packet at byte {at} ends beyond the end of the file")
            if tag == 0x0A:
                begins.append(at)
                ends.append(at + size)
            at += size
    except WireError as error:
        report.truncated(str(error), "packets from there on are missing")
    return np.array(begins, np.int64), np.array(ends, np.int64)


TIMESTAMP, SEQUENCE, INTERNED, FLAGS, COMPRESSED, DROPPED = 8, 10, 12, 13, 50, 42
CLOCK_SNAPSHOT, CLEARED, CLOCK, DEFAULTS = 6, 41, 58, 59
TRACK_EVENT, TRACK_DESCRIPTOR, PROCESS_TREE = 11, 60, 2
GPU_COUNTER, GPU_STAGE, PERF_SAMPLE, STACK_SAMPLE, FTRACE = 52, 53, 66, 135, 1
CATEGORIES, NAMES, ANNOTATION_NAMES, FUNCTIONS, FRAMES, CALLSTACKS = 1, 2, 3, 5, 6, 7
PATHS, MAPPINGS, SPECIFICATIONS, ANNOTATION_STRINGS = 17, 19, 24, 29
_BOOT, _REAL = 6, 1
_OWN_CLOCKS: Final = (64, 128)
_STATE_CLEARED, _NEEDS_STATE = 1, 2
_IID_BITS: Final = 40
_LIMIT: Final = 8 << 30


class Packets:
    """All packets of a trace."""

    def __init__(self, raw: bytes, report: ImportReport) -> None:
        self.report = report
        data, begin, end = _scanned(raw, report)
        # one message per packet
        self.fields = Fields(data, begin, end)
        self.sequence = self.fields.ints(SEQUENCE, 0)
        flags = self.fields.ints(FLAGS, 0)
        cleared = ((flags & _STATE_CLEARED) > 0) | (self.fields.ints(CLEARED, 0) == 1)
        generation = pd.Series(cleared.astype(np.int64)).groupby(self.sequence).cumsum().to_numpy(np.int64)
        code = pd.factorize(self.sequence)[0].astype(np.int64)
        # number of the part of a sequence between two clearings of its state
        self.epoch: IntArray = code * (int(generation.max(initial=0)) + 1) + generation
        # whether the sequence had the state that the packet needs
        self.usable: BoolArray = ((flags & _NEEDS_STATE) == 0) | (generation > 0)
        interned = self.fields.occurrences(INTERNED)
        self._interned, self._interned_epoch = self.fields.inside(interned), self.epoch[interned.owner]
        self._defaults()
        # offset of Unix time from `ts`; 0 if unknown
        self.unix_offset = 0
        # of clock 6 (since boot) in ns; 0 if a packet has none
        self.ts = self._times(report)
        example = f"packet {int(np.flatnonzero(~self.usable)[0]):,}" if not self.usable.all() else ""
        effect = "left out, since the data they refer to was lost before the trace begins"
        advice = "record with a larger buffer"
        report.add("packets-without-state", "loss", int((~self.usable).sum()), example, effect, advice)
        report.add(
            "packets-dropped",
            "loss",
            int((self.fields.ints(DROPPED, 0) == 1).sum()),
            example="previous_packet_dropped",
            effect="the recorder lost data here: events are missing",
            advice="record with a larger buffer",
        )

    def messages(self, number: int) -> tuple[IntArray, Fields]:
        """Return the usable packets that have a payload, and the fields of these payloads."""
        payloads = self.fields.occurrences(number)
        if not (usable := self.usable[payloads.owner]).all():
            payloads = payloads.where(usable)
        return payloads.owner, self.fields.inside(payloads)

    def entries(self, kind: int) -> tuple[IntArray, Fields]:
        """Return the epochs of interned entries of a kind, and their fields."""
        entries = self._interned.occurrences(kind)
        return self._interned_epoch[entries.owner], self._interned.inside(entries)

    def interned(self, kind: int) -> Interned:
        """Return the texts that sequences have interned: their number is field 1, the text field 2."""
        epoch, entries = self.entries(kind)
        return Interned(interned_keys(epoch, entries.ints(1, 0)), text_column(entries, 2))

    def _defaults(self) -> None:
        """Find the defaults for the packets of each epoch: a clock and a track."""
        every = self.fields.occurrences(DEFAULTS)
        owner, defaults = every.owner, self.fields.inside(every)
        clock, track = defaults.ints(CLOCK, -1), np.full(len(owner), -1, np.int64)
        of_events = defaults.occurrences(TRACK_EVENT)
        track[of_events.owner] = defaults.inside(of_events).ints(11, -1)
        # of each packet, the latest before it in its epoch
        latest = pd.Series(np.arange(len(owner)), index=owner, dtype="float64")
        latest = latest.groupby(level=0).last().reindex(range(self.fields.count)).groupby(self.epoch).ffill()
        at = latest.fillna(-1).to_numpy(np.int64)
        self.default_clock: IntArray = np.append(clock, -1)[at]
        self.default_track: IntArray = np.append(track, -1)[at]

    def _snapshots(self) -> pd.DataFrame:
        """Return the clocks of snapshots: their time, and that of clock 6 (``boot``, -1 if it is missing)."""
        every = self.fields.occurrences(CLOCK_SNAPSHOT)
        snapshots = self.fields.inside(every)
        of_clock = snapshots.occurrences(1)
        clocks, order = snapshots.inside(of_clock), every.owner[of_clock.owner]
        number, multiplier = clocks.ints(1, 0), np.maximum(clocks.ints(4, 1), 1)
        value = clocks.ints(2, 0) * multiplier

        def beside(clock: int) -> IntArray:
            own = pd.Series(value[number == clock], order[number == clock])
            return np.asarray(own.groupby(level=0).last().reindex(order, fill_value=-1), np.int64)

        boot, real = beside(_BOOT), beside(_REAL)
        if len(both := np.flatnonzero((boot >= 0) & (real >= 0))):
            self.unix_offset = int(real[both[0]] - boot[both[0]])
        table = {"order": order, "clock": number, "value": value, "boot": boot, "multiplier": multiplier}
        table["scope"] = self._scope(number, order)
        return pd.DataFrame({**table, "incremental": clocks.ints(3, 0) != 0})

    def _scope(self, clock: IntArray, packet: IntArray) -> IntArray:
        """Return the sequence to which a packet's clock belongs; 0 for the machine's clocks."""
        own = (clock >= _OWN_CLOCKS[0]) & (clock < _OWN_CLOCKS[1])
        return np.where(own, self.sequence[packet], 0)

    def _times(self, report: ImportReport) -> IntArray:
        ts, has = self.fields.ints(TIMESTAMP, 0), self.fields.has(TIMESTAMP)
        clock = self.fields.ints(CLOCK, -1)
        clock = np.where(clock < 0, self.default_clock, clock)
        snapshots = self._snapshots()
        shown = dict(iter(snapshots[snapshots["boot"] >= 0].groupby(["scope", "clock"])))
        other = np.flatnonzero(has & (clock > 0) & (clock != _BOOT))
        scope = self._scope(clock[other], other)
        unknown = 0
        for key, rows in pd.Series(other).groupby([scope, clock[other]]):
            packets = rows.to_numpy(np.int64)
            if key in shown:
                ts[packets] = _in_boot_time(ts[packets], packets, shown[key])
            else:
                unknown += len(packets)
        example = "no clock_snapshot relates it to the others"
        effect = "these times are used unchanged: they may be shifted relative to others"
        advice = "record the whole trace, from its first packet on"
        report.add("unknown-clock", "loss", unknown, example, effect, advice)
        return ts


def _in_boot_time(ts: IntArray, packets: IntArray, shown: pd.DataFrame) -> IntArray:
    """Return times of one clock as those of clock 6, by the snapshot before each packet."""
    at = np.maximum(np.searchsorted(shown["order"], packets, side="right") - 1, 0)
    columns = ("value", "boot", "multiplier", "incremental")
    value, boot, multiplier, incremental = (shown[name].to_numpy()[at] for name in columns)
    scaled = ts * multiplier
    if incremental.any():
        # each is the time since the one before it, from the snapshot on
        sums = pd.Series(np.where(incremental, scaled, 0)).groupby(at).cumsum().to_numpy(np.int64)
        scaled = np.where(incremental, value + sums, scaled)
    return np.asarray(scaled - value + boot)


class Interned(NamedTuple):
    """Texts by number; each epoch has its own numbers."""

    keys: IntArray
    texts: Coded

    def names(self, epoch: IntArray, number: IntArray) -> Coded:
        """Return the texts with these numbers; of several, the last one."""
        at = positions(self.keys, interned_keys(epoch, number))
        return Coded(np.append(self.texts.codes, -1)[at], self.texts.values)


def interned_keys(epoch: IntArray, number: IntArray) -> IntArray:
    """Return one number for each number that is valid in an epoch."""
    return (epoch << _IID_BITS) | (number & ((1 << _IID_BITS) - 1))


def either(first: Coded, second: Coded) -> Coded:
    """Return the first text, or the second where that is missing."""
    shift = len(first.values)
    codes = np.where(first.codes >= 0, first.codes, np.where(second.codes >= 0, second.codes + shift, -1))
    return by_value(codes, [*first.values, *second.values])


def _scanned(raw: bytes, report: ImportReport) -> tuple[npt.NDArray[np.uint8], IntArray, IntArray]:
    """Return the trace with its packets decompressed, and where its packets begin and end."""
    begin, end = packet_spans(raw, report)
    content, begins, ends = [raw], [begin[:0]], [end[:0]]
    size, last = len(raw), 0
    for row, at, stop in _compressed(_padded(content), begin, end):
        undone = _inflated(raw[at:stop], report)
        inner = packet_spans(undone, report)
        begins += [begin[last:row], size + inner[0]]
        ends += [end[last:row], size + inner[1]]
        last = row + 1
        content.append(undone)
        size += len(undone)
    whole = np.concatenate([*begins, begin[last:]]), np.concatenate([*ends, end[last:]])
    return _padded(content), *whole


def _padded(parts: Sequence[bytes]) -> npt.NDArray[np.uint8]:
    return np.frombuffer(b"".join([*parts, bytes(PADDING)]), np.uint8)


def _compressed(data: npt.NDArray[np.uint8], begin: IntArray, end: IntArray) -> list[tuple[int, int, int]]:
    """Return the compressed packets: their number, and where their bytes begin and end."""
    # such a packet has no other field, so the first one decides
    tags = data.take(begin, mode="clip").astype(np.int64) | (
        data.take(begin + 1, mode="clip").astype(np.int64) << 8
    )
    rows = np.flatnonzero((tags == 0x0392) & (end > begin))
    fields = Fields(data, begin[rows], end[rows])
    own = fields.occurrences(COMPRESSED)
    places = zip(rows[own.owner].tolist(), own.begin.tolist(), own.end.tolist(), strict=True)
    return [span for span in places if span[1] >= 0]


def _inflated(packed: bytes, report: ImportReport) -> bytes:
    stream = zlib.decompressobj()
    try:
        return stream.decompress(packed, _LIMIT)
    except zlib.error as error:
        report.add("broken-message", "loss", example=f"compressed packets: {error}", effect="left out")
        return b""
