"""memray as the tracer of the heap: every allocation of the process, with its Python stack."""

from __future__ import annotations

import inspect
import os
import shutil
import sys
import tempfile
import threading
import weakref
from typing import Any

from ...optional import require
from ..giving_way import GivingWay
from .blocks import Blocks, HeapBlocks, StackLine


class MemrayTracer:
    """Traces the heap into a file that contains only sums by stack, so it stays small."""

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
        """The tool of the user's code for which tracing ended early; empty if there was none."""
        return self._giving_way.to

    def start(self) -> None:
        """Begin to trace all threads of the process."""
        memray = self._memray
        self._folder = tempfile.mkdtemp(prefix="notebook-prof-heap-")
        weakref.finalize(self, _remove, self._folder, os.getpid())
        destination = memray.FileDestination(self._file, overwrite=True, compress_on_exit=False)
        self._tracker = memray.Tracker(
            destination=destination, file_format=memray.FileFormat.AGGREGATED_ALLOCATIONS
        )
        self._giving_way.watch()
        # memray drops as many outermost frames as the starting thread has at that moment, so a new thread
        # starts it
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
        """Return the blocks at the peak and at the end; the file is deleted."""
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
    if pid == os.getpid():  # a forked child that ends leaves its parent's files
        shutil.rmtree(folder, ignore_errors=True)


def _blocks(record: Any) -> Blocks:
    stack = [StackLine(function, file, line) for function, file, line in record.stack_trace()]
    return Blocks(stack, int(record.size), int(record.n_allocations))
