"""Parses the content of a ring into tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from . import ring as rings
from .ring import HEADER


def _row(names: str) -> np.dtype[np.void]:
    return np.dtype([(name, "<i8") for name in names.split()])


_BATCH: Final = _row("status epoch seq begin collate end cpu_ns collate_cpu_ns delay_ns")
_ITEM: Final = _row("kind index begin end")
_SEND: Final = _row("epoch batch begin end send_cpu_ns send_bytes")
_COUNTS: Final = (rings.BATCH_COUNT, rings.ITEMS_MADE, rings.ITEMS_TIMED)


@dataclass(frozen=True, slots=True)
class RingRecords:
    """The content of one ring. Tables are sorted by time, with as many rows as fitted into the ring."""

    header: tuple[int, ...]
    totals: list[tuple[int, int]]  # count and ns by kind
    names: list[str]  # name of each kind; ``""`` for items
    batches: pd.DataFrame
    items: pd.DataFrame
    sends: pd.DataFrame

    def since(self, instant: int) -> RingRecords:
        """Return the records that end at `instant` or later, with the same header and totals."""
        batches, items, sends = (
            rows[rows["end"] >= instant].reset_index(drop=True)
            for rows in (self.batches, self.items, self.sends)
        )
        return replace(self, batches=batches, items=items, sends=sends)

    @property
    def overwritten(self) -> int:
        """Number of batches that were overwritten."""
        return max(self.header[rings.BATCH_COUNT] - rings.BATCHES, 0)


def parse(data: bytes, before: bytes = b"") -> RingRecords:
    """Parse the bytes of `Ring.read`, less the counts of `before`, the bytes of `Ring.read_totals`."""
    header = HEADER.unpack_from(data)
    text = data[rings.NAMES_AT : rings.NAMES_AT + header[rings.NAMES_SIZE]].decode("utf-8", "replace")
    names = ["", *text.split("\0")] if text else [""]
    totals: list[tuple[int, int]] = [
        rings.TOTAL.unpack_from(data, rings.TOTALS_AT + kind * rings.TOTAL.size) for kind in range(len(names))
    ]
    if before:
        earlier = HEADER.unpack_from(before)
        counted = [value - earlier[i] if i in _COUNTS else value for i, value in enumerate(header)]
        for kind, (count, spent) in enumerate(totals):
            skipped, skipped_ns = rings.TOTAL.unpack_from(before, rings.TOTALS_AT + kind * rings.TOTAL.size)
            totals[kind] = count - skipped, spent - skipped_ns
    else:
        counted = list(header)
    return RingRecords(
        tuple(counted),
        totals,
        names,
        _records(data, _BATCH, rings.BATCHES_AT, rings.BATCHES, header[rings.BATCH_COUNT]),
        _records(data, _ITEM, rings.ITEMS_AT, rings.ITEMS, header[rings.ITEM_COUNT]),
        _records(data, _SEND, rings.SENDS_AT, rings.SENDS, header[rings.SEND_COUNT]),
    )


def _records(data: bytes, dtype: np.dtype[Any], at: int, capacity: int, count: int) -> pd.DataFrame:
    rows = np.frombuffer(data, dtype, capacity, at)
    rows = rows[:count] if count <= capacity else np.roll(rows, -(count % capacity))
    return pd.DataFrame({name: rows[name].astype(np.int64) for name in dtype.names or ()})
