"""Records with memray which code allocated the memory in use at the peak, and what stays allocated."""

from __future__ import annotations

import inspect
import os
import shutil
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

import pandas as pd

from ..errors import RecordingError
from ..optional import installed, require
from ..trace.builder import TraceBuilder
from ..trace.clocks import Clock
from .base import Availability, Collector
from .giving_way import GivingWay
from .options import CollectorOptions
from .python.assemble import OTHER_CELLS
from .python.frames import CELL, OURS, USER, PythonFrame, owner_of
from .python.names import line_name, placed, short_file

HEAP: Final = "heap"
"""Name of the table, and metadata key for the tool's name and the size of the peak."""
_ABSENT: Final = 'memray is not installed: pip install "notebook-prof[heap]"'
KEYS: Final = ("line", "text", "allocated_by")
NUMBERS: Final = ("bytes", "count", "kept_bytes", "kept_count")


class HeapCollector(Collector):
    """Traces the process's allocations and their Python stacks with memray."""

    # It slows down the code, so times of Python functions in the same recording are too long. It sees
    # allocations by C code (NumPy, Arrow, torch on the CPU). Python objects appear as the arenas that the
    # interpreter's allocator requests for them. The file stays small, since it has only sums by stack.
    name: ClassVar[str] = "heap"
    holds: ClassVar[frozenset[str]] = frozenset({"tracing of the heap"})

    def __init__(self, options: CollectorOptions | None = None) -> None:
        self._memray: Any = None
        self._folder = ""
        self._tracker: Any = None
        self._error: Exception | None = None
        self._giving_way = GivingWay(self._end)

    @classmethod
    def availability(cls) -> Availability:
        if not installed("memray"):
            return Availability(False, _ABSENT)
        return Availability(True, "by memray: allocations of C code and Python, with their Python stack")

    def start(self, clock: Clock) -> None:
        """Start tracing. RecordingError if memray is missing or one of the user's tools is in the way."""
        if not installed("memray"):
            raise RecordingError(_ABSENT)
        if sys.getprofile() is not None:
            raise RecordingError(_excluded("a profiler of the user's code (sys.getprofile() is not None)"))
        memray = self._memray = require("memray", extra="heap", purpose="tracing the heap")
        self._folder = tempfile.mkdtemp(prefix="notebook-prof-heap-")
        weakref.finalize(self, _remove, self._folder, os.getpid())
        destination = memray.FileDestination(self._file, overwrite=True, compress_on_exit=False)
        self._tracker = memray.Tracker(
            destination=destination, file_format=memray.FileFormat.AGGREGATED_ALLOCATIONS
        )
        self._giving_way.watch()
        # memray drops as many outermost frames as the starting thread has then, so it is started in a new
        # thread
        starter = threading.Thread(target=self._enter, name="notebook_prof heap")
        starter.start()
        starter.join()
        if isinstance(self._error, RuntimeError):
            raise RecordingError(_excluded("memray's Tracker in the user's code")) from self._error
        if self._error is not None:
            raise self._error
        self._giving_way.hook = threading._profile_hook
        self._giving_way.armed = True

    def stop(self) -> None:
        self._giving_way.unwatch()
        self._end()

    def result(self, builder: TraceBuilder) -> None:
        """Add the table of blocks by line, and the name of the tool that traced them."""
        if self._memray is None:
            return
        with self._memray.FileReader(self._file) as reader:
            at_peak = reader.get_high_watermark_allocation_records(merge_threads=True)
            kept = reader.get_leaked_allocation_records(merge_threads=True)
            table = blocks_table(at_peak, kept, builder.metadata.get(OTHER_CELLS, {}))
            peak_bytes = int(reader.metadata.peak_memory)
        self.abandon()
        builder.table(HEAP, table, times=())
        tool = f"memray {self._memray.__version__}"
        builder.metadata[HEAP] = {"tool": tool, "peak_bytes": peak_bytes}
        if self._giving_way.to:
            example = f"the code used {self._giving_way.to}, which excludes tracing the heap"
            self.report.add("heap-gave-way", "loss", example=example, effect="the heap was traced until then")
        effect = "code that calls many functions, or makes many objects, ran slower than without tracing"
        advice = "measure times in a recording without --heap"
        self.report.add("heap-traced", "info", example=tool, effect=effect, advice=advice)

    def abandon(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _enter(self) -> None:
        try:
            self._tracker.__enter__()
        except Exception as error:
            self._error, self._tracker = error, None

    def _end(self) -> None:
        tracker, self._tracker = self._tracker, None
        if tracker is None:
            return
        function, hook = sys.getprofile(), threading.__dict__.get("_profile_hook")
        tracker.__exit__(None, None, None)
        if inspect.isroutine(function):  # restore the user's function, which memray removes too
            sys.setprofile(function)
        if hook is not None and getattr(hook, "__module__", "") != "memray._memray":
            threading.setprofile(hook)  # the user's hook for new threads

    @property
    def _file(self) -> str:
        return os.path.join(self._folder, "heap.bin")


def _excluded(by: str) -> str:
    return f"{by} is running, which excludes tracing the heap: end it first"


def blocks_table(at_peak: Iterable[Any], kept: Iterable[Any], cells: Mapping[str, str]) -> pd.DataFrame:
    """Return one row per line of user code and allocating function, with columns ``KEYS`` and ``NUMBERS``."""
    # Each argument has memray's records: the blocks of one stack each. ``bytes`` sums to the peak. ``line``
    # is the innermost line of user code, empty if there is none on the stack. ``allocated_by`` is the
    # innermost Python function, empty without a Python stack.
    rows = [(*_keys_of(one.stack_trace(), cells), one.size, one.n_allocations, 0, 0) for one in at_peak]
    rows += [(*_keys_of(one.stack_trace(), cells), 0, 0, one.size, one.n_allocations) for one in kept]
    table = pd.DataFrame(rows, columns=[*KEYS, *NUMBERS]).astype(dict.fromkeys(NUMBERS, "int64"))
    return table.groupby(list(KEYS), sort=False)[list(NUMBERS)].sum().reset_index()


def _keys_of(stack: Sequence[tuple[str, str, int]], cells: Mapping[str, str]) -> tuple[str, str, str]:
    """Return the innermost line of user code, its source, and the allocating function."""
    frames = [PythonFrame(name, file, line, line, owner_of(file)) for name, file, line in stack]
    own = next((frame for frame in frames if frame.owner in (CELL, USER)), None)
    line = text = ""
    if own is not None:
        line, _, text = line_name(placed([own])[0], cells).partition("  ")
    if not frames:
        return line, text, ""
    if any(frame.file.startswith("<frozen importlib") for frame in frames):
        return line, text, "import"
    innermost = next((frame for frame in frames if frame.owner != OURS), frames[0])
    return line, text, f"{innermost.function} ({short_file(innermost, cells)})"


def _remove(folder: str, pid: int) -> None:
    if pid == os.getpid():  # a forked child must not delete its parent's files when it ends
        shutil.rmtree(folder, ignore_errors=True)
