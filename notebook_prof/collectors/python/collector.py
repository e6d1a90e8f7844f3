"""The python collector."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import ClassVar

from ...trace.builder import TraceBuilder
from ...trace.clocks import Clock
from ..base import Availability, Collector
from ..journal import Edges
from ..options import CollectorOptions
from .sampler import Sampler
from .tracer import CallTracer


class PythonCollector(Collector):
    """Records the Python code of the thread that starts it.

    By default it samples lines (×1.01–1.05 of the run time); with ``python="calls"`` it traces every
    call (×1–1.3 for NumPy and pandas, ×2–7 for code that makes many small calls).

    Parameters
    ----------
    options : CollectorOptions, optional
    own_track : bool
        Put samples beside the thread's track instead of on it; for recordings in which another
        collector puts exact times there.
    edges : callable, optional
        Gives begins and ends of annotations of a thread, by native id; samples are cut there.
    """

    name: ClassVar[str] = "python"
    holds: ClassVar[frozenset[str]] = frozenset({"Python sampler"})

    def __init__(
        self,
        options: CollectorOptions | None = None,
        own_track: bool = False,
        edges: Callable[[int], Edges] | None = None,
    ) -> None:
        self._options = options if options is not None else CollectorOptions()
        self._own_track = own_track
        self._edges = edges
        self._sampler: Sampler | None = None
        self._tracer: CallTracer | None = None

    @classmethod
    def availability(cls) -> Availability:
        """Always; says whether calls can be traced too."""
        why_not = CallTracer.refusal()
        calls = "or every call (--python calls)" if not why_not else f"no tracing of calls: {why_not}"
        return Availability(True, f"samples lines every millisecond, {calls}")

    def warm(self, clock: Clock) -> None:
        """Make the sampler's thread; nothing is sampled."""
        if self._options.python != "calls" and self._sampler is None:
            self._sampler = Sampler(self.report)
            self._sampler.prepare(clock)

    def start(self, clock: Clock) -> None:
        """Begin to record the calling thread."""
        self.warm(clock)
        if self._sampler is not None:
            self._sampler.start(clock)
        else:
            self._tracer = CallTracer(self._options.min_duration_ns, self.report)
            self._tracer.start(clock)

    def stop(self) -> None:
        """End the recording."""
        if self._sampler is not None:
            self._sampler.stop()
        if self._tracer is not None:
            self._tracer.stop()

    def result(self, builder: TraceBuilder) -> None:
        """Add slices of category ``python``."""
        if self._sampler is not None:
            thread = self._sampler.thread
            if self._own_track:
                track = builder.track(f"{thread.name}: Python, sampled")
            else:
                track = builder.track(thread.name, pid=os.getpid(), tid=thread.native_id)
            self._sampler.result(builder, track, self._edges)
            self._sampler = None
        if self._tracer is not None:
            self._tracer.result(builder)
            self._tracer = None

    def abandon(self) -> None:
        """Give the alarm, threads and hooks back."""
        self.stop()
        self._sampler = None
        self._tracer = None
