"""Records the CUDA kernels of any library, by the best route available in this process."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np

from ...errors import OptionError, RecordingError, nearest
from ...trace.builder import TraceBuilder
from ...trace.clocks import Clock
from ...trace.report import ImportReport
from .. import journal
from ..base import Availability, Collector
from ..devices import in_use
from ..journal import Annotation
from ..nvml import NvmlCollector
from ..options import CollectorOptions
from ..torch.collector import TorchCollector
from . import cupti, driver
from .cupti import CuptiSession

MOST_RANGES: Final = 20_000
"""Limit on the number of ranges. Each needs two of the driver's events."""


_FINE_MS: Final = 1000.0
"""Longest time between events that is precise enough. It is a 32-bit float in ms: exact to 0.06 µs up to this
limit, but only to 0.25 ms after an hour."""


@dataclass(slots=True)
class _Range:
    name: str
    stream: Any
    device: int
    begin: Any
    end: Any = None


class EventRanges:
    """Times each `nbp.annotate` range by two CUDA events on the stream that is current when it opens."""

    # Uses CuPy, if it is imported. On the device, a range lasts from the moment the stream reaches the first
    # event until it reaches the second, gaps included. It is a slice of category annotation on the stream's
    # track, not a kernel. Events have a resolution of half a microsecond.
    def __init__(self) -> None:
        self.report = ImportReport()
        self._cupy: Any = None
        self._anchors: dict[int, tuple[Any, int]] = {}  # an event on each GPU, and its time
        self._open: dict[int, _Range] = {}
        self._done: list[_Range] = []
        self._dropped = 0
        self._failed = ""
        self._now: Callable[[], int] = time.time_ns

    def warm(self, clock: Clock) -> None:
        """Do nothing: events need no preparation."""

    def start(self, clock: Clock) -> None:
        """Record an event on each GPU in use as its time base, and watch for annotations."""
        cupy = self._cupy = sys.modules.get("cupy")
        if cupy is None:
            example = "CuPy is not imported, so nothing on the device can be timed"
            effect = "the profile has no device work"
            advice = "see nbp.list_collectors() for how to record kernels"
            self.report.add("no-kernel-records", "info", example=example, effect=effect, advice=advice)
            return
        self._now = clock.now_ns
        own = int(cupy.cuda.Device().id)
        for number in {own, *(in_use() or ())}:
            try:
                with cupy.cuda.Device(number):
                    self._anchors[number] = self._place()
            except Exception as error:
                if number == own:
                    raise
                self._failed = f"GPU {number}: {type(error).__name__}: {error}"
        journal.watch(self)

    def stop(self) -> None:
        """Stop watching. Open ranges end here."""
        journal.unwatch(self)
        for key in tuple(self._open):
            self._close(self._open.pop(key))

    def result(self, builder: TraceBuilder) -> None:
        """Wait for the events, and add a slice for each range."""
        if self._cupy is None:
            return
        self.report.add(
            "ranges-dropped", "loss", self._dropped, effect="annotations without a time on the device"
        )
        timed = [(one, times) for one in self._done if (times := self._times(one)) is not None]
        if self._failed:
            example = self._failed
            effect = "ranges without a time on the device"
            self.report.add("events-failed", "loss", max(len(self._done) - len(timed), 1), example, effect)
        if not timed:
            return
        done = [one for one, _ in timed]
        ts, dur = np.array([times for _, times in timed], dtype=np.int64).T
        streams = [int(one.stream.ptr) for one in done]
        builder.slices(
            ts=ts,
            dur=dur,
            track=[
                builder.track(f"GPU {one.device} stream {stream}", "stream", device=one.device, stream=stream)
                for one, stream in zip(done, streams, strict=True)
            ],
            name=[one.name for one in done],
            category="annotation",
            device=[one.device for one in done],
            stream=streams,
        )

    def abandon(self) -> None:
        """Stop watching, and release the events."""
        journal.unwatch(self)
        self._open.clear()
        self._done.clear()

    def opened(self, span: Annotation) -> None:
        """Start a range for an annotation that was opened in this thread."""
        if len(self._done) + len(self._open) >= MOST_RANGES:
            self._dropped += 1
            return
        try:
            stream = self._cupy.cuda.get_current_stream()
            device = int(self._cupy.cuda.Device().id)
            self._open[id(span)] = _Range(span.name, stream, device, self._record(stream))
        except Exception as error:  # exceptions must not reach the user's cell
            self._failed = f"{type(error).__name__}: {error}"

    def closed(self, span: Annotation) -> None:
        """End the range of a closed annotation."""
        if (one := self._open.pop(id(span), None)) is not None:
            self._close(one)

    def _close(self, one: _Range) -> None:
        try:
            with self._cupy.cuda.Device(one.device):
                one.end = self._record(one.stream)
        except Exception as error:
            self._failed = f"{type(error).__name__}: {error}"
        else:
            self._done.append(one)

    def _record(self, stream: Any) -> Any:
        event = self._cupy.cuda.Event()
        event.record(stream)
        return event

    def _place(self) -> tuple[Any, int]:
        """Return an event on the current GPU and its time, by the tightest of eight measurements."""
        measured = []
        stream = self._cupy.cuda.Stream(non_blocking=True)  # the user's stream may be busy
        for _ in range(8):
            before = self._now()
            event = self._record(stream)
            event.synchronize()
            measured.append((self._now() - before, before, event))
        took, before, event = min(measured, key=itemgetter(0))
        return event, before + took // 2

    def _times(self, one: _Range) -> tuple[int, int] | None:
        """Return the start and duration of a range in ns; None if the driver fails."""
        elapsed = self._cupy.cuda.get_elapsed_time
        try:
            one.end.synchronize()
            event, event_ns = self._anchors[one.device]
            since_ms = float(elapsed(event, one.begin))
            at_ns = event_ns + round(1e6 * since_ms)
            if since_ms > _FINE_MS:  # the next ranges are timed from here
                self._anchors[one.device] = one.begin, at_ns
            return at_ns, max(round(1e6 * float(elapsed(one.begin, one.end))), 0)
        except KeyError:
            self._failed = f"GPU {one.device} was not in use when the recording began"
        except Exception as error:  # the driver's error type, for example if the device is lost
            self._failed = f"{type(error).__name__}: {error}"
        return None


ROUTES: Final = ("kineto", "cupti", "counters")
"""Routes, in the order in which they are tried. CUPTI allows one client per process."""

_CUDA_BUILD: Final = re.compile(r"^cuda(?:\s*:[^=]+)?\s*=\s*(?:'([\d.]+)'|None)", re.M)
_NO_KERNELS: Final = "no kernels: CUDA events around nbp.annotate ranges, CuPy's pool and NVML only"
_NOT_ASKED: Final = Availability(False, "not asked: torch's profiler comes first")


@dataclass(frozen=True, slots=True)
class CudaFacts:
    """Facts about this process, collected without loading anything heavy."""

    # whether there is an NVIDIA driver with a GPU, or why not
    driver: Availability
    # CUDA version of the installed torch; empty for a build without CUDA, None if torch is not installed
    torch_cuda: str | None = None
    # torch's own answer, once torch is imported
    torch_sees_gpu: bool | None = None
    # whether ``cupti-python`` can record here, or why not
    cupti: Availability = _NOT_ASKED


def survey(route: str | None = None) -> CudaFacts:
    """Collect the facts from files and loaded modules. Initialises neither torch nor CUDA."""
    # ``cupti-python`` is tried in a child process if `route` asks for it or torch's profiler does not work
    facts = CudaFacts(_driver(), _torch_build(), _torch_sees_gpu())
    if not facts.driver.ok or (route != "cupti" and _kineto(facts).ok):
        return facts
    return replace(facts, cupti=cupti.availability())


def routes(facts: CudaFacts) -> dict[str, Availability]:
    """Return whether each of the three routes works, in the order of `ROUTES`."""
    # ``counters`` records no kernels, only CUDA events around annotated ranges, pool hooks and NVML
    if not facts.driver.ok:
        return dict.fromkeys(ROUTES, facts.driver)
    counters = f"{_NO_KERNELS}; {facts.cupti.reason}, or a torch built for CUDA"
    return dict(zip(ROUTES, (_kineto(facts), facts.cupti, Availability(True, counters)), strict=True))


def choose(available: Mapping[str, Availability], name: str | None = None) -> str:
    """Return the requested route, or the first that works. Raises OptionError for an unknown name."""
    if name is not None and name not in ROUTES:
        raise OptionError(f"no route {name!r} to CUDA's kernels: {nearest(name, ROUTES)}")
    return name or next((route for route, state in available.items() if state.ok), ROUTES[-1])


def _kineto(facts: CudaFacts) -> Availability:
    if facts.torch_cuda is None:
        return Availability(False, "torch is not installed")
    if not facts.torch_cuda:
        return Availability(False, "the installed torch is built without CUDA")
    if facts.torch_sees_gpu is False:
        why = "the driver may be too old for that version"
        return Availability(False, f"torch (CUDA {facts.torch_cuda}) cannot use the GPU: {why}")
    return Availability(True, f"Kineto, the profiler of the installed torch (CUDA {facts.torch_cuda})")


def _driver() -> Availability:
    """Ask NVML, then CUDA itself, since a container may lack NVML."""
    state = NvmlCollector.availability()
    if state.ok:
        return state
    problem = driver.ask_in_child().problem
    return Availability(not problem, problem or "CUDA starts, but NVML does not")


def _torch_sees_gpu() -> bool | None:
    """Return torch's answer; None if torch is not imported."""
    cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
    return None if cuda is None else bool(cuda.is_available())


def _torch_build() -> str | None:
    """Return the CUDA version of the installed torch from its ``version.py``, without importing it."""
    try:
        spec = find_spec("torch")
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    try:
        text = (Path(spec.origin).parent / "version.py").read_text(encoding="utf-8")
    except OSError:
        return ""
    match = _CUDA_BUILD.search(text)
    return (match[1] or "") if match else ""


Recorder: TypeAlias = CuptiSession | EventRanges | TorchCollector


CUPTI: Final = frozenset({"CUPTI"})


class CudaCollector(Collector):
    """Records what the whole process does on its GPUs, by the first of `ROUTES` that works."""

    # Torch's profiler sees the kernels of other libraries too; torch is imported when the recording warms up.
    name: ClassVar[str] = "cuda"
    holds: ClassVar[frozenset[str]] = TorchCollector.holds

    def __init__(self, options: CollectorOptions | None = None, route: str | None = None) -> None:
        options = options if options is not None else CollectorOptions()
        available = routes(survey(route))
        self._route = choose(available, route)
        self._works = available[self._route].ok
        self._inner = _recorder(self._route, options)

    def claims(self) -> frozenset[str]:
        """Claim CUPTI, and torch's profiler on the route that uses it. The last route claims nothing."""
        return {"cupti": CUPTI, "counters": frozenset[str]()}.get(self._route, self.holds | CUPTI)

    @classmethod
    def availability(cls) -> Availability:
        available = routes(survey())
        return available[choose(available)]

    def warm(self, clock: Clock) -> None:
        """Initialise the route's recorder, which takes a second the first time in a process."""
        self._check()
        self._inner.warm(clock)

    def start(self, clock: Clock) -> None:
        """Start recording. If no route works, raises RecordingError with a reason for each."""
        self._check()
        self._inner.start(clock)

    def stop(self) -> None:
        self._inner.stop()

    def result(self, builder: TraceBuilder) -> None:
        builder.metadata["cuda_route"] = self._route
        self._inner.result(builder)
        self.report.extend(self._inner.report)

    def abandon(self) -> None:
        self._inner.abandon()

    def _check(self) -> None:
        if self._works:
            return
        names: dict[str, list[str]] = {}
        for name, state in routes(survey(self._route)).items():
            names.setdefault(state.reason, []).append(name)
        reasons = "; ".join(f"{', '.join(of_reason)}: {reason}" for reason, of_reason in names.items())
        raise RecordingError(f"no kernels can be recorded here. {reasons}")


def _recorder(route: str, options: CollectorOptions) -> Recorder:
    if route == "cupti":
        return CuptiSession(keep=options.devices)
    if route == "counters":
        return EventRanges()
    return TorchCollector(replace(options, modules=False, stack=False))
