"""Long background work, done while the kernel is idle or somebody waits for the result.

A thread that computes beside the user's code takes the interpreter from it, up to 5 ms at a time. So the work
calls `checkpoint` every millisecond or so, which waits until the main thread has nothing to do: at most two
seconds in all, since somebody may look at the result of one cell while the next one runs for an hour.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

PATIENCE_S: Final = 2.0
"""How long a piece of work waits in all for an idle kernel."""
_LOOK_S: Final = 0.02
_LOOKS: Final = 2
"""Looks in a row that find the kernel idle before work goes on: *Run All* pauses for milliseconds."""
_OFTEN_S: Final = 0.001
_EVENT_LOOPS: Final = frozenset({"selectors", "asyncio", "tornado"})


class Cancelled(BaseException):
    """Ends cancelled work. It is not an Exception, so that no handler treats it as a failure."""


class IdleTime:
    """Lets one background thread work while the kernel is idle. Nothing is done while `hold` returns True.

    >>> idle = IdleTime()
    >>> with idle.used(), idle.hurried():
    ...     checkpoint()
    """

    def __init__(self, hold: Callable[[], bool] = lambda: False) -> None:
        self._hold = hold
        self._changed = threading.Condition()
        self._waiting = 0
        self._cancelled = False
        self._looked, self._patience_s = 0.0, PATIENCE_S

    @contextmanager
    def used(self) -> Iterator[None]:
        """Make `checkpoint` wait for idle time in this thread."""
        _local.idle, self._patience_s, self._looked = self, PATIENCE_S, 0.0
        try:
            yield
        finally:
            del _local.idle

    @contextmanager
    def hurried(self) -> Iterator[None]:
        """Let the work go on at once while this thread waits for the result."""
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._waiting -= 1

    @property
    def is_hurried(self) -> bool:
        """Whether somebody waits for the result."""
        return self._waiting > 0

    def cancel(self) -> None:
        """Make the next `checkpoint` raise `Cancelled`."""
        with self._changed:
            self._cancelled = True
            self._changed.notify_all()

    def wait(self) -> None:
        """Wait for idle time, as `checkpoint` does in its thread."""
        if self._waiting == 0 and time.perf_counter() - self._looked > _OFTEN_S:
            looks = _LOOKS - 1 if self._looked else 0
            while not self._cancelled and not self._waiting and looks < _LOOKS:
                held = self._hold()
                if not held and (self._patience_s <= 0 or kernel_is_idle()):
                    looks += 1
                else:
                    looks = 0
                if looks < _LOOKS:
                    self._rest(held)
            self._looked = time.perf_counter()
        if self._cancelled:
            raise Cancelled

    def _rest(self, held: bool) -> None:
        begun = time.perf_counter()
        with self._changed:
            if not self._waiting and not self._cancelled:
                self._changed.wait(_LOOK_S)
        if not held:
            self._patience_s -= time.perf_counter() - begun


_local = threading.local()


def kernel_is_idle() -> bool:
    """Return whether the main thread waits in an event loop, as a kernel's does between cells."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return frame is None or str(frame.f_globals.get("__name__")).partition(".")[0] in _EVENT_LOOPS


def start_thread(work: Callable[[], object], name: str) -> threading.Thread | None:
    """Start a daemon thread. Returns None if threads cannot be started, as in Pyodide or in an exiting
    process."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread


def checkpoint() -> None:
    """Wait for idle time, if this is a background thread. Raises `Cancelled` to end the work."""
    idle = getattr(_local, "idle", None)
    if idle is not None:
        idle.wait()
