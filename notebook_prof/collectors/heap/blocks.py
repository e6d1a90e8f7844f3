"""The result of a heap tracer: the blocks at the peak and at the end, by the stack that allocated them."""

from __future__ import annotations

import _tracemalloc
import inspect
import os
import shutil
import sys
import tempfile
import threading
import tracemalloc
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pandas as pd

from ...optional import require
from ..giving_way import GivingWay
from ..python.frames import CELL, OURS, USER, Frame, owner_of
from ..python.names import line_name, placed, short_file

KEYS: Final = ("line", "text", "allocated_by")
NUMBERS: Final = ("bytes", "count", "kept_bytes", "kept_count")
_IMPORTING: Final = "<frozen importlib"


class StackLine(NamedTuple):
    """A line of a Python stack."""

    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks allocated by one stack."""

    stack: Sequence[StackLine]  # innermost first; empty if unknown
    bytes: int
    count: int


@dataclass(frozen=True, slots=True)
class HeapBlocks:
    """Allocations since the recording began."""

    tool: str  # name and version of the tracer
    peak_bytes: int  # highest sum of blocks, exact
    at_peak: list[Blocks]  # at the peak, or at the highest level that was observed
    kept: list[Blocks]  # still there at the end


def blocks_table(blocks: HeapBlocks, cells: Mapping[str, str]) -> pd.DataFrame:
    """Return one row per line of user code and allocating function, with columns ``KEYS`` and ``NUMBERS``."""
    # ``bytes`` sums to the peak. ``line`` is the innermost line of user code, empty if there is none on the
    # stack. ``allocated_by`` is the innermost Python function, empty for memory allocated between the highest
    # observed level and the peak.
    unseen = blocks.peak_bytes - sum(one.bytes for one in blocks.at_peak)
    at_peak = [*blocks.at_peak, Blocks((), unseen, 0)] if unseen > 0 else blocks.at_peak
    rows = [(*_keys_of(one.stack, cells), one.bytes, one.count, 0, 0) for one in at_peak]
    rows += [(*_keys_of(one.stack, cells), 0, 0, one.bytes, one.count) for one in blocks.kept]
    table = pd.DataFrame(rows, columns=[*KEYS, *NUMBERS]).astype(dict.fromkeys(NUMBERS, "int64"))
    return table.groupby(list(KEYS), sort=False)[list(NUMBERS)].sum().reset_index()


def _keys_of(stack: Sequence[StackLine], cells: Mapping[str, str]) -> tuple[str, str, str]:
    """Return the innermost line of user code, its source, and the allocating function."""
    own = next((one for one in stack if owner_of(one.file) in (CELL, USER)), None)
    line = text = ""
    if own is not None:
        frame = Frame(own.function, own.file, own.line, own.line, owner_of(own.file))
        line, _, text = line_name(placed([frame])[0], cells).partition("  ")
    if not stack:
        return line, text, ""
    if any(one.file.startswith(_IMPORTING) for one in stack):
        return line, text, "import"
    innermost = next((one for one in stack if owner_of(one.file) != OURS), stack[0])
    owner = owner_of(innermost.file)
    file = short_file(Frame(*innermost[:2], innermost.line, innermost.line, owner), cells)
    return line, text, f"{innermost.function} ({file})"


# memray as the tracer of the heap: every allocation of the process, with its Python stack.


class MemrayTracer:
    """Traces the heap into a file, which stays small because it contains only sums by stack."""

    # It sees allocations by C code (NumPy, Arrow, torch on the CPU). Python objects appear as the arenas that
    # the interpreter's allocator requests for them.
    def __init__(self) -> None:
        self._memray: Any = require("memray", extra="heap", purpose="tracing the heap")
        self._folder = ""
        self._tracker: Any = None
        self._error: Exception | None = None
        self._giving_way = GivingWay(self._end)

    @property
    def gave_way_to(self) -> str:
        """The user's tool because of which tracing ended early; empty if there was none."""
        return self._giving_way.to

    def start(self) -> None:
        """Start tracing all threads of the process."""
        memray = self._memray
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
        if self._error is not None:
            raise self._error
        self._giving_way.hook = threading._profile_hook
        self._giving_way.armed = True

    def stop(self) -> None:
        """Stop tracing. The result stays in the file."""
        self._giving_way.unwatch()
        self._end()

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

    def blocks(self) -> HeapBlocks:
        """Return the blocks at the peak and at the end, and delete the file."""
        with self._memray.FileReader(self._file) as reader:
            at_peak = reader.get_high_watermark_allocation_records(merge_threads=True)
            kept = reader.get_leaked_allocation_records(merge_threads=True)
            out = HeapBlocks(
                f"memray {self._memray.__version__}",
                int(reader.metadata.peak_memory),
                [_blocks(record) for record in at_peak],
                [_blocks(record) for record in kept],
            )
        self.close()
        return out

    def close(self) -> None:
        """End tracing, and delete the file."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _enter(self) -> None:
        try:
            self._tracker.__enter__()
        except Exception as error:
            self._error, self._tracker = error, None

    @property
    def _file(self) -> str:
        return os.path.join(self._folder, "heap.bin")


def _remove(folder: str, pid: int) -> None:
    if pid == os.getpid():  # a forked child must not delete its parent's files when it ends
        shutil.rmtree(folder, ignore_errors=True)


def _blocks(record: Any) -> Blocks:
    stack = [StackLine(function, file, line) for function, file, line in record.stack_trace()]
    return Blocks(stack, int(record.size), int(record.n_allocations))


# tracemalloc as the heap tracer, without memray. It takes snapshots while the heap grows.

_is_tracing, _traced_memory = tracemalloc.is_tracing, tracemalloc.get_traced_memory

_INTERVAL_S: Final = 0.005
_GROWS: Final = 1.1
"""A snapshot is taken whenever allocated memory has grown by this factor since the last one."""
_LEAST_BYTES: Final = 1 << 20


class TracemallocTracer:
    """Traces memory from Python's allocators by innermost line, with snapshots while it grows."""

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
        """The user's tool because of which tracing ended early; empty if there was none."""
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
        # like tracemalloc.take_snapshot, which would first call is_tracing, which is hidden
        return tracemalloc.Snapshot(_tracemalloc._get_traces(), tracemalloc.get_traceback_limit())

    def _new(self, snapshot: tracemalloc.Snapshot | None) -> list[Blocks]:
        """Return the blocks in a snapshot by line, without earlier blocks and ours."""
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
