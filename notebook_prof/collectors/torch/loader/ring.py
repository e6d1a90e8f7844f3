"""A mapped file in which a DataLoader worker records its work. It survives if the worker is killed.

Imports only the standard library, since spawned workers import this module.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
import time
from contextlib import suppress
from typing import Final

clock: Final = time.perf_counter_ns
"""CLOCK_MONOTONIC on Linux, the same in all processes. `trace.clocks.Clock` converts its readings."""

MAGIC: Final = 0x6E62704C
HEADER: Final = struct.Struct("<17q")
(
    _MAGIC,
    ARMED,
    PID,
    WORKER,
    OPENED,
    INIT_END,
    STRIDE,
    FETCH_BEGIN,
    ITEM_INDEX,
    ITEM_BEGIN,
    BATCH_COUNT,
    ITEM_COUNT,
    SEND_COUNT,
    NAMES_SIZE,
    ITEMS_MADE,
    ITEMS_TIMED,
    SENDER,
) = range(17)
"""Positions of the int64 fields in the header."""

OVER, RECORDING = 0, 1
"""Values of ``ARMED``."""

TOTAL: Final = struct.Struct("<2q")
KINDS: Final = 64
ITEM, FIRST_TRANSFORM = 0, 1
"""Kinds of records in the ring of items. Transforms are numbered from `FIRST_TRANSFORM` on."""

NAMES_BYTES: Final = 8192
BATCH: Final = struct.Struct("<9q")
"""Record of a batch: status, epoch, number in the epoch, begin, begin of collate, end, CPU ns, CPU ns of
collate, delay ns."""
ITEM_RECORD: Final = struct.Struct("<4q")
"""Record of an item or transform: kind, index, begin, end."""
SEND: Final = struct.Struct("<6q")
"""Record of a sent batch: epoch, number of the task, begin, end, CPU ns, bytes."""
DONE, FAILED, ENDED = 0, 1, 2
"""Status of a batch. ENDED: an IterableDataset had no more items."""

BATCHES: Final = 1 << 13
ITEMS: Final = 1 << 14
SENDS: Final = 1 << 13
TOTALS_AT: Final = HEADER.size
NAMES_AT: Final = TOTALS_AT + KINDS * TOTAL.size
BATCHES_AT: Final = NAMES_AT + NAMES_BYTES
ITEMS_AT: Final = BATCHES_AT + BATCHES * BATCH.size
SENDS_AT: Final = ITEMS_AT + ITEMS * ITEM_RECORD.size
SIZE: Final = SENDS_AT + SENDS * SEND.size

_SHARED_MEMORY: Final = "/dev/shm"
_ROOM: Final = 8
"""Rings go to shared memory only if this many times their size is free there, since it also holds the user's
batches."""

_FIELD: Final = struct.Struct("<q")
_ITEM_STATE: Final = struct.Struct("<2q")
_BETWEEN: Final = struct.Struct("<4q")
_put_field, _put_state, _put_item = _FIELD.pack_into, _ITEM_STATE.pack_into, ITEM_RECORD.pack_into
_ITEM_INDEX_AT, _ITEM_COUNT_AT = 8 * ITEM_INDEX, 8 * ITEM_COUNT


class Ring:
    """The records of one worker, in a file made by `create` or, without a path, in memory of this process."""

    # A record is written first and counted afterwards, so a killed worker loses only its last record. A full
    # ring overwrites its oldest records but keeps the totals. Once the recording is over, the file is gone,
    # and opening it raises FileNotFoundError.
    def __init__(self, path: str = "") -> None:
        if path:
            descriptor = os.open(path, os.O_RDWR)
            try:
                self.map: mmap.mmap | None = mmap.mmap(descriptor, SIZE)
            finally:
                os.close(descriptor)
        else:
            self.map = mmap.mmap(-1, SIZE)
            HEADER.pack_into(self.map, 0, MAGIC, RECORDING, *[0] * 15)
        self.pid = os.getpid()
        self._batch_count = self._item_count = self._send_count = 0
        self._totals = [[0, 0]]
        self._names: list[str] = []
        self._first_kinds: dict[object, int] = {}

    @staticmethod
    def create(path: str) -> None:
        """Make an empty file with all of its space allocated."""
        # a page that cannot be allocated later would kill the worker
        with open(path, "xb") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, SIZE)
            else:
                file.write(bytes(SIZE))
                file.seek(0)
            file.write(HEADER.pack(MAGIC, RECORDING, *[0] * 15))

    @property
    def recording(self) -> bool:
        """Whether the recording is still running, and this process is the one that writes."""
        mapped = self.map
        return (
            mapped is not None
            and _FIELD.unpack_from(mapped, 8 * ARMED)[0] == RECORDING
            and self.pid == os.getpid()
        )

    def close(self) -> None:
        """Release the memory. Later records are dropped."""
        self.map = None  # its last reference unmaps it

    def put(self, field: int, value: int) -> None:
        """Write a field of the header."""
        if self.map is not None:
            _FIELD.pack_into(self.map, 8 * field, value)

    def end_batch(self, stride: int, items: int, timed: int) -> None:
        """Note that no batch is being made, and how many items were made and timed."""
        if self.map is not None:
            _BETWEEN.pack_into(self.map, 8 * STRIDE, stride, 0, -1, 0)
            _ITEM_STATE.pack_into(self.map, 8 * ITEMS_MADE, items, timed)

    def made(self) -> tuple[int, int]:
        """Return how many items were made and timed, up to the last batch."""
        if self.map is None:
            return 0, 0
        items, timed = _ITEM_STATE.unpack_from(self.map, 8 * ITEMS_MADE)
        return items, timed

    def begin_item(self, index: int, begin_ns: int) -> None:
        """Note the item being made. This remains readable if the worker hangs or is killed."""
        if self.map is not None:
            _put_state(self.map, _ITEM_INDEX_AT, index, begin_ns)

    def item(self, kind: int, index: int, begin_ns: int, end_ns: int) -> None:
        """Add a record of an item, or of one of its transforms."""
        mapped, count = self.map, self._item_count
        if mapped is None:
            return
        _put_item(mapped, ITEMS_AT + (count & (ITEMS - 1)) * 32, kind, index, begin_ns, end_ns)
        total = self._totals[kind]
        total[0] += 1
        total[1] += end_ns - begin_ns
        self._item_count = count = count + 1
        _put_field(mapped, _ITEM_COUNT_AT, count)

    def total(self, kind: int) -> tuple[int, int]:
        """Return the number of timed records of a kind, and their total in ns."""
        count, spent = self._totals[kind]
        return count, spent

    @property
    def recorded(self) -> int:
        """Number of records of items and transforms."""
        return self._item_count

    def batch(self, *record: int) -> None:
        """Add a batch, with the fields of `BATCH`, and write the totals."""
        mapped, count = self.map, self._batch_count
        if mapped is None:
            return
        BATCH.pack_into(mapped, BATCHES_AT + (count & (BATCHES - 1)) * BATCH.size, *record)
        self._batch_count = count + 1
        _FIELD.pack_into(mapped, 8 * BATCH_COUNT, count + 1)
        for kind, total in enumerate(self._totals):
            if total[0]:
                TOTAL.pack_into(mapped, TOTALS_AT + kind * TOTAL.size, *total)

    def send(self, *record: int) -> None:
        """Add a pickled batch, with the fields of `SEND`. Called only by the sending thread."""
        mapped, count = self.map, self._send_count
        if mapped is None:
            return
        SEND.pack_into(mapped, SENDS_AT + (count & (SENDS - 1)) * SEND.size, *record)
        self._send_count = count + 1
        _FIELD.pack_into(mapped, 8 * SEND_COUNT, count + 1)

    def first_kind(self, key: object, names: list[str]) -> int:
        """Return the kind of a list's first transform; -1 without room. The first call writes the names."""
        kind = self._first_kinds.get(key)
        if kind is not None:
            return kind
        data = "\0".join([*self._names, *names]).encode("utf-8", "replace")
        kind = FIRST_TRANSFORM + len(self._names)
        if self.map is None or len(data) > NAMES_BYTES or kind + len(names) > KINDS:
            kind = -1
        else:
            self._names += names
            self._totals += [[0, 0] for _ in names]
            self.map[NAMES_AT : NAMES_AT + len(data)] = data
            self.put(NAMES_SIZE, len(data))
        self._first_kinds[key] = kind
        return kind

    def read(self) -> bytes:
        """Return the entire content."""
        return bytes(self.map) if self.map is not None else b""

    def read_totals(self) -> bytes:
        """Return the header and the totals."""
        return self.map[:NAMES_AT] if self.map is not None else b""


def private_folder(needed: int) -> str:
    """Make a folder in shared memory if enough is free there, otherwise among temporary files."""
    parent = None
    with suppress(OSError, AttributeError):
        room = os.statvfs(_SHARED_MEMORY)
        if os.access(_SHARED_MEMORY, os.W_OK) and room.f_bavail * room.f_frsize > _ROOM * needed:
            parent = _SHARED_MEMORY
    return tempfile.mkdtemp(prefix="notebook-prof-loader-", dir=parent)
