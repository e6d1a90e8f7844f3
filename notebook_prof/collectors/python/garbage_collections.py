"""When Python's garbage collector ran, and in which thread."""

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
"""Name of the slices."""
LEAST_NS: Final = 500_000
"""Shorter ones are no slices: samples of the Python code around them are a millisecond apart."""
_READINGS: Final = 4
"""Of the clock in a collection: two at its begin, two at its end."""


class GarbageCollections:
    """Notes when the collector begins and ends, by ``gc.callbacks``.

    No code in Python runs while it notes. An interrupt that comes during a collection is raised by the first
    instruction after it; in a function that ``gc`` calls it would be printed and lost. So `max` asks for a
    key of both arguments that a callback gets, and each key is the next of a `map` that puts time and thread
    into a dict: all of that is C.

    Parameters
    ----------
    report : ImportReport

    Examples
    --------
    >>> import gc, time
    >>> noted = GarbageCollections(ImportReport())
    >>> noted.start(time.time_ns)
    >>> collected = gc.collect()
    >>> noted.stop()
    >>> len(noted.begin_ns), bool(noted.end_ns[0] > noted.begin_ns[0])
    (1, True)
    """

    def __init__(self, report: ImportReport) -> None:
        self._report = report
        self._callback: Any = None
        self._thread_of: dict[int, int] = {}
        self.begin_ns = self.end_ns = self.tid = np.empty(0, np.int64)

    def start(self, now_ns: Callable[[], int]) -> None:
        """Begin to note; `now_ns` reads the recording's clock."""
        self._thread_of = {}
        readings = map(self._thread_of.setdefault, iter(now_ns, None), iter(threading.get_ident, None))
        self._callback = partial(max, key=partial(next, readings))
        gc.callbacks.append(self._callback)

    def stop(self) -> None:
        """End it. Safe to repeat."""
        callback, self._callback = self._callback, None
        if callback is None:
            return
        whole = any(one is callback for one in gc.callbacks)
        gc.callbacks[:] = [one for one in gc.callbacks if one is not callback]
        natives = {one.ident: one.native_id or 0 for one in threading.enumerate()}
        times = np.fromiter(self._thread_of, np.int64, len(self._thread_of))
        threads = [natives.get(ident, 0) for ident in self._thread_of.values()]
        self._thread_of = {}
        if len(times) % _READINGS or not whole:  # another thread collected just then, or it was removed
            self._report.add(
                "garbage-collections-unclear",
                "info",
                example=f"{len(times):,} readings of the clock, four in each collection"
                if whole
                else "the callback was taken out of gc.callbacks",
                effect="garbage collections are part of the functions in which they came",
            )
            return
        self.begin_ns, self.end_ns = times[1::_READINGS], times[2::_READINGS]
        self.tid = np.array(threads[1::_READINGS], dtype=np.int64)

    def put(self, builder: TraceBuilder, track: int, tid: int, within: tuple[int, int] | None = None) -> None:
        """Add the longer ones of a thread to its track; only those that begin within a window."""
        rows = (self.tid == tid) & (self.end_ns - self.begin_ns >= LEAST_NS)
        if within is not None:
            rows &= (self.begin_ns >= within[0]) & (self.begin_ns < within[1])
        if rows.any():
            dur: IntArray = (self.end_ns - self.begin_ns)[rows]
            builder.slices(ts=self.begin_ns[rows], dur=dur, track=track, name=GARBAGE, category="python")
