"""Traces calls with VizTracer, the optional extra ``calls``."""

from __future__ import annotations

import re
import sys
import threading
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pandas as pd

from ....optional import installed, require
from ....trace.clocks import Clock
from .monitoring import Calls, Function

ENTRIES: Final = 1_000_000
"""Limit on the calls in a recording. Older ones are dropped."""

_LOCATION: Final = re.compile(r"(.*) \((.*):(\d+)\)$", re.DOTALL)


def refusal() -> str:
    """Return why VizTracer cannot trace now; empty if it can."""
    if not installed("viztracer"):
        return 'VizTracer is not installed: pip install "notebook-prof[calls]"'
    if sys.version_info >= (3, 12):
        holder = sys.monitoring.get_tool(sys.monitoring.PROFILER_ID)
        return f"{holder!r} holds Python's profiler slot" if holder else ""
    return "another profiler is active (sys.setprofile)" if sys.getprofile() is not None else ""


class VizBackend:
    """A VizTracer that records no arguments, and is not registered globally. Short calls take no space."""

    slot, sets_profile = (2 if sys.version_info >= (3, 12) else -1), True

    def __init__(self, min_duration_ns: int) -> None:
        self._thread_hook = threading.getprofile()  # VizTracer's constructor replaces it
        tracer = require("viztracer", extra="calls", purpose="tracing of calls").VizTracer
        self._tracer: Any = tracer(
            verbose=0,
            register_global=False,
            tracer_entries=ENTRIES,
            file_info=False,
            min_duration=min_duration_ns / 1000,
        )
        self._running = False

    def start(self) -> None:
        """Install VizTracer's hooks."""
        self._running = True
        self._tracer.start()

    def stop(self) -> None:
        """Remove the hooks. VizTracer itself would leave the hook for new threads behind."""
        if not self._running:
            return
        self._tracer.stop()
        self._running = False
        threading.setprofile(self._thread_hook)

    def calls(self, clock: Clock) -> Calls:
        """Convert VizTracer's events to columns."""
        events = self._tracer.load()
        self._tracer.clear()
        threads = {
            event["tid"]: event["args"]["name"] for event in events if event.get("name") == "thread_name"
        }
        done = [event for event in events if event["ph"] == "X"]
        code, names = pd.factorize(np.array([event["name"] for event in done], dtype=object))
        ts = _column(done, "ts", np.float64)
        return Calls(
            ts=clock.from_monotonic(np.rint(ts * 1000).astype(np.int64)),
            dur=np.rint(_column(done, "dur", np.float64) * 1000).astype(np.int64),
            tid=_column(done, "tid", np.int64).astype(np.int64),
            function=np.asarray(code, dtype=np.int64),
            functions=[_function(str(name)) for name in names],
            threads=threads,
            lost=1 if len(done) >= ENTRIES - min(64, ENTRIES // 10) else 0,
        )


def _column(events: list[dict[str, Any]], key: str, dtype: Any) -> Any:
    return np.fromiter(map(itemgetter(key), events), dtype, len(events))


def _function(text: str) -> Function:
    if (match := _LOCATION.match(text)) is None:
        return Function(text, "", 0)
    return Function(match[1], match[2], int(match[3]))
