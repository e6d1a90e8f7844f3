"""tracemalloc as the heap tracer if there is no memray: it takes snapshots while the heap grows."""

from __future__ import annotations

import _tracemalloc
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any, Final

from .blocks import Blocks, HeapBlocks, StackLine

_is_tracing, _traced_memory = tracemalloc.is_tracing, tracemalloc.get_traced_memory

_INTERVAL_S: Final = 0.005
_GROWS: Final = 1.1
"""A snapshot is taken when allocated memory has grown by this factor since the last one."""
_LEAST_BYTES: Final = 1 << 20


class TracemallocTracer:
    """Traces memory from Python's allocators by the innermost line, with snapshots while it grows."""

    def __init__(self) -> None:
        self._ours = False
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        self._highest: tracemalloc.Snapshot | None = None
        self._highest_bytes = 0
        self._peak_bytes = 0
        self._last: tracemalloc.Snapshot | None = None
        self._before: tracemalloc.Snapshot | None = None
        self._base_bytes = 0
        self._gave_way = ""
        # tracemalloc reports the size of the peak, but lines only for current blocks. So a thread checks
        # every 5 ms, and takes a snapshot whenever the allocated memory has grown by a tenth since the last
        # one. Memory that is allocated after the highest snapshot and freed before the next check has no
        # line. It sees NumPy arrays and Python objects, but not allocations by other C code.
        self._hidden: dict[str, Any] = {}  # functions of tracemalloc

    @property
    def gave_way_to(self) -> str:
        """The tool of the user's code for which tracing ended early; empty if there was none."""
        return self._gave_way

    def start(self) -> None:
        """Start tracing. If the user's code is already tracing, its earlier blocks are left out."""
        self._ours = not tracemalloc.is_tracing()
        if self._ours:
            tracemalloc.start(1)
        else:
            self._before = tracemalloc.take_snapshot()
        self._base_bytes = tracemalloc.get_traced_memory()[0] if self._before is not None else 0
        if self._ours:
            tracemalloc.reset_peak()
            self._hide()
        self._thread = threading.Thread(target=self._look, name="notebook_prof heap", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take the last snapshot, and stop tracing if it was started here."""
        if self._thread is None:
            return
        vars(tracemalloc).update(self._hidden)
        self._hidden.clear()
        self._done.set()
        self._thread.join()
        self._thread = None
        if tracemalloc.is_tracing():
            now, peak = (value - self._base_bytes for value in tracemalloc.get_traced_memory())
            self._last = tracemalloc.take_snapshot()
            if now >= self._highest_bytes:
                self._highest, self._highest_bytes = self._last, now
            self._peak_bytes = max(peak if self._ours else 0, self._highest_bytes)
            if self._ours:
                tracemalloc.stop()
        else:
            self._gave_way = self._gave_way or "tracemalloc.stop"

    def blocks(self) -> HeapBlocks:
        """Return the blocks of the highest snapshot and of the last one."""
        at_peak, kept = self._new(self._highest), self._new(self._last)
        peak_bytes = max(self._peak_bytes, sum(one.bytes for one in at_peak))
        return HeapBlocks("tracemalloc", peak_bytes, at_peak, kept)

    def close(self) -> None:
        """End tracing."""
        self.stop()
        self._highest = self._last = self._before = None

    def _hide(self) -> None:
        """Hide the tracing from the user's code until that starts tracemalloc itself."""

        def start(*arguments: int) -> None:
            self._gave_way = "tracemalloc.start"
            self.stop()
            tracemalloc.start(*arguments)

        def take_snapshot() -> None:
            raise RuntimeError("the tracemalloc module must be tracing memory allocations to take a snapshot")

        nothing: dict[str, Callable[..., object]] = {
            "start": start,
            "stop": lambda: None,
            "is_tracing": lambda: False,
            "take_snapshot": take_snapshot,
            "get_traced_memory": lambda: (0, 0),
            "get_object_traceback": lambda obj: None,
            "clear_traces": lambda: None,
            "reset_peak": lambda: None,
        }
        self._hidden = {name: getattr(tracemalloc, name) for name in nothing}
        vars(tracemalloc).update(nothing)

    def _look(self) -> None:
        while not self._done.wait(_INTERVAL_S) and _is_tracing():
            now = _traced_memory()[0] - self._base_bytes
            if now > max(self._highest_bytes * _GROWS, _LEAST_BYTES):
                self._highest, self._highest_bytes = self._snapshot(), now

    def _snapshot(self) -> tracemalloc.Snapshot:
        # like tracemalloc.take_snapshot, which would first call the hidden is_tracing
        return tracemalloc.Snapshot(_tracemalloc._get_traces(), tracemalloc.get_traceback_limit())

    def _new(self, snapshot: tracemalloc.Snapshot | None) -> list[Blocks]:
        """Return the blocks in a snapshot by line, without earlier ones and our own."""
        if snapshot is None:
            return []
        own = tracemalloc.Filter(False, tracemalloc.__file__), tracemalloc.Filter(False, __file__)
        statistics = {
            (one.traceback[0].filename, one.traceback[0].lineno): (one.size, one.count)
            for one in snapshot.filter_traces(own).statistics("lineno")
        }
        for one in () if self._before is None else self._before.statistics("lineno"):
            at = one.traceback[0].filename, one.traceback[0].lineno
            size, count = statistics.get(at, (0, 0))
            statistics[at] = max(size - one.size, 0), max(count - one.count, 0)
        return [
            Blocks([StackLine(f"line {line}", file, line)], size, count)
            for (file, line), (size, count) in statistics.items()
            if size
        ]
