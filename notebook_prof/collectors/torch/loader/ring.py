"""A mapped file in which a DataLoader worker records its work. It survives if the worker is killed."""

from __future__ import annotations

import json
import os
import tempfile
import time
from contextlib import suppress
from typing import Any, Final

import numpy as np

clock: Final = time.perf_counter_ns
"""CLOCK_MONOTONIC on Linux, the same in all processes. `trace.clocks.Clock` converts its readings."""

(
    ARMED, PID, WORKER, OPENED, INIT_END, ITEM_INDEX,
    BATCH_COUNT, ITEM_COUNT, SEND_COUNT, ITEMS_MADE, ITEMS_TIMED, SENDER,
) = range(12)  # fmt: skip
"""Positions of the numbers in the header."""

OVER, RECORDING = 0, 1
"""Values of ``ARMED``."""

KINDS: Final = 64
ITEM, FIRST_TRANSFORM = 0, 1
"""Kinds of records in the ring of items. Transforms are numbered from `FIRST_TRANSFORM` on."""
DONE, FAILED, ENDED = 0, 1, 2
"""Status of a batch. ENDED: an IterableDataset had no more items."""
BATCHES, ITEMS, SENDS = 1 << 13, 1 << 14, 1 << 13
NAMES_BYTES: Final = 8192


def _row(names: str) -> np.dtype[Any]:
    return np.dtype([(name, np.int64) for name in names.split()])


LAYOUT: Final = np.dtype([
    ("header", np.int64, (SENDER + 1,)),
    ("totals", np.int64, (KINDS, 2)),  # number of timed records of each kind, and their ns
    ("names", f"S{NAMES_BYTES}"),  # of the transforms, in JSON
    ("batches", _row("status epoch seq begin collate end cpu_ns delay_ns"), BATCHES),
    ("items", _row("kind index begin end"), ITEMS),
    ("sends", _row("epoch batch begin end send_bytes"), SENDS),
])  # fmt: skip
"""``seq`` is the number of a batch in its epoch, ``batch`` the number of a task."""

_SHARED_MEMORY: Final = "/dev/shm"
_ROOM: Final = 8
"""Rings go to shared memory only if this many times their size is free there, since it also holds the user's
batches."""


class Ring:
    """The records of one worker, in a file made by `create` or, without a path, in memory of this process."""

    # A record is written first and counted afterwards, so a killed worker loses only its last record. A full
    # ring overwrites its oldest records but keeps the totals. Once the recording is over, the file is gone,
    # and opening it raises FileNotFoundError. Another thread may call `close` at any time, so each method
    # reads the attributes that it needs once.
    def __init__(self, path: str = "") -> None:
        data: Any = np.memmap(path, LAYOUT, "r+", shape=(1,)) if path else _empty()
        # writing into these views takes a third of the time of writing into the record's fields
        self._data: Any = data[0]
        self._header, self._items = data["header"][0], data["items"][0]
        self.pid = os.getpid()
        self._batch_count = self._send_count = 0
        self.item_count = 0  # records of items and transforms
        self.totals = [[0, 0]]  # number of timed records by kind, and their ns
        self._names: list[str] = []
        self._first_kinds: dict[object, int] = {}

    @staticmethod
    def create(path: str) -> None:
        """Make an empty file."""
        # all of it is written, since a page that cannot be allocated later would kill the worker
        with open(path, "xb") as file:
            file.write(_empty())

    @property
    def recording(self) -> bool:
        """Whether the recording is still running, and this process is the one that writes."""
        header = self._header
        return header is not None and header[ARMED] == RECORDING and self.pid == os.getpid()

    def close(self) -> None:
        """Release the memory. Later records are dropped."""
        self._data = self._header = self._items = None  # the last reference unmaps it

    def put(self, field: int, value: int) -> None:
        """Write a number of the header."""
        if (header := self._header) is not None:
            header[field] = value

    def made(self) -> tuple[int, int]:
        """Return how many items were made and timed, up to the last batch."""
        header = self._header
        return (0, 0) if header is None else (int(header[ITEMS_MADE]), int(header[ITEMS_TIMED]))

    def item(self, kind: int, index: int, begin_ns: int, end_ns: int) -> None:
        """Add a record of an item, or of one of its transforms."""
        items, header, count = self._items, self._header, self.item_count
        if items is None or header is None:
            return
        items[count & (ITEMS - 1)] = kind, index, begin_ns, end_ns
        total = self.totals[kind]
        total[0] += 1
        total[1] += end_ns - begin_ns
        self.item_count = count = count + 1
        header[ITEM_COUNT] = count

    def batch(self, *record: int) -> None:
        """Add a batch, and write the totals."""
        if (data := self._data) is not None:
            data["batches"][self._batch_count & (BATCHES - 1)] = record
            self._batch_count += 1
            self.put(BATCH_COUNT, self._batch_count)
            data["totals"][: len(self.totals)] = self.totals

    def send(self, *record: int) -> None:
        """Add a pickled batch. Called only by the sending thread."""
        if (data := self._data) is not None:
            data["sends"][self._send_count & (SENDS - 1)] = record
            self._send_count += 1
            self.put(SEND_COUNT, self._send_count)

    def first_kind(self, key: object, names: list[str]) -> int:
        """Return the kind of a list's first transform; -1 without room. The first call writes the names."""
        if (kind := self._first_kinds.get(key)) is None:
            text, data = json.dumps([*self._names, *names]), self._data
            kind = FIRST_TRANSFORM + len(self._names)
            if data is None or len(text) > NAMES_BYTES or kind + len(names) > KINDS:
                kind = -1
            else:
                self._names += names
                self.totals += [[0, 0] for _ in names]
                data["names"] = text
            self._first_kinds[key] = kind
        return kind

    def read(self) -> Any:
        """Return a copy of the content, a record of `LAYOUT`."""
        data = self._data
        return _empty()[0] if data is None else data.copy()


def _empty() -> Any:
    data = np.zeros(1, LAYOUT)
    data["header"][0, [ARMED, ITEM_INDEX]] = RECORDING, -1
    return data


def private_folder(needed: int) -> str:
    """Make a folder in shared memory if enough is free there, otherwise among temporary files."""
    parent = None
    with suppress(OSError, AttributeError):
        room = os.statvfs(_SHARED_MEMORY)
        if os.access(_SHARED_MEMORY, os.W_OK) and room.f_bavail * room.f_frsize > _ROOM * needed:
            parent = _SHARED_MEMORY
    return tempfile.mkdtemp(prefix="notebook-prof-loader-", dir=parent)
