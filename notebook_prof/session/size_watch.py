"""Ends a recording before it takes gigabytes, since PyTorch's profiler keeps every event until it stops.

The number of events cannot be read while it records, and only the recorded thread may stop it. So a
background thread watches the process's memory, and the main thread counts the events.
"""

from __future__ import annotations

import _thread
import ctypes
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Final

import numpy as np

from ..collectors.system.polling import resident_bytes

GROWN_BYTES: Final = 52 * 2**20
"""Growth of the process at which the number of events is checked. 200,000 events take this much while torch
records; stopping and reading them takes 0.8 GiB."""
INTERVAL_S: Final = 0.09
FIRST_S: Final = 0.75
LATER: Final = 1.25
"""Factor by which the time between two checks of the growth increases."""
PARTS: Final = 8
_RETRY_S: Final = 0.02
_MOST_RETRIES: Final = 50
_NEVER_IN: Final = (f"{__package__}.window", f"{__package__.rpartition('.')[0]}.collectors")
_RATHER_NOT_IN: Final = (*_NEVER_IN, "torch.")
"""Modules whose code `look` should not interrupt: while torch's code runs, ranges of modules, optimizers or
loaders are open."""


def steady_growth(levels: list[int], parts: int = PARTS) -> int:
    """Return the median growth over equal parts of a curve, times their number; bursts count little.

    >>> steady_growth([0, 10, 20, 30, 40], parts=4), steady_growth([0, 100, 100, 100, 101], parts=4)
    (40, 2)
    """
    edges = np.asarray(levels, np.int64)[np.linspace(0, len(levels) - 1, parts + 1).astype(int)]
    return int(np.median(np.diff(edges)) * parts)


class _Curve:
    """Resident bytes of the process, less what it grew by while modules were imported."""

    # The first optimizer imports hundreds of modules of torch, 200 MiB, at an even pace.
    def __init__(self) -> None:
        self.levels = [resident_bytes()]
        self._modules, self._imported = len(sys.modules), 0

    def add(self) -> None:
        """Append the level now."""
        modules, level = len(sys.modules), resident_bytes() - self._imported
        if modules != self._modules:
            self._imported += level - self.levels[-1]
            level = self.levels[-1]
        self.levels.append(level)
        self._modules = modules


class SizeWatch:
    """A thread that calls `look` in the main thread when the process has grown steadily."""

    # `look` returns whether to keep watching. It runs between two instructions of the user's code, never
    # inside code of the window or of a collector.
    def __init__(self, look: Callable[[], bool]) -> None:
        self._look = look
        self._quit, self._ran = threading.Event(), threading.Event()
        self._goes_on, self._looked, self._interrupted, self._tries = True, False, False, 0
        self._thread = threading.Thread(target=self._run, name="notebook_prof size", daemon=True)

    def start(self) -> None:
        """Start watching. Does nothing outside the main thread."""
        if threading.current_thread() is threading.main_thread():
            self._thread.start()

    def stop(self) -> None:
        """Stop watching. `look` is not called afterwards, but may itself call this."""
        global _waiting
        self._quit.set()
        self._ran.set()
        if _waiting is self:
            _waiting = None
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        began, due, curve = time.monotonic(), FIRST_S, _Curve()
        while not self._quit.wait(INTERVAL_S):
            curve.add()
            passed = time.monotonic() - began
            if passed < due:
                continue
            due = passed * LATER
            if steady_growth(curve.levels) >= GROWN_BYTES:
                self._ask()
                if not self._goes_on:
                    return
                began, due, curve = time.monotonic(), FIRST_S, _Curve()

    def _ask(self) -> None:
        """Call `look` in the main thread, and wait for it."""
        global _waiting
        self._looked, self._tries = False, 0
        while not self._looked and not self._quit.wait(_RETRY_S):
            self._ran.clear()
            _waiting = self
            # runs in the main thread, between two instructions. Unlike a signal, it interrupts no system call
            if ctypes.pythonapi.Py_AddPendingCall(_CALL, None) == 0:
                self._ran.wait()
                if self._interrupted:
                    self._quit.wait(_RETRY_S)  # an interrupt raised inside the pending call would be lost
                    _thread.interrupt_main()
                    return

    def run(self) -> None:
        """Call `look`, unless the interrupted code should not be disturbed. Then the thread asks again."""
        try:
            self._tries += 1
            avoided = _RATHER_NOT_IN if self._tries < _MOST_RETRIES else _NEVER_IN
            if not _runs(sys._getframe(2), avoided):
                self._looked = True
                self._goes_on = self._look()
        except KeyboardInterrupt:
            self._interrupted = True
            self._goes_on = False
        finally:
            self._ran.set()


_waiting: SizeWatch | None = None


def _pending(_: object) -> int:
    global _waiting
    watch, _waiting = _waiting, None
    if watch is not None:
        watch.run()
    return 0


_CALL: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(_pending)
"""The pending call. The module keeps it alive, since the interpreter may call it after a watch has ended."""


def _runs(frame: FrameType | None, modules: tuple[str, ...]) -> bool:
    """Return whether the frame or any of its callers belongs to these modules."""
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith(modules):
            return True
        frame = frame.f_back
    return False
