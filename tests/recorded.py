"""Records work with collectors, and runs work in threads."""

from __future__ import annotations

import threading
from collections.abc import Callable

from notebook_prof.collectors.base import Collector, Recording
from notebook_prof.trace import Trace, TraceBuilder


def sealed(stopped: Recording | Collector) -> Trace:
    """Return the trace of stopped collectors."""
    builder = TraceBuilder()
    stopped.result(builder)
    return builder.seal()


def recorded(collector: Collector, cell: Callable[[], object] = lambda: None) -> Trace:
    recording = Recording([collector])
    recording.warm()
    recording.start()
    try:
        cell()
    finally:
        recording.stop()
    return sealed(recording)


def in_threads(*works: Callable[[], object], name: str | None = None) -> None:
    """Run each function in its own thread, all at once, and wait until they have ended."""
    threads = [threading.Thread(target=work, name=name) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
