"""The last route: CUDA events around annotated ranges, where kernels cannot be recorded."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from ...trace.builder import TraceBuilder
from ...trace.clocks import Clock
from ...trace.report import ImportReport
from .. import journal
from ..journal import Span

MOST_RANGES: Final = 20_000
"""Each holds two events of the driver."""


@dataclass(slots=True)
class _Range:
    name: str
    stream: Any
    device: int
    begin: Any
    end: Any = None


class EventRanges:
    """Times each `nbp.annotate` range on the stream that is current where it opens, by two CUDA events.

    Through CuPy, where it is imported. A range on the device lasts from when the stream came to the first
    event until it came to the second, gaps included; it is a slice of category annotation on the stream's
    track, and no kernel. Events have half a microsecond of resolution.
    """

    def __init__(self) -> None:
        self._cupy: Any = None
        self._base: Any = None
        self._base_ns = self._residual_ns = 0
        self._open: dict[int, _Range] = {}
        self._done: list[_Range] = []
        self._dropped = 0
        self._failed = ""
        self._now: Callable[[], int] = time.time_ns

    @cached_property
    def report(self) -> ImportReport:
        """Issues met so far."""
        return ImportReport()

    def warm(self, clock: Clock) -> None:
        """Prepare nothing: there is nothing to prepare."""

    def start(self, clock: Clock) -> None:
        """Bring the device's clock and the recording's together, and watch annotations from now on."""
        cupy = self._cupy = sys.modules.get("cupy")
        if cupy is None:
            self.report.add(
                "no-kernel-records",
                "info",
                example="CuPy is not imported, so nothing on the device can be timed",
                effect="the profile has no device work",
                advice="see nbp.list_collectors() for how to record kernels",
            )
            return
        self._now = clock.now_ns
        self._base, self._base_ns, self._residual_ns = self._meeting()
        journal.watch(self)

    def stop(self) -> None:
        """Watch no more; ranges that are open end here."""
        journal.unwatch(self)
        for key in tuple(self._open):
            self._close(self._open.pop(key))

    def result(self, builder: TraceBuilder) -> None:
        """Wait for the events, and add a slice a range."""
        if self._cupy is None:
            return
        self.report.add(
            "ranges-dropped", "loss", self._dropped, effect="annotations without a time on the device"
        )
        if self._failed:
            self.report.add(
                "events-failed", "loss", example=self._failed, effect="ranges without a time on the device"
            )
        builder.metadata["cuda_events"] = {"ranges": len(self._done), "clock_residual_ns": self._residual_ns}
        if not self._done:
            return
        try:
            times = [(self._ns(one.begin), self._ns(one.end)) for one in self._done]
        except Exception as error:  # the driver's own error type, as for a lost device
            self.report.add("events-failed", "loss", example=str(error), effect="no range has a time")
            return
        begin, end = np.array(times, dtype=np.int64).T
        streams = [int(one.stream.ptr) for one in self._done]
        builder.slices(
            ts=self._base_ns + begin,
            dur=np.maximum(end - begin, 0),
            track=[
                builder.track(f"GPU {one.device} stream {stream}", "stream", device=one.device, stream=stream)
                for one, stream in zip(self._done, streams, strict=True)
            ],
            name=[one.name for one in self._done],
            category="annotation",
            device=[one.device for one in self._done],
            stream=streams,
        )

    def abandon(self) -> None:
        """Watch no more, and let go of the events."""
        journal.unwatch(self)
        self._open.clear()
        self._done.clear()

    def opened(self, span: Span) -> None:
        """Begin an annotation that was opened in this thread."""
        if len(self._done) + len(self._open) >= MOST_RANGES:
            self._dropped += 1
            return
        try:
            stream = self._cupy.cuda.get_current_stream()
            device = int(self._cupy.cuda.Device().id)
            self._open[id(span)] = _Range(span.name, stream, device, self._record(stream))
        except Exception as error:  # the user's cell comes first
            self._failed = f"{type(error).__name__}: {error}"

    def closed(self, span: Span) -> None:
        """End an annotation that was closed."""
        if (one := self._open.pop(id(span), None)) is not None:
            self._close(one)

    def _close(self, one: _Range) -> None:
        try:
            one.end = self._record(one.stream)
        except Exception as error:
            self._failed = f"{type(error).__name__}: {error}"
        else:
            self._done.append(one)

    def _record(self, stream: Any) -> Any:
        event = self._cupy.cuda.Event()
        event.record(stream)
        return event

    def _meeting(self, tries: int = 8) -> tuple[Any, int, int]:
        """Return an event, the time at which the device came to it, and how wrong that can be."""
        meetings = []
        stream = self._cupy.cuda.get_current_stream()
        stream.synchronize()
        for _ in range(tries):
            before = self._now()
            event = self._record(stream)
            event.synchronize()
            after = self._now()
            meetings.append((event, (before + after) // 2, (after - before + 1) // 2))
        return min(meetings, key=lambda each: each[2])

    def _ns(self, event: Any) -> int:
        event.synchronize()
        return round(1e6 * float(self._cupy.cuda.get_elapsed_time(self._base, event)))
