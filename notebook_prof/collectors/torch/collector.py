"""The torch collector."""

from __future__ import annotations

import sys
import time
from typing import Any, ClassVar, Final

import pandas as pd

from ...formats.torch.compile_log import COMPILATIONS, compilation_row
from ...optional import installed, require
from ...readers.codec.columns import marked
from ...readers.kineto import KinetoColumns, assemble
from ...trace.builder import TraceBuilder
from ...trace.clocks import Clock
from ...trace.report import ImportReport
from ..base import LARGE, Availability, Collector
from ..options import CollectorOptions
from ..python.assemble import OTHER_CELLS
from ..python.frames import CELL, owner_of
from .fused_kernels import put_fused_kernels
from .hooks import COUNTS, ModuleRanges
from .loader.tables import put as put_loaders
from .loader.watch import LoaderWatch
from .no_kernels import Cupti, Reason, asked_once, tell, why_no_gpu
from .result import of_devices, users_only
from .session import (
    ConflictWatch,
    Session,
    device_kind,
    open_session,
    profiling,
    release,
    stop_or_strand,
    unrecorded_kinds,
)

MANY_EVENTS: Final = 400_000
"""Number of events above which stopping a recording takes more than 1 GiB."""
_CLEAR_NS: Final = 1_000_000
_RANGES: Final = ("cpu_op", "user_annotation", "python_function")
"""Kinds of events that are ranges of Python threads."""


class TorchCollector(Collector):
    """Records operators, kernels, memory and module calls with PyTorch's profiler."""

    # Before ``warm`` and after ``stop``, only DataLoaders and compilations are watched, from ``open`` on.
    # torch allows only one profiler. The collector refuses if another one is running, and gives way if the
    # user's code starts one, whose result then contains none of our ranges. With `stack`, Python calls of the
    # notebook's kernel and of our hooks are left out.
    name: ClassVar[str] = "torch"
    holds: ClassVar[frozenset[str]] = frozenset({"PyTorch profiler"})

    def __init__(self, options: CollectorOptions | None = None) -> None:
        self._options = options if options is not None else CollectorOptions()
        self._torch: Any = None
        self._session: Session | None = None
        self._modules: ModuleRanges | None = None
        self._counts: dict[str, tuple[int, int, str]] = {}
        self._conflicts: ConflictWatch | None = None
        self._loaders = LoaderWatch()
        self._watched_since_us = 0
        self._no_gpu: Reason | None = None
        self._cupti = Cupti()
        self._clock = Clock()
        self._running = False
        self._finished = False
        self._parts: list[KinetoColumns] = []

    @classmethod
    def availability(cls) -> Availability:
        if not installed("torch"):
            return Availability(False, 'torch is not installed: pip install "notebook-prof[torch]"')
        torch = sys.modules.get("torch")
        if torch is not None and not torch.autograd.kineto_available():
            return Availability(False, "this torch was built without Kineto, its profiler")
        return Availability(True, "operators, kernels, memory and modules by PyTorch's profiler")

    def open(self) -> None:
        """Watch DataLoaders and compilations from now on, since both come before the window's first step."""
        self._watched_since_us = self._watched_since_us or time.time_ns() // 1000
        if "torch" in sys.modules:
            self._loaders.watch()

    def warm(self, clock: Clock) -> None:
        """Prepare Kineto (and CUPTI), and install the module hooks."""
        if self._session is not None or "profiler-busy" in self.report or self._refuses():
            return
        torch = self._torch
        self._session = open_session(torch, self._options)
        self._session.prepare()
        if self._options.modules:
            self._modules = ModuleRanges(torch)
            self._modules.install()

    def start(self, clock: Clock) -> None:
        self._watched_since_us = self._watched_since_us or time.time_ns() // 1000
        self.warm(clock)
        if "profiler-busy" in self.report or self._session is None or self._refuses():
            self.abandon()
            return
        self._clock = clock
        self._conflicts = ConflictWatch(self._torch, self._leave_ranges_out)
        self._running = True  # set first, so an interrupt after the next line finds a session to stop
        self._session.start()
        self._conflicts.watch()
        self._loaders.watch()
        self._loaders.begin_recording()

    def stop(self) -> None:
        if not self._running or self._session is None:
            return
        self._take_hooks_away()
        self._running = False
        if self._is_superseded():
            self._session = None
            example = "another torch profiler was started while this one was recording"
            effect = "torch allows only one: the profile has no operators"
            advice = "remove torch.profiler from the cell, or read its file with read_trace()"
            self.report.add("profiler-overtaken", "error", example=example, effect=effect, advice=advice)
            return
        self._finished = stop_or_strand(self._session)
        if self._finished:
            self._ask_for_reasons()
        else:
            example = "the recording was stopped by another thread than the one that started it"
            effect = "torch gives an empty result then: the profile has no operators"
            advice = "stop it where it was started, or record without memory"
            self.report.add("stopped-elsewhere", "error", example=example, effect=effect, advice=advice)

    def halt(self) -> int:
        """Stop. If few events were kept and no range is open, continue recording and return 0."""
        # torch ends a range by writing to the recording in which the range began, which no longer exists by
        # then.
        if not self._running or self._session is None:
            return 0
        time.sleep(2 * _CLEAR_NS / 1e9)  # so ranges that have ended are clearly before the stop
        stop_ns = time.time_ns()
        self.stop()
        if not self._finished or self._session is None:
            return 0
        kept = self._session.size() + sum(map(len, self._parts))
        if kept < LARGE:
            part = self._session.columns(self.report)
            self._parts.append(part)
            self._session, self._finished = None, False
            if _none_open(part, stop_ns):
                self.start(self._clock)
                return 0
        return kept

    def result(self, builder: TraceBuilder) -> None:
        if self._finished and self._session is not None:
            self._parts.append(self._session.columns(self.report))
        self._session = None
        if not self._parts:
            return
        columns = KinetoColumns.joined(self._parts) if len(self._parts) > 1 else self._parts[0]
        self._parts.clear()
        if not (columns.device >= 0).any():
            tell(self.report, self._no_gpu, self._cupti)
        if self._cupti.version:
            builder.metadata["cupti_version"] = self._cupti.version
        columns = of_devices(columns, self._options.devices, self.report)
        if self._options.stack:
            columns = users_only(columns)
        if self._counts:
            rows = [(name, *counts) for name, counts in self._counts.items()]
            builder.metadata.setdefault("tables", {})["modules"] = pd.DataFrame(rows, columns=list(COUNTS))
        builder.metadata["torch_version"] = str(self._torch.__version__)
        if names := self._device_names():
            builder.metadata["devices"] = names
        if len(columns) > MANY_EVENTS:
            effect = "recordings of this size take gigabytes of memory and slow down every view"
            advice = "record a few steps only: --steps 3:14, or steps=(3, 14)"
            self.report.add("many-events", "info", len(columns), effect=effect, advice=advice)
        assemble(columns, builder)
        put_compilations(builder, self.report, self._watched_since_us)
        try:
            put_fused_kernels(builder)
        except Exception as error:  # another version of torch may generate different code
            effect = "the source lines of fused kernels are unknown"
            self.report.failed("fused-kernels-unread", "info", error, effect)
        try:
            put_loaders(self._loaders, builder, self._clock)
        except Exception as error:  # keep torch's recording in any case
            self.report.failed("loaders-unread", "loss", error, "the work of DataLoader workers is unknown")

    def abandon(self) -> None:
        self._take_hooks_away()
        session, self._session = self._session, None
        if session is not None and not self._finished:
            if not self._running and not profiling(self._torch):
                session.start()  # torch would warn at the next recording of a preparation that was never used
                stop_or_strand(session)
            elif self._running and not self._is_superseded():
                stop_or_strand(session)
        self._running = self._finished = False

    def _ask_for_reasons(self) -> None:
        """Find out why there may be no kernels, once the recording is over."""
        torch = self._torch
        self._no_gpu = why_no_gpu(torch)
        if getattr(torch.version, "cuda", None) and torch.cuda.is_initialized():
            self._cupti = asked_once()
        for kind in unrecorded_kinds(torch):
            self.report.add(
                "device-not-recorded",
                "loss" if kind == "cuda" else "info",
                example=f"torch can use {kind}, but its profiler was built without a recorder for it",
                effect="the profile has no work of these devices",
                advice="install a torch built with CUPTI, as from pytorch.org"
                if kind == "cuda"
                else f"look for a torch whose profiler.supported_activities() has {kind}",
            )

    def _device_names(self) -> list[str]:
        kind = device_kind(self._torch)
        module = getattr(self._torch, kind, None) if kind is not None else None
        count, name = (getattr(module, one, None) for one in ("device_count", "get_device_name"))
        return [] if count is None or name is None else [str(name(i)) for i in range(count())]

    def _refuses(self) -> bool:
        """Return whether another profiler is running, and report that once."""
        if self._torch is None:
            self._torch = require("torch", extra="torch", purpose="the torch collector")
        release()
        if not profiling(self._torch):
            return False
        example = "a torch profiler is running already"
        effect = "torch allows only one: the profile has no operators"
        advice = "stop the other one first"
        self.report.add("profiler-busy", "error", example=example, effect=effect, advice=advice)
        return True

    def _is_superseded(self) -> bool:
        started = self._conflicts is not None and self._conflicts.count > 0
        return started or not profiling(self._torch)

    def _leave_ranges_out(self) -> None:
        """Stop opening ranges, which would appear in the other profiler's table."""
        if self._modules is not None:
            self._modules.remove()

    def _take_hooks_away(self) -> None:
        if self._modules is not None:
            self._modules.remove()
            self._counts = self._modules.counts
            if self._modules.failure:
                example = self._modules.failure
                effect = "calls of modules have no ranges from then on; the cell itself was not affected"
                advice = "report it to notebook_prof with your version of torch"
                self.report.add("modules-not-named", "loss", example=example, effect=effect, advice=advice)
            self._modules = None
        if self._conflicts is not None:
            self._conflicts.unwatch()
        self._loaders.unwatch()


def put_compilations(builder: TraceBuilder, report: ImportReport, begin_us: int) -> None:
    """Add the table of compilations since `begin_us`, if there were any."""
    # TorchDynamo itself keeps the metrics of its latest 64 compilations
    dynamo = sys.modules.get("torch._dynamo.utils")
    recorded = getattr(dynamo, "_compilation_metrics", None)
    if not recorded:
        return
    cells = builder.metadata.get(OTHER_CELLS, {})

    def file(path: str) -> str:
        return cells.get(path, "cell") if owner_of(path) == CELL else path

    get = [lambda name, m=one: getattr(m, name, None) for one in list(recorded)]
    rows = [compilation_row(one, file) for one in get]
    rows = [row for row in rows if row["ts"] >= begin_us * 1000]
    if rows:
        builder.table(COMPILATIONS, pd.DataFrame(rows))
    if len(rows) == getattr(recorded, "maxlen", None):
        effect = "TorchDynamo keeps its latest compilations only: earlier ones are not listed"
        advice = "torch._dynamo.utils.set_compilation_metrics_limit(1000) before the cell keeps more"
        report.add("compilations-forgotten", "loss", len(rows), effect=effect, advice=advice)


def _none_open(columns: KinetoColumns, stop_ns: int) -> bool:
    """Return whether no range was open at the stop. torch ends an open range at the stop."""
    ranges = marked(columns.kind, _RANGES.__contains__)
    return bool((columns.ts + columns.dur < stop_ns - _CLEAR_NS)[ranges].all())
