"""Tracks as Perfetto describes them, and protocol buffers: single messages, and columns of many at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...trace import Trace
from ...trace.arrays import BoolArray, IntArray
from ...trace.nesting import parents

VARINT, FIXED64, LENGTH = 0, 1, 2
_STARTS: Final = np.array([1 << 7 * k for k in range(1, 10)], np.uint64)


def varint(value: int) -> bytes:
    """Encode a number with seven bits per byte, and a negative one as its 64 bits."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number: int, kind: int) -> bytes:
    """Return the tag of a field."""
    return varint(number << 3 | kind)


def number_field(number: int, value: int) -> bytes:
    """Return a field with an integer."""
    return tag(number, VARINT) + varint(value)


def bytes_field(number: int, content: bytes | str) -> bytes:
    """Return a field with a text or a message; half a surrogate in a text becomes a question mark."""
    raw = content.encode(errors="replace") if isinstance(content, str) else content
    return tag(number, LENGTH) + varint(len(raw)) + raw


def sizes(values: IntArray) -> IntArray:
    """Return the encoded size of each number: 1 byte for 127, 2 for 128, 10 for -1."""
    words = values.view(np.uint64)
    most = words.max(initial=0)
    size = np.ones(len(values), np.int64)
    for start in _STARTS[: int(np.searchsorted(_STARTS, most, side="right"))]:
        size += words >= start
    return size


class MessageColumn:
    """Part of many messages: bytes that all share, and numbers that differ."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._bytes: list[npt.NDArray[np.uint8]] = []
        self._present: list[BoolArray] = []

    def constant(self, content: bytes, where: BoolArray | None = None) -> MessageColumn:
        """Add bytes, to all messages or to some."""
        shape = (self._count, len(content))
        present = np.ones(shape, bool) if where is None else np.broadcast_to(where[:, None], shape)
        return self._add(np.broadcast_to(np.frombuffer(content, np.uint8), shape), present)

    def varint(self, values: IntArray, where: BoolArray | None = None) -> MessageColumn:
        """Add a number of each message."""
        words = values.astype(np.int64, copy=False).view(np.uint64)
        size = sizes(words.view(np.int64)).astype(np.int8)
        width = int(size.max(initial=1))
        present = np.arange(width, dtype=np.int8) < size[:, None]
        content = np.empty((self._count, width), np.uint8)
        for byte in range(width):
            content[:, byte] = (words >> np.uint64(7 * byte)).astype(np.uint8)
        content[:, : width - 1] |= 0x80
        content[np.arange(self._count), size - 1] &= 0x7F
        return self._add(content, present if where is None else present & where[:, None])

    def fixed64(self, values: npt.NDArray[Any], where: BoolArray | None = None) -> MessageColumn:
        """Add 64 bits of each message."""
        content = np.ascontiguousarray(values).view(np.uint8).reshape(self._count, 8)
        present = np.ones((self._count, 8), bool)
        return self._add(content, present if where is None else present & where[:, None])

    def array(self) -> Any:
        """Return the pieces as a `pyarrow.LargeBinaryArray`."""
        present = np.concatenate(self._present, axis=1)
        content = np.concatenate(self._bytes, axis=1)[present]
        return binary_array(content, present.sum(axis=1))

    def _add(self, content: npt.NDArray[np.uint8], present: BoolArray) -> MessageColumn:
        self._bytes.append(content)
        self._present.append(present)
        return self


def binary_array(content: npt.NDArray[np.uint8], length: IntArray) -> Any:
    """Return concatenated bytes as a `pyarrow.LargeBinaryArray`, cut into these lengths."""
    import pyarrow as pa

    offsets = np.zeros(len(length) + 1, np.int64)
    np.cumsum(length, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(content))]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(length), buffers)


def chosen(texts: list[bytes], codes: IntArray) -> Any:
    """Return one of `texts` for each code; empty for -1."""
    import pyarrow as pa

    table = pa.array([*texts, b""], pa.large_binary())
    return table.take(pa.array(np.where(codes < 0, len(texts), codes)))


def concatenated(*columns: Any) -> Any:
    """Concatenate the pieces of each message."""
    import pyarrow as pa
    import pyarrow.compute as pc

    nothing = pa.scalar(b"", pa.large_binary())
    return columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, nothing)


def lengths(column: Any) -> IntArray:
    """Return the number of bytes of each message."""
    import pyarrow.compute as pc

    return np.asarray(pc.binary_length(column).to_numpy(zero_copy_only=False), np.int64)


def lanes(track: IntArray, ts: IntArray, dur: IntArray) -> IntArray:
    """Return the lane of each slice in its track, such that slices of a lane are disjoint or nested."""
    # Perfetto nests a track's slices. Slices are sorted by start, longest first. Where some of a track cross,
    # each takes the first lane in which it lies within the slices that are still open, or in which none is.
    lane = np.zeros(len(ts), np.int64)
    order = np.flatnonzero(dur > 0)
    order = order[np.argsort(track[order], kind="stable")]
    of, starts = track[order], ts[order]
    ends = starts + dur[order]
    above = parents(of, starts, ends)
    for number in np.unique(of[(above >= 0) & (ends > ends[above])]):
        rows = slice(*np.searchsorted(of, [number, number + 1]))
        opened: list[list[int]] = []  # ends of the open slices of each lane, outermost first
        taken = []
        for start, end in zip(starts[rows].tolist(), ends[rows].tolist(), strict=True):
            for at, inside in enumerate(opened):
                while inside and inside[-1] <= start:
                    inside.pop()
                if not inside or inside[-1] >= end:
                    inside.append(end)
                    taken.append(at)
                    break
            else:
                opened.append([end])
                taken.append(len(opened) - 1)
        lane[order[rows]] = taken
    return lane


UUID, NAME, PROCESS, THREAD, PARENT, COUNTER, ORDER, RANK = 1, 2, 3, 4, 5, 8, 11, 12
_EXPLICIT: Final = 3
_MOST_ID: Final = (1 << 31) - 1
_VALUES: Final = ("counter", "memory")
_UNITS: Final = {"ns": 1, "bytes": 3}


class Descriptions:
    """Numbers and descriptions of tracks; `messages` has parents before children."""

    def __init__(self, trace: Trace) -> None:
        rows = trace.tracks.astype(object).where(trace.tracks.notna(), None).to_dict("records")
        self._rows: dict[int, dict[str, Any]] = {int(row["track"]): row for row in rows}
        self._uuids: dict[Any, int] = {}
        self._threads: set[tuple[int, int]] = set()
        self.messages: list[bytes] = []
        for track, row in self._rows.items():
            self._described(track, -1 if row["kind"] in _VALUES else 0)

    def numbers(self, track: IntArray, lane: IntArray | int = 0) -> IntArray:
        """Return the number of the lane of each track, lane -1 for counters; 0 without a track."""
        width = int(np.max(lane, initial=0)) + 2
        keys, code = np.unique(track * width + lane + 1, return_inverse=True)
        places = [divmod(key, width) for key in keys.tolist()]
        uuids = [self._described(of, at - 1) if of >= 0 else 0 for of, at in places]
        return np.array(uuids, np.int64)[code]

    def beside(self, name: str) -> int:
        """Return the number of a further top-level track."""
        return self._put(name, [bytes_field(NAME, name)])

    def _described(self, track: int, lane: int) -> int:
        """Return the number of a lane; lane -1 is that of a counter."""
        if (track, lane) in self._uuids:
            return self._uuids[track, lane]
        row = self._rows[track]
        rank = number_field(RANK, min(track + 1, _MOST_ID))
        if lane < 0:
            unit = row["unit"] or ""
            counter = bytes_field(6, unit) if unit else b""
            counter = number_field(3, _UNITS[unit]) if unit in _UNITS else counter
            fields = [bytes_field(NAME, row["name"]), rank, bytes_field(COUNTER, counter)]
        elif lane > 0:
            parent = number_field(PARENT, self._described(track, 0))
            name = bytes_field(NAME, f"{row['name']} ({lane + 1})")
            return self._put((track, lane), [name, rank, parent])
        elif (thread := self._thread(row)) is not None:
            fields = [bytes_field(THREAD, thread), rank]
        else:
            fields = [bytes_field(NAME, row["name"]), rank]
        return self._put((track, lane), fields + self._parent(row))

    def _thread(self, row: dict[str, Any]) -> bytes | None:
        """Return the thread of a track; None if it is not one, has no number, or is already described."""
        pid, tid = row["pid"], row["tid"]
        if row["kind"] != "thread" or not _is_number(pid) or not _is_number(tid):
            return None
        if (pid, tid) in self._threads:
            return None
        self._threads.add((pid, tid))
        return number_field(1, pid) + number_field(2, tid) + bytes_field(5, row["name"])

    def _parent(self, row: dict[str, Any]) -> list[bytes]:
        if row["kind"] == "stream" and row["device"] is not None:
            rank = f"rank {row['rank']} " if row["rank"] is not None else ""
            name = f"{rank}GPU {row['device']}"
            order = number_field(ORDER, _EXPLICIT)
            return [number_field(PARENT, self._group(name, [bytes_field(NAME, name), order]))]
        if not _is_number(pid := row["pid"]):
            return []
        named = bytes_field(PROCESS, number_field(1, pid) + bytes_field(6, f"process {pid}"))
        return [number_field(PARENT, self._group(("process", pid), [named, number_field(ORDER, _EXPLICIT)]))]

    def _group(self, key: Any, fields: list[bytes]) -> int:
        return self._uuids[key] if key in self._uuids else self._put(key, fields)

    def _put(self, key: Any, fields: Iterable[bytes]) -> int:
        uuid = self._uuids[key] = len(self._uuids) + 1
        self.messages.append(number_field(UUID, uuid) + b"".join(fields))
        return uuid


def _is_number(value: int | None) -> bool:
    """Return whether this number of a process or thread fits Perfetto's field."""
    return value is not None and 0 < value <= _MOST_ID
