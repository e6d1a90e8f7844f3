"""Records when Python's garbage collector ran, and in which thread."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from ...trace.report import ImportReport

GARBAGE: Final = "garbage collection"
"""Name of the slices of collections."""
LEAST_NS: Final = 500_000
"""Shortest collection that becomes a slice. The samples of Python code around it are a millisecond apart."""
_READINGS: Final = 4
"""Number of clock readings per collection: two at its begin, two at its end."""


class GarbageCollections:
    """Records the begins and ends of collections, through ``gc.callbacks``."""

    # No Python code runs in the callback. An interrupt during a collection is raised at the first instruction
    # after it, but inside a Python function called by ``gc`` it would be printed and lost. So the callback is
    # `max`, which computes a key for each of its two arguments. Each key is the next item of a `map` that
    # puts time and thread into a dict. All of this is C code.
    def __init__(self, report: ImportReport) -> None:
        self._report = report
        self._callback: Any = None
        self._thread_of: dict[int, int] = {}
        self.begin_ns = self.end_ns = self.tid = np.empty(0, np.int64)

    def start(self, now_ns: Callable[[], int]) -> None:
        """Start recording. `now_ns` reads the recording's clock."""
        self._thread_of = {}
        readings = map(self._thread_of.setdefault, iter(now_ns, None), iter(threading.get_ident, None))
        self._callback = partial(max, key=partial(next, readings))
        gc.callbacks.append(self._callback)

    def stop(self) -> None:
        """Stop recording. Safe to repeat."""
        callback, self._callback = self._callback, None
        if callback is None:
            return
        whole = any(one is callback for one in gc.callbacks)
        gc.callbacks[:] = [one for one in gc.callbacks if one is not callback]
        natives = {one.ident: one.native_id or 0 for one in threading.enumerate()}
        times = np.fromiter(self._thread_of, np.int64, len(self._thread_of))
        threads = [natives.get(ident, 0) for ident in self._thread_of.values()]
        self._thread_of = {}
        # another thread was collecting at the same time, or the callback was removed
        if len(times) % _READINGS or not whole:
            self._report.add(
                "garbage-collections-unclear",
                "info",
                example=f"{len(times):,} readings of the clock, four in each collection"
                if whole
                else "the callback was taken out of gc.callbacks",
                effect="garbage collections are counted in the functions that they interrupted",
            )
            return
        self.begin_ns, self.end_ns = times[1::_READINGS], times[2::_READINGS]
        self.tid = np.array(threads[1::_READINGS], dtype=np.int64)

    def put(self, builder: TraceBuilder, track: int, tid: int, within: tuple[int, int] | None = None) -> None:
        """Add a thread's longer collections to its track, if they begin within the window."""
        rows = (self.tid == tid) & (self.end_ns - self.begin_ns >= LEAST_NS)
        if within is not None:
            rows &= (self.begin_ns >= within[0]) & (self.begin_ns < within[1])
        if rows.any():
            dur: IntArray = (self.end_ns - self.begin_ns)[rows]
            builder.slices(ts=self.begin_ns[rows], dur=dur, track=track, name=GARBAGE, category="python")
