"""Records the CUDA kernels of any library, by the best route available in this process."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final, Protocol

from ...errors import RecordingError
from ...trace.builder import TraceBuilder
from ...trace.clocks import Clock
from ...trace.report import ImportReport
from ..base import Availability, Collector
from ..options import CollectorOptions
from ..torch import TorchCollector
from .cupti import CuptiSession
from .events import EventRanges
from .routes import Route, choose, routes, survey


class Recorder(Protocol):
    """Records by one route. Has the methods of a collector."""

    @property
    def report(self) -> ImportReport:
        """Issues so far."""

    def warm(self, clock: Clock) -> None:
        """Pay first-time costs."""

    def start(self, clock: Clock) -> None:
        """Start recording."""

    def stop(self) -> None:
        """Stop recording."""

    def result(self, builder: TraceBuilder) -> None:
        """Add the recorded work."""

    def abandon(self) -> None:
        """Release everything."""


CUPTI: Final = frozenset({"CUPTI"})


class CudaCollector(Collector):
    """Records what the whole process does on its GPUs, by the first of `routes.ROUTES` that works."""

    # CUPTI, NVIDIA's source of such records, allows one client per process. If a torch built for CUDA is
    # installed, torch's profiler is that client: it sees the kernels of other libraries too, and torch is
    # imported when the recording warms up. Otherwise NVIDIA's ``cupti-python`` is the client, if it is
    # installed. Without either, CUDA events time the annotated ranges. ``trace.metadata["cuda_route"]``
    # contains the route.
    name: ClassVar[str] = "cuda"
    holds: ClassVar[frozenset[str]] = TorchCollector.holds

    def __init__(self, options: CollectorOptions | None = None, route: str | None = None) -> None:
        options = options if options is not None else CollectorOptions()
        self._route: Route = choose(routes(survey(route)), route)
        self._inner = _recorder(self._route, options)

    def claims(self) -> frozenset[str]:
        """Claim CUPTI, and torch's profiler on the route that uses it. The last route claims nothing."""
        return {"cupti": CUPTI, "counters": frozenset[str]()}.get(self._route.name, self.holds | CUPTI)

    @classmethod
    def availability(cls) -> Availability:
        """Return whether a GPU can be recorded, and by which route. Does not load torch."""
        best = choose(routes(survey()))
        return Availability(best.ok, best.reason)

    def warm(self, clock: Clock) -> None:
        """Initialise the route's recorder, which takes a second the first time in a process."""
        self._check()
        self._inner.warm(clock)

    def start(self, clock: Clock) -> None:
        """Start recording. If no route works, raises RecordingError with a reason for each."""
        self._check()
        self._inner.start(clock)

    def stop(self) -> None:
        """End the recording."""
        self._inner.stop()

    def result(self, builder: TraceBuilder) -> None:
        """Add kernels, copies, fills and the calls that launched them."""
        builder.metadata["cuda_route"] = self._route.name
        self._inner.result(builder)
        self.report.extend(self._inner.report)

    def abandon(self) -> None:
        """Release the route's recorder."""
        self._inner.abandon()

    def _check(self) -> None:
        if self._route.ok:
            return
        names: dict[str, list[str]] = {}
        for route in routes(survey(self._route.name)):
            names.setdefault(route.reason, []).append(route.name)
        reasons = "; ".join(f"{', '.join(of_reason)}: {reason}" for reason, of_reason in names.items())
        raise RecordingError(f"no kernels can be recorded here. {reasons}")


def _recorder(route: Route, options: CollectorOptions) -> Recorder:
    if route.name == "cupti":
        return CuptiSession(keep=options.devices)
    if route.name == "counters":
        return EventRanges()
    return TorchCollector(replace(options, modules=False, stack=False))


__all__ = ["CudaCollector", "Route", "choose", "routes", "survey"]
