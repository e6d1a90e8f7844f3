"""Looks at the main thread when a tick is late.

CPython runs signal handlers between bytecodes, and not between all: after ``y = A @ B`` the handler
runs at the next call or jump, perhaps lines later. While NumPy computes it has given up the GIL, so
another thread can see the true line. A timer in the kernel (``timerfd``) wakes that thread only if the
handler has not pushed the timer forward in time: while ticks come on time it never runs.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

from ...machine import has_gil
from .samples import Samples

_CLOCK_MONOTONIC: Final = 1
_CLOEXEC: Final = 0o2000000


class _Spec(ctypes.Structure):
    """``struct itimerspec``: interval and time left, each in seconds and nanoseconds."""

    _fields_ = (("interval", ctypes.c_long * 2), ("left", ctypes.c_long * 2))


def refusal() -> str:
    """Return why late ticks cannot be told from the true line; empty if they can."""
    if not has_gil():
        return "threads of a Python without a GIL do not wait for one another"
    known = sys.platform == "linux" and sys.maxsize > 2**32
    return "" if known and hasattr(ctypes.PyDLL(None), "timerfd_settime") else "this system has no timerfd"


class DelayedTickWatcher:
    """A thread that samples another one, but only when `postpone` was not called for a while.

    Parameters
    ----------
    now_ns : callable
        The recording's clock.
    late_ns : int
        How long after the last `postpone` it looks, and then again and again.

    Attributes
    ----------
    failures : list of Exception
        The first three that a look met.
    """

    def __init__(self, now_ns: Callable[[], int], late_ns: int) -> None:
        self._samples = Samples()
        self._others: Callable[[], object] = lambda: None
        self._target = 0
        self._now_ns = now_ns
        self._libc: Any = ctypes.PyDLL(None)
        self._late = _spec(late_ns)
        self._file: int | None = None
        self._thread: threading.Thread | None = None
        self._quit = False
        self.failures: list[Exception] = []
        self.postpone: Callable[[], object] = lambda: None

    def prepare(self) -> None:
        """Make the timer and the thread, which sleeps until `watch`."""
        file = self._libc.timerfd_create(_CLOCK_MONOTONIC, _CLOEXEC)
        if file < 0:
            raise OSError("timerfd_create failed")
        self._file = file
        set_time, late = self._libc.timerfd_settime, ctypes.byref(self._late)
        self.postpone = lambda: set_time(file, 0, late, None)
        self._thread = threading.Thread(
            target=self._run, args=(file,), name="notebook_prof late", daemon=True
        )
        self._thread.start()

    def watch(self, samples: Samples, target: int, others: Callable[[], object]) -> None:
        """Begin: the first look is one `late_ns` away.

        Parameters
        ----------
        samples : Samples
            Where it writes; nobody else does.
        target : int
            Identifier of the thread to look at.
        others : callable
            Called at every look, to look at other threads too.
        """
        self._samples = samples
        self._others = others
        self._target = target
        self.postpone()

    def stop(self) -> None:
        """Join the thread and close the timer; safe to repeat."""
        file, self._file = self._file, None
        if file is None:
            return
        self._quit = True
        self.postpone = lambda: None
        self._libc.timerfd_settime(file, 0, ctypes.byref(_spec(1)), None)
        if self._thread is not None:
            self._thread.join()
        os.close(file)

    def _run(self, file: int) -> None:
        while True:
            os.read(file, 8)
            if self._quit:
                return
            try:
                self._samples.add(self._now_ns(), sys._current_frames().get(self._target))
                self._others()
            except Exception as error:
                if len(self.failures) < 3:
                    self.failures.append(error)
            if not self._quit:
                self.postpone()


def _spec(ns: int) -> _Spec:
    spec = _Spec()
    spec.left[0], spec.left[1] = divmod(ns, 10**9)
    return spec
