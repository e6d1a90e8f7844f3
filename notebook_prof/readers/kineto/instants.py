"""Memory taken and given back, in bulk."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from .columns import MAX_DEVICE, Ints, MemoryColumns
from .digits import microseconds_before
from .forms import LEFT, Forms
from .heads import Heads
from .rows import Instant
from .stretches import Bytes, windows
from .sundries import MEMORY

_WIDTH: Final = LEFT + 240
_NUMBERS: Final = {
    "device": "Device Id",
    "address": "Addr",
    "size": "Bytes",
    "allocated": "Total Allocated",
    "reserved": "Total Reserved",
}
_NOTHING: Final = {"device": -1, "address": 0, "size": 0, "allocated": -1, "reserved": -1}


class MemoryEvents:
    """Turns ``[memory]`` instants into columns, all or none of a part."""

    def __init__(self) -> None:
        self._heads, self._forms = Heads(Instant), Forms(_WIDTH, _NUMBERS)

    def columns(
        self, text: bytes, codes: Bytes, begin: Ints, until: Ints, args: Ints
    ) -> MemoryColumns | None:
        """Columns of instants; None if there are none, or some are another way.

        Parameters
        ----------
        text : bytes
        codes : ndarray of uint8
            The same.
        begin, until, args : ndarray of int64
            Brackets of the instants; see `brackets.Brackets`.
        """
        if not len(begin) or (args == begin).any():
            return None
        base = args + 1 - LEFT
        texts = windows(codes, base, _WIDTH)
        form = self._forms.of(texts)
        times, ts, ts_end, end = (self._forms.places[name][form] for name in ("times", "ts", "ts_end", "end"))
        if (times < 0).any() or (base + end != until).any() or not self._forms.no_zeros(texts, form).all():
            return None
        head = self._heads.of(text, begin, base + times)
        if not all(
            row is not None and row.name == MEMORY
            for row in map(self._heads.rows.__getitem__, set(head.tolist()))
        ):
            return None
        rows = np.arange(len(base))
        ns, good = microseconds_before(texts, rows * _WIDTH + ts_end, ts_end - ts)
        if not good.all():
            return None
        told = {
            name: self._forms.numbers(name, texts, form, rows, nothing) for name, nothing in _NOTHING.items()
        }
        return MemoryColumns(
            ts=ns,
            addr=told["address"].view(np.uint64),
            size=told["size"],
            allocated=told["allocated"],
            reserved=told["reserved"],
            device=np.minimum(told["device"], MAX_DEVICE),
            tid=self._heads.tid[head],
        )


def are_memory(rows: list[Any]) -> bool:
    """Whether some of the events are memory."""
    return any(row.__class__ is Instant and row.name == MEMORY for row in rows)
